//! Brings steps from the memory and the disk of one node to the directory of sets, without the program: its nodes do it one by one, or at the same
//! time, before they are given back.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::copying::{Copied, piece};
use super::flush::{New, PRIVATE, is_unreadable, mode_of, stage};
use super::node_sets::{self, Held, held};
use super::nodes::Reached;
use super::parity::file::{self as parity_file, ParityFile};
use super::parity::group::Source;
use super::parity::rebuild::{name_of, one};
use crate::disk::manifest::Store;
use crate::disk::parts::Parts;
use crate::disk::set::Set;
use crate::disk::sets;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::{Engine, Progress};

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scavenged {
    /// It is in the directory of sets, and was before.
    There(u64),
    /// It is there now.
    Complete(u64),
    /// These files of frames are still on other nodes.
    Waits(u64, Vec<String>),
    /// The directory of sets has a newer one.
    Older(u64),
}

impl Scavenged {
    fn step(&self) -> u64 {
        match self {
            Self::There(step) | Self::Complete(step) | Self::Waits(step, _) | Self::Older(step) => *step,
        }
    }
}

/// Brings what this node has in the directories `locals` of the sets of `directory` there: all that are newer than the newest set there. A set
/// appears when all of its files of frames have come, or so many that parity makes up for the others. Files that cannot be read here are left to other nodes, and returned.
///
/// # Errors
/// `NotFound` if this node has nothing of these sets; `Exists` if the program goes on; `Read`, `Write`.
pub fn scavenge(
    engine: &Engine,
    locals: &[PathBuf],
    directory: &Path,
    progress: &dyn Progress,
) -> Result<(Vec<Scavenged>, Vec<Error>)> {
    let places = locals.iter().map(|local| node_sets::place(local, directory)).collect::<Result<Vec<_>>>()?;
    let (mut found, mut damaged, mut has_some) = (Vec::new(), Vec::new(), false);
    for place in places.iter().filter(|place| place.exists()) {
        node_sets::check_own(place, "local")?;
        let all = held(place, &engine.codecs);
        has_some |= !all.is_empty();
        for one in scavenge_place(engine, (place, &all), directory, &mut damaged, progress)? {
            note(&mut found, one);
        }
    }
    match has_some {
        true => Ok((found, damaged)),
        false => Err(Error::new(ErrorKind::NotFound, "this node has no part of these sets")
            .hint("name the directories that the program had as options 'memory' and 'local', on a node that it ran on")
            .at(places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", "))),
    }
}

/// Notes what became of a step in one more directory.
fn note(found: &mut Vec<Scavenged>, one: Scavenged) {
    let is_there = |one: &Scavenged| matches!(one, Scavenged::There(_) | Scavenged::Complete(_));
    let has_come = found.iter().any(is_there);
    match found.iter_mut().find(|before| before.step() == one.step()) {
        Some(before) if is_there(before) => {}
        Some(before) => *before = one,
        // It is older than the one that has come from another directory.
        None if has_come && matches!(one, Scavenged::Older(_)) => {}
        None => found.push(one),
    }
}

/// The same for one directory, which has `all` of these.
fn scavenge_place(
    engine: &Engine,
    (place, all): (&Path, &[Held]),
    directory: &Path,
    damaged: &mut Vec<Error>,
    progress: &dyn Progress,
) -> Result<Vec<Scavenged>> {
    let _lock = sets::lock(place)?;
    let mut found = Vec::new();
    let is_old = |held: &Held| {
        let newest = node_sets::newest_whole(directory, None, &engine.codecs);
        newest.is_some_and(|newest| newest > held.when) && !held.is_in(directory, &engine.codecs)
    };
    let mut rest = all.iter().rev();
    for held in rest.by_ref() {
        let mut bring = || bring(engine, &sets::of_step(place, held.step), directory, held, damaged, progress);
        let brought = if is_old(held) { None } else { Some(bring()) };
        // Another node may have brought a newer one meanwhile, and removed what had come of this one.
        let Some(brought) = brought.filter(|_| !is_old(held)) else {
            let _ = fs::remove_dir_all(gathering(directory, held));
            found.push(Scavenged::Older(held.step));
            break;
        };
        found.push(brought?);
        if !matches!(found.last(), Some(Scavenged::Waits(..))) {
            break;
        }
    }
    // What has come of older sets before is not needed any more.
    for older in rest {
        let _ = fs::remove_dir_all(gathering(directory, older));
    }
    Ok(found)
}

/// Where the files of a set come together.
fn gathering(directory: &Path, held: &Held) -> PathBuf {
    directory.join(format!(".{}{}.scavenged-{}", sets::NAME, held.step, &held.id[..8]))
}

