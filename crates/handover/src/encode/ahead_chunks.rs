//! Chunks of a file that are encoded while the program still has it open, and kept until the file is made.
//!
//! A chunk is known by the question for it, which says how it is encoded and where each of its values lies. Values stay as they
//! are where they lie: what is put over them lies somewhere else. So the same question always has the same answer, and a
//! chunk into which something was put since is asked for by another one. Whatever was encoded ahead, and with
//! whatever chain, the bytes of the file are the same.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_tier::{Purpose, Tier, TierFile};

use crate::encode::chunk_question::ChunkQuestion;
use crate::encode::encoding::Encoding;

/// What the chunks lie in, beside the values of the ranks: a link to a file on a disk, and a list of them.
pub const CHUNKS: &str = "ahead";
const LIST: &str = "ahead.list";
/// Bytes of a chunk in the list: its key, where it is, its length, its CRC-32C, and that of all of these.
const RECORD: usize = 32 + 8 + 4 + 4 + 4;

/// BLAKE3 of the question for a chunk.
pub(crate) type Key = [u8; 32];

/// Where a chunk is.
#[derive(Debug, Clone, Copy)]
struct ByteRange {
    at: u64,
    length: u32,
    sum: u32,
}

/// Chunks that were encoded ahead.
pub struct AheadChunks {
    chunks: File,
    state: Mutex<State>,
    encoding: Mutex<Vec<Encoding>>,
}

impl fmt::Debug for AheadChunks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AheadChunks").field("known", &self.state().known.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    known: HashMap<Key, ByteRange>,
    /// Where more is to be kept.
    more: Option<More>,
}

struct More {
    tier: Arc<dyn Tier>,
    chunks: Box<dyn TierFile>,
    /// Bytes of the chunks.
    end: u64,
    list: File,
    /// Bytes of the list.
    listed: u64,
}

impl AheadChunks {
    /// Those that are kept in the directory of a file, to be found; `None` if there are none.
    pub fn open(directory: &Path) -> Option<Self> {
        let list = fs::read(directory.join(LIST)).ok().filter(|list| !list.is_empty())?;
        let chunks = File::open(directory.join(CHUNKS)).ok()?;
        Some(Self::new(chunks, State { known: known(&list), ..State::default() }))
    }

    /// The same, to keep more of them. If nothing is kept there they go to a file of the tier, at `path`.
    ///
    /// # Errors
    /// `Write`.
    pub fn keep(directory: &Path, tier: Arc<dyn Tier>, path: &Path) -> Result<Self> {
        let link = directory.join(CHUNKS);
        let make = || -> io::Result<_> {
            if fs::symlink_metadata(&link).is_err() {
                // The file may be done with, and its directory gone.
                symlink(path, &link)?;
            }
            let there = fs::read_link(&link)?;
            let is_new = !there.exists();
            let chunks =
                if is_new { tier.create(&there, Purpose::Values) } else { tier.open(&there, Purpose::Values) }?;
            let read = File::open(&there)?;
            let (end, list_path) = (read.metadata()?.len(), directory.join(LIST));
            let list = File::options().write(true).create(true).truncate(false).mode(0o600).open(&list_path)?;
            let listed = fs::read(&list_path)?;
            let known = known(&listed);
            let listed = (listed.len() / RECORD * RECORD) as u64;
            Ok((read, known, More { tier, chunks, end, list, listed }))
        };
        let (chunks, known, more) = make().map_err(|error| Error::write(path, &error))?;
        Ok(Self::new(chunks, State { known, more: Some(more) }))
    }

    fn new(chunks: File, state: State) -> Self {
        Self { chunks, state: Mutex::new(state), encoding: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a chunk is kept.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.state().known.contains_key(key)
    }

    /// Keeps a chunk.
    ///
    /// # Errors
    /// `Write`, also if chunks would take more of the disk than they leave: values and files come first.
    pub(crate) fn add(&self, key: Key, chunk: &[u8]) -> Result<()> {
        let length = u32::try_from(chunk.len()).map_err(|_| Error::internal("a chunk of 4 GiB"))?;
        let mut state = self.state();
        let Some(more) = &mut state.more else { return Err(Error::internal("chunks that are not kept")) };
        if more.tier.left().bytes < more.end {
            let full = io::Error::from(io::ErrorKind::StorageFull);
            return Err(Error::write(Path::new(CHUNKS), &full));
        }
        let place = ByteRange { at: more.end, length, sum: crc32c::crc32c(chunk) };
        let write = |more: &mut More| {
            more.chunks.write_all_at(chunk, place.at)?;
            more.list.write_all_at(&record(&key, place), more.listed)
        };
        write(more).map_err(|error| Error::write(Path::new(CHUNKS), &error))?;
        more.end += u64::from(length);
        more.listed += RECORD as u64;
        state.known.insert(key, place);
        Ok(())
    }

    /// The bytes of a chunk; `None` if it is not kept, or if they are not what they were.
    pub(crate) fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let place = self.state().known.get(key).copied()?;
        let mut bytes = vec![0; place.length as usize];
        self.chunks.read_exact_at(&mut bytes, place.at).ok()?;
        (crc32c::crc32c(&bytes) == place.sum).then_some(bytes)
    }

    /// Works with buffers that are used again.
    pub(crate) fn encoding<T>(&self, work: impl FnOnce(&mut Encoding) -> T) -> T {
        let idle = || self.encoding.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut encoding = taken.unwrap_or_default();
        let done = work(&mut encoding);
        idle().push(encoding);
        done
    }
}

fn record(key: &Key, place: ByteRange) -> Vec<u8> {
    let mut record = key.to_vec();
    record.extend_from_slice(&place.at.to_le_bytes());
    record.extend_from_slice(&place.length.to_le_bytes());
    record.extend_from_slice(&place.sum.to_le_bytes());
    record.extend_from_slice(&crc32c::crc32c(&record).to_le_bytes());
    record
}

/// The chunks of a list. What is damaged was not encoded ahead.
fn known(list: &[u8]) -> HashMap<Key, ByteRange> {
    let of = |record: &[u8]| {
        let (numbers, sum) = record.split_last_chunk::<4>()?;
        let (key, rest) = numbers.split_first_chunk::<32>()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let place = ByteRange {
            at: u64::from_le_bytes(*at),
            length: u32::from_le_bytes(*length),
            sum: u32::from_le_bytes(*rest.first_chunk()?),
        };
        (crc32c::crc32c(numbers) == u32::from_le_bytes(*sum)).then_some((*key, place))
    };
    list.chunks_exact(RECORD).filter_map(of).collect()
}

/// What a chunk is known by.
pub(crate) fn key_of(question: &ChunkQuestion) -> Result<Key> {
    let bytes = serde_json::to_vec(question).map_err(|error| Error::internal(error.to_string()))?;
    Ok(*blake3::hash(&bytes).as_bytes())
}
