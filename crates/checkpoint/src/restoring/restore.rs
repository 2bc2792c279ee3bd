//! Restoring: the pieces of a set scattered into the files they came from, byte for byte.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::classes::frame_sizes::WORKER;
use crate::disk::manifest::FrameEntry;
use crate::disk::parents::make_parent;
use crate::disk::set::{FrameBuffers, Set, Which};
use crate::files::holes::{Holes, ZEROS, runs};
use crate::files::names;
use crate::files::piece_hash::piece_hash;
use crate::files::rank_file::RankFile;
use crate::files::recipe::{self, ByteOrigin, Chunk};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::chain::Scratch;
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::{AtomicFile, Replaces};

/// What is not what it was: one rank's file cannot be restored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Damage {
    /// Number of the rank.
    pub rank: u64,
    /// Name of its file.
    pub name: String,
    /// Variables that are hit; empty if it is the rest of the file.
    pub variables: Vec<String>,
    /// What was found, and where.
    pub error: Error,
}

/// What a restore did.
#[derive(Debug, Clone, Default)]
pub struct Restored {
    /// Ranks whose files were written, with their paths.
    pub files: Vec<(usize, PathBuf)>,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes of frames that were read.
    pub read_bytes: u64,
    /// Ranks whose files were not written. Everything else was.
    pub damage: Vec<Damage>,
}

/// Restores the files of `ranks` below the directory `target`. A file appears under its name when its hash is what it
/// was, or not at all; damage of one does not keep others from coming back.
///
/// # Errors
/// `Usage` for ranks that the set does not have, `Exists` for files that are there and may not be replaced, `Write`.
pub fn restore(
    engine: &Engine,
    set: &Set,
    ranks: &[usize],
    target: &Path,
    force: bool,
    progress: &dyn Progress,
) -> Result<Restored> {
    let named = |&rank: &usize| {
        let file = set.manifest().ranks.get(rank).ok_or_else(|| no_rank(set, rank))?;
        Ok((rank, file.name.clone()))
    };
    let files = ranks.iter().map(named).collect::<Result<Vec<_>>>()?;
    restore_as(engine, set, &files, target, force, progress)
}

/// As [`restore`], for ranks with the names that their files get, which are paths below `target`.
///
/// # Errors
/// As for [`restore`].
pub(crate) fn restore_as(
    engine: &Engine,
    set: &Set,
    files: &[(usize, Vec<u8>)],
    target: &Path,
    force: bool,
    progress: &dyn Progress,
) -> Result<Restored> {
    refuse_existing_files(files.iter().map(|(_, name)| name.as_slice()), target, force)?;
    let manifest = set.manifest();
    let mut groups: BTreeMap<usize, BTreeMap<usize, &[u8]>> = BTreeMap::new();
    for (rank, name) in files {
        let file = manifest.ranks.get(*rank).ok_or_else(|| no_rank(set, *rank))?;
        groups.entry(file.group).or_default().insert(*rank, name);
    }
    std::fs::create_dir_all(target).map_err(|error| Error::write(target, &error))?;
    let lengths = files.iter().filter_map(|(rank, _)| manifest.ranks.get(*rank)).map(|rank| rank.layout.layout.length);
    progress.begin("restoring", lengths.sum());
    let mut restored = Restored::default();
    for files in groups.values() {
        let (mut outputs, mut begin) = (BTreeMap::new(), 0u64);
        for (&rank, name) in files {
            let output = Output::create(set, rank, name, target, (force, begin))?;
            begin = begin.saturating_add(output.described.layout.layout.length);
            outputs.insert(rank, output);
        }
        fill(engine, set, outputs, target, progress, &mut restored)?;
    }
    Ok(restored)
}

/// What [`restore`] checks before it writes anything; processes that restore a set together agree on it.
///
/// # Errors
/// `Exists` for files with one of `names` below `target`, if they may not be replaced.
pub fn refuse_existing_files<'a>(mut names: impl Iterator<Item = &'a [u8]>, target: &Path, force: bool) -> Result<()> {
    names.try_for_each(|name| Replaces::from(force).check(&target.join(std::ffi::OsStr::from_bytes(name))))
}

/// The error for a rank that a set does not have.
pub(crate) fn no_rank(set: &Set, rank: usize) -> Error {
    let ranks = set.manifest().ranks.len();
    Error::usage(format!("there is no rank {rank}"))
        .hint(format!("the set has ranks 0 to {}", ranks.saturating_sub(1)))
        .at(set.path().display().to_string())
}

