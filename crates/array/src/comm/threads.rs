//! Ranks that are threads of one process: what many processes do together, tried without any MPI.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{Comm, check_peer, gone};
use crate::error::{Error, Result};

/// One rank of several in a process. When it is dropped, also by a panic, or once it waited in vain for a rank that is gone,
/// what the others wait for from it fails.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    nodes: Arc<[usize]>,
    /// To and from each rank, also an unused one to itself; or the rank that is gone.
    links: RefCell<Result<Vec<Link>, usize>>,
}

/// Messages to a rank and from it.
#[derive(Debug)]
struct Link {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
}

impl Threads {
    /// So many ranks on one node, in their order.
    pub fn new(size: usize) -> Vec<Self> {
        Self::on_nodes(&vec![0; size])
    }

    /// One rank for each entry, which is the lowest rank on its node.
    pub fn on_nodes(nodes: &[usize]) -> Vec<Self> {
        let shared: Arc<[usize]> = nodes.into();
        // By the rank that receives: what others send with, and what it receives with, in the order of senders.
        let (mut senders, receivers): (Vec<_>, Vec<Vec<_>>) = nodes
            .iter()
            .map(|_| nodes.iter().map(|_| channel()).unzip::<_, _, Vec<_>, Vec<_>>())
            .map(|(to, from)| (to.into_iter(), from))
            .unzip();
        let of = |(rank, from): (usize, Vec<Receiver<_>>)| {
            let to = senders.iter_mut().filter_map(Iterator::next);
            let links = to.zip(from).map(|(to, from)| Link { to, from }).collect();
            Self { rank, nodes: Arc::clone(&shared), links: RefCell::new(Ok(links)) }
        };
        receivers.into_iter().enumerate().map(of).collect()
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

    /// Uses the link with `peer`. If that rank is gone all links end, so that nobody waits for this rank either.
    fn with<T>(&self, peer: usize, message: impl FnOnce(&Link) -> Option<T>) -> Result<T> {
        check_peer(self, peer)?;
        let lost = match &*self.links.borrow() {
            Ok(links) => match links.get(peer).and_then(message) {
                Some(done) => return Ok(done),
                None => peer,
            },
            Err(lost) => *lost,
        };
        *self.links.borrow_mut() = Err(lost);
        Err(gone(lost, self.size()))
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

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.with(to, |link| link.to.send(bytes.to_vec()).ok())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.with(from, |link| link.from.recv().ok())
    }
}
