//! Other ways than TCP for the bytes of a connection.
//!
//! Every connection begins with TCP, over which both sides prove who they are. Then they agree on a carrier that both have
//! (`connection`), and exchange addresses of it. TCP stays open beside it.

mod contract;
mod ucx;

pub use contract::{Carrier, End, Stream};

/// Those that there are; the first one that both sides use is taken.
pub const CARRIERS: &[&dyn Carrier] = &[&ucx::Ucx];
