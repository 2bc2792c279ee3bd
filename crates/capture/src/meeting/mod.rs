//! Where the programs of several runs meet, to transfer files to each other: a directory with one for each component.
//!
//! ```text
//! RENDEZVOUS/scale/running                  locked by the launcher of component 'scale' as long as it lives
//! RENDEZVOUS/scale/ended                    its program has ended
//! RENDEZVOUS/scale/files/data/hist.nc/2     link to the directory in the spool with session 2 of /data/hist.nc
//! ```
//!
//! A *session* is what a program does with a file from creating it to closing it. It is offered when the definitions have
//! ended for the first time.
//!
//! Reading order: [`Component`] and [`Presence`], [`Offers`], [`Watch`].

mod component;
mod offers;
mod watch;

pub use component::{Component, Presence};
pub use offers::Offers;
pub use watch::Watch;
