//! Brings a step from the disks of the nodes to the directory of sets: files of frames are copied as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::copying::{Copied, piece};
use super::node_sets::Held;
use super::nodes::gathered;
use crate::disk::manifest::{FrameEntry, Manifest, Store};
use crate::disk::parts::{PARTS, Parts};
use crate::disk::set::{MANIFEST, MANIFEST_COPY, SET, Set};
use crate::disk::sets;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::wire::{Reader, put_bytes, put_number};
use knarr_flow::engine::Engine;
use knarr_flow::output::{AtomicDirectory, Store as _};
use knarr_handover::Delivery;

/// Which node copies what, as rank 0 decides.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    /// Name of the directory where the set is put together.
    directory: String,
    /// Files of frames that each rank copies.
    copies: BTreeMap<usize, Vec<String>>,
}

/// A step on its way.
pub(super) struct Flush {
    engine: Engine,
    step: u64,
    /// This node's part.
    part: PathBuf,
    directory: PathBuf,
    copies: Vec<Copied>,
    /// Of rank 0.
    new: Option<New>,
}

/// A set that is put together.
pub(super) struct New {
    pub(super) staging: AtomicDirectory,
    pub(super) manifest: Manifest,
    /// Permission bits of its directory.
    pub(super) mode: u32,
    /// When it was completed on the nodes: nanoseconds since 1970.
    pub(super) when: u64,
    /// If it is a part of a set: what is known of all parts, and the files of frames that this one has.
    pub(super) part: Option<(Parts, BTreeSet<String>)>,
}

/// What became of a step on its way.
pub(super) enum Flushed {
    /// It is in the directory of sets.
    There(u64),
    /// These files of frames cannot be read where they are: the rank there, the name, and why. Nothing has changed.
    Unreadable(u64, Vec<(usize, String, Error)>),
}

/// Permission bits of a directory until the set in it is complete.
pub(super) const PRIVATE: u32 = 0o700;

impl Flush {
    /// Begins with the set `wanted`, of which the nodes have parts in their `place`. `parts` are those of all ranks, `None` where
    /// there is none. A set that is there already is replaced. Collective.
    ///
    /// # Errors
    /// On all ranks that of one of them: `NotFound` if a file of frames is on no node, `Read`, `Write`.
    pub(super) fn begin(
        engine: &Engine,
        comm: &dyn Comm,
        (place, directory): (&Path, &Path),
        wanted: &Held,
        parts: &[Option<Held>],
    ) -> Result<Self> {
        let (part, target) = (sets::of_step(place, wanted.step), sets::of_step(directory, wanted.step));
        let Described { manifest, mode, .. } = Described::of(engine, comm, &part, wanted, parts)?;
        let planned = match comm.rank() {
            ROOT => plan(engine, &target, &manifest, parts, &wanted.id).map(Some),
            _ => Ok(None),
        };
        let (staging, plan) = agree(comm, planned)?.unzip();
        let plan = comm::share(comm, &plan)?.ok_or_else(|| Error::internal("rank 0 has no plan"))?;
        let own = plan.copies.get(&comm.rank()).map_or(&[][..], Vec::as_slice);
        let copies = agree(comm, copied(&part, &manifest, own))?;
        let new = staging.map(|staging| New { staging, manifest, mode, when: wanted.when, part: None });
        let directory = directory.join(plan.directory);
        Ok(Self { engine: engine.clone(), step: wanted.step, part, directory, copies, new })
    }
}

/// What a set says of itself.
pub(super) struct Described {
    pub(super) manifest: Manifest,
    pub(super) parts: Parts,
    /// Permission bits of its directory.
    pub(super) mode: u32,
}

