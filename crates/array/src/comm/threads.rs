//! Ranks that are threads of one process: what many processes do together, tried without any MPI.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{Comm, check_root, gone};
use crate::error::{Error, Result};

/// One rank of several in a process. When it is dropped, also by a panic, what the others wait for from it fails.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    nodes: Arc<[usize]>,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl Threads {
    /// So many ranks on one node, in their order.
    pub fn new(size: usize) -> Vec<Self> {
        Self::on_nodes(&vec![0; size])
    }

    /// One rank for each entry, which is the lowest rank on its node.
    pub fn on_nodes(nodes: &[usize]) -> Vec<Self> {
        let shared: Arc<[usize]> = nodes.into();
        let mut ranks: Vec<Self> = (0..nodes.len())
            .map(|rank| Self { rank, nodes: Arc::clone(&shared), to: Vec::new(), from: Vec::new() })
            .collect();
        for _ in nodes {
            // The next rank to send: one channel to each of the others, and one to itself that stays empty.
            let (to, from): (Vec<_>, Vec<_>) = nodes.iter().map(|_| channel()).unzip();
            if let Some(sender) = ranks.iter_mut().find(|rank| rank.to.is_empty()) {
                sender.to = to;
            }
            ranks.iter_mut().zip(from).for_each(|(rank, from)| rank.from.push(from));
        }
        ranks
    }

    /// Calls `work` on a thread for each of `ranks` and returns what they return, in the order given. A panic of one is
    /// its error.
    pub fn run<T: Send>(ranks: Vec<Self>, work: impl Fn(Self) -> Result<T> + Sync) -> Vec<Result<T>> {
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = ranks.into_iter().map(|comm| (comm.rank, scope.spawn(move || work(comm)))).collect();
            let panicked = |rank: usize| Error::internal(format!("rank {rank} panicked"));
            threads.into_iter().map(|(rank, thread)| thread.join().unwrap_or_else(|_| Err(panicked(rank)))).collect()
        })
    }

    fn send(&self, to: usize, bytes: Vec<u8>) -> Result<()> {
        let sent = self.to.get(to).is_some_and(|channel| channel.send(bytes).is_ok());
        if sent { Ok(()) } else { Err(gone(to, self.size())) }
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.from.get(from).and_then(|channel| channel.recv().ok()).ok_or_else(|| gone(from, self.size()))
    }
}

impl Comm for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self) -> usize {
        self.nodes.get(self.rank).copied().unwrap_or(0)
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check_root(self, root)?;
        if self.rank != root {
            return self.send(root, bytes.to_vec()).map(|()| None);
        }
        let of = |rank| if rank == root { Ok(bytes.to_vec()) } else { self.receive(rank) };
        (0..self.size()).map(of).collect::<Result<_>>().map(Some)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        check_root(self, root)?;
        if self.rank != root {
            return self.receive(root);
        }
        (0..self.size()).filter(|&rank| rank != root).try_for_each(|rank| self.send(rank, bytes.clone()))?;
        Ok(bytes)
    }
}
