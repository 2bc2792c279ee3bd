//! A transfer between memory and a dataset of a captured file, as `H5Dwrite` and `H5Dread` ask for it.

use knarr_array::error::Error;

use super::file::Captured;
use super::values::convert::{Conversion, pointers};
use super::values::members::{Has, Members, members};
use super::values::memory::Memory;
use super::values::selection::{pieces, shape};
use super::values::shape::{Piece, placed};
use crate::datasets::{Write, fill_value};
use crate::host::{CallerHdf5, Hid};
use crate::property_lists::{Close, Owned};

/// Codes of HDF5's C headers.
mod code {
    pub(super) const ALL: i64 = 0;
    /// Since HDF5 1.14: the elements are all of the buffer.
    pub(super) const BLOCK: i64 = 1;
    pub(super) const DEFAULT_LIST: i64 = 0;
    pub(super) const CHUNKED: i32 = 2;
}

/// A transfer between memory and a dataset, with what HDF5 says of it.
pub(super) struct Transfer<'h> {
    pub(super) dataset: Hid,
    pub(super) number: u32,
    /// Type of the dataset, and the bytes of an element.
    pub(super) datatype: Owned<'h>,
    pub(super) size: usize,
    /// What of the dataset.
    pub(super) pieces: Vec<Piece>,
    pub(super) count: usize,
    pub(super) memory: Memory<'h>,
    memory_type: Hid,
    transfer: Hid,
    /// Holds the dataspace that was asked of the dataset.
    _space: Owned<'h>,
}

/// What a write puts of each element.
pub(super) struct Written<'h> {
    /// Its bytes; 0 if the type in memory has no member of the dataset.
    pub(super) size: usize,
    /// From the type in memory, if that is another one.
    pub(super) conversion: Option<Conversion<'h>>,
    /// If they are not all of the element.
    pub(super) members: Option<Members<'h>>,
}

/// Why a transfer is not made.
pub(super) enum Refused {
    /// HDF5 refuses it, and says why.
    ByHdf5,
    /// Knarr cannot make it.
    ByUs(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::ByUs(error)
    }
}

/// What HDF5 does not tell, it refuses itself.
pub(super) fn or_refused<T>(found: Option<T>) -> std::result::Result<T, Refused> {
    found.ok_or(Refused::ByHdf5)
}

