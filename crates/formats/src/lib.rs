//! Sources and sinks: HDF5/netCDF-4, classic netCDF, Zarr.

pub mod classic;
mod fills;
mod open;
pub mod zarr;

pub use open::open;
