//! The route `part`: values for a part of a Zarr store that is there. Arrays keep their codecs, chunks and promises; each
//! object that the part touches is replaced at once.

mod object;
mod promise;
mod write;

pub use write::{Part, Sharing, Target, Written, write_part};
