//! Where the chunks of an array lie: each in its own object, or many in a shard; and their elements.

use crate::zarr::chunk::decode::{DecodeBuffers, Decoder};
use crate::zarr::chunk::shard::IndexForm;
use crate::zarr::metadata::stored::{Node, Version};
use knarr_array::array::DType;
use knarr_array::region::{Placed, Region, chunk_region, copy_region, each_chunk, fill_region, in_chunk};
use knarr_array::{Error, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::cache::ChunkCache;
use knarr_flow::energy::Stopwatch;
use knarr_flow::read_store::{Part, ReadStore};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// Indices of shards that are kept.
const KEPT_INDICES: usize = 32;
/// Offset and length of a chunk that does not exist.
const ABSENT: u64 = u64::MAX;
/// Offset and length of one chunk in an index.
const ENTRY: u64 = 16;
/// CRC-32C of an index.
const CHECKSUM: usize = 4;

/// The chunks of one array that Knarr decodes itself.
pub(in crate::zarr) struct Chunks {
    /// Shape of what is decoded at once.
    pub(in crate::zarr) shape: Vec<u64>,
    decoder: Decoder,
    shards: Option<Shards>,
    /// Folder of the array, below which its keys are.
    folder: String,
    decoding: Stopwatch,
}

/// Chunks that share objects.
struct Shards {
    /// Chunks per shard along each axis.
    extents: Vec<u64>,
    count: u64,
    at_end: bool,
    has_checksum: bool,
    kept: Mutex<Vec<(String, Index)>>,
}

/// Offset and length of each chunk of a shard, row-major; `None` if there is no such object.
type Index = Option<Arc<Vec<(u64, u64)>>>;

/// The objects of an array.
#[derive(Clone, Copy)]
pub(in crate::zarr) struct Objects<'a> {
    pub(in crate::zarr) store: &'a dyn ReadStore,
    /// Finds the key of the chunk or shard at a position of its grid.
    pub(in crate::zarr) key_of: &'a dyn Fn(&[u64]) -> String,
}

/// A region that is asked for, and the array it is a part of.
pub(in crate::zarr) struct Wanted<'a> {
    /// Number of the variable, for the cache.
    pub(in crate::zarr) variable: usize,
    /// Shape of the array.
    pub(in crate::zarr) shape: &'a [u64],
    pub(in crate::zarr) region: &'a Region,
    /// One element as it is where no chunk was written.
    pub(in crate::zarr) padding: &'a [u8],
}

thread_local! {
    /// Encoded bytes of one chunk, and the buffers of its decoder.
    static BUFFERS: RefCell<(Vec<u8>, DecodeBuffers)> = RefCell::default();
}

impl Chunks {
    /// `None` if Knarr has no codec for one of the array's, or shards of a kind that it does not read.
    pub(in crate::zarr) fn of(list: &CodecList, node: &Node, dtype: DType, chunk: &[u64]) -> Option<Self> {
        let decoder = match node.version {
            Version::V2 => Decoder::v2(list, &node.metadata, dtype, chunk)?,
            Version::V3 => {
                let codecs = node.metadata.get("codecs")?.as_array()?;
                if let [only] = codecs.as_slice()
                    && only.get("name").and_then(Value::as_str) == Some("sharding_indexed")
                {
                    return Self::in_shards(list, only.get("configuration")?.as_object()?, dtype, chunk, &node.folder);
                }
                Decoder::v3(list, codecs, dtype, chunk)?
            }
        };
        Some(Self {
            shape: chunk.to_vec(),
            decoder,
            shards: None,
            folder: node.folder.clone(),
            decoding: Stopwatch::default(),
        })
    }

    /// The same chunks, if their elements consist of numbers of `part` bytes.
    pub(in crate::zarr) fn in_parts(mut self, part: usize) -> Self {
        self.decoder = self.decoder.in_parts(part);
        self
    }