impl Described {
    /// Of the set `wanted`, on all ranks, also on those of nodes without a part of it. Collective.
    ///
    /// # Errors
    /// On all ranks that of reading it.
    pub(super) fn of(
        engine: &Engine,
        comm: &dyn Comm,
        part: &Path,
        wanted: &Held,
        parts: &[Option<Held>],
    ) -> Result<Self> {
        let has = |rank: &usize| parts.get(*rank).and_then(Option::as_ref).is_some_and(|held| held.id == wanted.id);
        // Rank 0 may be on a node without a part.
        let source = (0..comm.size()).find(has).unwrap_or(ROOT);
        let read = || {
            let set = Set::open(part, &engine.codecs)?;
            let mut message = Vec::new();
            put_bytes(&mut message, &set.manifest().body()?);
            put_bytes(&mut message, &comm::written(&Parts::read(part)?)?);
            put_number(&mut message, u64::from(mode_of(part)));
            Ok(message)
        };
        let message = agree(comm, if comm.rank() == source { read() } else { Ok(Vec::new()) })?;
        let message = comm::broadcast(comm, source, message)?;
        let mut reader = Reader::new("message", &message);
        let manifest = Manifest::read_body(reader.bytes()?)?;
        let parts = comm::read(reader.bytes()?)?;
        Ok(Self { manifest, parts, mode: u32::try_from(reader.number()?).unwrap_or(PRIVATE) })
    }
}

/// Those of this node's files that are to be copied.
fn copied(part: &Path, manifest: &Manifest, own: &[String]) -> Result<Vec<Copied>> {
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let parts = Parts::read(part)?;
    let own = manifest.stores.iter().filter(|store| own.contains(&store.name));
    own.map(|store| Copied::of(store, &parts)).collect()
}

/// Makes the directory, with links to what the newest set there has already, and deals the rest to the nodes evenly.
fn plan(
    engine: &Engine,
    target: &Path,
    manifest: &Manifest,
    parts: &[Option<Held>],
    id: &str,
) -> Result<(AtomicDirectory, Plan)> {
    let staging = stage(target)?;
    let newest = sets::completed(sets::directory_of(target))?.pop();
    let newest = newest.and_then(|path| Set::open(&path, &engine.codecs).ok());
    let is_linked = |store: &Store| link(store, manifest, newest.as_ref(), staging.dir());
    let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
    let mut copies: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for store in manifest.stores.iter().filter(|store| !is_linked(store)) {
        let has =
            |held: &Option<Held>| held.as_ref().is_some_and(|held| held.id == id && held.here.contains(&store.name));
        let holders = parts.iter().enumerate().filter(|(_, held)| has(held)).map(|(rank, _)| rank);
        let rank = holders.min_by_key(|rank| bytes.get(rank).copied().unwrap_or(0)).ok_or_else(|| {
            let what = format!("the file of frames '{}' is on none of the nodes", store.name);
            Error::new(ErrorKind::NotFound, what).at(target.display().to_string())
        })?;
        *bytes.entry(rank).or_default() += store.length;
        copies.entry(rank).or_default().push(store.name.clone());
    }
    let directory = staging.dir().file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    Ok((staging, Plan { directory, copies }))
}

/// Links a file of frames of the set with this manifest to the one of the set `other`, if it has that.
pub(super) fn link(store: &Store, manifest: &Manifest, other: Option<&Set>, target: &Path) -> bool {
    other.is_some_and(|set| {
        let is_same = is_same_file(store, manifest, set.manifest()) && set.has_file(store);
        let link = || std::fs::hard_link(set.path().join(&store.name), target.join(&store.name));
        is_same && link().is_ok()
    })
}

/// True if a file of frames of the set `one` is that of the set `other`: the name and the id say only of which values it is. A set that uses
/// the file of an earlier one has only those of its frames that it uses.
fn is_same_file(store: &Store, one: &Manifest, other: &Manifest) -> bool {
    let number = |manifest: &Manifest| {
        let is_same = |found: &Store| (&found.name, found.length, found.id) == (&store.name, store.length, store.id);
        manifest.stores.iter().position(is_same)
    };
    let Some((own, theirs)) = number(one).zip(number(other)) else { return false };
    let pieces = |frame: &FrameEntry| frame.pieces.iter().map(|piece| (piece.length, piece.hash)).collect::<Vec<_>>();
    let are_same = |a: &FrameEntry, b: &FrameEntry| {
        (a.length, a.block, &a.lanes) == (b.length, b.block, &b.lanes) && pieces(a) == pieces(b)
    };
    let of_theirs = other.frames.iter().filter(|frame| frame.store == theirs);
    let at: BTreeMap<u64, &FrameEntry> = of_theirs.map(|frame| (frame.offset, frame)).collect();
    let mut of_own = one.frames.iter().filter(|frame| frame.store == own);
    of_own.all(|frame| at.get(&frame.offset).is_some_and(|other| are_same(frame, other)))
}

