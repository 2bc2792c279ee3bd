//! Elements that a datatype of MPI for the file leads to (`ncmpi_put_vard`, `ncmpi_get_vard`). Such a datatype is relative to
//! the first byte of a variable, and may lead on into variables behind it, and into later records. What its places mean is
//! what the header says of places, because the program asks the library for those (`ncmpi_inq_varoffset`,
//! `ncmpi_inq_recsize`).

use std::ffi::{c_int, c_void};

use knarr_array::region::Regions;

use crate::codes::{EINVALCOORDS, EIOMISMATCH, ENULLBUF, ETYPE_MISMATCH, EUNSPTETYPE, NOERR, Offset};
use crate::file::{Captured, How};
use crate::real::real;
use crate::values::access::{Access, Elements, Kind, Memory, Shape};
use crate::values::datatypes::Datatypes;
use crate::values::element::Element;
use crate::values::{gather, memory_type, settled};
use crate::variables::{Variable, Variables};

/// Elements of one variable, in the order of the datatype.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    variable: usize,
    boxes: Regions,
}

/// Where the variables lie in the header's file.
struct Layout {
    /// First byte of each variable: of its first record, if it has records.
    begins: Vec<u64>,
    /// Bytes from one record to the next.
    record: u64,
}

impl Layout {
    /// Asks the library.
    ///
    /// # Errors
    /// The code that it returns.
    fn of(file: c_int, count: usize) -> Result<Self, c_int> {
        let ok = |code: c_int, number: Offset| match u64::try_from(number) {
            Ok(number) if code == NOERR => Ok(number),
            _ => Err(if code == NOERR { EINVALCOORDS } else { code }),
        };
        let begin = |variable: usize| {
            let mut begin: Offset = 0;
            let variable = c_int::try_from(variable).map_err(|_| EINVALCOORDS)?;
            // SAFETY: PnetCDF's function, with a place for what it returns.
            ok(unsafe { real!(ncmpi_inq_varoffset(c_int, c_int, *mut Offset))(file, variable, &raw mut begin) }, begin)
        };
        let mut record: Offset = 0;
        // SAFETY: as above.
        let code = unsafe { real!(ncmpi_inq_recsize(c_int, *mut Offset))(file, &raw mut record) };
        Ok(Self { begins: (0..count).map(begin).collect::<Result<_, _>>()?, record: ok(code, record)? })
    }

    /// The variable of the element at a byte of the file, its record, its number in the variable or record, and how many
    /// elements there are from it on without a gap.
    fn find(&self, at: u64, variables: &Variables) -> Option<(usize, u64, u64, u64)> {
        variables.all.iter().zip(&self.begins).enumerate().find_map(|(number, (variable, &begin))| {
            let size = variable.element.size() as u64;
            let elements: u64 = inner(variable).iter().product();
            let from = at.checked_sub(begin)?;
            let (record, within) = match variable.is_record {
                true => (from.checked_div(self.record)?, from % self.record),
                false => (0, from),
            };
            let first = within / size;
            (first < elements && within.is_multiple_of(size)).then(|| (number, record, first, elements - first))
        })
    }

    /// The elements at these places, of which each is an element of the same size behind or before the one before.
    ///
    /// # Errors
    /// `NC_EINVALCOORDS` for places at which no element is; `NC_ETYPE_MISMATCH` for variables of other types than `element`.
    fn pieces(&self, places: &[u64], element: Element, variables: &Variables) -> Result<Vec<Piece>, c_int> {
        let (size, mut pieces, mut left) = (element.size() as u64, Vec::<Piece>::new(), places);
        while let Some(&first) = left.first() {
            let follow = left.iter().zip(0u64..).take_while(|(place, number)| **place == first + number * size).count();
            let (number, record, from, most) = self.find(first, variables).ok_or(EINVALCOORDS)?;
            let variable = variables.all.get(number).ok_or(EINVALCOORDS)?;
            if variable.element != element {
                return Err(ETYPE_MISMATCH);
            }
            let here = most.min(follow as u64);
            if pieces.last().is_none_or(|last| last.variable != number) {
                pieces.push(Piece { variable: number, boxes: Regions::new(variable.shape.len()) });
            }
            if let Some(Piece { boxes, .. }) = pieces.last_mut() {
                let outer: &[u64] = if variable.is_record { &[record] } else { &[] };
                stretch(outer, inner(variable), from, here, boxes);
            }
            left = left.get(usize::try_from(here).unwrap_or(usize::MAX)..).unwrap_or_default();
        }
        Ok(pieces)
    }
}

/// Extents of a variable, or of one of its records.
fn inner(variable: &Variable) -> &[u64] {
    variable.shape.get(usize::from(variable.is_record)..).unwrap_or_default()
}

