//! Numbers as integers.
//!
//! Reading order: `domain` (in which numbers residuals are taken), `elements` (bytes as such numbers), `range`, `lattice`
//! (numbers that are steps of a grid), `symmetry` (numbers that are others moved).

pub(crate) mod domain;
pub(crate) mod elements;
pub(crate) mod lattice;
pub(crate) mod range;
pub(crate) mod symmetry;