/// Brings what this node has of a set. Whatever goes wrong here does not matter if another node completes it meanwhile: that takes away
/// what is copied to.
fn bring(
    engine: &Engine,
    part: &Path,
    directory: &Path,
    held: &Held,
    damaged: &mut Vec<Error>,
    progress: &dyn Progress,
) -> Result<Scavenged> {
    let is_there = || held.is_in(directory, &engine.codecs);
    let gathered = gathering(directory, held);
    let brought = match is_there() {
        true => Ok(Scavenged::There(held.step)),
        false => gather(engine, (part, &gathered), directory, held, damaged, progress),
    };
    match brought {
        Ok(Scavenged::Complete(_)) => brought,
        _ if is_there() => {
            let _ = fs::remove_dir_all(&gathered);
            Ok(Scavenged::There(held.step))
        }
        brought => brought,
    }
}

fn gather(
    engine: &Engine,
    (part, gathered): (&Path, &Path),
    directory: &Path,
    held: &Held,
    damaged: &mut Vec<Error>,
    progress: &dyn Progress,
) -> Result<Scavenged> {
    match DirBuilder::new().mode(PRIVATE).create(gathered) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(Error::write(gathered, &error)),
        _ => {}
    }
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    let has = |store: &Store| gathered.join(&store.name).metadata().is_ok_and(|found| found.len() == store.length);
    let lacking = || set.manifest().stores.iter().filter(|store| !has(store));
    let own: Vec<&Store> = lacking().filter(|store| held.here.contains(&store.name)).collect();
    progress.begin("copying", own.iter().map(|store| store.length).sum());
    for store in own {
        let read = |at, length| piece(part, &store.name, at, length).inspect(|_| progress.advance(length as u64));
        match Copied::of(store, &parts).and_then(|copied| copied.make(engine, gathered, read)) {
            Err(error) if is_unreadable(&error) => damaged.push(error.at(part.display().to_string())),
            made => made?,
        }
    }
    if lacking().next().is_some() {
        bring_parity(engine, (part, gathered), held, damaged)?;
        let here = set.manifest().stores.iter().filter(|store| has(store)).map(|store| store.name.clone()).collect();
        rebuild(engine, gathered, (&set, &parts), &Held { here, ..held.clone() }, damaged, progress)?;
    }
    let missing: Vec<String> = lacking().map(|store| store.name.clone()).collect();
    match missing.is_empty() {
        true => publish(engine, gathered, &set, held, directory),
        false => Ok(Scavenged::Waits(held.step, missing)),
    }
}

/// Brings the parity that this node keeps of a set. It goes when the set has its name.
fn bring_parity(
    engine: &Engine,
    (part, gathered): (&Path, &Path),
    held: &Held,
    damaged: &mut Vec<Error>,
) -> Result<()> {
    for name in held.parity.keys().map(|node| parity_file::name(*node)) {
        if ParityFile::open(gathered, &name).is_ok() {
            continue;
        }
        match ParityFile::open(part, &name).and_then(|file| file.copy(engine, gathered)) {
            Err(error) if is_unreadable(&error) => damaged.push(error.at(part.display().to_string())),
            copied => copied?,
        }
    }
    Ok(())
}

/// Rebuilds all that is missing, if what has come suffices. `held` is what has come of files of frames.
fn rebuild(
    engine: &Engine,
    gathered: &Path,
    (set, parts): (&Set, &Parts),
    held: &Held,
    damaged: &mut Vec<Error>,
    progress: &dyn Progress,
) -> Result<()> {
    let parity = parity_file::all(gathered, &held.id).into_iter().map(|file| (file.head.node, file.head.group));
    let held = Held { parity: parity.collect(), ..held.clone() };
    if !held.is_recoverable() {
        return Ok(());
    }
    let from = Reached::Here(gathered.to_owned());
    let missing = || set.manifest().stores.iter().filter(|store| !held.here.contains(&store.name));
    progress.begin("rebuilding", missing().map(|store| store.length).sum());
    for store in missing() {
        let Some(group) = held.rebuilds(&store.name) else { continue };
        let read = |source: Source<'_>, at, length| from.piece(&name_of(source), at, length);
        match one(engine, gathered, (store, parts), group, &|source| held.has(group, source), &read) {
            Err(error) if is_unreadable(&error) => damaged.push(error.at(gathered.display().to_string())),
            made => made?,
        }
        progress.advance(store.length);
    }
    Ok(())
}

/// Gives a set that has come together its name. What has come stays until then, so that another node, or the next try, can do it as well:
/// sets that several nodes put together are equal.
fn publish(engine: &Engine, gathered: &Path, set: &Set, held: &Held, directory: &Path) -> Result<Scavenged> {
    let staging = stage(&sets::of_step(directory, held.step))?;
    for store in &set.manifest().stores {
        let (from, to) = (gathered.join(&store.name), staging.dir().join(&store.name));
        let linked = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
        linked.map_err(|error| Error::write(&from, &error))?;
    }
    let newest = node_sets::newest_whole(directory, Some(held.step), &engine.codecs);
    if newest.is_some_and(|newest| newest > held.when) {
        return Ok(Scavenged::Older(held.step));
    }
    let (manifest, mode, when) = (set.manifest().clone(), mode_of(set.path()), held.when);
    New { staging, manifest, mode, when, part: None }.publish(engine)?;
    let _ = fs::remove_dir_all(gathered);
    Ok(Scavenged::Complete(held.step))
}
