//! Filters that lose nothing: from an array to one of the same type and shape. One codec a file.

pub(in crate::codec) mod delta;
pub(in crate::codec) mod lorenzo;
pub(in crate::codec) mod signs;
pub(in crate::codec) mod xor;
