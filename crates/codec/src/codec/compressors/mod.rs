//! From bytes to bytes. One codec a file.

pub mod bitshuffle;
pub(in crate::codec) mod brotli;
pub(in crate::codec) mod fletcher32;
pub(in crate::codec) mod shuffle;
pub(in crate::codec) mod snappy;
