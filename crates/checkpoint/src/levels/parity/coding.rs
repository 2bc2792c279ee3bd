//! Reed-Solomon: parity of the files of nodes, and files of parity and what is left.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use super::group::{ParityGroup, Source};
use super::stripes::{ALIGNED, Shard};
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;

/// Bytes of all nodes of a group that are in memory at a time.
const BYTES: u64 = 8 << 20;

/// Reads so many bytes, from an offset, of a file of frames or of parity.
pub(in crate::levels) type Read<'a> = &'a dyn Fn(Source<'_>, u64, usize) -> Result<Vec<u8>>;

/// Bytes of each node that are in memory at a time.
fn strip(group: &ParityGroup) -> u64 {
    (BYTES / group.nodes.len() as u64).next_multiple_of(ALIGNED)
}

/// Computes the parity that the node with this number in the group keeps, and hands it to `put` piece by piece.
///
/// # Errors
/// Those of `read` and `put`; `Interrupted`.
pub(in crate::levels) fn encode(
    engine: &Engine,
    group: &ParityGroup,
    number: usize,
    read: Read<'_>,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let stripes = group.stripes();
    for segment in 0..stripes.losses {
        let mut at = 0;
        while at < stripes.segment {
            engine.check_cancelled()?;
            let end = stripes.segment.min(at + strip(group));
            let mut encoder =
                ReedSolomonEncoder::new(stripes.data(), stripes.losses, size(end - at)?).map_err(failed)?;
            for shard in stripes.shards(stripes.of_parity(number, segment)).take(stripes.data()) {
                encoder.add_original_shard(bytes(group, shard, (at, end), read)?).map_err(failed)?;
            }
            let encoded = encoder.encode().map_err(failed)?;
            put(encoded.recovery(segment).ok_or_else(|| Error::internal("parity that was not computed"))?)?;
            at = end;
        }
    }
    Ok(())
}

/// Computes a piece of a file that is missing. `has` says what can be read.
///
/// # Errors
/// Those of `read`; `Internal` if too little is there, which [`ParityGroup::can_rebuild`] says before.
pub(in crate::levels) fn rebuild(
    group: &ParityGroup,
    name: &str,
    (at, length): (u64, usize),
    has: &dyn Fn(Source<'_>) -> bool,
    read: Read<'_>,
) -> Result<Vec<u8>> {
    let stripes = group.stripes();
    let (number, start, _) = group.find(name).ok_or_else(|| Error::internal("a file that is in no group"))?;
    let (mut from, to) = (start + at, start + at + length as u64);
    let mut rebuilt = Vec::with_capacity(length);
    while from < to {
        let (segment, inside) = (from / stripes.segment, from % stripes.segment);
        let first = inside - inside % ALIGNED;
        let last = (inside + to - from).next_multiple_of(ALIGNED).min(first + strip(group)).min(stripes.segment);
        let segment = usize::try_from(segment).map_err(|_| Error::internal("no such segment"))?;
        let stripe = stripes.of_data(number, segment);
        let mut decoder =
            ReedSolomonDecoder::new(stripes.data(), stripes.losses, size(last - first)?).map_err(failed)?;
        let there = stripes.shards(stripe).filter(|shard| group.has(*shard, has));
        for shard in there.take(stripes.data()) {
            let piece = bytes(group, shard, (first, last), read)?;
            match shard {
                Shard::Data { segment, .. } => decoder.add_original_shard(segment, piece),
                Shard::Parity { segment, .. } => decoder.add_recovery_shard(segment, piece),
            }
            .map_err(failed)?;
        }
        let decoded = decoder.decode().map_err(failed)?;
        let piece = decoded.restored_original(segment);
        let end = last.min(inside + to - from);
        let piece = piece.and_then(|piece| piece.get(size(inside - first).ok()?..size(end - first).ok()?));
        rebuilt.extend_from_slice(piece.ok_or_else(|| Error::internal("a segment that is there was to be rebuilt"))?);
        from += end - inside;
    }
    Ok(rebuilt)
}

/// The bytes of a segment from one offset up to another one.
fn bytes(group: &ParityGroup, shard: Shard, (from, to): (u64, u64), read: Read<'_>) -> Result<Vec<u8>> {
    let segment_bytes = group.stripes().segment;
    let wanted = size(to - from)?;
    match shard {
        Shard::Data { node, segment } => {
            let start = segment as u64 * segment_bytes;
            let mut bytes = Vec::with_capacity(wanted);
            for piece in group.pieces(node, start + from, start + to) {
                bytes.extend(checked(read(Source::File(piece.name), piece.at, size(piece.length)?)?, piece.length)?);
            }
            bytes.resize(wanted, 0);
            Ok(bytes)
        }
        Shard::Parity { node, segment } => {
            let node = group.nodes.get(node).ok_or_else(|| Error::internal("no such node"))?.node;
            checked(read(Source::Parity(node), segment as u64 * segment_bytes + from, wanted)?, to - from)
        }
    }
}

/// Another node may answer anything.
fn checked(bytes: Vec<u8>, length: u64) -> Result<Vec<u8>> {
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(Error::internal("a piece of another length than was asked for")),
    }
}

fn size(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::internal("a piece that is too long"))
}

