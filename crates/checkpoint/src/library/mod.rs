//! Checkpoints that a program makes of its arrays, and restarts from.
//!
//! Reading order: [`array_layout`] (where values lie in what was handed over), `packing` (what becomes of it), [`restart`],
//! [`session`] (what a program calls, on all its ranks).

mod array_layout;
mod finding;
mod need;
mod options;
mod packing;
mod restart;
mod session;

pub use array_layout::{FORMAT, find, layout, layout_of};
pub use options::Options;
pub use restart::{Described, Restart};
pub use session::{Committed, Session};
