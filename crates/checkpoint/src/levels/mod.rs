//! Checkpoints through levels, as in SCR and VELOC: a step is complete in memory or on disks of the nodes first. Another node keeps a copy of
//! each file, or groups of nodes keep parity, so that no step is lost with a node. Some steps are brought to the directory of sets meanwhile, where all nodes see
//! them.
//!
//! A node has a *part* of a set: its manifest, and the files of frames that the node's own processes have written. So a step is
//! brought to the directory of sets by copying files, of which nothing is packed again.
//!
//! Reading order: `options`, `schedule` (when: without files and clock), `node_sets` (what lies on a node), `copying` (one file of
//! frames), `nodes` (files on other nodes), `protect` (copies and [`parity`] on other nodes), `flush` (to the directory of sets),
//! `storing` (from memory to a disk of the node), `scattered` (a step that is read on the nodes), `level` (one of those on the nodes), `all`, `memory` and `restarting` (what the ranks do together), `scavenge` (without the program).

mod all;
mod copying;
mod flush;
mod level;
mod memory;
mod node_sets;
mod nodes;
mod options;
mod parity;
mod protect;
mod restarting;
mod scattered;
mod scavenge;
mod schedule;
mod storing;

pub(crate) use all::Levels;
pub(crate) use node_sets::At;
pub use options::{LevelOptions, Protection};
pub use scavenge::{Scavenged, scavenge};
pub use schedule::Every;
