//! Tests of this crate from outside, one program: files that other people's programs write and read.

#[path = "../../../formats/tests/it/common/mod.rs"]
#[allow(dead_code, reason = "not all of it is of use here")]
mod common;
mod hdf5;
mod hdf5_failures;
mod netcdf4_from_model;
