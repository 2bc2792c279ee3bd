//! Brings a step from the disks of the nodes to the directory of sets: files of frames are copied as they are.

use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::copying::{Copied, piece};
use super::node_sets::{Held, id};
use crate::disk::manifest::{Manifest, Store};
use crate::disk::parts::Parts;
use crate::disk::set::{MANIFEST, MANIFEST_COPY, SET, Set};
use crate::disk::sets;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::wire::{Reader, put_bytes, put_number};
use knarr_flow::engine::Engine;
use knarr_flow::output::{AtomicDirectory, Store as _};
use knarr_handover::Delivery;

/// Which node copies what, as rank 0 decides.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    /// Where the set is put together.
    directory: PathBuf,
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
    staging: Option<New>,
}

/// A set that is put together.
pub(super) struct New {
    pub(super) staging: AtomicDirectory,
    pub(super) manifest: Manifest,
    /// Permission bits of its directory.
    pub(super) mode: u32,
    /// When it was completed on the nodes: nanoseconds since 1970.
    pub(super) when: u64,
}

/// Permission bits of the directory until it is complete.
const PRIVATE: u32 = 0o700;

impl Flush {
    /// Begins with the set `wanted`, of which the nodes have parts in their `place`. `parts` are those of all ranks, `None` where
    /// there is none. A set that is there already is replaced. Collective.
    ///
    /// # Errors
    /// On all ranks that of one of them: `Corrupt` if a file of frames is on no node, `Read`, `Write`.
    pub(super) fn begin(
        engine: &Engine,
        comm: &dyn Comm,
        (place, directory): (&Path, &Path),
        wanted: &Held,
        parts: &[Option<Held>],
    ) -> Result<Self> {
        let (part, target) = (sets::of_step(place, wanted.step), sets::of_step(directory, wanted.step));
        let has = |rank: usize| parts.get(rank).and_then(Option::as_ref).filter(|held| held.id == wanted.id);
        // Rank 0 may be on a node without a part.
        let source = (0..comm.size()).find(|&rank| has(rank).is_some()).unwrap_or(ROOT);
        let mut message = Vec::new();
        let read = if comm.rank() == source { Set::open(&part, &engine.codecs).map(Some) } else { Ok(None) };
        if let Some(set) = agree(comm, read)? {
            put_bytes(&mut message, &set.manifest().body()?);
            put_number(&mut message, u64::from(mode_of(&part)));
        }
        let message = comm::broadcast(comm, source, message)?;
        let mut reader = Reader::new("message", &message);
        let manifest = Manifest::read_body(reader.bytes()?)?;
        let mode = u32::try_from(reader.number()?).unwrap_or(PRIVATE);
        let planned = match comm.rank() {
            ROOT => plan(engine, directory, &target, &manifest, parts, &wanted.id).map(Some),
            _ => Ok(None),
        };
        let (staging, plan) = agree(comm, planned)?.unzip();
        let plan = comm::share(comm, &plan)?.ok_or_else(|| Error::internal("rank 0 has no plan"))?;
        let own = plan.copies.get(&comm.rank()).map_or(&[][..], Vec::as_slice);
        let copies = agree(comm, copied(&part, &manifest, own))?;
        let staging = staging.map(|staging| New { staging, manifest, mode, when: wanted.when });
        Ok(Self { engine: engine.clone(), step: wanted.step, part, directory: plan.directory, copies, staging })
    }
}

/// Those of this node's files that are to be copied.
fn copied(part: &Path, manifest: &Manifest, own: &[String]) -> Result<Vec<Copied>> {
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let parts = Parts::read(part)?;
    let of = |store: &Store| Some(Copied { store: store.clone(), crc32c: *parts.crc32c.get(&store.name)? });
    Ok(manifest.stores.iter().filter(|store| own.contains(&store.name)).filter_map(of).collect())
}