    fn in_shards(
        list: &CodecList,
        configuration: &Map<String, Value>,
        dtype: DType,
        shard: &[u64],
        folder: &str,
    ) -> Option<Self> {
        let chunk: Vec<u64> =
            configuration.get("chunk_shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
        let divides = |(&shard, &chunk): (&u64, &u64)| chunk > 0 && shard.is_multiple_of(chunk);
        if chunk.len() != shard.len() || !shard.iter().zip(&chunk).all(divides) {
            return None;
        }
        let decoder = Decoder::v3(list, configuration.get("codecs")?.as_array()?, dtype, &chunk)?;
        let names: Vec<&str> = configuration
            .get("index_codecs")?
            .as_array()?
            .iter()
            .map(|codec| codec.as_str().or_else(|| codec.get("name")?.as_str()))
            .collect::<Option<_>>()?;
        let has_checksum = match names.as_slice() {
            ["bytes"] => false,
            ["bytes", "crc32c"] => true,
            _ => return None,
        };
        let endian = configuration.get("index_codecs")?.get(0)?.pointer("/configuration/endian");
        if endian.is_some_and(|endian| endian != "little") {
            return None;
        }
        let at_end = match configuration.get("index_location").map(Value::as_str) {
            None | Some(Some("end")) => true,
            Some(Some("start")) => false,
            Some(_) => return None,
        };
        let extents: Vec<u64> = shard.iter().zip(&chunk).map(|(shard, chunk)| shard / chunk).collect();
        let count = extents.iter().try_fold(1u64, |count, &n| count.checked_mul(n))?;
        let shards = Shards { extents, count, at_end, has_checksum, kept: Mutex::default() };
        let folder = folder.to_owned();
        Some(Self { shape: chunk, decoder, shards: Some(shards), folder, decoding: Stopwatch::default() })
    }

    /// How chunks share objects, if they do.
    pub(in crate::zarr) fn sharing(&self) -> Option<(&[u64], IndexForm)> {
        let shards = self.shards.as_ref()?;
        Some((&shards.extents, IndexForm { at_end: shards.at_end, has_checksum: shards.has_checksum }))
    }

    /// Replaces the contents of `out` by the elements of a region that lies inside the array.
    pub(in crate::zarr) fn read(
        &self,
        objects: Objects<'_>,
        cache: &ChunkCache,
        wanted: &Wanted<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Wanted { shape, region, padding, .. } = *wanted;
        let size = padding.len();
        let bytes = region
            .volume()
            .and_then(|elements| elements.checked_mul(size as u64))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| out.try_reserve_exact(bytes.saturating_sub(out.len())).is_ok())
            .ok_or_else(|| Error::unsupported("the region is too large for memory").hint("choose smaller chunks"))?;
        out.resize(bytes, 0);
        each_chunk(region, &self.shape, |position| {
            let place = |error: Error| self.place(objects, position, error);
            let inside = chunk_region(shape, &self.shape, position);
            // What the region has of this chunk, seen from both sides.
            let Some(part) = region.intersection(&inside) else { return Ok(()) };
            let from = Placed { shape: &self.shape, start: &part.start_in(&inside) };
            let to = Placed { shape: &region.count, start: &part.start_in(region) };
            // The region is this chunk and nothing else: decoded where it is wanted.
            if part == *region && part.count == self.shape {
                if !self.decode(objects, position, out).map_err(place)? {
                    out.resize(bytes, 0);
                    fill_region(out, to, &part.count, padding);
                }
                return Ok(());
            }
            let decode = || {
                let mut chunk = Vec::new();
                // An empty vector stands for a chunk that does not exist.
                self.decode(objects, position, &mut chunk).map(|_| chunk)
            };
            let key = (wanted.variable, linear(position, &self.shape, shape));
            cache
                .get(key, self.decoder.byte_len(), decode, |chunk| {
                    if chunk.is_empty() {
                        fill_region(out, to, &part.count, padding);
                    } else {
                        copy_region(chunk, from, out, to, &part.count, size);
                    }
                })
                .map_err(place)
        })
    }

