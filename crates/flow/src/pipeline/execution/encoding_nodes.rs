//! Where each chunk is encoded: on this node, now or earlier, or on another node that has all of its values. The bytes are the
//! same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::offload::ahead::Ahead;
use crate::offload::remote_encoder::{ChunkToEncode, PendingChunk, Proven, RemoteEncoder};
use crate::pipeline::execution::encode::{Buffers, ChunkEncoder, ChunkOutcome, Limits};
use crate::threads::thread_limit::{LOOK_EVERY, ThreadLimit};
use knarr_array::error::{Error, Result};

/// Threads that wait for other nodes, at most of all together, and at least of one unless that is more.
const WAITING: (usize, usize) = (1024, 8);
/// One of so many chunks that come encoded is decoded here. Whoever has encoded a chunk has proven it: this finds nodes on
/// which something is wrong as a whole.
const LOOKED_AT: u64 = 16;

/// The nodes at which the values of a source lie.
pub(in crate::pipeline) struct EncodingNodes<'a> {
    /// Those besides this one; `None` if there are none.
    others: Option<&'a dyn RemoteEncoder>,
    /// Who keeps what was encoded here before.
    ahead: Option<&'a dyn Ahead>,
    /// The lane of each chunk, of all variables: 0, or 1 more than the number of the other node. Empty without those.
    lanes: Vec<u16>,
    /// For what was encoded here before, and by node: the variable of which a chunk is decoded last, and 1 more.
    looked: Vec<AtomicUsize>,
}

/// What there is of an encoded chunk.
pub(in crate::pipeline) enum Content {
    Bytes(Vec<u8>),
    /// The other node of this number has them, and writes them.
    At(usize, PendingChunk),
}

impl Content {
    /// Encoded bytes.
    pub(in crate::pipeline) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::At(_, kept) => kept.length,
        }
    }
}

/// A chunk as it was encoded on another node, or before.
pub(in crate::pipeline) struct Encoded {
    pub(in crate::pipeline) content: Content,
    pub(in crate::pipeline) outcome: ChunkOutcome,
    /// CRC-32C of what readers get.
    values: u32,
    /// None if it was encoded here.
    node: Option<usize>,
    /// It has to be decoded: the first of each variable and node, and some of the others.
    pub(in crate::pipeline) is_looked_at: bool,
}

impl<'a> EncodingNodes<'a> {
    /// All chunks here.
    pub(in crate::pipeline) fn here(ahead: Option<&'a dyn Ahead>) -> Self {
        Self { others: None, ahead, lanes: Vec::new(), looked: vec![AtomicUsize::new(0)] }
    }

    /// `node_of` says at which of the other nodes a chunk is, of so many.
    pub(in crate::pipeline) fn new(
        (others, ahead): (&'a dyn RemoteEncoder, Option<&'a dyn Ahead>),
        chunks: u64,
        node_of: impl Fn(u64) -> Option<usize>,
    ) -> Self {
        let lane = |number| node_of(number).and_then(|node| u16::try_from(node + 1).ok()).unwrap_or(0);
        let looked = (0..=others.nodes()).map(|_| AtomicUsize::new(0)).collect();
        Self { others: Some(others), ahead, lanes: (0..chunks).map(lane).collect(), looked }
    }

    /// The lane of a chunk.
    pub(in crate::pipeline) fn lane(&self, number: u64) -> usize {
        usize::try_from(number).ok().and_then(|number| self.lanes.get(number)).map_or(0, |&lane| usize::from(lane))
    }

