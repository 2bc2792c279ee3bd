//! Handing over: a program copies values into a spool and goes on computing; somebody else delivers them.
//!
//! Nothing here knows what becomes of the values: that is a route's [`Delivery`].
//!
//! Reading order: [`Spool`] (where values lie, with `folder`, `memory` and `available` beneath), [`Index`] (what they are), `calls`
//! (what all ranks do together), `blocked` (what calls cost the program), [`Handover`]. The folders are for files that a program
//! writes, through a library of its own or through one of Knarr's:
//!
//! - `log`: what one rank puts. `puts` writes values (`values_file`, within an `account`) and a log (`log_file`, `records`) of each
//!   `put`; puts that adjoin become one (`adjoining`). Values that memory has no room for go to a disk (`spill`), some of them
//!   packed (`packed_parts`). `put_spool` is all that for Knarr's own library.
//! - `gather`: what all ranks have put, read back. `gathered` finds the puts that meet a region (`pattern`, `variable_puts`, `boxes`)
//!   and copies what they have of it (`copying`, `moves`, `runs`, `source`, `window`, `seen`); `held` is where a rank's values are.
//! - `remote`: what lies on other nodes. `far` has the questions, `asking` asks, `answering` answers, `serving` lets a rank
//!   answer for itself; `packed`, `pace`, `within` and `bounds` are how values cross the network.
//! - `encode`: chunks that other nodes encode because they have the values (`elsewhere`, `places`, `chunk_question`, `encoding`) and
//!   write (`kept`), or that are encoded while the program has the file open (`ahead`, `ahead_chunks`).
#![forbid(unsafe_code)]

mod available;
mod blocked;
mod calls;
mod encode;
mod folder;
mod gather;
mod handover;
mod index;
mod log;
mod memory;
mod remote;
mod spool;

pub use available::available_memory;
pub use blocked::{Blocked, Inside};
pub use encode::ahead_chunks::AheadChunks;
pub use encode::chunk_question::ChunkQuestion;
pub use encode::encoding::Encoding;
pub use encode::kept::KeptChunks;
pub use folder::Spooled;
pub use gather::gathered::Gathered;
pub use gather::held::Held;
pub use gather::moves::Beneath;
pub use gather::pattern::Pattern;
pub use handover::{Delivery, Handover};
pub use index::{Entry, Index, check_alike, open};
pub use log::account::{Account, Limit};
pub use log::put::{Part, Put};
pub use log::put_spool::PutSpool;
pub use log::puts::{PutLog, Room};
pub use log::records::{Puts, parse_puts, read_puts};
pub use memory::{Memory, OpenMemory, write_calls};
pub use remote::answering::answer;
pub use remote::bounds::{Bounded, Bounds};
pub use remote::far::{Far, Question, Runs, next_number};
pub use remote::pace::Pace;
pub use remote::serving::{Place, Serving};
pub use remote::within::{Crossed, Within};
pub use spool::Spool;
