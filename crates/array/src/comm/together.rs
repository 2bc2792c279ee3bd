//! What all ranks do together, made of messages between two of them. In as many steps as the number of ranks has binary
//! digits: rank 0 of a thousand sends and receives ten messages, not a thousand.
//!
//! A rank that fails on the way sends nothing more, so who waits for it fails, too, once it is gone.

use super::{Comm, ROOT, check_rank};
use crate::bytes::wire::{Reader, put_bytes};
use crate::error::{Error, Result};

/// Brings the bytes of all ranks to `root`, in the order of ranks; the others get `None`. Lengths may differ.
///
/// # Errors
/// As for [`Comm::receive`]; `Usage` if there is no rank `root`; `Corrupt` for messages of another version of Knarr.
pub fn gather(comm: &dyn Comm, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    joined(comm, root, bytes)?.map(|joined| split(comm, root, &joined)).transpose()
}

/// Brings `bytes` of `root` to all ranks; those of the others do not matter.
///
/// # Errors
/// As for [`Comm::receive`]; `Usage` if there is no rank `root`.
pub fn broadcast(comm: &dyn Comm, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let tree = Tree::new(comm, root)?;
    let bytes = match tree.parent() {
        None => bytes,
        Some(parent) => comm.receive(parent)?,
    };
    // The far ones first: they have most ranks below them.
    tree.children().rev().try_for_each(|child| comm.send(child, &bytes))?;
    Ok(bytes)
}

/// Brings the bytes of all ranks to all ranks, in the order of ranks.
///
/// # Errors
/// As for [`gather`].
pub fn all_gather(comm: &dyn Comm, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let joined = joined(comm, ROOT, bytes)?.unwrap_or_default();
    split(comm, ROOT, &broadcast(comm, ROOT, joined)?)
}

/// Returns when all ranks have called it.
///
/// # Errors
/// As for [`Comm::receive`].
pub fn barrier(comm: &dyn Comm) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    // After each step a rank knows of twice as many of those before it that they are here.
    for step in (0..usize::BITS).map(|bit| 1usize << bit).take_while(|&step| step < size) {
        let (next, before) = ((rank + step) % size, (rank + size - step) % size);
        // Sending may wait. Whoever sends round a circle of ranks, this bit is set in some of them and in others it is not.
        if rank & step == 0 {
            comm.send(next, &[])?;
            comm.receive(before)?;
        } else {
            comm.receive(before)?;
            comm.send(next, &[])?;
        }
    }
    Ok(())
}

/// A binomial tree of all ranks. Places in it are ranks counted from the root on. The parent of a place is the one without
/// its lowest bit, so below a place are those that follow it, as many as that bit says.
struct Tree {
    place: usize,
    root: usize,
    size: usize,
}

impl Tree {
    fn new(comm: &dyn Comm, root: usize) -> Result<Self> {
        check_rank(comm, root)?;
        let size = comm.size();
        Ok(Self { place: (comm.rank() + size - root) % size, root, size })
    }

    fn parent(&self) -> Option<usize> {
        (self.place > 0).then(|| self.rank_at(self.place & (self.place - 1)))
    }

    /// In the order of places.
    fn children(&self) -> impl DoubleEndedIterator<Item = usize> {
        let behind = self.size - self.place - 1;
        let bits = self.place.trailing_zeros().min(usize::BITS - behind.leading_zeros());
        (0..bits).map(|bit| self.rank_at(self.place + (1 << bit)))
    }

    fn rank_at(&self, place: usize) -> usize {
        (self.root + place) % self.size
    }
}

/// Brings the bytes of all ranks to `root`, each after its length, in the order of places; the others get `None`.
fn joined(comm: &dyn Comm, root: usize, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let tree = Tree::new(comm, root)?;
    let mut joined = Vec::new();
    put_bytes(&mut joined, bytes);
    for child in tree.children() {
        joined.append(&mut comm.receive(child)?);
    }
    match tree.parent() {
        None => Ok(Some(joined)),
        Some(parent) => comm.send(parent, &joined).map(|()| None),
    }
}

/// What [`joined`] made, in the order of ranks.
fn split(comm: &dyn Comm, root: usize, joined: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader::new("message", joined);
    let parts = (0..comm.size()).map(|_| Ok(reader.bytes()?.to_vec()));
    let mut parts = parts.collect::<Result<Vec<_>>>().map_err(other_version)?;
    if reader.left() > 0 {
        return Err(other_version(reader.impossible("length")));
    }
    parts.rotate_right(root);
    Ok(parts)
}

fn other_version(error: Error) -> Error {
    error.hint("run the same version of Knarr on all ranks")
}
