//! The program ends MPI, and has not closed a file. PnetCDF leaves what was put until then in the file. So the ranks close it while
//! they still meet. A session that is transferred is whole only if the program has closed it.

use std::ffi::c_int;
use std::sync::OnceLock;

use knarr_captured::CapturedFile;
use knarr_names::own;

use super::guarded;
use crate::begin_end::end;
use crate::files;
use crate::real::use_library;
use crate::transcoded;

/// Has files closed that are still open when MPI ends. To be called when the library has opened the file `id`: what it does itself
/// at the end of MPI comes later then.
pub(super) fn close_at_end(id: c_int) {
    static ASKED: OnceLock<()> = OnceLock::new();
    let ask = |file: &CapturedFile| {
        if !file.ranks.is_alone() && ASKED.set(()).is_ok() {
            file.ranks.at_end(&file.target, mpi_ends);
        }
    };
    if ASKED.get().is_none() && files::with(id, |captured| ask(&captured.common)).is_none() {
        transcoded::with(id, ask);
    }
}

extern "C" fn mpi_ends() {
    for (library, file) in files::all_written().into_iter().chain(transcoded::all_written()) {
        guarded(|| {
            use_library(library);
            own(|| end(file, false).or_else(|| transcoded::end(file, false))).unwrap_or_default()
        });
    }
}