    /// True if any chunk that the region touches was written. Damage is reported by reading.
    pub(in crate::zarr) fn is_written(&self, objects: Objects<'_>, region: &Region) -> bool {
        each_chunk(region, &self.shape, |position| {
            let exists = match &self.shards {
                // What cannot be looked for is said by reading.
                None => objects.store.has(&(objects.key_of)(position)).unwrap_or(true),
                Some(shards) => !matches!(shards.find(objects, position), Ok(None)),
            };
            if exists { Err(()) } else { Ok(()) }
        })
        .is_err()
    }

    /// Names a chunk as the place of an error: position, first element, and the key that it has in its array.
    fn place(&self, objects: Objects<'_>, position: &[u64], error: Error) -> Error {
        let key_of = objects.key_of;
        let key = self.shards.as_ref().map_or_else(|| key_of(position), |shards| key_of(&shards.position(position)));
        let key = key.strip_prefix(&self.folder).unwrap_or(&key).trim_start_matches('/');
        let start: Vec<u64> = position.iter().zip(&self.shape).map(|(at, n)| at.saturating_mul(*n)).collect();
        in_chunk(error.at(format!("key '{key}'")), position, &start)
    }

    /// Replaces the contents of `out` by the bytes of a chunk as they are stored; false if it was never written.
    pub(in crate::zarr) fn stored(&self, objects: Objects<'_>, position: &[u64], out: &mut Vec<u8>) -> Result<bool> {
        self.load(objects, position, out).map_err(|error| self.place(objects, position, error))
    }

    fn load(&self, objects: Objects<'_>, position: &[u64], out: &mut Vec<u8>) -> Result<bool> {
        let Some(shards) = &self.shards else {
            let most = self.decoder.largest();
            let held = objects.store.get(&(objects.key_of)(position), Part::Whole { most }, out)?;
            return held.map_or(Ok(false), |held| self.check_length(held).map(|()| true));
        };
        let Some((key, offset, length)) = shards.find(objects, position)? else { return Ok(false) };
        self.check_length(length)?;
        let part = Part::At { offset, length };
        match objects.store.get(&key, part, out)? {
            None => Ok(false),
            Some(held) if part.within(held).is_some() => Ok(true),
            Some(held) => Err(Error::corrupt(format!(
                "the index places it at {length} bytes from {offset}, the shard has {held} bytes"
            ))
            .hint("the shard is truncated or damaged: restore it from a copy")),
        }
    }

    fn check_length(&self, length: u64) -> Result<()> {
        if length <= self.decoder.largest() {
            return Ok(());
        }
        let decoded = self.decoder.byte_len();
        Err(Error::corrupt(format!("{length} bytes are stored for a chunk of {decoded}")))
    }

    /// Processor time of decoding so far, in seconds.
    pub(in crate::zarr) fn decode_seconds(&self) -> f64 {
        self.decoding.seconds()
    }

    fn decode(&self, objects: Objects<'_>, position: &[u64], out: &mut Vec<u8>) -> Result<bool> {
        BUFFERS.with_borrow_mut(|(stored, buffers)| {
            if !self.load(objects, position, stored)? {
                return Ok(false);
            }
            self.decoding.time(|| self.decoder.decode(stored, buffers, out))?;
            Ok(true)
        })
    }
}

/// Number of a chunk, row-major.
fn linear(position: &[u64], chunk: &[u64], shape: &[u64]) -> u64 {
    let grid = shape.iter().zip(chunk).map(|(n, chunk)| n.div_ceil(*chunk));
    position.iter().zip(grid).fold(0, |linear: u64, (at, n)| linear.wrapping_mul(n).wrapping_add(*at))
}

impl Shards {
    /// Position of the shard that holds the chunk at `position`.
    fn position(&self, position: &[u64]) -> Vec<u64> {
        position.iter().zip(&self.extents).map(|(at, n)| at / n).collect()
    }

