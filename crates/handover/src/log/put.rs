//! What one call has put into one variable, and its record in a log.

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::region::{Region, Regions};
use knarr_array::request::AXES;
use knarr_array::wire::{Reader, put_column, put_number};
use knarr_codec::frame::{dtype_number, numbered_dtype};

/// Boxes of a record, at most. What has more becomes several records.
pub(crate) const MOST_BOXES: usize = 1 << 16;
/// Parts of an element, at most. HDF5 has no type with as many members.
pub(crate) const MOST_PARTS: usize = 1 << 13;

/// Bytes of an element: those of some members of a compound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The first one, counted from the beginning of the element.
    pub at: u32,
    /// How many.
    pub len: u32,
}

impl Part {
    fn end(self) -> u64 {
        u64::from(self.at) + u64::from(self.len)
    }
}

/// Values that were put into a variable, as the log has it. They are native numbers: each box row-major, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Number of the variable in its file.
    pub variable: u32,
    /// Element type, which is that of the variable.
    pub dtype: DType,
    /// First element and number of elements along each axis of each box.
    pub boxes: Regions,
    /// Distance of elements along each axis, of a single box; empty where all are 1.
    pub stride: Vec<u64>,
    /// The bytes that were put of each element, in ascending order; empty where they are all. The values of an element are
    /// those of its parts, one behind the other.
    pub parts: Vec<Part>,
    /// Puts of later collective calls have larger numbers: where puts overlap, the later one counts. So does the later box.
    pub order: u64,
    /// First byte of its values in the file of values.
    pub offset: u64,
}

/// What the record of a put begins with.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) variable: u32,
    pub(crate) dtype: DType,
    pub(crate) order: u64,
    pub(crate) offset: u64,
    /// Bytes of the values.
    pub(crate) bytes: u64,
    axes: usize,
    flags: u8,
}

/// Flags of a record.
const STRIDED: u8 = 1;
const PARTS: u8 = 2;

impl Put {
    /// Bytes of its values; saturates.
    pub fn byte_len(&self) -> u64 {
        self.boxes.volume().unwrap_or(u64::MAX).saturating_mul(self.width())
    }

    /// Bytes that it has of each element.
    pub fn width(&self) -> u64 {
        match self.parts.as_slice() {
            [] => self.dtype.size() as u64,
            parts => parts.iter().map(|part| u64::from(part.len)).sum(),
        }
    }

    /// The type of its values as they lie one behind the other.
    pub fn lies_as(&self) -> DType {
        match u32::try_from(self.width()) {
            Ok(width) if !self.parts.is_empty() => DType::Opaque(width),
            _ => self.dtype,
        }
    }

    /// The region that holds all its elements, and those between them.
    pub fn extent(&self) -> Region {
        let mut extent =
            self.boxes.extent().unwrap_or_else(|| Region::new(vec![0; self.boxes.axes()], vec![0; self.boxes.axes()]));
        extent.count.iter_mut().zip(&self.stride).for_each(|(n, stride)| *n = span(*n, *stride));
        extent
    }

    /// Appends the payloads of its records.
    pub fn payloads(&self, mut record: impl FnMut(&[u8])) {
        let (axes, size, mut offset) = (self.boxes.axes(), self.dtype.size() as u64, self.offset);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let mut payload = Vec::with_capacity(64);
        for from in (0..self.boxes.len()).step_by(MOST_BOXES) {
            let here = from..self.boxes.len().min(from + MOST_BOXES);
            payload.clear();
            put_number(&mut payload, u64::from(self.variable));
            payload.push(dtype_number(self.dtype));
            put_number(&mut payload, size);
            put_number(&mut payload, self.order);
            put_number(&mut payload, offset);
            let elements = here.clone().map(|place| elements(self.boxes.get(place).1));
            let bytes = elements.fold(0, u64::saturating_add).saturating_mul(self.width());
            put_number(&mut payload, bytes);
            put_number(&mut payload, axes as u64);
            payload.push(flag(!self.stride.is_empty(), STRIDED) | flag(!self.parts.is_empty(), PARTS));
            self.stride.iter().for_each(|&n| put_number(&mut payload, n));
            if !self.parts.is_empty() {
                put_number(&mut payload, self.parts.len() as u64);
            }
            for part in &self.parts {
                put_number(&mut payload, u64::from(part.at));
                put_number(&mut payload, u64::from(part.len));
            }
            put_number(&mut payload, here.len() as u64);
            let mut column = Vec::with_capacity(here.len());
            for axis in 0..axes {
                for is_count in [false, true] {
                    column.clear();
                    column.extend(here.clone().map(|place| {
                        let (start, count) = self.boxes.get(place);
                        if is_count { count[axis] } else { start[axis] }
                    }));
                    put_column(&mut payload, &column);
                }
            }
            record(&payload);
            offset = offset.saturating_add(bytes);
        }
    }

