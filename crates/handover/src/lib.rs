//! Handing over: a program copies values into a spool and goes on computing; somebody else delivers them.
//!
//! Nothing here knows what becomes of the values: that is a route's [`Delivery`].
//!
//! Reading order: [`Spool`] (where values lie, with `folder`, `memory` and `available` beneath), [`Index`] (what they are), `calls` (what
//! all ranks do together), `blocked` (what calls cost the program), [`Handover`]. `puts` is for files that a program writes,
//! through a library of its own or, with `put_spool`, through one of Knarr's: values (`values_file`, within an `account`) with a
//! log (`log_file`, `records`) of each `put` instead of an index (with `adjoining`, which puts become one), which `gathered` reads (with `pattern`, what was put, `variable_puts` and
//! `boxes`, which puts meet a region, and `copying`, `moves`, `runs`, `source`, `window` and `seen`, which copy what they have of
//! it). `spill` is for values that memory has no room for, with `packed_parts`, the parts of them that are packed. `held` is where a rank's values are, and `far` what lies on other nodes: `asking` asks for it, `answering` answers, and
//! `packed` and `pace` are how values cross the network. `serving` lets a rank answer for itself. Other nodes encode chunks that they have (`elsewhere`, `places`,
//! `chunk_question`, `encoding`), and write them (`kept`). `ahead` encodes chunks while
//! the program has the file open, and finds them later; `ahead_chunks` keeps them.
#![forbid(unsafe_code)]

mod account;
mod adjoining;
mod ahead;
mod ahead_chunks;
mod answering;
mod asking;
mod available;
mod blocked;
mod bounds;
mod boxes;
mod calls;
mod chunk_question;
mod copying;
mod elsewhere;
mod encoding;
mod far;
mod folder;
mod gathered;
mod handover;
mod held;
mod index;
mod kept;
mod log_file;
mod memory;
mod moves;
mod pace;
mod packed;
mod packed_parts;
mod pattern;
mod places;
mod put;
mod put_spool;
mod puts;
mod records;
mod runs;
mod seen;
mod serving;
mod source;
mod spill;
mod spool;
mod values_file;
mod variable_puts;
mod window;
mod within;

pub use account::{Account, Limit};
pub use ahead_chunks::AheadChunks;
pub use answering::answer;
pub use available::available_memory;
pub use blocked::{Blocked, Inside};
pub use bounds::{Bounded, Bounds};
pub use chunk_question::ChunkQuestion;
pub use encoding::Encoding;
pub use far::{Far, Question, Runs, next_number};
pub use folder::Spooled;
pub use gathered::Gathered;
pub use handover::{Delivery, Handover};
pub use held::Held;
pub use index::{Entry, Index, check_alike, open};
pub use kept::KeptChunks;
pub use memory::{Memory, OpenMemory, write_calls};
pub use moves::Beneath;
pub use pace::Pace;
pub use pattern::Pattern;
pub use put::{Part, Put};
pub use put_spool::PutSpool;
pub use puts::{PutLog, Room};
pub use records::{Puts, parse_puts, read_puts};
pub use serving::{Place, Serving};
pub use spool::Spool;
pub use within::{Crossed, Within};
