//! Handing over: a program copies values into a spool and goes on computing; somebody else delivers them.
//!
//! Nothing here knows what becomes of the values: that is a route's [`Delivery`].
//!
//! Reading order: [`Spool`] (where values lie, with `memory` beneath), [`Index`] (what they are), `calls` (what all ranks do
//! together), `blocked` (what calls cost the program), [`Handover`].
#![forbid(unsafe_code)]

mod blocked;
mod calls;
mod handover;
mod index;
mod memory;
mod spool;

pub use blocked::{Blocked, Inside};
pub use handover::{Delivery, Handover};
#[cfg(feature = "testing")]
pub use index::testing;
pub use index::{Entry, Index, check_alike, open};
pub use memory::{Memory, OpenMemory, write_calls};
pub use spool::Spool;
