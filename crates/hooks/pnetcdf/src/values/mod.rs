//! Values between the program's memory and the file's types.
//!
//! Reading order: [`access`] (which elements, and where they are in memory), [`element`] (their types), [`datatypes`] and
//! [`filetype`] (of MPI).

pub(crate) mod access;
pub(crate) mod datatypes;
pub(crate) mod element;
pub(crate) mod filetype;

use std::ffi::c_int;

use knarr_captured::Ranks;

use crate::codes::{COUNT_IGNORE, ECHAR, EINVAL, EIOMISMATCH, ENULLBUF, ERANGE, EUNSPTETYPE, NOERR};
use crate::values::access::{Elements, Kind, Memory, dense};
use crate::values::datatypes::Datatypes;
use crate::values::element::{Element, convert};
use crate::variables::Variable;

/// Bytes that are converted at once.
const PIECE: usize = 1 << 20;

/// Values of the program, one behind the other.
pub(crate) enum Values<'a> {
    /// In the program's own memory.
    Lent(&'a [u8]),
    /// A copy, because they have gaps there.
    Copied(Vec<u8>),
}

impl Values<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }

    /// A copy of them.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Lent(bytes) => bytes.to_vec(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// What an access has in memory.
pub(crate) struct MemoryType {
    element: Element,
    /// Elements of the type in the file, bytes with a sign or without, are taken as they are.
    as_is: bool,
}

impl MemoryType {
    /// Type of the elements in memory.
    pub(crate) fn element(&self) -> Element {
        self.element
    }
}

/// Type of the elements in memory, checked against the variable.
///
/// # Errors
/// `NC_ECHAR`, and those of MPI datatypes.
pub(crate) fn memory_type(
    ranks: &Ranks,
    memory: &Memory,
    variable: &Variable,
    is_cdf5: bool,
) -> Result<MemoryType, c_int> {
    let element = match memory.kind {
        Kind::Typed(element) => element,
        Kind::Flexible { datatype, .. } => match ranks.describe(datatype)? {
            None => variable.element,
            Some(found) => Element::of_adapter(found.element).ok_or(EUNSPTETYPE)?,
        },
    };
    if !element.mixes_with(variable.element) {
        return Err(ECHAR);
    }
    // In CDF-1 and CDF-2 NC_BYTE is a signed or an unsigned byte, as the program likes.
    let as_is = !is_cdf5 && variable.element == Element::I8 && element == Element::U8;
    Ok(MemoryType { element, as_is })
}

/// Where the elements are in memory, if a flexible function was called with a count of `NC_COUNT_IGNORE`: then as for the
/// function of the type that the datatype names.
///
/// # Errors
/// `NC_EINVAL` for a datatype that is no single number or character; those of MPI datatypes.
pub(crate) fn settled(ranks: &Ranks, memory: Memory) -> Result<Memory, c_int> {
    let Kind::Flexible { count: COUNT_IGNORE, datatype } = memory.kind else { return Ok(memory) };
    let Some(found) = ranks.describe(datatype)? else { return Ok(memory) };
    let element = Element::of_adapter(found.element).ok_or(EUNSPTETYPE)?;
    if !found.is_plain || found.elements != 1 {
        return Err(EINVAL);
    }
    Ok(Memory { kind: Kind::Typed(element), ..memory })
}