impl<'h> Transfer<'h> {
    /// Asks HDF5. To be done quietly.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn of(host: &'h CallerHdf5, file: &Captured, asked: &Write) -> std::result::Result<Self, Refused> {
        let Write { dataset, memory_type, memory, file: selected, transfer, .. } = *asked;
        // SAFETY: the dataset is the program's own, here and below; what is made is closed when dropped.
        let space =
            or_refused(host.space_of.and_then(|get| Owned::new(host, unsafe { get(dataset) }, Close::Reference)))?;
        // SAFETY: as above.
        let datatype =
            or_refused(host.type_of.and_then(|get| Owned::new(host, unsafe { get(dataset) }, Close::Reference)))?;
        let size_of = or_refused(host.type_size)?;
        // SAFETY: both types are open, or HDF5 says that they are not.
        let (size, memory_size) = unsafe { (size_of(datatype.id), size_of(memory_type)) };
        if size == 0 || memory_size == 0 {
            return Err(Refused::ByHdf5);
        }
        let selected = if selected == code::ALL { space.id } else { selected };
        let pieces: Vec<Piece> =
            or_refused(pieces(host, selected))?.into_iter().filter(|piece| piece.len() > 0).collect();
        let pieces = in_dataset(host, pieces, selected, (dataset, space.id))?;
        let count = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.len()));
        let count = or_refused(count.and_then(|count| usize::try_from(count).ok()))?;
        or_refused(count.checked_mul(size.max(memory_size)))?;
        let memory = match memory {
            code::ALL => Some(selected),
            code::BLOCK => None,
            other => Some(other),
        };
        if let Some(memory) = memory {
            // SAFETY: the dataspace is the program's own, or HDF5 says that it is none.
            let there = or_refused(host.selection_count.map(|count| unsafe { count(memory) }))?;
            if usize::try_from(there) != Ok(count) {
                return Err(Refused::ByHdf5);
            }
        }
        let number = file.number(host, dataset).ok_or_else(|| {
            Error::unsupported("a dataset that was not created by a call of the program in this file")
        })?;
        if let Some(what) = pointers(host, datatype.id) {
            // Parallel HDF5 writes neither values of variable length nor references to regions.
            let what = format!("a dataset of {what} cannot be written or read in a parallel file that is handed over");
            return Err(Error::unsupported(what).hint("leave the file out of the rules, or store numbers").into());
        }
        // SAFETY: the list is open; without room nothing is written. There is a length only where there is a transform.
        let transforms = |list| host.transform.is_some_and(|get| unsafe { get(list, std::ptr::null_mut(), 0) } > 0);
        if transfer != code::DEFAULT_LIST && transforms(transfer) {
            let what = "a transfer list with a data transform";
            return Err(Error::unsupported(what).hint("transform the values in the program").into());
        }
        let memory = Memory::new(host, memory, memory_type, memory_size, count);
        Ok(Self { dataset, number, datatype, size, pieces, count, memory, memory_type, transfer, _space: space })
    }

    /// What a write puts of each element.
    pub(super) fn written(&self, host: &'h CallerHdf5) -> std::result::Result<Written<'h>, Refused> {
        let from = (self.memory_type, self.memory.size);
        let members = match or_refused(members(host, self.datatype.id, self.memory_type))? {
            Has::All => None,
            Has::Some(members) => Some(members),
            Has::Nothing => return Ok(Written { size: 0, conversion: None, members: None }),
        };
        let to = members.as_ref().map_or((self.datatype.id, self.size), |some| (some.datatype.id, some.size));
        let conversion = Conversion::between(host, from, to, self.transfer).map_err(|()| Refused::ByHdf5)?;
        Ok(Written { size: to.1, conversion, members })
    }

    /// The conversion from the type of the dataset to that in memory.
    pub(super) fn read(&self, host: &'h CallerHdf5) -> std::result::Result<Option<Conversion<'h>>, Refused> {
        let (from, to) = ((self.datatype.id, self.size), (self.memory_type, self.memory.size));
        Conversion::between(host, from, to, self.transfer).map_err(|()| Refused::ByHdf5)
    }
}

/// The elements of a dataset that are selected in a dataspace, which may have another shape.
fn in_dataset(
    host: &CallerHdf5,
    pieces: Vec<Piece>,
    selected: Hid,
    (dataset, space): (Hid, Hid),
) -> std::result::Result<Vec<Piece>, Refused> {
    let (from, to) = (or_refused(shape(host, selected))?, or_refused(shape(host, space))?);
    // HDF5 counts the elements of a dataset that lies in one piece by the shape of the dataspace it is given.
    if from != to && !pieces.is_empty() && is_chunked(host, dataset) == Some(false) {
        let beyond = || Error::unsupported("a dataspace that reaches beyond the end of its dataset");
        return Ok(placed(&pieces, &from, &to).ok_or_else(beyond)?);
    }
    if pieces.iter().all(|piece| piece.is_inside(&to)) { Ok(pieces) } else { Err(Refused::ByHdf5) }
}

fn is_chunked(host: &CallerHdf5, dataset: Hid) -> Option<bool> {
    // SAFETY: the dataset is the program's own; the list is closed when dropped.
    let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List)?;
    // SAFETY: the list is ours.
    Some(unsafe { host.layout?(list.id) } == code::CHUNKED)
}

/// The element that a dataset has where nothing was written. To be asked quietly.
pub(super) fn fill_of(host: &CallerHdf5, dataset: Hid) -> Option<Vec<u8>> {
    // SAFETY: the dataset is the program's own; what is made is closed when dropped, here and below.
    let list = Owned::new(host, unsafe { host.creation_of?(dataset) }, Close::List)?;
    // SAFETY: as above.
    let datatype = Owned::new(host, unsafe { host.type_of?(dataset) }, Close::Reference)?;
    // SAFETY: the type is open.
    let size = unsafe { host.type_size?(datatype.id) };
    fill_value(host, list.id, datatype.id, size)
}
