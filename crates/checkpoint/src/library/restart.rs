//! Restarting: any region of a global array from the regions that ranks handed over, however many they were.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::array_layout::FORMAT;
use crate::disk::set::Set;
use crate::files::rank_file::RankLayout;
use crate::restoring::restore::{Damage, Proof, fetch, restore_as};
use knarr_array::array::{DType, Endian, swap_bytes};
use knarr_array::error::{Error, Result};
use knarr_array::region::{Placed, runs};
use knarr_array::region::{Region, assign};
use knarr_array::request::Share;
use knarr_array::wire::{Reader, put_bytes, put_number};
use knarr_flow::engine::{Engine, Silent};
use knarr_handover::{Blocked, Entry, Index, check_alike};

/// Byte order of this machine.
const NATIVE: Endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };

/// Array files by the rank that wrote them: number in the set, and index.
type Images = Vec<(usize, Index)>;

/// A set that is read by one rank of a program.
pub struct Restart {
    engine: Engine,
    set: Set,
    step: u64,
    ranks: u64,
    images: Images,
    /// Places of arrays, as numbers of array file and entry.
    names: BTreeMap<String, Vec<(usize, usize)>>,
    /// What reading takes.
    reading: Blocked,
}

/// What a set says of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Type of its elements, which are read in the byte order of this machine.
    pub dtype: DType,
    /// Shape of the global array; `None` for arrays that each rank has of its own.
    pub shape: Option<Vec<u64>>,
}

/// What all ranks have to know of a set before they read from it.
///
/// # Errors
/// `Corrupt` if indices of arrays are damaged, or frames are missing; `Unsupported` for sets
/// that no program made of its arrays.
pub(super) fn indices(engine: &Engine, set: &Set) -> Result<Vec<u8>> {
    set.check_files()?;
    let path = set.path();
    let images: Vec<usize> = images(set).collect();
    if images.is_empty() {
        return Err(Error::unsupported("no program handed over arrays or files to this set")
            .hint("bring its files back with 'knarr checkpoint restore'")
            .at(path.display().to_string()));
    }
    let skeleton = Mutex::new(BTreeMap::<usize, BTreeMap<u64, Vec<u8>>>::new());
    let wanted = |rank: usize, number: usize| {
        images.binary_search(&rank).is_ok()
            && piece(set, rank, number).is_some_and(|(_, piece)| piece.variable.is_none())
    };
    let keep = |rank: usize, offset: u64, bytes: &[u8]| {
        let mut skeleton = skeleton.lock().unwrap_or_else(PoisonError::into_inner);
        skeleton.entry(rank).or_default().insert(offset, bytes.to_vec());
        Ok(())
    };
    let (_, damage) = fetch(engine, set, Proof::Hashes, wanted, keep)?;
    if let Some(damage) = damage.into_values().next() {
        return Err(of_damage(damage));
    }
    let skeleton = skeleton.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut out = Vec::new();
    put_number(&mut out, images.len() as u64);
    for rank in images {
        let empty = BTreeMap::new();
        let pieces = skeleton.get(&rank).unwrap_or(&empty);
        let length = set.manifest().ranks.get(rank).map_or(0, |rank| rank.layout.layout.length);
        let index = Index::read(length, |offset, count| gathered(pieces, offset, count))
            .map_err(|error| error.hint_damage("set").at(path.display().to_string()))?;
        put_number(&mut out, rank as u64);
        // What leads to the index is not needed any more.
        put_bytes(&mut out, &index.to_message());
    }
    Ok(out)
}

