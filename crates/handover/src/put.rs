//! One put: which elements of which variable, and where their values lie.

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_array::request::AXES;
use knarr_array::wire::{Reader, put_number};
use knarr_codec::frame::{dtype_number, numbered_dtype};

/// One put, as the log has it. The values are native numbers, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Number of the variable in its file.
    pub variable: u32,
    /// Element type, which is that of the variable.
    pub dtype: DType,
    /// First element and number of elements along each axis.
    pub region: Region,
    /// Distance of elements along each axis; empty where all are 1.
    pub stride: Vec<u64>,
    /// Puts of later collective calls have larger numbers: where puts overlap, the later one counts.
    pub order: u64,
    /// First byte of its values in the file of values.
    pub offset: u64,
}

impl Put {
    /// Bytes of its values; saturates.
    pub fn byte_len(&self) -> u64 {
        self.region.volume().unwrap_or(u64::MAX).saturating_mul(self.dtype.size() as u64)
    }

    /// The region that holds all its elements, and those between them.
    pub fn extent(&self) -> Region {
        let spans = self.region.count.iter().enumerate();
        let count: Vec<u64> = spans
            .map(|(axis, &n)| {
                let stride = self.stride.get(axis).copied().unwrap_or(1);
                if n == 0 { 0 } else { (n - 1).saturating_mul(stride).saturating_add(1) }
            })
            .collect();
        Region::new(self.region.start.clone(), count)
    }

    /// Appends the payload of its record.
    pub(crate) fn payload(&self, out: &mut Vec<u8>) {
        put_number(out, u64::from(self.variable));
        out.push(dtype_number(self.dtype));
        put_number(out, self.dtype.size() as u64);
        put_number(out, self.order);
        put_number(out, self.offset);
        put_number(out, self.region.start.len() as u64);
        out.push(u8::from(!self.stride.is_empty()));
        let numbers = self.region.start.iter().chain(&self.region.count).chain(&self.stride);
        numbers.for_each(|&n| put_number(out, n));
    }

    /// Reads the payload of a record.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("a log of puts", bytes);
        let variable = u32::try_from(reader.number()?).map_err(|_| reader.impossible("variable"))?;
        let number = reader.byte()?;
        let size = u32::try_from(reader.number()?).map_err(|_| reader.impossible("size"))?;
        let dtype = numbered_dtype(number, || Ok(size))?.filter(|dtype| dtype.size() == size as usize);
        let dtype = dtype.ok_or_else(|| reader.impossible("type"))?;
        let (order, offset) = (reader.number()?, reader.number()?);
        let axes = usize::try_from(reader.number()?).ok().filter(|&axes| axes <= AXES);
        let axes = axes.ok_or_else(|| reader.impossible("number of axes"))?;
        let is_strided = reader.byte()? != 0;
        let mut numbers = |n: usize| (0..n).map(|_| reader.number()).collect::<Result<Vec<u64>>>();
        let (start, count) = (numbers(axes)?, numbers(axes)?);
        let stride = numbers(if is_strided { axes } else { 0 })?;
        let put = Self { variable, dtype, region: Region::new(start, count), stride, order, offset };
        let ends = put.extent();
        let is_countable = (0..axes).all(|axis| ends.start[axis].checked_add(ends.count[axis]).is_some());
        let is_sized = put.byte_len() < u64::MAX && put.offset.checked_add(put.byte_len()).is_some();
        if reader.left() > 0 || !is_countable || !is_sized || put.stride.contains(&0) {
            return Err(Error::corrupt("a put that cannot be, in a log of puts"));
        }
        Ok(put)
    }
}
