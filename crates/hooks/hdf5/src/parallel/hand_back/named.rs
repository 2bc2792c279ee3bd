//! The program uses the name of a file that it has open. The file has no name as long as it is captured, so it is handed back; or it is
//! ended, if HDF5 has closed it since.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::hand_back_by_name;
use crate::parallel::begin_end::end_if_closed;
use crate::parallel::file::that_may_go;

/// To be called before the program uses a name.
pub(crate) fn used(path: &[u8]) {
    let path = Path::new(OsStr::from_bytes(path));
    // Most names are of nothing that is captured.
    let Some(last) = path.file_name() else { return };
    if that_may_go(|target| target.file_name() == Some(last)).is_empty() && !path.is_symlink() {
        return;
    }
    let Ok(absolute) = std::path::absolute(path) else { return };
    let directory = absolute.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
    let found = std::fs::canonicalize(&absolute).ok().or_else(|| Some(directory?.join(last)));
    for file in that_may_go(|target| found.as_deref() == Some(target)) {
        // Objects of it were open when the program closed it, and the last of them is closed by now.
        if !end_if_closed(&file) {
            hand_back_by_name(&file);
        }
    }
}
