//! Sources and sinks: HDF5/netCDF-4, classic netCDF, Zarr, NumPy (read), CSV, raw.

pub mod classic;
pub mod csv;
mod described;
mod fetched;
mod fills;
mod format;
pub mod handed_over;
pub mod hdf5;
mod header;
pub mod layout;
mod npy;
mod open;
mod partial;
mod plain;
pub mod raw;
mod records;
mod remote;
mod selected;
mod shown;
mod unchanged;
pub mod zarr;

pub use format::Inputs;
pub use header::Apart;
pub use open::{
    described, open, open_handed_over, open_hdf5_unlocked, open_header, open_watched, open_with, self_described,
};
pub use plain::Clocks;
pub use records::whole_records;
pub use selected::{Selected, select};
pub use unchanged::Watched;