/// `count` bytes from `offset` on, of which every one lies in a piece.
fn gathered(pieces: &BTreeMap<u64, Vec<u8>>, offset: u64, count: u64) -> Result<Vec<u8>> {
    let missing = || Error::corrupt("an array file of the set has its index among values");
    let mut out = Vec::new();
    while (out.len() as u64) < count {
        let at = offset + out.len() as u64;
        let (from, bytes) = pieces.range(..=at).next_back().ok_or_else(missing)?;
        let skip = usize::try_from(at - from).unwrap_or(usize::MAX);
        let left = usize::try_from(count).unwrap_or(usize::MAX) - out.len();
        let bytes = bytes.get(skip..).filter(|bytes| !bytes.is_empty()).ok_or_else(missing)?;
        out.extend_from_slice(bytes.get(..left).unwrap_or(bytes));
    }
    Ok(out)
}

/// Numbers of the array files of a set, in rising order.
fn images(set: &Set) -> impl Iterator<Item = usize> + '_ {
    let ranks = set.manifest().ranks.iter().enumerate();
    // Programs may add files of this format, too.
    let is_own = |name: &[u8]| name.starts_with(b"rank-") && name.ends_with(IMAGE) && !name.contains(&b'/');
    ranks.filter(move |(_, rank)| rank.layout.layout.format == FORMAT && is_own(&rank.name)).map(|(number, _)| number)
}

fn piece(set: &Set, rank: usize, number: usize) -> Option<(&RankLayout, &crate::files::pieces::Piece)> {
    let layout = &set.manifest().ranks.get(rank)?.layout;
    Some((layout, layout.pieces.get(number)?))
}

fn of_damage(damage: Damage) -> Error {
    damage.error.at(format!("rank {} of the set, {}", damage.rank, damage.name))
}

/// The array files of a set by the rank that wrote them, its step, and the number of ranks, of what [`indices`] returned.
fn read_indices(set: &Set, bytes: &[u8]) -> Result<(Images, u64, u64)> {
    let mut reader = Reader::new("indices of a set", bytes);
    let mut images = Vec::new();
    for _ in 0..reader.number()? {
        let number = usize::try_from(reader.number()?).map_err(|_| reader.impossible("rank"))?;
        images.push((number, Index::from_message(reader.bytes()?)?));
    }
    images.sort_by_key(|(_, index)| index.rank);
    let at_set = |error: Error| error.hint_damage("set").at(set.path().display().to_string());
    let first = images.first().map(|(_, index)| (index.step, index.ranks));
    let (step, ranks) = first.ok_or_else(|| Error::internal("a set without array files"))?;
    let complete = (0..ranks).eq(images.iter().map(|(_, index)| index.rank));
    if !complete || images.iter().any(|(_, index)| (index.step, index.ranks) != (step, ranks)) {
        return Err(at_set(Error::corrupt("its array files are not those of all ranks at one step")));
    }
    check_alike(images.iter().map(|(_, index)| index)).map_err(at_set)?;
    Ok((images, step, ranks))
}

/// Checks what [`indices`] returned.
///
/// # Errors
/// `Corrupt` if array files do not belong together.
pub(super) fn check_indices(set: &Set, bytes: &[u8]) -> Result<()> {
    read_indices(set, bytes).map(drop)
}

impl Restart {
    /// Restarts from a set, of which `bytes` are what [`indices`] returned.
    pub(super) fn new(engine: &Engine, set: Set, bytes: &[u8]) -> Result<Self> {
        let (images, step, ranks) = read_indices(&set, bytes)?;
        let mut names: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
        for (image, (_, index)) in images.iter().enumerate() {
            for (number, entry) in index.entries.iter().enumerate() {
                names.entry(entry.request.variable.clone()).or_default().push((image, number));
            }
        }
        Ok(Self { engine: engine.clone(), set, step, ranks, images, names, reading: Blocked::default() })
    }

    /// Counts the time that this rank spends on reading.
    pub(super) fn reading(&self) -> Blocked {
        self.reading.clone()
    }

    /// The step that was checkpointed.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How many ranks made the checkpoint.
    pub fn ranks(&self) -> u64 {
        self.ranks
    }

    /// Directory of the set. If it is read where it lies on the nodes: that of this node.
    pub fn path(&self) -> &Path {
        self.set.path()
    }

