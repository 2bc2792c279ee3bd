//! Sessions: files that go from one component to another.
//!
//! Reading order: [`publishing`] (the side that writes), [`awaiting`] (which session comes next), [`opening`] (on all ranks),
//! [`incoming`] (its values), [`opened`] (what a process has opened), [`as_file`] (sessions that become files on the disk).

mod as_file;
mod awaiting;
mod incoming;
mod opened;
mod opening;
mod publishing;

pub use as_file::{Await, as_file, closed_in, leaves, removed, renamed_to};
pub use incoming::{Begun, Incoming, Offered, Seen, Unread, count_transfers, shown};
pub use opened::opened;
pub use opening::{Arrived, arrive, header_of};
pub use publishing::{await_transfer, publish, publish_closed};
