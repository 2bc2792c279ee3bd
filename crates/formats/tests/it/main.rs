//! Tests of this crate from outside, one program: sources and sinks, with other people's programs.

mod across;
mod classic;
mod common;
mod handed_over;
mod layout;
mod npy;
mod sinks;
mod zarr;
mod zarr_chunks;
mod zarr_sink;
