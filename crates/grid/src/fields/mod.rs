//! What an element has in common with others of its array.
//!
//! Reading order: `geometry` (who is next to whom), `mask` (which elements are numbers), `predict` (a number from those
//! before it), `repeats` (runs that were there before).

pub(crate) mod geometry;
pub(crate) mod mask;
pub(crate) mod predict;
pub(crate) mod repeats;