/// A file that is being restored.
struct Output<'a> {
    rank: usize,
    described: &'a RankFile,
    path: PathBuf,
    temporary: AtomicFile,
    file: File,
    /// Where its unfiltered form begins in the values of the group.
    begin: u64,
}

/// Holds the values of the group's chunks until all are there. Each lies at its place in the unfiltered form of its file,
/// and these forms follow each other; the rest is a hole.
struct Values {
    /// Holds the file under a name that nobody knows.
    _temporary: AtomicFile,
    file: File,
    /// Directory of the restore, which is what errors name.
    target: PathBuf,
}

/// Writes the files of the ranks of one group and gives those their names that are what they were.
fn fill(
    engine: &Engine,
    set: &Set,
    outputs: BTreeMap<usize, Output<'_>>,
    target: &Path,
    progress: &dyn Progress,
    restored: &mut Restored,
) -> Result<()> {
    let is_filtered = outputs.values().any(|output| !output.described.layout.recipe.is_empty());
    let values = if is_filtered { Some(Values::create(set, target)?) } else { None };
    let scatter = |rank: usize, offset: u64, bytes: &[u8]| {
        let Some(output) = outputs.get(&rank) else { return Ok(()) };
        match (output.described.layout.recipe.place(offset), &values) {
            (ByteOrigin::File { offset, .. }, _) => output.put(offset, bytes)?,
            (ByteOrigin::Values(..), Some(values)) => values.put(output.begin.saturating_add(offset), bytes)?,
            (ByteOrigin::Values(..), None) => return Err(Error::internal("values of chunks in files without any")),
        }
        progress.advance(bytes.len() as u64);
        Ok(())
    };
    let wanted = |rank: usize, _: usize| outputs.contains_key(&rank);
    let (read, mut damage) = fetch(engine, set, Proof::Checksums, wanted, scatter)?;
    restored.read_bytes += read;
    let outputs: Vec<Output<'_>> = outputs.into_values().collect();
    if let Some(values) = values {
        values.filter(engine, set, &outputs, &mut damage, progress)?;
    }
    let hashes = engine.parallel(outputs.len(), |index| match outputs.get(index) {
        Some(output) if !damage.contains_key(&output.rank) => output.hash().map(Some),
        _ => Ok(None),
    })?;
    for (output, hash) in outputs.into_iter().zip(hashes) {
        let (rank, number, name) = (output.rank, output.described.number, output.described.display());
        if let Some(damage) = damage.get(&rank) {
            restored.damage.push(Damage { rank: number, name, ..damage.clone() });
        } else if hash != Some(output.described.hash) {
            let error = Error::corrupt("the restored file does not have the hash of the original")
                .hint_damage("set")
                .at(set.path().display().to_string());
            let variables = output.described.layout.unfiltered_variables();
            restored.damage.push(Damage { rank: number, name, variables, error });
        } else {
            let path = output.path.clone();
            restored.bytes += output.publish()?;
            restored.files.push((rank, path));
        }
    }
    Ok(())
}

/// Chunks of so many bytes of values are filtered in one go.
const BATCH: u64 = 4 << 20;

