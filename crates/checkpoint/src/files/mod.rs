//! The file of one rank: where its values lie, how it is cut, and the first look at it.
//!
//! Reading order: `layout`, `records` (a file of which no layout is known), `recipe` and `unfiltered` (files without the filters of
//! HDF5), `pieces` (how a file is cut), `piece_hash`, `rank_file` (all that is known of one), `attributes`, `holes`, `scan`
//! (the first look); apart: `names` (their order) and `pattern` (which step and rank a name is of).

pub(crate) mod attributes;
pub(crate) mod holes;
pub mod layout;
pub(crate) mod names;
pub mod pattern;
pub(crate) mod piece_hash;
pub mod pieces;
pub mod rank_file;
pub(crate) mod recipe;
pub(crate) mod records;
pub(crate) mod scan;
pub(crate) mod unfiltered;