impl Delivery for Flush {
    /// What could not be read.
    type Delivered = Vec<(String, Error)>;
    type Outcome = Flushed;

    fn deliver(&self) -> Result<Self::Delivered> {
        let mut unreadable = Vec::new();
        for copied in &self.copies {
            let name = &copied.store.name;
            match copied.make(&self.engine, &self.directory, |at, length| piece(&self.part, name, at, length)) {
                Err(error) if is_unreadable(&error) => unreadable.push((name.clone(), error)),
                made => made?,
            }
        }
        Ok(unreadable)
    }

    fn finish(mut self, comm: &dyn Comm, delivered: Result<Self::Delivered>) -> Result<Flushed> {
        let own = agree(comm, delivered)?;
        let all = gathered(comm, &own)?.into_iter().enumerate();
        let unreadable: Vec<_> =
            all.flat_map(|(rank, own)| own.into_iter().map(move |(name, error)| (rank, name, error))).collect();
        if !unreadable.is_empty() {
            return Ok(Flushed::Unreadable(self.step, unreadable));
        }
        let published = self.new.take().map_or(Ok(()), |new| new.publish(&self.engine));
        agree(comm, published)?;
        Ok(Flushed::There(self.step))
    }
}

/// True if what was to be copied is damaged or gone, and another node may have it.
pub(super) fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Read | ErrorKind::NotFound)
}

impl New {
    /// Gives the set its manifest and its name.
    ///
    /// # Errors
    /// `Write`, also if a file of frames is gone.
    pub(super) fn publish(self, engine: &Engine) -> Result<()> {
        let Self { mut staging, manifest, mode, when, part } = self;
        let (directory, place) = (staging.dir().to_owned(), staging.place());
        let lacks =
            |store: &&Store| directory.join(&store.name).metadata().map_or(true, |found| found.len() != store.length);
        let is_own = |store: &&Store| part.as_ref().is_none_or(|(_, here)| here.contains(&store.name));
        if let Some(store) = manifest.stores.iter().filter(is_own).find(lacks) {
            let what = format!("'{}' was removed or changed while the set was copied", store.name);
            return Err(Error::new(ErrorKind::Write, what).at(place));
        }
        let bytes = manifest.write(&engine.codecs)?;
        if let Some((parts, _)) = &part {
            staging.write(PARTS, &comm::written(parts)?)?;
        }
        staging.write(MANIFEST_COPY, &bytes)?;
        staging.write(MANIFEST, &bytes)?;
        sets::set_date(&directory, UNIX_EPOCH + Duration::from_nanos(when))?;
        let opened = set_permissions(&directory, Permissions::from_mode(mode));
        opened.map_err(|error| Error::write(Path::new(&place), &error))?;
        engine.check_cancelled()?;
        Box::new(staging).publish().map(drop)
    }
}

/// A directory for what will be the set at `target`, that nobody else may enter.
///
/// # Errors
/// `Exists` if something else is there; `Write`.
pub(super) fn stage(target: &Path) -> Result<AtomicDirectory> {
    let staging = AtomicDirectory::create(target, SET, true)?;
    let closed = set_permissions(staging.dir(), Permissions::from_mode(PRIVATE));
    closed.map_err(|error| Error::write(target, &error)).map(|()| staging)
}

/// Permission bits of the directory of a set.
pub(super) fn mode_of(set: &Path) -> u32 {
    set.metadata().map_or(PRIVATE, |found| found.permissions().mode() & 0o777)
}
