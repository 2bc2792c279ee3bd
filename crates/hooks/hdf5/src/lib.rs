//! Hooks of HDF5: its functions under their own names, so that a program calls them here. Each finds the function that its caller
//! would have reached, calls it, and tells the launcher which files are written. No HDF5 is linked.
//!
//! Nothing that is done here may fail the program: where something of Knarr's own goes wrong the plain call is all that happens.
//!
//! - [`trampolines`]: the exported names;
//! - [`hooks`]: what happens around each call;
//! - [`host`]: the HDF5 of the caller;
//! - [`property_lists`] and [`datasets`]: what its property lists and datasets are;
//! - [`needing`]: functions before which a captured file is handed back;
//! - [`library`]: Knarr's own filter for it;
//! - [`files`]: the files that this process has open for writing;
//! - [`parallel`]: files whose values are handed over;
//! - [`error_stack`]: calls of HDF5 that are Knarr's own.
//!
//! What the launcher asked for, and messages to it, are `knarr_capture::program`.
//!
//! On other processors than x86-64 and 64-bit ARM there are no trampolines, and the crate does not build.

mod datasets;
mod error_stack;
mod files;
mod hooks;
mod host;
mod library;
mod needing;
mod parallel;
mod property_lists;
mod trampolines;

/// To be called once, when the library of which this is a part is loaded.
pub fn loaded() {
    knarr_captured::by_name::begin(parallel::used);
}

/// To be called when the process ends in order, after the handlers that HDF5 has for that moment.
pub fn exiting() {
    parallel::exiting();
}