fn failed(error: reed_solomon_simd::Error) -> Error {
    Error::internal(format!("Reed-Solomon: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::group::Member;
    use super::*;
    use knarr_codec::codec::CodecList;
    use knarr_testing::data::Random;

    /// What nodes have.
    struct Nodes {
        group: ParityGroup,
        files: BTreeMap<String, Vec<u8>>,
        parity: BTreeMap<usize, Vec<u8>>,
    }

    fn piece(bytes: &[u8], at: u64, length: usize) -> Vec<u8> {
        bytes[usize::try_from(at).unwrap()..][..length].to_vec()
    }

    impl Nodes {
        /// Each node with up to `most` files of up to `longest` bytes.
        fn new(random: &mut Random, nodes: usize, losses: usize, most: usize, longest: usize) -> Self {
            let mut files = BTreeMap::new();
            let mut of = Vec::new();
            for node in 0..nodes {
                let mut names = Vec::new();
                for number in 0..random.below(most + 1) {
                    let length = random.below(longest + 1);
                    let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
                    let name = format!("group-{node}-{number}.knarr");
                    names.push((name.clone(), length as u64));
                    files.insert(name, bytes);
                }
                of.push(Member { node: 3 * node, files: names });
            }
            let group = serde_json::json!({"set": "", "losses": losses, "nodes": of});
            let group: ParityGroup = serde_json::from_value(group).unwrap();
            group.check().unwrap();
            let read = |source: Source<'_>, at, length| match source {
                Source::File(name) => Ok(piece(&files[name], at, length)),
                Source::Parity(_) => panic!("parity of parity"),
            };
            let mut parity = BTreeMap::new();
            for number in 0..nodes {
                let mut bytes = Vec::new();
                let put = |piece: &[u8]| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                };
                encode(&Engine::new(CodecList::pure()), &group, number, &read, put).unwrap();
                assert_eq!(bytes.len() as u64, group.stripes().parity());
                parity.insert(3 * number, bytes);
            }
            Self { group, files, parity }
        }

        /// Rebuilds, in pieces of random lengths, all files of the lost nodes.
        fn check(&self, random: &mut Random, lost: &BTreeSet<usize>) {
            let lost_files: BTreeSet<&str> = lost
                .iter()
                .flat_map(|&number| self.group.nodes[number].files.iter().map(|(name, _)| name.as_str()))
                .collect();
            let has = |source: Source<'_>| match source {
                Source::File(name) => !lost_files.contains(name),
                Source::Parity(node) => !lost.contains(&(node / 3)),
            };
            let read = |source: Source<'_>, at, length| {
                assert!(has(source));
                Ok(match source {
                    Source::File(name) => piece(&self.files[name], at, length),
                    Source::Parity(node) => piece(&self.parity[&node], at, length),
                })
            };
            for name in &lost_files {
                assert!(self.group.can_rebuild(name, &has), "{name} of {lost:?}");
                let (wanted, mut bytes) = (&self.files[*name], Vec::new());
                while bytes.len() < wanted.len() {
                    let length = (1 + random.below(1500)).min(wanted.len() - bytes.len());
                    let at = bytes.len() as u64;
                    bytes.extend(rebuild(&self.group, name, (at, length), &has, &read).unwrap());
                }
                assert!(bytes == *wanted, "{name} of {lost:?}");
            }
        }
    }

    /// Every choice of up to `most` of `nodes` nodes.
    fn choices(nodes: usize, most: usize) -> impl Iterator<Item = BTreeSet<usize>> {
        let chosen = move |bits: u32| (0..nodes).filter(|node| bits & (1 << node) != 0).collect::<BTreeSet<_>>();
        (0..1_u32 << nodes).map(chosen).filter(move |chosen| chosen.len() <= most)
    }

    #[test]
    fn whichever_nodes_are_lost_their_files_are_rebuilt() {
        for (nodes, losses) in (2..=8).flat_map(|nodes| (1..=3.min(nodes - 1)).map(move |losses| (nodes, losses))) {
            for seed in 0..3 {
                let mut random = Random::new(seed);
                let most = [3, 1, 6][usize::try_from(seed).unwrap()];
                let all = Nodes::new(&mut random, nodes, losses, most, 2000);
                choices(nodes, losses).for_each(|lost| all.check(&mut random, &lost));
            }
        }
    }

    #[test]
    fn segments_of_many_strips_and_nodes_without_bytes() {
        let mut random = Random::new(7);
        let longest = usize::try_from(2 * BYTES).unwrap();
        let all = Nodes::new(&mut random, 3, 1, 2, longest);
        choices(3, 1).for_each(|lost| all.check(&mut random, &lost));
        let none = Nodes::new(&mut random, 4, 2, 0, 0);
        assert!(none.parity.values().all(Vec::is_empty));
        let empty = Nodes::new(&mut random, 4, 2, 3, 0);
        choices(4, 2).for_each(|lost| empty.check(&mut random, &lost));
    }

    #[test]
    fn parity_stays_what_it_was_in_files_that_were_written_before() {
        let all = Nodes::new(&mut Random::new(1), 5, 2, 3, 2000);
        let sums: Vec<u32> = all.parity.values().map(|bytes| crc32c::crc32c(bytes)).collect();
        assert_eq!(sums, [1_846_778_288, 3_962_947_124, 2_845_322_804, 462_776_125, 3_392_687_331]);
    }
}
