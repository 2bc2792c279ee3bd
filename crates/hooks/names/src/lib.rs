//! Calls of the C library that take the name of a file.
//!
//! A file that was handed over gets its name after the program has closed it. Whoever uses the name before has to see what
//! a program without Knarr would see. So each function of the C library that takes a name looks first whether the name is
//! pending ([`asked`]), whichever library calls it: HDF5, MPI, Fortran's, a shell. If nothing is pending it costs the look at one
//! number; for another name than those that are, the look at three more. Calls that move data have no names, and go by.
//!
//! - [`asked`]: what happens before and after a call;
//! - [`does`] and [`uses`]: what calls do with names, and with which;
//! - [`path`]: which names a path leads to, through symbolic links;
//! - [`streams`]: directories that are read entry by entry;
//! - [`transferred`]: names of files that come from other components, or go to some;
//! - [`whole`]: files that the program writes in a tier;
//! - [`plain`]: files that it writes where they are to be, and that are packed when they are closed;
//! - [`kept`]: files in their places that have a copy in a tier;
//! - [`signals`]: what may not happen while a lock is held;
//! - [`instead`]: another path in place of one of a call;
//! - [`next`]: the function of the same name in the libraries behind this one, which does the work;
//! - [`hooks`]: how the functions are defined;
//! - [`calls`]: the functions, by what they do with a name.
//!
//! All of this must work in a signal handler, in the child of `vfork`, and before this library's own constructor has run: an
//! allocator may open files as it begins. So until then system calls are made directly, and later nothing here asks for memory
//! or takes a lock, except for names of files that are transferred, written in a tier, or packed when they are closed.

mod asked;
mod calls;
mod does;
mod hooks;
mod instead;
mod kept;
mod next;
mod path;
mod plain;
mod signals;
mod streams;
mod transferred;
mod uses;
mod whole;

use std::path::PathBuf;

/// To be called once, when this library is loaded.
pub fn loaded() {
    if let Some(run) = std::env::var_os(knarr_capture::RUN_DIRECTORY) {
        knarr_names::attach(&PathBuf::from(run).join(knarr_capture::NAMES));
    }
    next::begin();
    // A signal handler may make a file, when the rules cannot be read any more.
    if knarr_names::here().is_some_and(|names| names.writes_in_tiers() || names.packs_when_closed()) {
        let _ = knarr_captured::guard(None, knarr_capture::program::run);
    }
}