    /// All arrays, in the order of their names.
    pub fn arrays(&self) -> Vec<Described> {
        self.names.keys().filter_map(|name| self.describe(name).ok()).collect()
    }

    /// One array.
    ///
    /// # Errors
    /// `Usage` if there is none of this name, with those that there are.
    pub fn describe(&self, name: &str) -> Result<Described> {
        let (_, entry) = self.entries(name)?.next().ok_or_else(|| Error::internal("an array without entries"))?;
        let shape = match &entry.request.share {
            Share::Own(_) => None,
            Share::Global { shape, .. } => Some(shape.clone()),
        };
        Ok(Described { name: name.to_owned(), dtype: entry.request.dtype, shape })
    }

    /// Where an array lies: array file and entry, in the order of ranks and then of handing over.
    fn entries(&self, name: &str) -> Result<impl DoubleEndedIterator<Item = (usize, &Entry)>> {
        let places = self.names.get(name).ok_or_else(|| {
            let near = knarr_flow::settings::nearest(name, self.names.keys().map(String::as_str), 8);
            let has = if near.is_empty() { "no arrays, only files".to_owned() } else { near };
            Error::usage(format!("there is no array '{name}'"))
                .hint(format!("the set has: {has}"))
                .at(self.path().display().to_string())
        })?;
        let of = |&(image, number): &(usize, usize)| Some((image, self.images.get(image)?.1.entries.get(number)?));
        Ok(places.iter().filter_map(of))
    }

    /// Shape of the array that `rank` had of its own.
    ///
    /// # Errors
    /// As for [`Restart::read_own`].
    pub fn own_shape(&self, name: &str, rank: u64) -> Result<Vec<u64>> {
        self.own(name, rank).map(|(_, entry)| entry.request.share.count().to_vec())
    }

    fn own(&self, name: &str, rank: u64) -> Result<(usize, &Entry)> {
        let here = |error: Error| error.at(format!("array '{name}'")).at(self.path().display().to_string());
        if self.describe(name)?.shape.is_some() {
            return Err(here(Error::usage("it is a global array").hint("say which region of it to read")));
        }
        let has = |&(image, _): &(usize, &Entry)| self.images.get(image).is_some_and(|(_, index)| index.rank == rank);
        self.entries(name)?.find(has).ok_or_else(|| {
            let ranks = if self.ranks == 1 { "1 rank".to_owned() } else { format!("{} ranks", self.ranks) };
            here(Error::usage(format!("rank {rank} has none of its own; the checkpoint was made on {ranks}")).hint(
                "restart on as many ranks, or hand it over as region of a global array, which any number can read",
            ))
        })
    }

    /// Reads the array that `rank` had of its own into `out`, row-major and in the byte order of this machine.
    ///
    /// # Errors
    /// `Usage` if there is no such array or `out` has another length; `Corrupt` or `Read` if it cannot be restored.
    pub fn read_own(&self, name: &str, rank: u64, out: &mut [u8]) -> Result<()> {
        let (image, entry) = self.own(name, rank)?;
        let wanted = Region::whole(entry.request.share.count());
        self.read_parts(name, &wanted, &[(image, entry, vec![wanted.clone()])], out)
    }

