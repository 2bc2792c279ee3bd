//! From the files of ranks to a set.
//!
//! Reading order: `options`, `input`, `grouping` (which ranks and processes), `repeats` (what was stored already), `group` (one
//! file of frames), `new_set`, `part` and `together` (many processes), `pack` and `packed` (one).

pub(crate) mod group;
pub mod grouping;
pub(crate) mod input;
pub(crate) mod new_set;
pub mod options;
pub mod pack;
pub(crate) mod packed;
pub(crate) mod part;
pub(crate) mod repeats;
pub mod together;
