//! Filters that change values, within what was promised.
//!
//! Reading order: `rounding` (what they share), then one codec a file.

pub(in crate::codec) mod bitround;
pub(in crate::codec) mod granular;
pub(in crate::codec) mod quantize;
pub(in crate::codec) mod quantize_rel;
pub(in crate::codec) mod round;
pub(in crate::codec) mod rounding;
