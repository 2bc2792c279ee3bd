//! Checkpoints: the restart files of many ranks in few files, like variables with like, restored byte for byte.
//!
//! After mcrEngine (Islam et al., Scientific Programming 21, 2013). Reading order: [`layout`], `recipe` and `unfiltered`
//! (files without the filters of HDF5), [`pieces`] (how a file is cut), `similarity` (which pieces are alike), [`scheme`]
//! (how they are merged), `orders`, [`decide`], `far` and `lengths` (what suits a class), `merge` and `group` (one file of frames),
//! [`grouping`] (which ranks and processes), [`together`] and `part` (many processes), [`mod@pack`] (one), [`manifest`] and
//! [`set`] (what lies on disk), [`tree`] (links and directories), [`restore`](mod@restore); apart: [`pattern`] (names of files),
//! [`measured`] and [`interval`] (what checkpoints take, and how often they pay).

pub mod decide;
pub mod extract;
mod far;
mod group;
pub mod grouping;
mod holes;
mod interleave;
pub mod interval;
pub mod layout;
mod lengths;
pub mod library;
pub mod manifest;
pub mod measured;
mod merge;
mod names;
mod npy;
mod orders;
pub mod pack;
mod part;
pub mod pattern;
pub mod pieces;
mod recipe;
mod records;
mod repeats;
pub mod restore;
mod scan;
pub mod scheme;
pub mod set;
pub mod sets;
pub mod similarity;
mod tables;
pub mod together;
pub mod tree;
mod unfiltered;
pub mod verify;

pub use extract::{Extracted, extract, holders};
pub use grouping::{Group, Grouping, Member, deal};
pub use names::natural;
pub use pack::{Input, PackOptions, Packed, pack};
pub use part::Part;
pub use restore::{Damage, Restored, refuse_existing_files, restore};
pub use scan::Finder;
pub use scheme::Scheme;
pub use set::Set;
pub use similarity::Similarity;
pub use together::Together;
pub use tree::{Attributes, Tree};
pub use verify::{Verified, verify};