    /// Those besides this one.
    pub(in crate::pipeline) fn others(&self) -> Option<&'a dyn RemoteEncoder> {
        self.others
    }

    /// Threads of the lanes of other nodes. Each node has about as many that encode as this one, which has `jobs`.
    pub(in crate::pipeline) fn threads(&self, jobs: usize) -> Vec<usize> {
        let nodes = self.others.map_or(0, RemoteEncoder::nodes);
        vec![(WAITING.0 / nodes.max(1)).clamp(1, WAITING.1.max(jobs)); nodes]
    }

    /// The chunk of this number, if it was encoded here before.
    ///
    /// # Errors
    /// As for [`Ahead::find`]; `Corrupt` for what cannot come of the recipe.
    pub(in crate::pipeline) fn find(
        &self,
        number: u64,
        chunk: &ChunkToEncode<'_>,
        limits: &Limits,
    ) -> Result<Option<Encoded>> {
        let (Some(ahead), mut bytes) = (self.ahead, Vec::new()) else { return Ok(None) };
        let Some(Proven { outcome, values, kept: _ }) = ahead.find(chunk, &mut bytes)? else { return Ok(None) };
        limits.check(bytes.len(), &outcome)?;
        let is_looked_at = self.look(number, chunk.variable, None);
        Ok(Some(Encoded { content: Content::Bytes(bytes), outcome, values, node: None, is_looked_at }))
    }

    /// The chunk of this number, if it is encoded on another node. That may keep its bytes with `may_keep`, unless the chunk
    /// is to be decoded here.
    ///
    /// # Errors
    /// As for [`RemoteEncoder::encode`]; `Corrupt` for what cannot come of the recipe.
    pub(in crate::pipeline) fn ask(
        &self,
        number: u64,
        chunk: &ChunkToEncode<'_>,
        limits: &Limits,
        may_keep: bool,
    ) -> Result<Option<Encoded>> {
        let (Some(others), Some(node)) = (self.others, self.lane(number).checked_sub(1)) else { return Ok(None) };
        let mut bytes = Vec::new();
        let is_looked_at = self.look(number, chunk.variable, Some(node));
        let told = others.encode(node, chunk, may_keep && !is_looked_at, &mut bytes)?;
        let Some(Proven { outcome, values, kept }) = told else {
            // The next one that comes is the first.
            self.looked(Some(node)).store(0, Ordering::Relaxed);
            return Ok(None);
        };
        let content = match kept {
            Some(kept) => Content::At(node, kept),
            None => Content::Bytes(bytes),
        };
        limits.check(usize::try_from(content.length()).unwrap_or(usize::MAX), &outcome)?;
        Ok(Some(Encoded { content, outcome, values, node: Some(node), is_looked_at }))
    }

    /// The variable of which a chunk of a node is decoded last, and 1 more.
    fn looked(&self, node: Option<usize>) -> &AtomicUsize {
        &self.looked[node.map_or(0, |node| node + 1)]
    }

    /// True if the chunk has to be decoded.
    fn look(&self, number: u64, variable: usize, node: Option<usize>) -> bool {
        let is_first = self.looked(node).swap(variable + 1, Ordering::Relaxed) != variable + 1;
        is_first || number.is_multiple_of(LOOKED_AT)
    }
}

impl Encoded {
    /// Decodes the chunk, and compares what comes of it with what its node has said.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(in crate::pipeline) fn check(&self, encoder: &ChunkEncoder, buffers: &mut Buffers) -> Result<()> {
        let Content::Bytes(bytes) = &self.content else { return Err(Error::internal("a chunk that is not here")) };
        let decoded = encoder.decode_other(bytes, &self.outcome, buffers);
        let is_same = decoded.is_ok_and(|values| crc32c::crc32c(values) == self.values);
        let (what, hint) = match self.node {
            Some(_) => (
                "what another node has encoded does not decode to the values that it says",
                "the nodes have different builds of Knarr, or one of them has a defect: nothing is written",
            ),
            None => (
                "what was encoded while the program had the file open does not decode to the values that it says",
                "the machine or its disk may have a defect: nothing is written",
            ),
        };
        if is_same { Ok(()) } else { Err(Error::corrupt(what).hint(hint)) }
    }

    /// True if it was encoded here before.
    pub(in crate::pipeline) fn is_ahead(&self) -> bool {
        self.node.is_none()
    }
}

/// What threads share that are more than may work at the same time. When one has failed, nobody else begins.
pub(in crate::pipeline) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    /// How many there are, and may be at work at the moment.
    count: usize,
    allowed: ThreadLimit,
    given_back: Condvar,
    failed: OnceLock<Error>,
}

impl<T: Default> Pool<T> {
    /// As many as may ever work at the same time, and as may do so at the moment.
    pub(in crate::pipeline) fn new(count: usize, allowed: ThreadLimit) -> Self {
        let count = count.max(1);
        let idle = Mutex::new((0..count).map(|_| T::default()).collect());
        Self { idle, count, allowed, given_back: Condvar::new(), failed: OnceLock::new() }
    }

    /// Works with one, as soon as one is idle.
    ///
    /// # Errors
    /// Those of `work`; that of another piece of work which has failed.
    pub(in crate::pipeline) fn with<U>(&self, work: impl FnOnce(&mut T) -> Result<U>) -> Result<U> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let one = loop {
            let may_work = self.count - idle.len() < self.allowed.get();
            if let Some(one) = may_work.then(|| idle.pop()).flatten() {
                break one;
            }
            // More may be allowed before one is given back.
            idle = self.given_back.wait_timeout(idle, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(idle);
        let mut borrowed = Borrowed { pool: self, one };
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        work(&mut borrowed.one).map_err(|error| self.failed.get_or_init(|| error).clone())
    }
}

/// One at work. Others wait for it, even if its thread panics.
struct Borrowed<'a, T: Default> {
    pool: &'a Pool<T>,
    one: T,
}

impl<T: Default> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        let one = std::mem::take(&mut self.one);
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        self.pool.given_back.notify_one();
    }
}