impl Values {
    fn create(set: &Set, target: &Path) -> Result<Self> {
        // It never gets this name, so it does not matter who has it.
        let mut temporary = AtomicFile::create(&target.join("values"), true)?;
        temporary.limit_mode(set.file_mode())?;
        let open = OpenOptions::new().read(true).write(true).open(temporary.path());
        let file = open.map_err(|error| Error::write(target, &error))?;
        Ok(Self { _temporary: temporary, file, target: target.to_owned() })
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::write(&self.target, &error))
    }

    /// Writes the chunks of `outputs` as filters make them from the values that were put. Chunks that come out otherwise
    /// are damage.
    fn filter(
        &self,
        engine: &Engine,
        set: &Set,
        outputs: &[Output<'_>],
        damage: &mut BTreeMap<usize, Damage>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut jobs: Vec<(&Output<'_>, &[Chunk])> = Vec::new();
        let mut largest = 0;
        for output in outputs.iter().filter(|output| !damage.contains_key(&output.rank)) {
            let recipe = &output.described.layout.recipe;
            largest = recipe.largest().max(largest);
            let mut rest = recipe.chunks();
            while let Some(first) = rest.first() {
                let end = first.offset.saturating_add(BATCH);
                let (batch, left) = rest.split_at(rest.partition_point(|chunk| chunk.offset < end).max(1));
                jobs.push((output, batch));
                rest = left;
            }
        }
        let bytes = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.length).sum();
        progress.begin("filtering", jobs.iter().map(|(_, chunks)| -> u64 { bytes(chunks) }).sum());
        let failed = engine.fitting(recipe::COPIES * largest).parallel(jobs.len(), |index| {
            let Some((output, chunks)) = jobs.get(index) else { return Err(Error::internal("no such chunks")) };
            progress.advance(bytes(chunks));
            match self.filter_chunks(&engine.codecs, output, chunks) {
                Err((_, error)) if matches!(error.kind(), ErrorKind::Write | ErrorKind::Read) => Err(error),
                done => Ok(done.err()),
            }
        })?;
        for ((output, _), failed) in jobs.iter().zip(failed) {
            if let Some((offset, error)) = failed {
                let pieces = &output.described.layout.pieces;
                let number = pieces.partition_point(|piece| piece.offset < offset);
                hit(set, damage, output.rank, number, &error.at(set.path().display().to_string()));
            }
        }
        Ok(())
    }

    /// An error comes with the offset of its chunk in the unfiltered form.
    fn filter_chunks(&self, codecs: &CodecList, output: &Output<'_>, chunks: &[Chunk]) -> Result<(), (u64, Error)> {
        let [mut values, mut stored] = [const { Vec::new() }; 2];
        let mut scratch = Scratch::default();
        for chunk in chunks {
            values.resize(usize::try_from(chunk.length).unwrap_or(0), 0);
            let read = self.file.read_exact_at(&mut values, output.begin.saturating_add(chunk.offset));
            read.map_err(|error| Error::read(&self.target, &error))
                .and_then(|()| chunk.encode(codecs, &values, &mut scratch, &mut stored))
                .and_then(|()| output.put(chunk.stored_offset, &stored))
                .map_err(|error| (chunk.offset, error))?;
        }
        Ok(())
    }
}

/// Copies of a frame while it is read: encoded, decoded in two steps, and taken apart.
const COPIES: u64 = 4;

/// What is checked of a piece besides the checksums of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing: the whole file is hashed in the end.
    Checksums,
    /// Its own hash, where the set has it.
    Hashes,
}

/// The engine with as many workers as the memory allows that read such frames.
pub(crate) fn reading<'a>(engine: &Engine, frames: impl Iterator<Item = &'a FrameEntry>) -> Engine {
    let bytes = frames.map(|frame| frame.pieces.iter().map(|piece| piece.length).sum());
    engine.fitting(WORKER.max(bytes.max().map_or(0, |largest: u64| largest.saturating_mul(COPIES))))
}