/// Makes the directory, with links to what the newest set there has already, and deals the rest to the nodes evenly.
fn plan(
    engine: &Engine,
    directory: &Path,
    target: &Path,
    manifest: &Manifest,
    parts: &[Option<Held>],
    id: &str,
) -> Result<(AtomicDirectory, Plan)> {
    let staging = AtomicDirectory::create(target, SET, true)?;
    set_permissions(staging.dir(), Permissions::from_mode(PRIVATE)).map_err(|error| Error::write(target, &error))?;
    let newest = sets::completed(directory)?.pop().and_then(|path| Set::open(&path, &engine.codecs).ok());
    let is_linked = |store: &Store| {
        newest.as_ref().is_some_and(|set| {
            let is_same = set
                .manifest()
                .stores
                .iter()
                .any(|other| (&other.name, other.length, other.id) == (&store.name, store.length, store.id));
            let link = || std::fs::hard_link(set.path().join(&store.name), staging.dir().join(&store.name));
            is_same && set.has_file(store) && link().is_ok()
        })
    };
    let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
    let mut copies: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for store in manifest.stores.iter().filter(|store| !is_linked(store)) {
        let has =
            |held: &Option<Held>| held.as_ref().is_some_and(|held| held.id == id && held.here.contains(&store.name));
        let holders = parts.iter().enumerate().filter(|(_, held)| has(held)).map(|(rank, _)| rank);
        let rank = holders.min_by_key(|rank| bytes.get(rank).copied().unwrap_or(0)).ok_or_else(|| {
            Error::corrupt(format!("the file of frames '{}' is on no node", store.name))
                .at(target.display().to_string())
        })?;
        *bytes.entry(rank).or_default() += store.length;
        copies.entry(rank).or_default().push(store.name.clone());
    }
    let plan = Plan { directory: staging.dir().to_owned(), copies };
    Ok((staging, plan))
}

impl Delivery for Flush {
    type Delivered = ();
    /// The step.
    type Outcome = u64;

    fn deliver(&self) -> Result<()> {
        self.copies.iter().try_for_each(|copied| {
            copied.make(&self.engine, &self.directory, |at, length| piece(&self.part, &copied.store.name, at, length))
        })
    }

    fn finish(mut self, comm: &dyn Comm, delivered: Result<()>) -> Result<u64> {
        agree(comm, delivered)?;
        let published = self.staging.take().map_or(Ok(()), |new| new.publish(&self.engine));
        agree(comm, published)?;
        Ok(self.step)
    }
}

impl New {
    /// Gives the set its manifest and its name.
    ///
    /// # Errors
    /// `Write`, also if a file of frames is gone.
    pub(super) fn publish(self, engine: &Engine) -> Result<()> {
        let Self { mut staging, manifest, mode, when } = self;
        let (directory, place) = (staging.dir().to_owned(), staging.place());
        let is_there =
            |store: &Store| directory.join(&store.name).metadata().is_ok_and(|found| found.len() == store.length);
        if let Some(store) = manifest.stores.iter().find(|store| !is_there(store)) {
            let what = format!("'{}' was removed or changed while the set was copied", store.name);
            return Err(Error::new(ErrorKind::Write, what).at(place));
        }
        let bytes = manifest.write(&engine.codecs)?;
        staging.write(MANIFEST_COPY, &bytes)?;
        staging.write(MANIFEST, &bytes)?;
        sets::set_date(&directory.join(MANIFEST), UNIX_EPOCH + Duration::from_nanos(when));
        let opened = set_permissions(&directory, Permissions::from_mode(mode));
        opened.map_err(|error| Error::write(Path::new(&place), &error))?;
        engine.check_cancelled()?;
        Box::new(staging).publish().map(drop)
    }
}

/// Permission bits of the directory of a set.
pub(super) fn mode_of(set: &Path) -> u32 {
    set.metadata().map_or(PRIVATE, |found| found.permissions().mode() & 0o777)
}

/// True if the set of a step in the directory of sets is this one.
pub(super) fn is_there(engine: &Engine, directory: &Path, wanted: &Held) -> bool {
    let set = Set::open(&sets::of_step(directory, wanted.step), &engine.codecs);
    set.is_ok_and(|set| set.check_files().is_ok() && id(&set).is_ok_and(|id| id == wanted.id))
}
