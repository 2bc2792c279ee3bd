//! From an array to bytes. One codec a file; `lattice` finds the steps that numbers are multiples of.

pub(in crate::codec) mod fixedscale;
pub(in crate::codec) mod gridded;
pub(in crate::codec) mod lattice;
pub(in crate::codec) mod pcodec;
pub(in crate::codec) mod runs;
pub(in crate::codec) mod trailing;