    /// Reads a region of a global array into `out`, row-major and in the byte order of this machine. Where regions that
    /// were handed over overlap, the rank with the highest number counts, and of one rank what came last.
    ///
    /// # Errors
    /// `Usage` if there is no such array, the region is not inside of it, `out` has another length, or parts of it were
    /// handed over by no rank; `Corrupt` or `Read` if it cannot be restored.
    pub fn read(&self, name: &str, wanted: &Region, out: &mut [u8]) -> Result<()> {
        let here = |error: Error| error.at(format!("array '{name}'")).at(self.path().display().to_string());
        let shape = self.describe(name)?.shape.ok_or_else(|| {
            here(Error::usage("each rank has it of its own").hint("read it without a region, on as many ranks"))
        })?;
        wanted.check_inside(&shape).map_err(|error| here(error.hint("read a region that lies inside of the array")))?;
        let entries: Vec<(usize, &Entry)> = self.entries(name)?.collect();
        let regions = entries.iter().enumerate().filter_map(|(number, (_, entry))| match &entry.request.share {
            Share::Global { region, .. } => Some((number, region)),
            Share::Own(_) => None,
        });
        let assigned = assign(wanted, regions.collect::<Vec<_>>().into_iter()).map_err(|gap| {
            here(
                Error::usage(format!("no rank handed over the region {:?} + {:?} of it", gap.start, gap.count))
                    .hint("let ranks hand over all of the array, or read what they did"),
            )
        })?;
        let mut parts: BTreeMap<usize, Vec<Region>> = BTreeMap::new();
        assigned.into_iter().for_each(|(number, part)| parts.entry(number).or_default().push(part));
        let of = |(number, parts)| entries.get(number).map(|&(image, entry)| (image, entry, parts));
        let parts: Vec<(usize, &Entry, Vec<Region>)> = parts.into_iter().filter_map(of).collect();
        self.read_parts(name, wanted, &parts, out)
    }

    /// Reads parts of `wanted`, each from the entry that it comes with.
    fn read_parts(
        &self,
        name: &str,
        wanted: &Region,
        parts: &[(usize, &Entry, Vec<Region>)],
        out: &mut [u8],
    ) -> Result<()> {
        let _inside = self.reading.enter();
        let here = |error: Error| error.at(format!("array '{name}'")).at(self.path().display().to_string());
        let dtype = self.describe(name)?.dtype;
        let bytes = wanted.volume().and_then(|elements| elements.checked_mul(dtype.size() as u64));
        if bytes != Some(out.len() as u64) {
            return Err(here(Error::usage(format!(
                "the region {:?} of {dtype} does not take {} bytes",
                wanted.count,
                out.len()
            ))));
        }
        // By number in the set: the entries that are needed, and by piece which of them it belongs to.
        let mut needed: HashMap<usize, BTreeMap<usize, Needed<'_>>> = HashMap::new();
        for (image, entry, parts) in parts {
            let Some((file, _)) = self.images.get(*image) else { continue };
            self.pieces(*file, entry, parts, needed.entry(*file).or_default());
        }
        let wanted_piece = |file: usize, number: usize| needed.get(&file).is_some_and(|of| of.contains_key(&number));
        let shared = Mutex::new(&mut *out);
        let put = |file: usize, offset: u64, bytes: &[u8]| {
            let Some((layout, pieces)) =
                self.set.manifest().ranks.get(file).zip(needed.get(&file)).map(|(rank, of)| (&rank.layout, of))
            else {
                return Ok(());
            };
            let number = layout.pieces.partition_point(|piece| piece.offset < offset);
            let Some(of) = pieces.get(&number) else { return Ok(()) };
            let mut out = shared.lock().unwrap_or_else(PoisonError::into_inner);
            of.copy(bytes, dtype.size(), wanted, &mut out)
        };
        let (_, damage) = fetch(&self.engine, &self.set, Proof::Hashes, wanted_piece, put)?;
        if let Some(damage) = damage.into_values().next() {
            return Err(here(of_damage(damage)));
        }
        if parts.first().is_some_and(|(_, entry, _)| entry.request.endian != NATIVE) {
            swap_bytes(out, dtype.size());
        }
        Ok(())
    }

