//! Restart files become sets while the program that writes them runs: `knarr checkpoint watch`, and the route
//! `checkpoint` of `knarr run`.
//!
//! [`Watching`] is the loop, and a [`Host`] is who has it run. [`Packing`] makes sets of complete steps.
//! [`Directory`] lists what is there; [`Steps`], which touches no file, decides what the listing means; [`Writers`]
//! finds out what became of the processes that wrote.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod host;
mod look;
mod pack_set;
mod packing;
pub mod ranks;
mod steps;
mod stop;
mod times;
mod watching;
mod writers;

pub use host::{End, Host, Made, Verdict};
pub use look::{Directory, are_written, readable};
pub use pack_set::{PackSet, PackedSet};
pub use packing::Packing;
pub use steps::{Complete, Finished, Rules, Steps};
pub use stop::Stop;
pub use watching::{Watching, take};
pub use writers::Writers;
