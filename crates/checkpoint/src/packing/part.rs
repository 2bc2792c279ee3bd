//! What one process packed of a set, and the set that the parts of all processes make.

use std::collections::HashMap;
use std::sync::Arc;

use crate::disk::manifest::{Manifest, Store, Summary};
use crate::disk::parts::Parts;
use crate::disk::tree::Tree;
use crate::files::rank_file::RankFile;
use crate::files::scan::Watched;
use crate::packing::grouping::no_files;
use knarr_array::error::{Error, Result};
use knarr_array::wire::{Reader, put_bytes, put_column, put_number};

/// Layouts of so many ranks before are looked at for an equal one: ranks of one program often have one, or one of few.
const LIKELY_EQUAL: usize = 8;

/// What one process packed. It can be sent to another thread, and must come back for the set to be finished.
pub struct Part {
    /// The groups as bytes, for the process that writes the manifest.
    pub(crate) bytes: Vec<u8>,
    /// Files that may not change until all is packed.
    pub(crate) watched: Vec<Watched>,
}

/// One packed group. Ranks in its manifest are numbered in the group; stores of an earlier set have their names.
pub(crate) struct PackedGroup {
    pub(crate) manifest: Manifest,
    /// Number in the set of each rank.
    pub(crate) ranks: Vec<usize>,
    pub(crate) counts: Counts,
    /// CRC-32C of the store that the group has written, the last one of the manifest; `None` if it has written none.
    pub(crate) checksum: Option<u32>,
}

/// What is told of the work besides the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Bytes of frames that were written.
    pub(crate) written: u64,
    /// Bytes of pieces that repeat others of the same group.
    pub(crate) repeated: u64,
    /// Bytes of pieces that the earlier set holds.
    pub(crate) reused: u64,
    /// Bytes of pieces that it holds, and that are stored again.
    pub(crate) apart: u64,
    /// Files that are carried as bytes, with the reason.
    pub(crate) carried_whole: Vec<(Vec<u8>, String)>,
    /// Permission bits that one of the files lacks.
    pub(crate) lacked: u32,
}

impl Part {
    pub(crate) fn new(groups: &[PackedGroup], watched: Vec<Watched>) -> Result<Self> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, groups.len() as u64);
        groups.iter().try_for_each(|group| group.write(&mut bytes))?;
        Ok(Self { bytes, watched })
    }

    /// The groups that another process packed.
    pub(crate) fn read(bytes: &[u8]) -> Result<Vec<PackedGroup>> {
        let mut reader = Reader::new("part of a set", bytes);
        (0..reader.number()?).map(|_| PackedGroup::read(&mut reader)).collect()
    }
}

impl PackedGroup {
    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        put_bytes(out, &self.manifest.body()?);
        put_column(out, &self.ranks.iter().map(|&rank| rank as u64).collect::<Vec<_>>());
        put_column(
            out,
            &[
                self.counts.written,
                self.counts.repeated,
                self.counts.reused,
                self.counts.apart,
                u64::from(self.counts.lacked),
            ],
        );
        put_column(out, &self.checksum.iter().map(|&sum| u64::from(sum)).collect::<Vec<_>>());
        put_number(out, self.counts.carried_whole.len() as u64);
        for (name, reason) in &self.counts.carried_whole {
            put_bytes(out, name);
            put_bytes(out, reason.as_bytes());
        }
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let manifest = Manifest::read_body(reader.bytes()?)?;
        let ranks = reader.column()?.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let ranks = ranks.ok().filter(|ranks| ranks.len() == manifest.ranks.len());
        let ranks = ranks.ok_or_else(|| reader.impossible("rank"))?;
        let &[written, repeated, reused, apart, lacked] = reader.column()?.as_slice() else {
            return Err(reader.impossible("count"));
        };
        let lacked = u32::try_from(lacked).map_err(|_| reader.impossible("mode"))?;
        let checksum = match reader.column()?.as_slice() {
            [] => None,
            &[sum] => Some(u32::try_from(sum).map_err(|_| reader.impossible("checksum"))?),
            _ => return Err(reader.impossible("checksum")),
        };
        let mut counts = Counts { written, repeated, reused, apart, carried_whole: Vec::new(), lacked };
        for _ in 0..reader.number()? {
            let (name, reason) = (reader.bytes()?.to_vec(), String::from_utf8_lossy(reader.bytes()?).into_owned());
            counts.carried_whole.push((name, reason));
        }
        Ok(Self { manifest, ranks, counts, checksum })
    }

    /// The store that the group has written, with its CRC-32C.
    pub(crate) fn own_store(&self) -> Option<(&Store, u32)> {
        self.manifest.stores.last().zip(self.checksum)
    }

    /// Number of the group in the set.
    fn number(&self) -> usize {
        self.manifest.ranks.first().map_or(0, |rank| rank.group)
    }
}

