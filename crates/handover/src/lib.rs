//! Handing over: a program copies values into a spool and goes on computing; somebody else delivers them.
//!
//! Nothing here knows what becomes of the values: that is a route's [`Delivery`].
//!
//! Reading order: [`Spool`] (where values lie, with `memory` beneath), [`Index`] (what they are), `calls` (what all ranks do
//! together), `blocked` (what calls cost the program), [`Handover`]. `puts` is for files that a program writes through a
//! library of its own: values with a log of each `put` instead of an index (with `adjoining`, which puts become one), which
//! `gathered` reads (with `pattern`, what was put, `variable_puts` and `boxes`, which puts meet a region, and `copying`,
//! `moves`, `window` and `seen`, which copy what they have of it).
#![forbid(unsafe_code)]

mod adjoining;
mod blocked;
mod boxes;
mod calls;
mod copying;
mod gathered;
mod handover;
mod index;
mod memory;
mod moves;
mod pattern;
mod put;
mod puts;
mod seen;
mod spool;
mod variable_puts;
mod window;

pub use blocked::{Blocked, Inside};
pub use gathered::Gathered;
pub use handover::{Delivery, Handover};
#[cfg(feature = "testing")]
pub use index::testing;
pub use index::{Entry, Index, check_alike, open};
pub use memory::{Memory, OpenMemory, write_calls};
pub use moves::Beneath;
pub use pattern::Pattern;
pub use put::Put;
#[cfg(feature = "testing")]
pub use puts::testing as puts_testing;
pub use puts::{PutLog, Puts, Room, parse_puts, read_puts};
pub use spool::Spool;
