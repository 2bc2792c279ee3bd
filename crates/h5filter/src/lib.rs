//! Knarr's HDF5 filter plugin, number 45223. It links no HDF5: whichever library loads it is asked for what it needs.
//!
//! [`abi`] is the C interface with its one guard, [`host`] finds the HDF5 that called, [`dataset`] turns a dataset's
//! properties into client data when it is created, [`chunk`] encodes and decodes one chunk.

mod abi;
mod chunk;
mod dataset;
mod host;
