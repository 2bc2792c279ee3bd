//! The puts into one variable: which boxes meet a region, and where the values of each lie.

use std::collections::HashMap;

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

use crate::gather::boxes::Boxes;
use crate::log::put::{Part, Put, elements, span};

/// The puts into one variable, box by box.
#[derive(Debug, Default)]
pub(crate) struct VariablePuts {
    axes: usize,
    /// As which values of the first put lie there.
    dtype: Option<DType>,
    /// Some put has not all bytes of its elements.
    has_parts: bool,
    /// The extents of the boxes. Boxes with larger numbers count more.
    pub(crate) boxes: Boxes,
    /// By the number of a box: the first byte of its values.
    offsets: Vec<u64>,
    /// By the number of a box: its put.
    of: Vec<u32>,
    puts: Vec<Of>,
}

/// What the boxes of a put have in common.
#[derive(Debug)]
pub(crate) struct Of {
    pub(crate) rank: usize,
    /// Bytes of an element, and those of it that were put.
    pub(crate) size: usize,
    pub(crate) width: u64,
    /// Which these are; empty if they are all.
    parts: Box<[Part]>,
    /// Distance of elements along each axis, and their number, of a single box that has strides.
    strided: Option<(Vec<u64>, Vec<u64>)>,
}

impl Of {
    /// Number of elements and their distance along an axis, for a box of this extent.
    pub(crate) fn along(&self, axis: usize, extent: u64) -> (u64, u64) {
        self.strided.as_ref().map_or((extent, 1), |(stride, count)| (count[axis], stride[axis]))
    }

    /// True if the box has all elements of its extent, with all their bytes.
    pub(crate) fn is_dense(&self) -> bool {
        self.strided.is_none() && self.parts.is_empty()
    }

    /// Where the bytes that were put of an element lie in it, where they lie among them, and how many there are.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let all = self.parts.is_empty().then_some((0, 0, self.width));
        let parts = self.parts.iter().scan(0, |before, part| {
            let from = *before;
            *before += u64::from(part.len);
            Some((u64::from(part.at), from, u64::from(part.len)))
        });
        all.into_iter().chain(parts)
    }
}

impl VariablePuts {
    /// From puts with their ranks, the earliest first.
    ///
    /// # Errors
    /// `Corrupt` for puts of different axes; `Unsupported` for more than 4 billion boxes.
    pub(crate) fn new(puts: impl Iterator<Item = Result<(usize, Put)>>) -> Result<Self> {
        let too_many = || Error::unsupported("more than 4 billion puts into one variable");
        let (mut found, mut bounds) = (Self::default(), Vec::new());
        for put in puts {
            let (rank, put) = put?;
            let axes = put.boxes.axes();
            if found.puts.is_empty() {
                (found.axes, found.dtype) = (axes, Some(put.lies_as()));
            } else if found.axes != axes {
                return Err(Error::corrupt("puts into one variable have different numbers of axes"));
            }
            let (size, width, mut offset) = (put.dtype.size(), put.width(), put.offset);
            found.has_parts |= !put.parts.is_empty();
            let of = u32::try_from(found.puts.len()).map_err(|_| too_many())?;
            for (start, count) in put.boxes.iter() {
                if count.contains(&0) {
                    continue;
                }
                bounds.extend_from_slice(start);
                let stride = |axis: usize| put.stride.get(axis).copied().unwrap_or(1);
                bounds.extend((0..axes).map(|axis| start[axis].saturating_add(span(count[axis], stride(axis)))));
                found.offsets.push(offset);
                found.of.push(of);
                offset = offset.saturating_add(elements(count).saturating_mul(width));
            }
            let strided = if put.stride.is_empty() { None } else { Some((put.stride, put.boxes.get(0).1.to_vec())) };
            found.puts.push(Of { rank, size, width, parts: put.parts.into_boxed_slice(), strided });
        }
        let count = u32::try_from(found.offsets.len()).map_err(|_| too_many())?;
        found.boxes = Boxes::new(found.axes, &bounds, count);
        Ok(found)
    }

    /// The type of the values as they lie there, if there are any.
    pub(crate) fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// True if some put has not all bytes of its elements.
    pub(crate) fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// The extents that boxes with most of the elements have; of several the largest.
    pub(crate) fn usual_extents(&self) -> Option<Vec<u64>> {
        let mut elements_of: HashMap<Vec<u64>, u64> = HashMap::new();
        for place in 0..u32::try_from(self.offsets.len()).unwrap_or(u32::MAX) {
            let (start, end) = self.boxes.at(place);
            let extents: Vec<u64> = start.iter().zip(end).map(|(start, end)| end - start).collect();
            let elements = elements(&extents);
            let sum = elements_of.entry(extents).or_default();
            *sum = sum.saturating_add(elements);
        }
        let most = elements_of.into_iter().max_by(|(a, has), (b, other)| (has, a).cmp(&(other, b)));
        most.map(|(extents, _)| extents)
    }

    /// True if a region of so many axes can be read.
    pub(crate) fn has_axes(&self, axes: usize) -> bool {
        self.axes == axes || self.offsets.is_empty()
    }

    /// The put of a box, and the first byte of the box's values.
    pub(crate) fn of(&self, number: u32) -> Option<(&Of, u64)> {
        let (of, offset) = self.of.get(number as usize).zip(self.offsets.get(number as usize))?;
        self.puts.get(*of as usize).map(|put| (put, *offset))
    }
}
