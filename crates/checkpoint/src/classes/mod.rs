//! Classes of variables that are alike: which they are, and what is decided for each.
//!
//! Reading order: `similarity` (which pieces are alike), `scheme` and `interleave` (how they are merged), `frame_sizes`,
//! `merge` (frames of them), `decision`, `decide`, `orders`, `long_range` and `lengths` (what suits a class).

pub mod decide;
pub mod decision;
pub(crate) mod frame_sizes;
pub(crate) mod interleave;
pub(crate) mod lengths;
pub(crate) mod long_range;
pub(crate) mod merge;
pub(crate) mod orders;
pub mod scheme;
pub mod similarity;
