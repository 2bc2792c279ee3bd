//! `libknarr_preload.so`: put into programs by `knarr run` through `LD_PRELOAD`.
//!
//! It exports functions of HDF5, PnetCDF and the C library under their own names. Each library has its hooks in a crate of its own,
//! below `crates/hooks`.

use knarr_captured::guard;
// Its exported functions are all that is wanted of it.
use knarr_pnetcdf as _;

/// Runs when the library is loaded, which is when a process begins or replaces itself by `exec`.
extern "C" fn loaded() {
    guard((), knarr_name_hooks::loaded);
    guard((), knarr_hdf5_hooks::loaded);
    guard((), knarr_capture::program::started);
}

/// Runs when the process ends in order, after the handlers that HDF5 has for that moment.
extern "C" fn unloaded() {
    guard((), knarr_hdf5_hooks::exiting);
    guard((), knarr_capture::program::exiting);
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = unloaded;
