//! `libknarr_preload.so`: put into programs by `knarr run` through `LD_PRELOAD`.
//!
//! It exports functions of HDF5 under their own names, so that the program calls them here; each finds the function
//! that its caller would have reached, calls it, and tells the launcher which files are written. It links no HDF5.
//! Nothing it does may fail the program: where something of its own goes wrong the plain call is all that happens.
//!
//! - [`trampolines`]: the exported names;
//! - [`hooks`]: what happens around each call;
//! - [`host`]: the HDF5 of the caller;
//! - [`lists`]: datasets about to be created, and what they get;
//! - [`library`]: Knarr's own filter for it;
//! - [`given`]: datasets that were given filters;
//! - [`whole`]: writes of whole chunks of such datasets;
//! - [`across`]: such datasets that are written against the order of their chunks;
//! - [`direct`]: chunks of such datasets that the program writes itself;
//! - [`shown`]: what the program is told of such datasets;
//! - [`transfer`]: what of all these HDF5 is to encode or decode;
//! - [`files`]: the files that this process has open for writing;
//! - [`parallel`]: files whose values are handed over, of MPI-IO or to other components;
//! - [`names`]: calls of the C library with names of files that are not there yet;
//! - [`quiet`]: calls of HDF5 that are Knarr's own.
//!
//! The functions of PnetCDF are `knarr_pnetcdf`. What the launcher asked for, and messages to it, are `knarr_capture::program`.
//!
//! On other processors than x86-64 and 64-bit ARM there are no trampolines, and the crate does not build.

mod across;
mod direct;
mod files;
mod given;
mod guard;
mod hooks;
mod host;
mod library;
mod lists;
mod names;
mod parallel;
mod quiet;
mod shown;
mod trampolines;
mod transfer;
mod whole;

// Its exported functions are all that is wanted of it.
use knarr_pnetcdf as _;

/// Runs when the library is loaded, which is when a process begins or replaces itself by `exec`.
extern "C" fn loaded() {
    guard::guard((), names::loaded);
    guard::guard((), knarr_capture::program::started);
}

/// Runs when the process ends in order, after the handlers that HDF5 has for that moment.
extern "C" fn unloaded() {
    guard::guard((), parallel::exiting);
    guard::guard((), knarr_capture::program::exiting);
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = unloaded;
