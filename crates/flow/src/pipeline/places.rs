//! Where chunks are encoded: here, now or before, or at another place that has all of their values. The bytes are the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use super::encode::{Buffers, ChunkEncoder, ChunkOutcome, Limits};
use crate::ahead::Ahead;
use crate::allowed::{Allowed, LOOK_EVERY};
use crate::elsewhere::{ChunkElsewhere, Elsewhere, KeptChunk, Proven};
use knarr_array::error::{Error, Result};

/// Threads that wait for other places, at most of all together, and at least of one unless that is more.
const WAITING: (usize, usize) = (1024, 8);
/// One of so many chunks that come encoded is decoded here. Whoever has encoded a chunk has proven it: this finds places at
/// which something is wrong as a whole.
const LOOKED_AT: u64 = 16;

/// The places at which the values of a source lie.
pub(super) struct Places<'a> {
    /// Those besides this one; `None` if there are none.
    others: Option<&'a dyn Elsewhere>,
    /// Who keeps what was encoded here before.
    ahead: Option<&'a dyn Ahead>,
    /// The lane of each chunk, of all variables: 0, or 1 more than the number of the other place. Empty without those.
    lanes: Vec<u16>,
    /// For what was encoded here before, and by place: the variable of which a chunk is decoded last, and 1 more.
    looked: Vec<AtomicUsize>,
}

/// What there is of an encoded chunk.
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// The other place of this number has them, and writes them.
    At(usize, KeptChunk),
}

impl Content {
    /// Encoded bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::At(_, kept) => kept.length,
        }
    }
}

/// A chunk as it was encoded at another place, or before.
pub(super) struct Encoded {
    pub(super) content: Content,
    pub(super) outcome: ChunkOutcome,
    /// CRC-32C of what readers get.
    values: u32,
    /// None if it was encoded here.
    place: Option<usize>,
    /// It has to be decoded: the first of each variable and place, and some of the others.
    pub(super) is_looked_at: bool,
}

impl<'a> Places<'a> {
    /// All chunks here.
    pub(super) fn here(ahead: Option<&'a dyn Ahead>) -> Self {
        Self { others: None, ahead, lanes: Vec::new(), looked: vec![AtomicUsize::new(0)] }
    }

    /// `place_of` says at which of the other places a chunk is, of so many.
    pub(super) fn new(
        (others, ahead): (&'a dyn Elsewhere, Option<&'a dyn Ahead>),
        chunks: u64,
        place_of: impl Fn(u64) -> Option<usize>,
    ) -> Self {
        let lane = |number| place_of(number).and_then(|place| u16::try_from(place + 1).ok()).unwrap_or(0);
        let looked = (0..=others.places()).map(|_| AtomicUsize::new(0)).collect();
        Self { others: Some(others), ahead, lanes: (0..chunks).map(lane).collect(), looked }
    }

    /// The lane of a chunk.
    pub(super) fn lane(&self, number: u64) -> usize {
        usize::try_from(number).ok().and_then(|number| self.lanes.get(number)).map_or(0, |&lane| usize::from(lane))
    }

