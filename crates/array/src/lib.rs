//! The nouns of Knarr: what a program says of its arrays, and what is asked for. Nothing here encodes, reads or writes.
//!
//! Reading order: [`error`], [`array`], [`region`], [`request`], [`model`] with [`filter`], `meaning` (of attributes), [`quality`],
//! [`goal`], [`comm`] with [`comm_suite`], `bytes` (how things lie in them).
#![forbid(unsafe_code)]

pub mod array;
mod bytes;
pub mod comm;
pub mod comm_suite;
pub mod error;
pub mod filter;
pub mod goal;
pub mod guard;
pub mod libver;
mod meaning;
pub mod model;
pub mod quality;
pub mod region;
pub mod request;
pub mod table;

pub use bytes::{npy, path_bytes, wire};
pub use meaning::{conventions, coordinates};

pub use error::{Error, ErrorKind, Result};
