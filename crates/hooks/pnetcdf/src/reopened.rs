//! A program opens a file that it still has open for writing: it reads what was put so far.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Instant;

use knarr_captured::{CapturedFile, Ranks, Values, Wanted, lock};

use crate::file::Captured;
use crate::files;
use crate::real::Opening;

/// Opens a file that all ranks have open for writing. `Err` if they have not, and nothing was opened. Collective.
///
/// # Safety
/// The arguments are those of `ncmpi_open`.
pub(crate) unsafe fn open(
    opening: Opening,
    named: &[u8],
    wanted: &Wanted,
    ranks: Ranks,
) -> std::result::Result<c_int, Ranks> {
    let start = Instant::now();
    let written = files::written(&wanted.target, ranks.comm().size());
    let all = ranks.largest(u64::from(written.is_none()));
    let (Some(written), Ok(0)) = (written, all) else { return Err(ranks) };
    let (directory, header) = {
        let written = &lock(&written).common;
        (written.directory.clone(), written.header())
    };
    // SAFETY: the caller's promise.
    let Some((code, number)) = (unsafe { opening.to_read().at(&header) }) else { return Err(ranks) };
    if let Some(number) = number {
        let common = CapturedFile::new(wanted, named, (directory, 0), ranks, Values::Elsewhere);
        let mut captured = Captured::new(number, common);
        captured.reopened = Some(Arc::downgrade(&written));
        files::add(captured, start);
    }
    Ok(code)
}
