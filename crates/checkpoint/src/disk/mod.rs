//! Sets on disk.
//!
//! Reading order: `manifest` and `tables` (what a set says of itself), `tree` and `parents` (links and directories), `set`,
//! `parts` (of a set, on disks of nodes), `sets` (those of a directory).

pub mod manifest;
pub(crate) mod parents;
pub(crate) mod parts;
pub mod set;
pub mod sets;
pub(crate) mod tables;
pub mod tree;
