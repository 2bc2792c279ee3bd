//! Sessions: files that go from one component to another.
//!
//! Reading order: [`publishing`] (the side that writes), [`awaiting`] (which session comes next), [`opening`] (on all ranks),
//! [`read_session`] (its values), [`opened`] (what a process has opened), [`as_file`] (sessions that become files on the disk).

mod as_file;
mod awaiting;
mod opened;
mod opening;
mod publishing;
mod read_session;

pub use as_file::{Await, as_file, closed_in, leaves, removed, renamed_to};
pub use opened::opened;
pub use opening::{SessionOrFile, header_of, is_hdf5, open_session};
pub use read_session::{OpenSession, ReadSession, Seen, SessionStart, Unread, count_transfers, region_text};
