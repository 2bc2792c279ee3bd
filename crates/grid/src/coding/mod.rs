//! Bits, and what turns numbers into few of them.
//!
//! Reading order: `bits`, `binary` (bits by their chance), `entropy` (residuals in context).

pub(crate) mod binary;
pub(crate) mod bits;
pub(crate) mod entropy;
