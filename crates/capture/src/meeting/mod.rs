//! Where the programs of several runs meet, to transfer files to each other: a directory with one for each component.
//!
//! ```text
//! RENDEZVOUS/scale/running.1                        locked by launcher 1 of component 'scale' as long as it lives
//! RENDEZVOUS/scale/ended.1                          its program has ended there
//! RENDEZVOUS/scale/address.1                        how other nodes reach it
//! RENDEZVOUS/scale/node.7                           there is a launcher of the node with this number
//! RENDEZVOUS/scale/door                             locked by launchers that come and go; not empty when one was killed
//! RENDEZVOUS/scale/files/data/hist.nc/newest.json   number of the newest session of /data/hist.nc
//! RENDEZVOUS/letkf/taken/data/hist.nc/taken.json    what 'letkf' has taken, if it is on several nodes
//! RENDEZVOUS/letkf/taken/data/hist.nc/wanted.json   the last session of which it wants a file
//! RENDEZVOUS/letkf/taken/data/hist.nc/alone         locked for the moment in which one begins, ends, notes or looks
//! RENDEZVOUS/letkf/taken/data/hist.nc/wanting       locked by the program that asks for a file
//! RENDEZVOUS/letkf/taken/data/hist.nc/open T 3      locked by those that have session 3 open, of the spool with token T
//! ```
//!
//! A component has a launcher on each node of its program; all of a run are one component. What is asked of this directory again
//! and again takes as many questions to the file system whatever the number of launchers.
//!
//! A *session* is what a program does with a file from creating it to closing it. Its values, and what is said of it, lie in
//! spools. Launchers learn of those of other components from their launchers, and show them to their own programs in an image
//! ([`ComponentStatus`], [`PublishedSessions`]), so programs wait where nobody else is.
//!
//! Reading order: [`Component`], [`Listed`] and [`Presence`], [`Address`]; [`ComponentStatus`], [`PublishedSessions`], [`SessionsRead`], [`Watch`] for programs.

mod address;
mod component;
mod component_status;
mod images;
mod locks;
mod names;
mod published_sessions;
mod sessions_read;
mod watch;

pub use address::Address;
pub use component::{Component, Launcher, Listed, Presence};
pub use component_status::{ComponentStatus, Gone};
pub use images::{image_of, sessions_of_images};
pub use locks::has_local_locks;
pub use published_sessions::{Made, PublishedSessions, begin_session};
pub use sessions_read::{SessionLock, SessionsRead, Wanting};
pub use watch::Watch;