/// The values of the elements, one behind the other, in the type of memory.
///
/// # Safety
/// The memory holds what the function that the program called says.
///
/// # Errors
/// `NC_ENULLBUF`, `NC_EIOMISMATCH`, and those of MPI datatypes.
pub(crate) unsafe fn gather<'a>(
    ranks: &Ranks,
    memory: &Memory,
    memory_type: &MemoryType,
    elements: &Elements,
) -> Result<Values<'a>, c_int> {
    let size = memory_type.element.size();
    let wanted = elements.len();
    let (imap, count) = (elements.imap.as_slice(), elements.count());
    if wanted == 0 {
        return Ok(Values::Lent(&[]));
    }
    if memory.buffer.is_null() {
        return Err(ENULLBUF);
    }
    let (least, spanned) = if imap.is_empty() { (0, wanted) } else { span(count, imap).ok_or(EIOMISMATCH)? };
    let bytes = usize::try_from(spanned).ok().and_then(|elements| elements.checked_mul(size)).ok_or(EIOMISMATCH)?;
    let packed = match memory.kind {
        Kind::Flexible { count, datatype } => match ranks.describe(datatype)? {
            Some(found) => {
                let elements = u64::try_from(count).unwrap_or(0).saturating_mul(found.elements);
                if elements != wanted {
                    return Err(EIOMISMATCH);
                }
                if found.is_plain {
                    None
                } else {
                    // SAFETY: the program's own buffer, count and datatype.
                    Some(unsafe { ranks.pack(memory.buffer, count, datatype, bytes) }?)
                }
            }
            None => None,
        },
        Kind::Typed(_) => None,
    };
    let (all, first) = match packed {
        Some(packed) => (Values::Copied(packed), 0),
        None => {
            let begin = memory.buffer.cast::<u8>().wrapping_offset(least * size.cast_signed());
            // SAFETY: the function that the program called takes so many elements from here.
            (Values::Lent(unsafe { std::slice::from_raw_parts(begin, bytes) }), least)
        }
    };
    if imap.is_empty() {
        return Ok(all);
    }
    let mut out = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0) * size);
    each_mapped(count, imap, |at| {
        let at = usize::try_from(at - first).unwrap_or(usize::MAX / size - 1);
        out.extend_from_slice(all.bytes().get(at * size..(at + 1) * size).unwrap_or_default())
    });
    Ok(Values::Copied(out))
}

/// The place in memory of the first element, which is before the first one of the region where distances are negative, and the
/// number of elements from there to the last one. `None` if that is too large.
fn span(count: &[u64], imap: &[i64]) -> Option<(isize, u64)> {
    let (mut least, mut spanned) = (0i64, 1u64);
    for (n, step) in count.iter().zip(imap) {
        let distance = i64::try_from(n - 1).ok()?.checked_mul(*step)?;
        least = least.checked_add(distance.min(0))?;
        spanned = spanned.checked_add(distance.unsigned_abs())?;
    }
    Some((isize::try_from(least).ok()?, spanned))
}

/// Calls `f` with the place of each element in memory, row-major. The places were checked by [`span`], or are not used.
fn each_mapped(count: &[u64], imap: &[i64], mut f: impl FnMut(isize)) {
    let elements: u64 = count.iter().product();
    let distances = dense(count);
    for number in 0..elements {
        let steps = distances.iter().zip(count).map(|(distance, n)| (number / distance % n).cast_signed());
        let place = steps.zip(imap).fold(0i64, |at, (steps, step)| at.wrapping_add(steps.wrapping_mul(*step)));
        f(isize::try_from(place).unwrap_or(isize::MAX));
    }
}

