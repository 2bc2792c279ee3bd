//! Many chunks in one file: the `sharding_indexed` codec, written as chunks arrive.
//!
//! Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html>. Encoded
//! chunks follow each other in order of arrival; the index at the end says where each one lies. It is written when all
//! chunks of the shard are there.

use knarr_array::{Error, Result};
use knarr_flow::output::Store;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// More chunk files than this for one variable are put into shards.
pub const MANY_CHUNKS: u64 = 1000;
/// Most bytes, before encoding, that the automatic choice puts into one shard.
const LARGEST_SHARD: u64 = 1 << 30;
/// Bytes, before encoding, of a shard where each object costs a request. Encoded it is one that a program reads at once.
const OF_A_REQUEST: u64 = 16 << 20;
/// What is as large as that is worth a request of its own.
const WORTH_A_REQUEST: u64 = OF_A_REQUEST / 4;
/// Offset and length of a chunk that does not exist.
const ABSENT: u64 = u64::MAX;
/// Bytes of one entry of an index, and of its CRC-32C.
const ENTRY: usize = 16;
const CHECKSUM: usize = 4;

/// Whether chunks share files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharding {
    /// For variables with more than [`MANY_CHUNKS`] chunks.
    #[default]
    Auto,
    /// As `Auto`, and chunks that are much smaller than what one request should move share objects.
    Requests,
    /// One file a chunk.
    Never,
    /// About this many chunks a file.
    Chunks(u64),
}

/// Chunks per shard along each axis; `None` if chunks have files of their own.
pub(in crate::zarr) fn shape(sharding: Sharding, grid: &[u64], chunk_bytes: u64) -> Option<Vec<u64>> {
    let total = grid.iter().fold(1u64, |total, &n| total.saturating_mul(n.max(1)));
    let fit = |bytes: u64| (bytes / chunk_bytes.max(1)).max(1);
    let many = || if total > MANY_CHUNKS { total.div_ceil(MANY_CHUNKS).max(16).min(fit(LARGEST_SHARD)) } else { 1 };
    let wanted = match sharding {
        Sharding::Never => return None,
        Sharding::Auto => many(),
        Sharding::Requests => many().max(fit(OF_A_REQUEST)),
        Sharding::Chunks(wanted) => wanted,
    };
    if wanted <= 1 || total <= 1 {
        return None;
    }
    // Fastest axis first: chunks that arrive in row-major order then finish one shard after the other.
    let mut left = wanted;
    let mut shape = vec![1; grid.len()];
    for (extent, &n) in shape.iter_mut().zip(grid).rev() {
        *extent = left.min(n.max(1));
        left /= *extent;
        if left <= 1 {
            break;
        }
    }
    // Arrays grow along the slowest axis. If the last shard is full, what is appended goes to new ones: always, if a step of that
    // axis is a shard, and where the number of steps allows it otherwise.
    if let (Some((extent, others)), Some(&n), false) =
        (shape.split_first_mut(), grid.first(), matches!(sharding, Sharding::Chunks(_)))
    {
        let step = others.iter().fold(chunk_bytes, |bytes, &n| bytes.saturating_mul(n));
        let is_apart = sharding == Sharding::Requests && total <= MANY_CHUNKS && step >= WORTH_A_REQUEST;
        *extent = if is_apart { 1 } else { even(*extent, n) };
    }
    Some(shape).filter(|shape| shape.iter().any(|&extent| extent > 1))
}

/// The largest divisor of `n` that is no larger than `extent`, if it is at least a quarter of that; else `extent`. Larger shards
/// would take more than one request to read.
fn even(extent: u64, n: u64) -> u64 {
    (extent.div_ceil(4)..=extent).rev().find(|divisor| n.is_multiple_of(*divisor)).unwrap_or(extent)
}

/// `codecs` of an array whose chunks, encoded by `inner`, share shards.
pub(in crate::zarr) fn codecs(chunk: &[u64], inner: &[Value]) -> Vec<Value> {
    vec![json!({
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": chunk,
            "codecs": inner,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        },
    })]
}

/// The shards of one array.
#[derive(Debug)]
pub(in crate::zarr) struct Shards {
    /// Chunks per shard along each axis.
    shape: Vec<u64>,
    /// Chunks along each axis of the array.
    grid: Vec<u64>,
    /// Per shard: what is known of its chunks.
    open: BTreeMap<String, Open>,
}

/// The chunks that a shard has got so far.
#[derive(Debug)]
struct Open {
    /// Offset and length of each, row-major. Empty once the index is written.
    index: Vec<(u64, u64)>,
    /// How many are still to come if none is left out.
    left: u64,
}

impl Shards {
    pub(in crate::zarr) fn new(shape: Vec<u64>, grid: Vec<u64>) -> Self {
        Self { shape, grid, open: BTreeMap::new() }
    }

    /// Number of chunks of the array that lie in the shard of the chunk at `position`.
    fn members(&self, position: &[u64]) -> u64 {
        let shard = self.position(position);
        let along = shard.iter().zip(&self.shape).zip(&self.grid);
        along.map(|((at, extent), n)| (*extent).min(n.saturating_sub(at * extent))).product()
    }

    /// Position of the shard that holds the chunk at `position`.
    pub(in crate::zarr) fn position(&self, position: &[u64]) -> Vec<u64> {
        position.iter().zip(&self.shape).map(|(position, extent)| position / extent).collect()
    }

