//! `H5Dwrite` of a captured file: values are copied into the spool.

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::region::{Region, Regions};
use knarr_handover::{Put, PutLog};

use super::file::Captured;
use super::transfer::{Refused, Transfer, Written, fill_of, or_refused};
use super::values::convert::Conversion;
use super::values::order::How;
use super::values::shape::Piece;
use crate::datasets::Write;
use crate::host::{CallerHdf5, Hid};

/// Copies values into the spool. To be done quietly.
///
/// # Errors
/// [`Refused`].
///
/// # Safety
/// The arguments are those of `H5Dwrite`.
pub(super) unsafe fn put(
    host: &CallerHdf5,
    file: &mut Captured,
    (asked, how): (&Write, How),
) -> std::result::Result<(), Refused> {
    let transfer = Transfer::of(host, file, asked)?;
    let Written { size, conversion, members } = transfer.written(host)?;
    if transfer.count == 0 || size == 0 {
        return Ok(());
    }
    if asked.values.is_null() {
        return Err(Refused::ByHdf5);
    }
    if file.may_be_kept() {
        file.header.keep(host, asked.dataset)?;
    }
    let bytes = (transfer.count * size) as u64;
    let opaque = |size| u32::try_from(size).map(DType::Opaque).map_err(|_| Error::unsupported("elements of 4 GiB"));
    let (dtype, lies_as) = (opaque(transfer.size)?, opaque(size)?);
    // The conversion needs their type as long as values come.
    let parts = members.as_ref().map(|members| members.parts.clone()).unwrap_or_default();
    let log = or_refused(file.common.log())?;
    let first = log.reserve(bytes)?;
    let (mut at, mut outcome) = (0u64, Ok(()));
    let mut add = |log: &mut PutLog, values: &[u8]| {
        let written = log.write(first + at, lies_as, values);
        at += values.len() as u64;
        written
    };
    let mut take = |values: &[u8]| {
        if outcome.is_err() {
            return;
        }
        outcome = match &conversion {
            None => add(log, values).map_err(Refused::from),
            Some(conversion) => convert(conversion, values, transfer.memory.size, &mut |values| add(log, values)),
        };
    };
    // SAFETY: the caller's promise.
    or_refused(unsafe { transfer.memory.each(asked.values, &mut take) })?;
    outcome?;
    if at != bytes {
        return Err(Error::internal(format!("{at} bytes were copied in place of {bytes}")).into());
    }
    let order = file.number_of_write(how)?;
    let mut offset = first;
    let puts = transfer.pieces.into_iter().map(|Piece { region, stride }| {
        let boxes = Regions::from(&region);
        let put = Put { variable: transfer.number, dtype, boxes, stride, parts: parts.clone(), order, offset };
        offset += put.byte_len();
        put
    });
    let puts: Vec<Put> = puts.collect();
    or_refused(file.common.log())?.push(&puts)?;
    Ok(())
}

/// Puts fill values where a dataset of the shape `before` has been cut to `after`. To be done quietly.
///
/// # Errors
/// `Write`; `Internal` if HDF5 does not tell what is to be known.
pub(super) fn fill(host: &CallerHdf5, file: &mut Captured, dataset: Hid, before: &[u64], after: &[u64]) -> Result<()> {
    let unknown = || Error::internal("HDF5 does not tell what a dataset is");
    let order = file.number_of_write(How::Collective)?;
    let number = file.number(host, dataset).ok_or_else(unknown)?;
    let value = fill_of(host, dataset).ok_or_else(unknown)?;
    for axis in (0..before.len()).filter(|&axis| after[axis] < before[axis]) {
        let mut region = Region::whole(before);
        region.start[axis] = after[axis];
        region.count[axis] = before[axis] - after[axis];
        let elements = region.volume().ok_or_else(unknown)?;
        let log = file.common.log().ok_or_else(unknown)?;
        let dtype = DType::Opaque(u32::try_from(value.len()).map_err(|_| unknown())?);
        let offset = log.reserve(elements.saturating_mul(value.len() as u64))?;
        let most = AT_ONCE as u64;
        for first in (0..elements).step_by(AT_ONCE) {
            let count = usize::try_from((elements - first).min(most)).unwrap_or(AT_ONCE);
            log.write(offset + first * value.len() as u64, dtype, &value.repeat(count))?;
        }
        let boxes = Regions::from(&region);
        log.push(&[Put { variable: number, dtype, boxes, stride: Vec::new(), parts: Vec::new(), order, offset }])?;
    }
    Ok(())
}

/// Elements that are converted at once.
const AT_ONCE: usize = 64 << 10;

/// Converts values of `size` bytes each, and gives them to `add`.
fn convert(
    conversion: &Conversion<'_>,
    values: &[u8],
    size: usize,
    add: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), Refused> {
    values.chunks(AT_ONCE * size).try_for_each(|values| {
        let converted = or_refused(conversion.run(values, &[]))?;
        add(&converted).map_err(Refused::from)
    })
}
