//! Where the programs of several runs meet, to transfer files to each other: a directory with one for each component.
//!
//! ```text
//! RENDEZVOUS/scale/running.1                      locked by launcher 1 of component 'scale' as long as it lives
//! RENDEZVOUS/scale/ended.1                        its program has ended there
//! RENDEZVOUS/scale/address.1                      how other nodes reach it
//! RENDEZVOUS/scale/node.7                         there is a launcher of the node with this number
//! RENDEZVOUS/scale/door                           locked by launchers that come and go; not empty when one was killed
//! RENDEZVOUS/scale/files/data/hist.nc/2           link to the directory in the spool with session 2 of /data/hist.nc
//! RENDEZVOUS/letkf/files/data/hist.nc/taken.json  the last session that 'letkf' has taken
//! RENDEZVOUS/letkf/files/data/hist.nc/open        locked by processes that have a session open, each for itself
//! ```
//!
//! A component has a launcher on each node of its program; all of a run are one component. What is asked of this directory again
//! and again takes as many questions to the file system whatever the number of launchers.
//!
//! A *session* is what a program does with a file from creating it to closing it. It is offered when the definitions have
//! ended for the first time.
//!
//! Reading order: [`Component`] and [`Presence`], [`Offers`], [`Taken`], [`Watch`]; [`Address`] and [`Writer`] for several
//! nodes.

mod address;
mod component;
mod image;
mod names;
mod offers;
mod taking;
mod watch;

pub use address::Address;
pub use component::{Component, Launcher, Presence};
pub use image::{Gone, Writer, gone_of, image_of, sessions_of_images};
pub use offers::Offers;
pub use taking::{Taken, Taking};
pub use watch::Watch;
