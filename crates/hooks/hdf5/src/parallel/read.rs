//! `H5Dread` of a captured file: values come from the spool.

use std::ffi::c_void;
use std::time::Instant;

use super::file::Captured;
use super::transfer::{Refused, Transfer, fill_of, or_refused};
use crate::datasets::Write;
use crate::host::CallerHdf5;
use knarr_array::error::Error;
use knarr_captured::Values;
use knarr_handover::Beneath;

/// Reads what all ranks have put up to the write of number `last`. To be done quietly.
///
/// # Errors
/// [`Refused`].
///
/// # Safety
/// The arguments are those of `H5Dread`.
pub(super) unsafe fn get(
    host: &CallerHdf5,
    file: &Captured,
    (asked, last): (&Write, u64),
    buffer: *mut c_void,
) -> Result<(), Refused> {
    let transfer = Transfer::of(host, file, asked)?;
    let conversion = transfer.read(host)?;
    if transfer.count == 0 {
        return Ok(());
    }
    if buffer.is_null() {
        return Err(Refused::ByHdf5);
    }
    // SAFETY: the caller's promise.
    let direct = if conversion.is_none() { unsafe { transfer.memory.room(buffer) } } else { None };
    if let Some(room) = direct {
        return read(host, file, (&transfer, last), room);
    }
    let mut found = values(host, file, (&transfer, last))?;
    if let Some(conversion) = conversion {
        let mut kept = Vec::new();
        if conversion.keeps_members() {
            // SAFETY: the caller's promise.
            or_refused(unsafe { transfer.memory.each(buffer, &mut |values| kept.extend_from_slice(values)) })?;
        }
        found = or_refused(conversion.run(&found, &kept))?;
    }
    // SAFETY: the caller's promise.
    or_refused(unsafe { transfer.memory.fill(buffer, &found) })
}

/// The elements of a transfer as the dataset has them after the write of number `last`, one behind the other.
///
/// # Errors
/// [`Refused`].
fn values(host: &CallerHdf5, file: &Captured, (transfer, last): (&Transfer<'_>, u64)) -> Result<Vec<u8>, Refused> {
    let mut all = vec![0; transfer.count * transfer.size];
    read(host, file, (transfer, last), &mut all).map(|()| all)
}

/// The same, into memory with room for them.
fn read(
    host: &CallerHdf5,
    file: &Captured,
    (transfer, last): (&Transfer<'_>, u64),
    room: &mut [u8],
) -> Result<(), Refused> {
    let fill = or_refused(fill_of(host, transfer.dataset))?;
    let (gathered, begin, bytes) = (file.gathered(last)?, Instant::now(), room.len() as u64);
    let mut left = room;
    for piece in &transfer.pieces {
        let count = piece.region.count.iter().product::<u64>();
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(transfer.size));
        let split = bytes.and_then(|bytes| left.split_at_mut_checked(bytes));
        let (part, rest) = split.ok_or_else(|| Error::internal("a selection of more elements than it has"))?;
        gathered.read_strided(transfer.number as usize, &piece.region, &piece.stride, Beneath::Fill(&fill), part)?;
        left = rest;
    }
    if let Values::ReadSession(incoming) = &file.common.values {
        incoming.got(bytes, begin.elapsed());
    }
    Ok(())
}
