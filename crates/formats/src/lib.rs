//! Sources and sinks: HDF5/netCDF-4, classic netCDF, Zarr, CSV, raw.

mod as_it_is;
pub mod classic;
pub mod csv;
mod fills;
pub mod hdf5;
mod labelled;
mod late_sink;
pub mod layout;
pub mod notes;
mod open;
mod plain;
mod plan_file;
pub mod raw;
mod records;
pub mod repack;
mod selected;
mod shown;
mod strided;
mod unchanged;
pub mod zarr;
mod zarr_fit;

pub use open::{Inputs, open, open_watched, open_with, self_described};
pub use plan_file::{is_made_from, plan_path, refuse_other_plan, save_plan};
pub use records::whole_records;
pub use selected::select;