    /// Those besides this one.
    pub(super) fn others(&self) -> Option<&'a dyn Elsewhere> {
        self.others
    }

    /// Threads of the lanes of other places. Each place has about as many that encode as this one, which has `jobs`.
    pub(super) fn threads(&self, jobs: usize) -> Vec<usize> {
        let places = self.others.map_or(0, Elsewhere::places);
        vec![(WAITING.0 / places.max(1)).clamp(1, WAITING.1.max(jobs)); places]
    }

    /// The chunk of this number, if it was encoded here before.
    ///
    /// # Errors
    /// As for [`Ahead::find`]; `Corrupt` for what cannot come of the recipe.
    pub(super) fn find(&self, number: u64, chunk: &ChunkElsewhere<'_>, limits: &Limits) -> Result<Option<Encoded>> {
        let (Some(ahead), mut bytes) = (self.ahead, Vec::new()) else { return Ok(None) };
        let Some(Proven { outcome, values, kept: _ }) = ahead.find(chunk, &mut bytes)? else { return Ok(None) };
        limits.check(bytes.len(), &outcome)?;
        let is_looked_at = self.look(number, chunk.variable, None);
        Ok(Some(Encoded { content: Content::Bytes(bytes), outcome, values, place: None, is_looked_at }))
    }

    /// The chunk of this number, if it is encoded at another place. That may keep its bytes with `may_keep`, unless the chunk
    /// is to be decoded here.
    ///
    /// # Errors
    /// As for [`Elsewhere::encode`]; `Corrupt` for what cannot come of the recipe.
    pub(super) fn ask(
        &self,
        number: u64,
        chunk: &ChunkElsewhere<'_>,
        limits: &Limits,
        may_keep: bool,
    ) -> Result<Option<Encoded>> {
        let (Some(others), Some(place)) = (self.others, self.lane(number).checked_sub(1)) else { return Ok(None) };
        let mut bytes = Vec::new();
        let is_looked_at = self.look(number, chunk.variable, Some(place));
        let told = others.encode(place, chunk, may_keep && !is_looked_at, &mut bytes)?;
        let Some(Proven { outcome, values, kept }) = told else {
            // The next one that comes is the first.
            self.looked(Some(place)).store(0, Ordering::Relaxed);
            return Ok(None);
        };
        let content = match kept {
            Some(kept) => Content::At(place, kept),
            None => Content::Bytes(bytes),
        };
        limits.check(usize::try_from(content.length()).unwrap_or(usize::MAX), &outcome)?;
        Ok(Some(Encoded { content, outcome, values, place: Some(place), is_looked_at }))
    }

    /// The variable of which a chunk of a place is decoded last, and 1 more.
    fn looked(&self, place: Option<usize>) -> &AtomicUsize {
        &self.looked[place.map_or(0, |place| place + 1)]
    }

    /// True if the chunk has to be decoded.
    fn look(&self, number: u64, variable: usize, place: Option<usize>) -> bool {
        let is_first = self.looked(place).swap(variable + 1, Ordering::Relaxed) != variable + 1;
        is_first || number.is_multiple_of(LOOKED_AT)
    }
}

impl Encoded {
    /// Decodes the chunk, and compares what comes of it with what its place has said.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn check(&self, encoder: &ChunkEncoder, buffers: &mut Buffers) -> Result<()> {
        let Content::Bytes(bytes) = &self.content else { return Err(Error::internal("a chunk that is not here")) };
        let decoded = encoder.decode_other(bytes, &self.outcome, buffers);
        let is_same = decoded.is_ok_and(|values| crc32c::crc32c(values) == self.values);
        let (what, hint) = match self.place {
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
    pub(super) fn is_ahead(&self) -> bool {
        self.place.is_none()
    }
}

/// What threads share that are more than may work at the same time. When one has failed, nobody else begins.
pub(super) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    /// How many there are, and may be at work at the moment.
    count: usize,
    allowed: Allowed,
    given_back: Condvar,
    failed: OnceLock<Error>,
}

impl<T: Default> Pool<T> {
    /// As many as may ever work at the same time, and as may do so at the moment.
    pub(super) fn new(count: usize, allowed: Allowed) -> Self {
        let count = count.max(1);
        let idle = Mutex::new((0..count).map(|_| T::default()).collect());
        Self { idle, count, allowed, given_back: Condvar::new(), failed: OnceLock::new() }
    }

    /// Works with one, as soon as one is idle.
    ///
    /// # Errors
    /// Those of `work`; that of another piece of work which has failed.
    pub(super) fn with<U>(&self, work: impl FnOnce(&mut T) -> Result<U>) -> Result<U> {
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
        let mut taken = Taken { pool: self, one };
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        work(&mut taken.one).map_err(|error| self.failed.get_or_init(|| error).clone())
    }
}

/// One at work. Others wait for it, even if its thread panics.
struct Taken<'a, T: Default> {
    pool: &'a Pool<T>,
    one: T,
}

impl<T: Default> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let one = std::mem::take(&mut self.one);
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        self.pool.given_back.notify_one();
    }
}
