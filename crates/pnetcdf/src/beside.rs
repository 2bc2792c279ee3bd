//! A file that the program opens while it still writes it: it reads what was put so far.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use knarr_captured::{Ranks, Wanted};

use crate::codes::{WRITE, has_opened};
use crate::file::{Captured, Values};
use crate::files::{self, Written};
use crate::real::Open;

/// Opens a file that all ranks have open for writing. `Err` if they have not, and nothing was opened. Collective.
///
/// # Safety
/// The arguments are those of `ncmpi_open`, and `real` is that function.
pub(crate) unsafe fn open(
    real: Open,
    (comm, mode, info, id): (usize, c_int, usize, *mut c_int),
    named: &[u8],
    wanted: &Wanted,
    ranks: Ranks,
) -> std::result::Result<c_int, Ranks> {
    let start = Instant::now();
    let written = files::written(&wanted.target, ranks.comm().size());
    let all = ranks.largest(u64::from(written.is_none()));
    let (Some(Written { file, directory, header }), Ok(0)) = (written, all) else { return Err(ranks) };
    let Ok(header) = CString::new(header.as_os_str().as_bytes()) else { return Err(ranks) };
    // SAFETY: the program's own arguments but for name and mode.
    let code = unsafe { real(comm, header.as_ptr(), mode & !WRITE, info, id) };
    if has_opened(code) {
        // SAFETY: the library has put the number there.
        let own = unsafe { *id };
        let (target, rule) = (wanted.target.clone(), wanted.rule.clone());
        let values = Values::Beside(file);
        files::add(Captured::new(own, named.to_vec(), target, rule, directory, 0, ranks, values, start.elapsed()));
    }
    Ok(code)
}
