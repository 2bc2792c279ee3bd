//! Sources and sinks: HDF5/netCDF-4, classic netCDF, Zarr.

mod cache;
pub mod classic;
mod fills;
pub mod hdf5;
mod labelled;
mod open;
mod records;
pub mod repack;
pub mod zarr;
mod zarr_fit;

pub use open::open;
pub use records::whole_records;
