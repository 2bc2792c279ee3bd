//! Checkpoints: the restart files of many ranks in few files, like variables with like, restored byte for byte.
//!
//! After mcrEngine (Islam et al., Scientific Programming 21, 2013). Reading order: `files` (the file of one rank: its layout,
//! its pieces), `classes` (variables that are alike, and what suits them), `disk` (what a set is), `packing` (one process or
//! many), `restoring`, [`levels`] (disks of nodes), [`library`] (what a program calls); apart: [`measured`] and [`interval`] (what checkpoints take, and how
//! often they pay).
#![forbid(unsafe_code)]

mod classes;
mod disk;
mod files;
pub mod interval;
pub mod levels;
pub mod library;
pub mod measured;
mod packing;
mod restoring;

pub use classes::{decide, decision, scheme, similarity};
pub use disk::{manifest, set, sets, tree};
pub use files::{layout, pattern, pieces, rank_file};
pub use packing::{grouping, options, pack, together};
pub use restoring::{extract, restore, verify};

pub use classes::scheme::Scheme;
pub use classes::similarity::Similarity;
pub use disk::parents::make_parent;
pub use disk::set::Set;
pub use disk::tree::Tree;
pub use files::attributes::Attributes;
pub use files::names::natural;
pub use files::scan::Finder;
pub use packing::grouping::{Group, Grouping, Member, deal};
pub use packing::input::Input;
pub use packing::options::PackOptions;
pub use packing::pack::pack;
pub use packing::packed::Packed;
pub use packing::part::Part;
pub use packing::together::Together;
pub use restoring::extract::{Extracted, extract, holders};
pub use restoring::restore::{Damage, Restored, refuse_existing_files, restore};
pub use restoring::verify::{Verified, verify};
