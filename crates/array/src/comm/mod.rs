//! Processes that do one thing together: what is needed of MPI, and no more.
//!
//! [`Comm`] is small so that any MPI can be behind it, a Python one too: it has messages from one rank to another. What all
//! do together is made of them here: bytes in `together.rs`, values in `values.rs`. That is *collective*: every rank calls
//! it, in the same order.

mod threads;
mod together;
mod values;

use crate::error::{Error, ErrorKind, Result};

pub use threads::Threads;
pub use together::{all_gather, barrier, broadcast, gather};
pub use values::{agree, collect, nodes, read, share, written};

/// The rank that collects what all have and publishes results.
pub const ROOT: usize = 0;

/// Ranks of one job and messages between them. Only the thread that owns it calls it, as MPI_THREAD_FUNNELED asks.
///
/// A message arrives once and whole. Those from one rank to another arrive in the order in which they were sent; between
/// those of different ranks there is no order. No rank sends to itself.
pub trait Comm {
    /// Number of this process, below [`Comm::size`].
    fn rank(&self) -> usize;

    /// Number of processes, at least 1.
    fn size(&self) -> usize;

    /// The lowest rank on the same node: ranks with equal ones share memory and local disks.
    fn node(&self) -> usize;

    /// Sends `bytes`, any number of them, to rank `to`. It may wait until that rank receives them, or not: ranks that
    /// send to each other before one of them receives may wait for ever.
    ///
    /// # Errors
    /// `Interrupted` if that rank is gone, `Internal` for what the library behind it reports: after these nothing else can
    /// be done together. `Usage` if there is no rank `to`, or it is this one.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()>;

    /// The next message of rank `from`, which it waits for.
    ///
    /// # Errors
    /// As for [`Comm::send`]; `Unsupported` if there is no memory for it, after which nothing else can be done together
    /// either.
    fn receive(&self, from: usize) -> Result<Vec<u8>>;
}

impl<C: Comm + ?Sized> Comm for Box<C> {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn node(&self) -> usize {
        (**self).node()
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        (**self).send(to, bytes)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        (**self).receive(from)
    }
}

/// One process alone, with nobody to send to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Solo;

impl Comm for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn node(&self) -> usize {
        0
    }

    fn send(&self, to: usize, _: &[u8]) -> Result<()> {
        check_peer(self, to)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        check_peer(self, from).map(|()| Vec::new())
    }
}

/// What implementations check of the rank that they send to or receive from.
///
/// # Errors
/// `Usage` if there is no such rank, or it is this one.
pub fn check_peer(comm: &dyn Comm, peer: usize) -> Result<()> {
    check_rank(comm, peer)?;
    match peer == comm.rank() {
        true => Err(Error::usage(format!("a message of rank {peer} to itself"))),
        false => Ok(()),
    }
}

fn check_rank(comm: &dyn Comm, rank: usize) -> Result<()> {
    match rank < comm.size() {
        true => Ok(()),
        false => Err(Error::usage(format!("there is no rank {rank}, only {} ranks", comm.size()))),
    }
}

/// The error for a rank that does not answer any more.
pub fn gone(rank: usize, size: usize) -> Error {
    Error::new(ErrorKind::Interrupted, format!("rank {rank} of {size} is gone"))
        .hint("its own message says why; nothing was published")
}