    /// Adds the chunk at `position`, of `length` bytes, to the shard file `key`: `add` adds them at its end, and says which the
    /// first one is.
    pub(in crate::zarr) fn put<T>(
        &mut self,
        store: &mut dyn Store,
        key: String,
        (position, length): (&[u64], u64),
        add: impl FnOnce(&mut dyn Store, &str) -> Result<(u64, T)>,
    ) -> Result<T> {
        let slot =
            position.iter().zip(&self.shape).fold(0, |slot, (position, extent)| slot * extent + position % extent);
        let chunks: u64 = self.shape.iter().product();
        let written_twice = || Err(Error::internal(format!("chunk {position:?} was written twice")));
        let members = self.members(position);
        let absent = || vec![(ABSENT, ABSENT); usize::try_from(chunks).unwrap_or(usize::MAX)];
        let open = self.open.entry(key.clone()).or_insert_with(|| Open { index: absent(), left: members });
        if open.left == 0 {
            return written_twice();
        }
        let (offset, added) = add(store, &key)?;
        match usize::try_from(slot).ok().and_then(|slot| open.index.get_mut(slot)) {
            Some(entry) if entry.0 == ABSENT => *entry = (offset, length),
            Some(_) => return written_twice(),
            None => return Err(Error::internal(format!("chunk {position:?} has no place in its shard"))),
        }
        open.left -= 1;
        if open.left == 0 {
            finish(store, &key, &std::mem::take(&mut open.index))?;
        }
        Ok(added)
    }

    /// Ends every shard that lacks chunks with its index.
    pub(in crate::zarr) fn finish(&self, store: &mut dyn Store) -> Result<()> {
        let short = self.open.iter().filter(|(_, open)| open.left > 0);
        short.into_iter().try_for_each(|(key, open)| finish(store, key, &open.index))
    }
}

/// Ends a shard with its index.
fn finish(store: &mut dyn Store, key: &str, index: &[(u64, u64)]) -> Result<()> {
    store.append(key, &index_bytes(index, true))?;
    store.finish(key)
}

/// The bytes of an index, of offset and length of each chunk.
fn index_bytes(index: &[(u64, u64)], has_checksum: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(index.len() * ENTRY + CHECKSUM);
    for (offset, len) in index {
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
    }
    if has_checksum {
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    }
    bytes
}

/// How the index of a shard lies in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::zarr) struct IndexForm {
    pub(in crate::zarr) at_end: bool,
    pub(in crate::zarr) has_checksum: bool,
}

/// A shard of these chunks, row-major; `None` for one that was never written.
pub(in crate::zarr) fn assembled(chunks: &[Option<Vec<u8>>], form: IndexForm) -> Vec<u8> {
    let length = chunks.len() * ENTRY + if form.has_checksum { CHECKSUM } else { 0 };
    let mut offset = if form.at_end { 0 } else { length as u64 };
    let index: Vec<(u64, u64)> = chunks
        .iter()
        .map(|chunk| match chunk {
            None => (ABSENT, ABSENT),
            Some(chunk) => {
                let begin = offset;
                offset += chunk.len() as u64;
                (begin, chunk.len() as u64)
            }
        })
        .collect();
    let index = index_bytes(&index, form.has_checksum);
    let chunks = chunks.iter().flatten().map(Vec::as_slice);
    if form.at_end {
        chunks.chain([index.as_slice()]).collect::<Vec<_>>().concat()
    } else {
        std::iter::once(index.as_slice()).chain(chunks).collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_the_fastest_axes_first() {
        assert_eq!(shape(Sharding::Auto, &[10, 100], 1000), None);
        assert_eq!(shape(Sharding::Auto, &[100, 100], 1000), Some(vec![1, 16]));
        assert_eq!(shape(Sharding::Auto, &[50_000, 2], 1 << 20), Some(vec![50, 2]));
        assert_eq!(shape(Sharding::Requests, &[10, 100], 1000), Some(vec![10, 100]));
        assert_eq!(shape(Sharding::Requests, &[12, 4], 1 << 19), Some(vec![6, 4]));
        assert_eq!(shape(Sharding::Requests, &[10, 4], 10 << 20), None);
        assert_eq!(shape(Sharding::Requests, &[1, 1], 10), None);
        assert_eq!(shape(Sharding::Chunks(12), &[4, 3, 2], 8), Some(vec![2, 3, 2]));
        assert_eq!(shape(Sharding::Never, &[100_000], 8), None);
        assert_eq!(shape(Sharding::Chunks(8), &[], 8), None);
    }

    #[test]
    fn the_last_shard_along_the_slowest_axis_is_full_where_that_can_be() {
        let of = |n: u64| shape(Sharding::Requests, &[n, 1], 1 << 20).map(|shape| shape[0]);
        assert_eq!([1, 2, 12, 16, 48, 31].map(of), [None, Some(2), Some(12), Some(16), Some(16), Some(16)]);
        // 365 has no divisor near 16 but 5; those of a prime number are of no use.
        assert_eq!([30, 24, 365, 367].map(of), [15, 12, 5, 16].map(Some));
        assert_eq!(shape(Sharding::Auto, &[30_030, 2], 1 << 20), Some(vec![30, 2]));
        assert_eq!(shape(Sharding::Chunks(7), &[12], 8), Some(vec![7]), "as was asked for");
        assert_eq!(shape(Sharding::Requests, &[7, 4], 1 << 20), Some(vec![1, 4]), "a step is an object");
        assert_eq!(shape(Sharding::Requests, &[6, 1], 4 << 20), None);
        assert_eq!(shape(Sharding::Requests, &[6, 1], 3 << 20), Some(vec![3, 1]));
        assert_eq!(shape(Sharding::Requests, &[7, 1], 8 << 20), None);
    }
}
