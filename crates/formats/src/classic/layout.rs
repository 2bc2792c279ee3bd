//! Where the values of each variable lie: sizes, record length, byte strides.

use super::header::{Header, NcType, Var};
use knarr_array::{Error, Result};
use knarr_flow::strided::StridedLayout;

/// Number of records of the file and the place of every variable.
pub(super) fn layout(header: &Header, file_len: u64) -> Result<(u64, Vec<StridedLayout>)> {
    let is_record = |var: &Var| var.dims.first().is_some_and(|&dim| header.dims[dim].len == 0);
    // Bytes of one record of a record variable, or of all of a fixed one, without padding.
    let slab = |var: &Var| {
        let inner = usize::from(is_record(var));
        var.dims[inner..]
            .iter()
            .try_fold(var.nc_type.dtype().size() as u64, |bytes, &dim| bytes.checked_mul(header.dims[dim].len))
            // Room for the padding to a multiple of 4.
            .filter(|&bytes| bytes <= i64::MAX as u64 - 3)
            .ok_or_else(|| Error::corrupt("the shape is larger than any file").at_variable(&var.name))
    };
    let record_vars: Vec<&Var> = header.vars.iter().filter(|var| is_record(var)).collect();
    let record_len = match record_vars.as_slice() {
        // "A special case": with exactly one record variable, of a type smaller than 4 bytes, records are not padded.
        [only] if small(only.nc_type) => slab(only)?,
        many => many.iter().try_fold(0u64, |total, var| {
            total
                .checked_add(slab(var)?.next_multiple_of(4))
                .ok_or_else(|| Error::corrupt("a record is larger than any file").at_variable(&var.name))
        })?,
    };
    let records = match header.records {
        Some(records) => records,
        // Streaming: as many whole records as the file holds.
        None => match record_vars.iter().map(|var| var.begin).min() {
            Some(first) if record_len > 0 => file_len.saturating_sub(first) / record_len,
            _ => 0,
        },
    };
    let places = header
        .vars
        .iter()
        .map(|var| {
            let is_record = is_record(var);
            let shape: Vec<u64> = var
                .dims
                .iter()
                .enumerate()
                .map(|(axis, &dim)| if is_record && axis == 0 { records } else { header.dims[dim].len })
                .collect();
            let mut strides = vec![0; shape.len()];
            let mut stride = var.nc_type.dtype().size() as u64;
            for axis in (0..shape.len()).rev() {
                if is_record && axis == 0 {
                    strides[axis] = record_len;
                } else {
                    strides[axis] = stride;
                    stride = stride.saturating_mul(shape[axis]);
                }
            }
            let place = StridedLayout { begin: var.begin, shape, strides };
            slab(var)?;
            // Offsets of elements and the product of the shape must be computable without overflow.
            let extent = if is_record { record_len.checked_mul(records) } else { Some(slab(var)?) };
            extent
                .and_then(|extent| extent.checked_add(var.begin))
                .filter(|&end| end <= i64::MAX as u64)
                .ok_or_else(|| Error::corrupt("the variable would end beyond any file").at_variable(&var.name))?;
            Ok(place)
        })
        .collect::<Result<_>>()?;
    Ok((records, places))
}

fn small(nc_type: NcType) -> bool {
    nc_type.dtype().size() < 4
}