/// Reads the frames that hold a wanted piece, given as rank and number, and hands every place of every piece to `put`
/// with its offset in the file. Returns the bytes that were read, and what is damaged by rank.
pub(crate) fn fetch(
    engine: &Engine,
    set: &Set,
    proof: Proof,
    wanted: impl Fn(usize, usize) -> bool + Sync,
    put: impl Fn(usize, u64, &[u8]) -> Result<()> + Sync,
) -> Result<(u64, BTreeMap<usize, Damage>)> {
    let manifest = set.manifest();
    let places = |frame: &FrameEntry| -> Vec<(usize, usize)> {
        let places = frame.pieces.iter().flat_map(|piece| &piece.places);
        places.filter(|(rank, number)| wanted(*rank, *number)).copied().collect()
    };
    let frames: Vec<&FrameEntry> = manifest.frames.iter().filter(|frame| !places(frame).is_empty()).collect();
    let read = AtomicU64::new(0);
    let damage = Mutex::new(BTreeMap::new());
    let pool = Mutex::new(Vec::<FrameBuffers>::new());
    reading(engine, frames.iter().copied()).parallel(frames.len(), |index| {
        let Some(frame) = frames.get(index) else { return Err(Error::internal("no such frame")) };
        let mut buffers = pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        read.fetch_add(frame.length, Ordering::Relaxed);
        let done = set.read_pieces(&engine.codecs, frame, Which::Any, &mut buffers, |piece, bytes| {
            if proof == Proof::Hashes && piece.hash.is_some_and(|hash| hash != piece_hash(bytes)) {
                return Err(Error::corrupt("a piece does not have the hash it was stored with").hint_damage("set"));
            }
            for (rank, number) in piece.places.iter().filter(|(rank, number)| wanted(*rank, *number)) {
                let of = manifest.ranks.get(*rank).and_then(|rank| rank.layout.pieces.get(*number));
                put(*rank, of.map_or(0, |piece| piece.offset), bytes)?;
            }
            Ok(())
        });
        pool.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
        match done {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Write | ErrorKind::Interrupted) => Err(error),
            Err(error) => {
                let mut damage = damage.lock().unwrap_or_else(PoisonError::into_inner);
                for (rank, number) in places(frame) {
                    hit(set, &mut damage, rank, number, &error);
                }
                Ok(())
            }
        }
    })?;
    Ok((read.into_inner(), damage.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Notes that a piece of a rank is lost.
fn hit(set: &Set, damage: &mut BTreeMap<usize, Damage>, rank: usize, piece: usize, error: &Error) {
    let described = set.manifest().ranks.get(rank);
    let (number, name) = described.map(|rank| (rank.number, rank.display())).unwrap_or_default();
    let damage = damage.entry(rank).or_insert_with(|| Damage {
        rank: number,
        name,
        variables: Vec::new(),
        error: error.clone(),
    });
    let variable = described.and_then(|rank| {
        let piece = rank.layout.pieces.get(piece)?;
        Some(rank.layout.layout.variables.get(piece.variable?)?.path.clone())
    });
    if let Some(variable) = variable.filter(|variable| !damage.variables.contains(variable)) {
        damage.variables.push(variable);
        damage.variables.sort_unstable();
    }
}

impl RankFile {
    /// The name for people.
    pub fn display(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// The name as a path; it was checked when the manifest was read.
    pub fn path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.name))
    }

    /// True if the file at `path` has exactly the bytes of this one; false if there is none.
    ///
    /// # Errors
    /// `Read` if there is one that cannot be read.
    pub fn is_at(&self, path: &Path) -> Result<bool> {
        let read_error = |error: std::io::Error| Error::read(path, &error);
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(read_error)?,
        };
        let length = file.metadata().map_err(read_error)?.len();
        Ok(length == self.layout.file_length() && hash_of(&file).map_err(read_error)? == self.hash)
    }
}

impl<'a> Output<'a> {
    fn create(set: &'a Set, rank: usize, name: &[u8], target: &Path, (force, begin): (bool, u64)) -> Result<Self> {
        let described = set.manifest().ranks.get(rank).ok_or_else(|| no_rank(set, rank))?;
        names::check(name)?;
        let path = target.join(std::ffi::OsStr::from_bytes(name));
        make_parent(target, &path)?;
        let mut temporary = AtomicFile::create(&path, force)?;
        let most = described.attributes.map_or(0o777, |attributes| attributes.mode | 0o600);
        temporary.limit_mode(set.file_mode() & most)?;
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(temporary.path())?;
            file.set_len(described.layout.file_length())?;
            Ok(file)
        };
        let file = open().map_err(|error| Error::write(&path, &error))?;
        Ok(Self { rank, described, path, temporary, file, begin })
    }

    /// Writes bytes of the file. Where nothing is written it is a hole, which reads as zeros.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        runs(offset, bytes)
            .try_for_each(|(offset, run)| self.file.write_all_at(run, offset))
            .map_err(|error| Error::write(&self.path, &error))
    }

    /// BLAKE3 of what was written.
    fn hash(&self) -> Result<[u8; 32]> {
        hash_of(&self.file).map_err(|error| Error::read(&self.path, &error))
    }

    /// Gives the file what it was like, and its name. Returns its length.
    fn publish(mut self) -> Result<u64> {
        if let Some(attributes) = self.described.attributes {
            self.temporary.set_mode(attributes.mode);
            if let Some(modified) = attributes.modified() {
                // A file system that cannot keep the time keeps the content.
                let _ = self.file.set_modified(modified);
            }
        }
        self.temporary.publish()
    }
}

/// BLAKE3 of a whole file. Holes are not read.
fn hash_of(file: &File) -> std::io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut holes = Holes::of(file, &file.metadata()?);
    let mut at = 0;
    loop {
        let zeros = holes.zeros(at, ZEROS.len() as u64);
        if zeros > 0 {
            hasher.update(ZEROS.get(..usize::try_from(zeros).unwrap_or(0)).unwrap_or_default());
            at += zeros;
            continue;
        }
        let count = match file.read_at(&mut buffer, at) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if count == 0 {
            return Ok(*hasher.finalize().as_bytes());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        at += count as u64;
    }
}
