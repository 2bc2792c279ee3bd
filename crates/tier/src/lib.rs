//! Tiers: places where bytes wait on their way from a program to a file. Each has a capacity, a speed and a reach.
//!
//! A tier can run full, and several processes of a node write to it at the same time. So each takes bytes and files from one
//! [`Account`] before it writes, and a tier that is full is an answer and no signal.
//!
//! Reading order: [`Account`] (what is taken; `counters`, which all processes of a node have in one `page`), [`Tier`] and
//! [`TierFile`] (what a tier does), [`Room`] (for files that are not written through the tier), then the tiers: [`SharedMemory`]
//! (written through a `mapping`), [`Directory`], and [`Throttled`], which makes another one slower. `space` asks the system what is
//! left, `measure` tries how fast a directory is; `copy` moves files between tiers.

mod account;
mod copy;
mod counters;
mod directory;
mod mapping;
mod measure;
mod memory;
mod page;
mod room;
mod space;
mod throttled;
mod tier;

pub use account::{Account, NodeAccount};
pub use copy::{copy_file, sync_directory};
pub use counters::Space;
pub use directory::Directory;
pub use measure::{Measured, measure};
pub use memory::SharedMemory;
pub use room::Room;
pub use space::{available_memory, is_in_memory, left_in};
pub use throttled::{Bucket, Throttled};
pub use tier::{Purpose, Reach, Tier, TierFile};
