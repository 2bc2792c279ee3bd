//! Tests of this crate from outside, one program: sources and sinks, with other people's programs.

mod across;
mod classic;
mod common;
mod handed_over;
mod hdf5;
mod hdf5_failures;
mod layout;
mod netcdf4_from_model;
mod npy;
mod sinks;
mod zarr;
mod zarr_chunks;
mod zarr_sink;
