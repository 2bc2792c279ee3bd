//! Checkpoints: the restart files of many ranks in few files, like variables with like, restored byte for byte.
//!
//! After mcrEngine (Islam et al., Scientific Programming 21, 2013). Reading order: [`layout`], `recipe` and `unfiltered`
//! (files without the filters of HDF5), [`pieces`] (how a file is cut), `similarity` (which pieces are alike), [`scheme`]
//! (how they are merged), `orders`, [`decide`], `far` and `lengths` (what suits a class), `merge` and `group` (one file of frames),
//! [`grouping`] (which ranks and processes), [`together`] and `part` (many processes), [`mod@pack`] (one), [`manifest`] and
//! [`set`] (what lies on disk), [`tree`] (links and directories), [`restore`](mod@restore); apart: [`pattern`] (names of files),
//! [`measured`] and [`interval`] (what checkpoints take, and how often they pay).
#![forbid(unsafe_code)]

mod attributes;
pub mod decide;
pub mod decision;
pub mod extract;
mod far;
mod frame_sizes;
mod group;
pub mod grouping;
mod holes;
mod input;
mod interleave;
pub mod interval;
pub mod layout;
mod lengths;
pub mod library;
pub mod manifest;
pub mod measured;
mod merge;
mod names;
mod new_set;
pub mod options;
mod orders;
pub mod pack;
mod packed;
mod parents;
mod part;
pub mod pattern;
mod piece_hash;
pub mod pieces;
pub mod rank_file;
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

pub use attributes::Attributes;
pub use extract::{Extracted, extract, holders};
pub use grouping::{Group, Grouping, Member, deal};
pub use input::Input;
pub use names::natural;
pub use options::PackOptions;
pub use pack::pack;
pub use packed::Packed;
pub use parents::make_parent;
pub use part::Part;
pub use restore::{Damage, Restored, refuse_existing_files, restore};
pub use scan::Finder;
pub use scheme::Scheme;
pub use set::Set;
pub use similarity::Similarity;
pub use together::Together;
pub use tree::Tree;
pub use verify::{Verified, verify};