    /// Key, offset and length of a chunk; `None` if it was never written.
    fn find(&self, objects: Objects<'_>, position: &[u64]) -> Result<Option<(String, u64, u64)>> {
        let slot = position.iter().zip(&self.extents).fold(0, |slot, (at, n)| slot * n + at % n);
        let key = (objects.key_of)(&self.position(position));
        let Some(index) = self.index(objects.store, &key)? else { return Ok(None) };
        let entry = usize::try_from(slot).ok().and_then(|slot| index.get(slot).copied());
        let (offset, length) = entry.ok_or_else(|| Error::internal("a shard's index has too few entries"))?;
        Ok((offset != ABSENT || length != ABSENT).then_some((key, offset, length)))
    }

    fn index(&self, store: &dyn ReadStore, key: &str) -> Result<Index> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, index)) = lock().iter().find(|(kept, _)| kept == key) {
            return Ok(index.clone());
        }
        let index = self.read_index(store, key)?.map(Arc::new);
        let mut kept = lock();
        if kept.len() >= KEPT_INDICES {
            kept.remove(0);
        }
        kept.push((key.to_owned(), index.clone()));
        Ok(index)
    }

    fn read_index(&self, store: &dyn ReadStore, key: &str) -> Result<Option<Vec<(u64, u64)>>> {
        let few = |held: &str| {
            Error::corrupt(format!("{held} bytes are too few for the index of {} chunks", self.count))
                .hint("the shard is truncated or damaged: restore it from a copy")
        };
        let checksum = if self.has_checksum { CHECKSUM as u64 } else { 0 };
        let length = self.count.checked_mul(ENTRY).and_then(|bytes| bytes.checked_add(checksum));
        let length = length.ok_or_else(|| few("all its"))?;
        // A damaged shape must not make the index longer than its object.
        let part = if self.at_end { Part::Last { length } } else { Part::At { offset: 0, length } };
        let mut bytes = Vec::new();
        let Some(held) = store.get(key, part, &mut bytes)? else { return Ok(None) };
        if part.within(held).is_none() {
            return Err(few(&held.to_string()));
        }
        let mut entries = bytes.as_slice();
        if self.has_checksum {
            let wrong = || {
                Error::corrupt("the checksum of the index is wrong")
                    .hint("the shard is damaged: restore it from a copy")
            };
            let (before, stated) = entries.split_last_chunk::<CHECKSUM>().ok_or_else(wrong)?;
            if crc32c::crc32c(before) != u32::from_le_bytes(*stated) {
                return Err(wrong());
            }
            entries = before;
        }
        let (numbers, _) = entries.as_chunks::<8>();
        let pairs = numbers.as_chunks::<2>().0;
        Ok(Some(pairs.iter().map(|[at, len]| (u64::from_le_bytes(*at), u64::from_le_bytes(*len))).collect()))
    }
}

/// The metadata of an array as if its chunks were plain bytes, for the part of `zarrs` that checks everything else.
pub(in crate::zarr) fn as_plain(node: &Node, dtype: DType) -> Map<String, Value> {
    let mut metadata = node.metadata.clone();
    if matches!(dtype, DType::Opaque(_)) {
        // Not all byte strings are known there.
        metadata.insert("data_type".to_owned(), json!("uint8"));
        metadata.insert("dtype".to_owned(), json!("|u1"));
        metadata.insert("fill_value".to_owned(), json!(0));
    }
    match node.version {
        Version::V2 => {
            metadata.remove("data_type");
            metadata.insert("filters".to_owned(), Value::Null);
            metadata.insert("compressor".to_owned(), Value::Null);
        }
        Version::V3 => {
            metadata.remove("dtype");
            let bytes = if dtype.size() > 1 && !matches!(dtype, DType::Opaque(_)) {
                json!({"name": "bytes", "configuration": {"endian": "little"}})
            } else {
                json!({"name": "bytes"})
            };
            metadata.insert("codecs".to_owned(), json!([bytes]));
        }
    }
    metadata
}