    /// Enters the pieces of `entry` that hold elements of `parts`.
    fn pieces<'a>(&self, file: usize, entry: &'a Entry, parts: &'a [Region], needed: &mut BTreeMap<usize, Needed<'a>>) {
        let Some(rank) = self.set.manifest().ranks.get(file) else { return };
        let pieces = &rank.layout.pieces;
        let size = (entry.request.dtype.size() as u64).max(1);
        let begin = pieces.partition_point(|piece| piece.offset < entry.offset);
        for (number, piece) in pieces.iter().enumerate().skip(begin) {
            if piece.offset >= entry.offset + entry.request.byte_len() {
                break;
            }
            let from = (piece.offset - entry.offset) / size;
            let of = Needed { entry, parts, from, to: from + piece.length / size };
            if of.regions().next().is_some() {
                needed.insert(number, of);
            }
        }
    }

    /// Restores the files that `rank` of `ranks` added, below the directory `target` under the names they had. Returns
    /// their paths.
    ///
    /// # Errors
    /// `Usage` if another number of ranks made the checkpoint; `Exists` for files that are there, unless `force`;
    /// `Corrupt`, `Read` or `Write` for a file that cannot be restored: the others are.
    pub fn restore_files(&self, target: &Path, (rank, ranks): (u64, u64), force: bool) -> Result<Vec<PathBuf>> {
        let _inside = self.reading.enter();
        if ranks != self.ranks {
            return Err(Error::usage(format!("{ranks} ranks ask for the files of {}", self.ranks))
                .hint("restart on as many ranks: Knarr cannot divide files anew")
                .at(self.path().display().to_string()));
        }
        let folder = files_of(rank);
        let mut wanted = Vec::new();
        for (number, file) in self.set.manifest().ranks.iter().enumerate() {
            if let Some(name) = file.name.strip_prefix(folder.as_slice()) {
                wanted.push((number, name.to_vec()));
            }
        }
        let restored = restore_as(&self.engine, &self.set, &wanted, target, force, &Silent)?;
        match restored.damage.into_iter().next() {
            Some(damage) => Err(of_damage(damage)),
            None => Ok(restored.files.into_iter().map(|(_, path)| path).collect()),
        }
    }
}

/// What names of files that `rank` added begin with in a set.
pub(super) fn files_of(rank: u64) -> Vec<u8> {
    format!("rank-{rank:08}/").into_bytes()
}

/// What names of array files in a set end with.
const IMAGE: &[u8] = b".arrays";

/// Name of the array file of `rank` in a set.
pub(super) fn image_of(rank: u64) -> Vec<u8> {
    [format!("rank-{rank:08}").as_bytes(), IMAGE].concat()
}

/// A piece of which elements are needed.
struct Needed<'a> {
    entry: &'a Entry,
    /// What of the global array comes from this entry.
    parts: &'a [Region],
    /// Elements of the entry that the piece holds, to the last exclusively.
    from: u64,
    to: u64,
}

impl Needed<'_> {
    /// Regions of the global array that the piece has elements of.
    fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        let rows = self.entry.request.region().rows(self.from, self.to);
        self.parts.iter().filter_map(move |part| part.intersection(&rows))
    }

    /// Copies what is needed of the piece to where it belongs in `wanted`.
    fn copy(&self, bytes: &[u8], size: usize, wanted: &Region, out: &mut [u8]) -> Result<()> {
        let held = self.entry.request.region();
        let mut whole = true;
        for part in self.regions() {
            let from = Placed { shape: &held.count, start: &part.start_in(&held) };
            let to = Placed { shape: &wanted.count, start: &part.start_in(wanted) };
            runs(from, to, &part.count, |at, place, run| {
                let (first, last) = (at.max(self.from), (at + run).min(self.to));
                if first < last {
                    let source = span(first - self.from, last - first, size).and_then(|range| bytes.get(range));
                    let target = span(place + (first - at), last - first, size).and_then(|range| out.get_mut(range));
                    match source.zip(target) {
                        Some((source, target)) => target.copy_from_slice(source),
                        None => whole = false,
                    }
                }
            });
        }
        if whole {
            Ok(())
        } else {
            Err(Error::corrupt("a piece has another length than its elements").hint_damage("set"))
        }
    }
}

fn span(start: u64, count: u64, size: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(start).ok()?.checked_mul(size)?;
    Some(start..start.checked_add(usize::try_from(count).ok()?.checked_mul(size)?)?)
}