/// The boxes of `count` elements from number `first` on, row-major, of an array of extents `shape`; before their places are
/// those of `outer`, one each.
fn stretch(outer: &[u64], shape: &[u64], first: u64, count: u64, boxes: &mut Regions) {
    let distances: Vec<u64> = (0..shape.len()).map(|axis| shape.iter().skip(axis + 1).product()).collect();
    let (mut first, mut left) = (first, count);
    while left > 0 {
        // The longest axis along which whole rows begin here. There is one: the last, or none of a single element.
        let axis = distances.iter().position(|&distance| first.is_multiple_of(distance) && left >= distance);
        let at = |axis: usize| first / distances[axis] % shape[axis];
        let rows = axis.map_or(1, |axis| (left / distances[axis]).min(shape[axis] - at(axis)));
        let mut start = outer.to_vec();
        start.extend((0..shape.len()).map(at));
        let mut extents = vec![1; outer.len()];
        extents.extend((0..shape.len()).map(|here| match axis {
            Some(axis) if here == axis => rows,
            Some(axis) if here > axis => shape[here],
            _ => 1,
        }));
        boxes.push(&start, &extents);
        let moved = axis.map_or(1, |axis| rows * distances[axis]);
        (first, left) = (first + moved, left - moved);
    }
}

/// A call with a datatype for the file.
#[derive(Clone, Copy)]
pub(crate) struct ByFiletype {
    pub(crate) variable: c_int,
    pub(crate) filetype: usize,
    pub(crate) buffer: *mut c_void,
    pub(crate) count: Offset,
    pub(crate) datatype: usize,
}

impl Captured {
    /// Puts or gets the elements that a datatype leads to. Returns a code. Collective, if the call is.
    ///
    /// # Safety
    /// The buffer holds, or has room for, what the datatypes say.
    pub(crate) unsafe fn by_filetype(&mut self, call: &ByFiletype, puts: bool, collective: bool) -> c_int {
        let begun = self.begin_many(collective, puts);
        if begun != NOERR {
            return begun;
        }
        // SAFETY: the caller's promise.
        let code = unsafe { self.move_by_filetype(call, puts, How::Among { collective }) }.unwrap_or_else(|code| code);
        let agreed = if puts && collective { self.agree_on_records() } else { NOERR };
        if code == NOERR { agreed } else { code }
    }