/// Hands the values on in the type of the file, piece by piece: `write` gets the byte that a piece begins at. Returns
/// `NC_ERANGE` if the type cannot hold some of them, which are fill values then, else `NC_NOERR`.
pub(crate) fn in_file_type<E>(
    values: &Values<'_>,
    memory_type: &MemoryType,
    variable: &Variable,
    mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<c_int, E> {
    let bytes = values.bytes();
    if memory_type.as_is || memory_type.element == variable.element {
        return write(0, bytes).map(|()| NOERR);
    }
    let (mut all, mut at, mut converted) = (true, 0, Vec::new());
    for piece in bytes.chunks(PIECE) {
        converted.clear();
        all &= convert(piece, memory_type.element, variable.element, &variable.fill, &mut converted);
        write(at, &converted)?;
        at += converted.len() as u64;
    }
    Ok(if all { NOERR } else { ERANGE })
}

/// The memory for the values of the elements, if they can be read to where the program wants them: it takes them as they are
/// in the file, one behind the other.
///
/// # Safety
/// The memory has room for what the function that the program called says, and nothing else refers to it.
///
/// # Errors
/// Those of MPI datatypes.
pub(crate) unsafe fn room<'a>(
    ranks: &Ranks,
    memory: &Memory,
    memory_type: &MemoryType,
    variable: &Variable,
    elements: &Elements,
) -> Result<Option<&'a mut [u8]>, c_int> {
    let wanted = elements.len();
    let is_dense = match memory.kind {
        Kind::Typed(_) => true,
        Kind::Flexible { count, datatype } => match ranks.describe(datatype)? {
            None => true,
            Some(found) => {
                let elements = u64::try_from(count).unwrap_or(0).saturating_mul(found.elements);
                found.is_plain && elements == wanted
            }
        },
    };
    let is_as_in_file = memory_type.as_is || memory_type.element == variable.element;
    let is_mapped = !elements.imap.is_empty();
    if !is_dense || !is_as_in_file || is_mapped || memory.buffer.is_null() {
        return Ok(None);
    }
    let bytes = usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_mul(memory_type.element.size()));
    // SAFETY: the caller's promise. Whatever is there, it is bytes.
    Ok(bytes.map(|bytes| unsafe { std::slice::from_raw_parts_mut(memory.buffer.cast::<u8>(), bytes) }))
}

/// Puts values of the file's type, those of the elements one behind the other, where the program wants them. Returns as
/// [`in_file_type`].
///
/// # Safety
/// The memory has room for what the function that the program called says.
///
/// # Errors
/// `NC_ENULLBUF`, `NC_EIOMISMATCH`, and those of MPI datatypes.
pub(crate) unsafe fn scatter(
    ranks: &Ranks,
    memory: &Memory,
    memory_type: &MemoryType,
    variable: &Variable,
    elements: &Elements,
    values: &[u8],
) -> Result<c_int, c_int> {
    let wanted = elements.len();
    if wanted == 0 {
        return Ok(NOERR);
    }
    if memory.buffer.is_null() {
        return Err(ENULLBUF);
    }
    let size = memory_type.element.size();
    let mut converted = Vec::new();
    let mut code = NOERR;
    let values = if memory_type.as_is || memory_type.element == variable.element {
        values
    } else {
        if !convert(values, variable.element, memory_type.element, &memory_type.element.fill(), &mut converted) {
            code = ERANGE;
        }
        &converted
    };
    let (imap, shape) = (elements.imap.as_slice(), elements.count());
    if let Kind::Flexible { count, datatype } = memory.kind
        && let Some(found) = ranks.describe(datatype)?
    {
        if u64::try_from(count).unwrap_or(0).saturating_mul(found.elements) != wanted {
            return Err(EIOMISMATCH);
        }
        if !found.is_plain {
            let mut mapped = Vec::new();
            if !imap.is_empty() {
                mapped = vec![0; values.len()];
                let mut elements = values.chunks_exact(size);
                each_mapped(shape, imap, |at| {
                    let at = usize::try_from(at).unwrap_or(usize::MAX / size - 1);
                    if let (Some(element), Some(place)) = (elements.next(), mapped.get_mut(at * size..(at + 1) * size))
                    {
                        place.copy_from_slice(element);
                    }
                });
            }
            let packed = if imap.is_empty() { values } else { &mapped };
            // SAFETY: the program's own buffer, count and datatype.
            return unsafe { ranks.unpack(packed, memory.buffer, count, datatype) }.map(|()| code);
        }
    }
    let base = memory.buffer.cast::<u8>();
    if imap.is_empty() {
        // SAFETY: the function that the program called has room for so many elements.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), base, values.len()) };
    } else {
        let mut elements = values.chunks_exact(size);
        each_mapped(shape, imap, |at| {
            if let Some(element) = elements.next() {
                // SAFETY: as above, at the distances that the program gave.
                unsafe { std::ptr::copy_nonoverlapping(element.as_ptr(), base.offset(at * size.cast_signed()), size) };
            }
        });
    }
    Ok(code)
}
