//! Sources and sinks of all formats: classic netCDF, Zarr, NumPy (read), CSV, raw, and [`hdf5`], which is a crate of its own.
#![forbid(unsafe_code)]

pub mod classic;
pub mod csv;
mod delegate;
mod fetched;
mod fills;
pub mod handed_over;
pub mod layout;
mod npy;
mod open;
pub mod output;
mod plain;
pub mod raw;
mod records;
mod remote;
mod selected;
mod unchanged;
pub mod zarr;

pub use knarr_hdf5 as hdf5;
pub use knarr_input::{ExternalValues, Inputs};
pub use open::{
    described, open, open_handed_over, open_hdf5_unlocked, open_header, open_watched, open_with, self_described,
};
pub use plain::Clocks;
pub use records::whole_records;
pub use selected::{Selected, select};
pub use unchanged::Watched;