    /// Reads the payload of a record.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(LOG, bytes);
        let Head { variable, dtype, order, offset, bytes, axes, flags } = Head::read(&mut reader)?;
        let stride =
            (0..if flags & STRIDED > 0 { axes } else { 0 }).map(|_| reader.number()).collect::<Result<Vec<u64>>>()?;
        let parts = if flags & PARTS > 0 { parts(&mut reader, dtype.size())? } else { Vec::new() };
        let len = usize::try_from(reader.number()?).ok().filter(|&len| (1..=MOST_BOXES).contains(&len));
        let len =
            len.filter(|&len| len == 1 || stride.is_empty()).ok_or_else(|| reader.impossible("number of boxes"))?;
        let columns = (0..2 * axes).map(|_| reader.column()).collect::<Result<Vec<_>>>()?;
        if columns.iter().any(|column| column.len() != len) {
            return Err(reader.impossible("number of boxes"));
        }
        let mut boxes = Regions::with_capacity(axes, len);
        let (mut start, mut count) = (vec![0; axes], vec![0; axes]);
        let mut is_countable = true;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        for _ in 0..len {
            for (axis, both) in columns.chunks_exact_mut(2).enumerate() {
                start[axis] = both[0].next().unwrap_or(0);
                count[axis] = both[1].next().unwrap_or(0);
                let span = span(count[axis], stride.get(axis).copied().unwrap_or(1));
                is_countable &= start[axis].checked_add(span).is_some();
            }
            boxes.push(&start, &count);
        }
        let put = Self { variable, dtype, boxes, stride, parts, order, offset };
        let is_sized = bytes < u64::MAX && put.byte_len() == bytes && put.offset.checked_add(bytes).is_some();
        if reader.left() > 0 || !is_countable || !is_sized || put.stride.contains(&0) {
            return Err(Error::corrupt("a put that cannot be, in a log of puts"));
        }
        Ok(put)
    }
}

/// What records are called in errors.
const LOG: &str = "a log of puts";

impl Head {
    /// That of a payload.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self> {
        Self::read(&mut Reader::new(LOG, payload))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let variable = u32::try_from(reader.number()?).map_err(|_| reader.impossible("variable"))?;
        let number = reader.byte()?;
        let size = u32::try_from(reader.number()?).map_err(|_| reader.impossible("size"))?;
        let dtype = numbered_dtype(number, || Ok(size))?.filter(|dtype| dtype.size() == size as usize);
        let dtype = dtype.ok_or_else(|| reader.impossible("type"))?;
        let (order, offset, bytes) = (reader.number()?, reader.number()?, reader.number()?);
        let axes = usize::try_from(reader.number()?).ok().filter(|&axes| axes <= AXES);
        let axes = axes.ok_or_else(|| reader.impossible("number of axes"))?;
        let flags = reader.byte()?;
        if flags & !(STRIDED | PARTS) > 0 {
            return Err(reader.impossible("kind of put"));
        }
        Ok(Self { variable, dtype, order, offset, bytes, axes, flags })
    }
}

/// Parts of elements of so many bytes.
fn parts(reader: &mut Reader<'_>, size: usize) -> Result<Vec<Part>> {
    let count = usize::try_from(reader.number()?).ok().filter(|count| (1..=MOST_PARTS).contains(count));
    let count = count.ok_or_else(|| reader.impossible("number of parts"))?;
    let (mut parts, mut end) = (Vec::with_capacity(count), 0);
    for _ in 0..count {
        let (at, len) = (u32::try_from(reader.number()?), u32::try_from(reader.number()?));
        let part = at.ok().zip(len.ok()).map(|(at, len)| Part { at, len });
        let part = part.filter(|part| part.len > 0 && u64::from(part.at) >= end && part.end() <= size as u64);
        let part = part.ok_or_else(|| reader.impossible("part of an element"))?;
        end = part.end();
        parts.push(part);
    }
    Ok(parts)
}

/// Elements of a box; saturates.
pub(crate) fn elements(count: &[u64]) -> u64 {
    count.iter().fold(1, |product, &n| product.saturating_mul(n))
}

/// From the first of `count` elements at a distance to behind the last one; saturates.
pub(crate) fn span(count: u64, stride: u64) -> u64 {
    if count == 0 { 0 } else { (count - 1).saturating_mul(stride).saturating_add(1) }
}