    /// # Safety
    /// As for [`Captured::by_filetype`].
    unsafe fn move_by_filetype(&mut self, call: &ByFiletype, puts: bool, how: How) -> Result<c_int, c_int> {
        let (variable, is_cdf5) = self.variable(call.variable)?;
        let Some(found) = self.common.ranks.describe(call.filetype)?.filter(|found| found.elements > 0) else {
            return Ok(NOERR);
        };
        let element = Element::of_adapter(found.element).ok_or(EUNSPTETYPE)?;
        if element != variable.element {
            return Err(ETYPE_MISMATCH);
        }
        let flexible = Kind::Flexible { count: call.count, datatype: call.datatype };
        let asked = settled(&self.common.ranks, Memory { buffer: call.buffer, kind: flexible })?;
        let described = match asked.kind {
            Kind::Typed(_) => None,
            Kind::Flexible { .. } => self.common.ranks.describe(call.datatype)?,
        };
        if described.is_some() && call.count == 0 {
            return Ok(NOERR);
        }
        let kind = match (described, asked.kind) {
            (None, Kind::Flexible { .. }) => Kind::Typed(element),
            (_, kind) => kind,
        };
        let memory = Memory { kind, ..asked };
        let memory_type = memory_type(&self.common.ranks, &memory, &variable, is_cdf5)?;
        let wanted = described
            .map_or(found.elements, |memory| u64::try_from(call.count).unwrap_or(0).saturating_mul(memory.elements));
        if wanted != found.elements {
            return Err(EIOMISMATCH);
        }
        if call.buffer.is_null() {
            return Err(ENULLBUF);
        }
        let pieces = self.pieces(call, element, found.elements)?;
        let size = memory_type.element().size();
        let mut all = Elements { regions: Regions::new(1), ..Elements::default() };
        all.regions.push(&[0], &[wanted]);
        let bytes = usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_mul(size)).ok_or(EIOMISMATCH)?;
        // Values one behind the other, in the order of the datatype, in the type of the program's memory.
        let mut values = if puts {
            // SAFETY: the caller's promise.
            unsafe { gather(&self.common.ranks, &memory, &memory_type, &all) }?.into_bytes()
        } else {
            let mut room = Vec::new();
            room.try_reserve_exact(bytes).map_err(|_| EIOMISMATCH)?;
            room.resize(bytes, 0u8);
            room
        };
        let (mut first, mut at) = (NOERR, 0);
        for Piece { variable, boxes } in &pieces {
            let here = usize::try_from(boxes.volume().unwrap_or(0)).unwrap_or(0).saturating_mul(size);
            let place = values.get_mut(at..at + here).ok_or(EIOMISMATCH)?;
            let memory = Memory { buffer: place.as_mut_ptr().cast(), kind: Kind::Typed(memory_type.element()) };
            let variable = c_int::try_from(*variable).map_err(|_| EINVALCOORDS)?;
            let access = Access { variable, shape: Shape::Boxes(boxes), memory };
            // SAFETY: the memory is that of `here` bytes, for so many elements; the boxes outlive the call.
            let code = unsafe { if puts { self.put(&access, how) } else { self.get(&access, how) } };
            first = if first == NOERR { code } else { first };
            at += here;
        }
        if !puts {
            // SAFETY: the caller's promise.
            unsafe { self.give(call, described.is_none_or(|memory| memory.is_plain), &values) }?;
        }
        Ok(first)
    }

    fn pieces(&mut self, call: &ByFiletype, element: Element, count: u64) -> Result<Vec<Piece>, c_int> {
        let (id, size) = (self.id, element.size());
        let places = self.common.ranks.places(call.filetype, count, size)?;
        let variables = self.variables()?;
        let layout = Layout::of(id, variables.all.len())?;
        let begin = usize::try_from(call.variable).ok().and_then(|number| layout.begins.get(number));
        let begin = i64::try_from(*begin.ok_or(EINVALCOORDS)?).map_err(|_| EINVALCOORDS)?;
        let absolute = |place: &i64| place.checked_add(begin).and_then(|at| u64::try_from(at).ok()).ok_or(EINVALCOORDS);
        let places = places.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        layout.pieces(&places, element, variables)
    }

    /// Hands values on to the program's memory.
    ///
    /// # Safety
    /// As for [`Captured::by_filetype`].
    unsafe fn give(&self, call: &ByFiletype, is_plain: bool, values: &[u8]) -> Result<(), c_int> {
        if is_plain {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), call.buffer.cast::<u8>(), values.len()) };
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.common.ranks.unpack(values, call.buffer, call.count, call.datatype) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn variable(element: Element, shape: &[u64], is_record: bool) -> Arc<Variable> {
        Arc::new(Variable { element, shape: shape.to_vec(), is_record, fill: Vec::new(), may_fill: false })
    }

    #[test]
    fn stretches_become_boxes_of_the_same_elements() {
        let shape = [3, 4, 5];
        for first in 0..60 {
            for count in 0..=60 - first {
                let mut boxes = Regions::new(4);
                stretch(&[7], &shape, first, count, &mut boxes);
                let mut found = Vec::new();
                for (start, extents) in boxes.iter() {
                    assert_eq!((start[0], extents[0]), (7, 1));
                    for x in start[1]..start[1] + extents[1] {
                        for y in start[2]..start[2] + extents[2] {
                            found.extend((start[3]..start[3] + extents[3]).map(|z| (x * 4 + y) * 5 + z));
                        }
                    }
                }
                assert_eq!(found, (first..first + count).collect::<Vec<_>>());
                assert!(boxes.len() <= 5, "{first} {count}: {boxes:?}");
            }
        }
        let mut boxes = Regions::new(0);
        stretch(&[], &[], 0, 1, &mut boxes);
        assert_eq!((boxes.len(), boxes.volume()), (1, Some(1)));
    }

    #[test]
    fn places_are_those_of_variables_and_records() {
        let variables = Variables {
            all: vec![
                variable(Element::I32, &[2, 3], false),
                variable(Element::F64, &[], false),
                variable(Element::I32, &[0, 4], true),
                variable(Element::I32, &[0, 2], true),
            ],
            unlimited: 0,
            is_cdf5: true,
        };
        let layout = Layout { begins: vec![100, 124, 132, 148], record: 24 };
        let of = |places: &[u64], element| layout.pieces(places, element, &variables);
        let piece = |variable, axes: usize, of: &[(&[u64], &[u64])]| {
            let mut boxes = Regions::new(axes);
            of.iter().for_each(|(start, count)| boxes.push(start, count));
            Piece { variable, boxes }
        };
        assert_eq!(
            of(&[104, 108, 112], Element::I32),
            Ok(vec![piece(0, 2, &[(&[0, 1], &[1, 2]), (&[1, 0], &[1, 1])])])
        );
        assert_eq!(of(&[124], Element::F64), Ok(vec![piece(1, 0, &[(&[], &[])])]));
        // From one record variable into the next, and into the next record.
        assert_eq!(
            of(&[144, 148, 152, 156, 180], Element::I32),
            Ok(vec![
                piece(2, 2, &[(&[0, 3], &[1, 1])]),
                piece(3, 2, &[(&[0, 0], &[1, 2])]),
                piece(2, 2, &[(&[1, 0], &[1, 1]), (&[2, 0], &[1, 1])]),
            ])
        );
        assert_eq!(of(&[124], Element::I32), Err(ETYPE_MISMATCH));
        assert_eq!(of(&[96], Element::I32), Err(EINVALCOORDS));
        assert_eq!(of(&[102], Element::I32), Err(EINVALCOORDS));
    }
}