/// Puts the parts of all processes together, as if one had packed the groups in their order.
///
/// # Errors
/// `Usage` if groups or ranks are missing or there twice, or two files have one name; `Internal` for parts that make no
/// sense.
pub(crate) fn merge(parts: &[Vec<u8>], summary: Summary) -> Result<(Manifest, Counts)> {
    let mut groups = Vec::new();
    for part in parts {
        groups.extend(Part::read(part).map_err(|error| Error::internal(error.to_string()))?);
    }
    if groups.is_empty() {
        return Err(no_files());
    }
    groups.sort_by_key(PackedGroup::number);
    if let Some((expected, _)) = groups.iter().enumerate().find(|(expected, group)| group.number() != *expected) {
        return Err(Error::usage(format!("group {expected} was not packed, or another one twice"))
            .hint("groups have the numbers 0, 1, … and each is packed by one process"));
    }
    let mut merging = Merging::new(groups.iter().map(|group| group.ranks.len()).sum(), summary);
    groups.into_iter().try_for_each(|group| merging.add(group))?;
    merging.finish()
}

/// What processes have packed, of which `nodes` says where each of them is. `earlier` are the parts of the earlier set.
///
/// # Errors
/// `Internal` for what makes no sense.
pub(crate) fn parts_of(packed: &[Vec<u8>], nodes: &[usize], earlier: &Parts) -> Result<Parts> {
    let mut parts = Parts::default();
    for (bytes, node) in packed.iter().zip(nodes) {
        let used = parts.used.entry(*node).or_default();
        for group in Part::read(bytes)? {
            let own = group.own_store().map(|(store, sum)| (store.name.as_str(), sum));
            for store in &group.manifest.stores {
                let sum = own.filter(|(name, _)| *name == store.name).map(|(_, sum)| sum);
                let sum = sum.or_else(|| earlier.crc32c.get(&store.name).copied());
                let sum = sum.ok_or_else(|| Error::internal("a file of frames without a checksum"))?;
                parts.crc32c.insert(store.name.clone(), sum);
                used.insert(store.name.clone());
            }
        }
    }
    Ok(parts)
}

/// A manifest that is put together.
struct Merging {
    manifest: Manifest,
    ranks: Vec<Option<RankFile>>,
    classes: HashMap<String, usize>,
    stores: HashMap<String, usize>,
    counts: Counts,
}

impl Merging {
    fn new(ranks: usize, summary: Summary) -> Self {
        Self {
            manifest: Manifest {
                summary,
                ranks: Vec::new(),
                tree: Tree::default(),
                stores: Vec::new(),
                classes: Vec::new(),
                frames: Vec::new(),
            },
            ranks: (0..ranks).map(|_| None).collect(),
            classes: HashMap::new(),
            stores: HashMap::new(),
            counts: Counts::default(),
        }
    }

    fn add(&mut self, group: PackedGroup) -> Result<()> {
        let PackedGroup { manifest, ranks, counts, .. } = group;
        for (&number, rank) in ranks.iter().zip(manifest.ranks) {
            match self.ranks.get_mut(number) {
                Some(place @ None) => *place = Some(rank),
                _ => {
                    return Err(Error::usage(format!("rank {number} is there twice, or a rank before it is missing"))
                        .hint("ranks have the numbers 0, 1, … and each is in one group"));
                }
            }
        }
        let classes: Vec<usize> = manifest
            .classes
            .into_iter()
            .map(|class| numbered(&mut self.classes, class.clone(), || self.manifest.classes.push(class)))
            .collect();
        let stores: Vec<usize> = manifest
            .stores
            .into_iter()
            .map(|store| numbered(&mut self.stores, store.name.clone(), || self.manifest.stores.push(store)))
            .collect();
        let unknown = || Error::internal("a frame of no class, store or rank");
        for mut frame in manifest.frames {
            frame.class = *classes.get(frame.class).ok_or_else(unknown)?;
            frame.store = *stores.get(frame.store).ok_or_else(unknown)?;
            for (rank, _) in frame.pieces.iter_mut().flat_map(|piece| &mut piece.places) {
                *rank = *ranks.get(*rank).ok_or_else(unknown)?;
            }
            self.manifest.frames.push(frame);
        }
        self.manifest.summary.decisions.extend(manifest.summary.decisions);
        self.counts.written += counts.written;
        self.counts.repeated += counts.repeated;
        self.counts.reused += counts.reused;
        self.counts.apart += counts.apart;
        self.counts.carried_whole.extend(counts.carried_whole);
        self.counts.lacked |= counts.lacked;
        Ok(())
    }

    fn finish(mut self) -> Result<(Manifest, Counts)> {
        let mut names = std::collections::HashSet::new();
        for rank in self.ranks.into_iter().flatten() {
            if !names.insert(rank.name.clone()) {
                return Err(Error::usage(format!("two files are called '{}'", rank.name.escape_ascii()))
                    .hint("give them different names"));
            }
            let likely = self.manifest.ranks.iter().rev().take(LIKELY_EQUAL);
            let same = likely.map(|other| &other.layout).find(|other| **other == rank.layout).map(Arc::clone);
            self.manifest.ranks.push(RankFile { layout: same.unwrap_or_else(|| Arc::clone(&rank.layout)), ..rank });
        }
        Ok((self.manifest, self.counts))
    }
}

/// Number of a name, which `enter` enters if it is new.
fn numbered(known: &mut HashMap<String, usize>, name: String, enter: impl FnOnce()) -> usize {
    let next = known.len();
    *known.entry(name).or_insert_with(|| {
        enter();
        next
    })
}
