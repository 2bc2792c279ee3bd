//! Capture of a program's files: what the launcher of `knarr run` and the library inside the program tell each other.
//!
//! The launcher makes a directory for each run and names it in [`RUN_DIRECTORY`]. There lie a [`Snapshot`] of what was
//! asked for, a datagram socket that takes [`Message`]s, and the gate: a file that the program holds locked, shared,
//! while it opens a file for writing, and the launcher, exclusively, while it puts a packed file in its place.
//!
//! [`program`] is what a process of the program does with all this. [`processes`] finds out who has a file open.
#![forbid(unsafe_code)]

mod document;
mod handed_over;
pub mod meeting;
mod message;
mod packed;
mod parts;
mod pending;
pub mod processes;
pub mod program;
mod request;
mod settled;
mod snapshot;
mod tiers;
mod transcoded;

pub use handed_over::{Datasets, HandedOver, Image, Point, Published, Reading};
pub use message::{Event, Message, Took, Writers};
pub use packed::{is_packed, mark_packed, marks_of, unmark_packed};
pub use parts::NodePart;
pub use pending::{key_of, place_of};
pub use request::Request;
pub use settled::settled;
pub use snapshot::{Part, Snapshot};
pub use tiers::{
    BUCKET, SpoolInTier, SpoolPlace, TierIn, TierPlace, accounts_of, disk_of, memory_of, note_written_in, places_of,
    tier_holding, tier_of, tier_of_spool, written_in,
};
pub use transcoded::{Form, Transcoded};

/// Environment variable with the directory of the run. Without it the library does nothing.
pub const RUN_DIRECTORY: &str = "KNARR_RUN";
/// Environment variable with the name of the node, where it is not that of the machine: for tests, and for containers that
/// share a host name.
pub const NODE: &str = "KNARR_NODE";
/// The library inside the program, as it is called in every installation.
pub const PRELOAD: &str = "libknarr_preload.so";
/// The [`Snapshot`], as JSON.
pub const SNAPSHOT: &str = "snapshot.json";
/// The launcher's socket.
pub const SOCKET: &str = "launcher.sock";
/// The file in the spool that the launcher holds locked as long as it lives.
pub const ALIVE: &str = "launcher";
/// The page of names that are pending, in the directory of the run.
pub const NAMES: &str = "names";
/// The file in the spool by which all processes of the node count the memory that values take.
pub const ACCOUNT: &str = "account";
/// The file in the spool that lists the tiers below memory.
pub const TIERS: &str = "tiers.json";
/// The file in the spool that says that the program has ended.
pub const ENDED: &str = "ended";
/// The file whose lock keeps opening and publishing apart.
pub const GATE: &str = "gate";
