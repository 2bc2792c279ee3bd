//! The nouns of Knarr: what a program says of its arrays, and what is asked for. Nothing here encodes, reads or writes.
//!
//! Reading order: [`error`], [`array`], [`region`], [`request`], [`model`] with [`filter`], [`quality`], [`goal`], [`comm`] with [`comm_suite`].
#![forbid(unsafe_code)]

pub mod array;
pub mod comm;
pub mod comm_suite;
pub mod conventions;
pub mod coordinates;
pub mod error;
pub mod filter;
pub mod goal;
pub mod guard;
pub mod libver;
pub mod model;
pub mod npy;
pub mod path_bytes;
pub mod quality;
pub mod region;
pub mod request;
pub mod table;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
