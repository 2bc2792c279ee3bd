//! Handing over: a program copies values into a spool and goes on computing; somebody else delivers them.
//!
//! Nothing here knows what becomes of the values: that is a route's [`Delivery`].
//!
//! Reading order: [`Spool`] (where values lie, with `folder` beneath), [`Index`] (what they are), `calls`
//! (what all ranks do together), `blocked` (what calls cost the program), [`Background`] (work that goes on meanwhile), [`Resources`]
//! (what a session may take), [`Handover`].
//! The folders are for files that a program writes, through a library of its own or through one of Knarr's:
//!
//! - `log`: what one rank puts. `puts` writes values into tiers, and a log (`log_file`, `records`) of each
//!   `put`; puts that adjoin become one (`adjoining`). Values that memory has no room for go to a disk (`spill`), some of them
//!   packed (`packed_parts`). `put_spool` is all that for Knarr's own library.
//! - `gather`: what all ranks have put, read back. `assembled_puts` finds the puts that meet a region (`pattern`, `variable_puts`, `boxes`)
//!   and copies what they have of it (`copying`, `moves`, `runs`, `source`, `window`, `seen`); `rank_values` is where a rank's values are.
//!   `replay` has the puts of one rank in their order.
//! - `remote`: what lies on other nodes. `remote_values` has the questions, `asking` asks, `answering` answers, `serving` lets a rank
//!   answer for itself; `packed`, `wire_codec`, `transfer_bound` and `bounds` are how values cross the network.
//! - `encode`: chunks that other nodes encode because they have the values (`remote_encoder`, `node_list`, `chunk_question`, `encoding`) and
//!   write (`pending_chunks`), or that are encoded while the program has the file open (`ahead`, `ahead_chunks`).
#![forbid(unsafe_code)]

mod background;
mod blocked;
mod calls;
mod encode;
mod folder;
mod gather;
mod handover;
mod index;
mod log;
mod remote;
mod resources;
mod spool;

pub use background::{Background, Delivery};
pub use blocked::{Blocked, Inside};
pub use encode::ahead_chunks::{AheadChunks, CHUNKS};
pub use encode::chunk_question::ChunkQuestion;
pub use encode::encoding::Encoding;
pub use encode::pending_chunks::PendingChunks;
pub use folder::Folder;
pub use gather::assembled_puts::AssembledPuts;
pub use gather::moves::Beneath;
pub use gather::pattern::Pattern;
pub use gather::rank_values::RankValues;
pub use gather::replay::replay;
pub use handover::Handover;
pub use index::{Entry, Index, check_alike, open};
pub use log::put::{Part, Put};
pub use log::put_spool::PutSpool;
pub use log::puts::{PutLog, Room};
pub use log::records::{Puts, parse_puts, read_puts};
pub use remote::answering::answer;
pub use remote::bounds::{Bounded, Bounds};
pub use remote::remote_values::{Question, RemoteRank, Runs, next_number};
pub use remote::serving::{RankLocation, Serving};
pub use remote::transfer_bound::{Crossed, TransferBound};
pub use remote::wire_codec::WireCodecTuner;
pub use resources::{Resources, count, yes};
pub use spool::{ArrayFile, Spool};
