//! Checkpoints that a program makes of its arrays, and restarts from.
//!
//! Reading order: [`image`] (the array file of a rank), [`spool`] (where it lies until it is packed),
//! [`restart`], [`busy`] (what calls take), [`session`] (what a program calls, on all its ranks).

mod busy;
mod image;
mod options;

mod restart;
mod session;
mod spool;

#[cfg(feature = "testing")]
pub use image::testing;
pub use image::{FORMAT, Share, find, layout};
pub use options::Options;

pub use restart::{Described, Restart};
pub use session::{Committed, Session};
pub use spool::{Memory, OpenMemory, write_calls};
