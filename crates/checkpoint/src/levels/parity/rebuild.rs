//! Rebuilds files of frames that no node has any more, of parity and of what the others of their group have.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use super::coding;
use super::file::{self, ParityFile};
use super::group::{ParityGroup, Source};
use crate::disk::manifest::Store;
use crate::disk::parts::Parts;
use crate::disk::set::Set;
use crate::disk::sets;
use crate::levels::copying::Copied;
use crate::levels::flush::is_unreadable;
use crate::levels::node_sets::{self, At, Held};
use crate::levels::nodes::{Nodes, Reached, gathered};
use knarr_array::comm::{Comm, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::Engine;

/// What became of files that were missing.
#[derive(Default)]
pub(in crate::levels) struct Rebuilt {
    /// Those that are there again: the rank of the node, the name.
    pub(in crate::levels) made: Vec<(usize, String)>,
    /// Files that cannot be read: the rank of the node, the name, and why.
    pub(in crate::levels) damaged: Vec<(usize, String, Error)>,
    /// Why files could not be rebuilt, though all that it takes is whole.
    pub(in crate::levels) failed: Vec<Error>,
}

/// Rebuilds what is missing of the set `wanted`, on nodes that have parts of it in their `place`: all of it, or nothing. Whatever it is
/// rebuilt of is compared with its checksum before, and so is the result. `parts` are those of all ranks. Collective.
///
/// # Errors
/// On all ranks that of one of them: `Write`, `Interrupted`.
pub(in crate::levels) fn rebuild(
    engine: &Engine,
    comm: &dyn Comm,
    (nodes, level, place): (Option<&Nodes>, usize, &Path),
    wanted: &Held,
    parts: &[Option<Held>],
) -> Result<Rebuilt> {
    let part = sets::of_step(place, wanted.step);
    let own = parts.get(comm.rank()).and_then(Option::as_ref).filter(|held| held.id == wanted.id);
    let checked = agree(comm, own.map(|own| check(engine, &part, own, wanted)).transpose())?;
    let (mut whole, mut rebuilt) = (Vec::new(), Rebuilt::default());
    for (rank, checked) in gathered(comm, &checked)?.into_iter().enumerate() {
        let (held, damaged) = checked.unzip();
        whole.push(held);
        let of_rank = |(name, error)| (rank, name, error);
        rebuilt.damaged.extend(damaged.unwrap_or_default().into_iter().map(of_rank));
    }
    let tasks = plan(&whole);
    let reach = |rank: usize| match rank == comm.rank() {
        true => Some(Reached::Here(part.clone())),
        false => nodes?.part(rank, At { level, step: wanted.step }),
    };
    let own: Vec<&Task> = tasks.iter().filter(|task| task.rank == comm.rank()).collect();
    let failed = agree(comm, if own.is_empty() { Ok(Vec::new()) } else { make(engine, &part, &own, &whole, reach) })?;
    let failed: BTreeMap<String, Error> = gathered(comm, &failed)?.into_iter().flatten().collect();
    let made = tasks.into_iter().filter(|task| !failed.contains_key(&task.name));
    rebuilt.made.extend(made.map(|task| (task.rank, task.name)));
    rebuilt.failed.extend(failed.into_values());
    Ok(rebuilt)
}

/// Reads all that a node has of the groups in which something is missing. Returns what is as it was written, and what is not.
fn check(engine: &Engine, part: &Path, own: &Held, wanted: &Held) -> Result<(Held, Vec<(String, Error)>)> {
    let lacks = |group: &ParityGroup| wanted.missing().any(|name| group.find(name).is_some());
    let is_needed = |name: &str| wanted.parity.values().any(|group| lacks(group) && group.find(name).is_some());
    let (mut whole, mut damaged) = (own.clone(), Vec::new());
    let mut note = |name: &str, checked: Result<()>| match checked {
        Err(error) if is_unreadable(&error) => {
            damaged.push((name.to_owned(), error));
            Ok(false)
        }
        checked => checked.map(|()| true),
    };
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    for store in &set.manifest().stores {
        let is_checked = own.here.contains(&store.name) && is_needed(&store.name);
        if is_checked && !note(&store.name, Copied::of(store, &parts)?.check(engine, part))? {
            whole.here.remove(&store.name);
        }
    }
    for (node, _) in own.parity.iter().filter(|(_, group)| lacks(group)) {
        let name = file::name(*node);
        if !note(&name, ParityFile::open(part, &name).and_then(|file| file.check(engine)))? {
            whole.parity.remove(node);
        }
    }
    Ok((whole, damaged))
}

/// A file that is rebuilt.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    /// By the node of this rank.
    rank: usize,
    name: String,
}

/// Deals what is missing evenly to the nodes that have parts of the set. Nothing, if not all of it can be rebuilt.
fn plan(parts: &[Option<Held>]) -> Vec<Task> {
    let Some(all) = node_sets::together(parts.iter().flatten()).pop().filter(Held::is_recoverable) else {
        return Vec::new();
    };
    let held = parts.iter().enumerate().filter(|(_, held)| held.is_some());
    let mut bytes: BTreeMap<usize, u64> = held.map(|(rank, _)| (rank, 0)).collect();
    let mut tasks = Vec::new();
    for name in all.missing() {
        let length = all.rebuilds(name).and_then(|group| group.find(name)).map_or(0, |(_, _, length)| length);
        if let Some((&rank, dealt)) = bytes.iter_mut().min_by_key(|(_, bytes)| **bytes) {
            *dealt += length;
            tasks.push(Task { rank, name: name.to_owned() });
        }
    }
    tasks
}

/// Rebuilds files in `part`. Returns those that could not be, and why.
fn make(
    engine: &Engine,
    part: &Path,
    tasks: &[&Task],
    whole: &[Option<Held>],
    reach: impl Fn(usize) -> Option<Reached>,
) -> Result<Vec<(String, Error)>> {
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    let all = node_sets::together(whole.iter().flatten()).pop();
    let holders: BTreeMap<usize, Reached> = (0..whole.len())
        .filter(|&rank| whole.get(rank).is_some_and(Option::is_some))
        .filter_map(|rank| Some((rank, reach(rank)?)))
        .collect();
    let mut failed = Vec::new();
    for Task { name, .. } in tasks {
        let unknown = || Error::internal(format!("'{name}' cannot be rebuilt"));
        let all = all.as_ref().ok_or_else(unknown)?;
        let group = all.rebuilds(name).ok_or_else(unknown)?;
        let store = set.manifest().stores.iter().find(|store| store.name == *name).ok_or_else(unknown)?;
        let read = |source: Source<'_>, at, length| {
            let has =
                |rank: &usize| whole.get(*rank).and_then(Option::as_ref).is_some_and(|held| held.has(group, source));
            let holder = holders.iter().find(|(rank, _)| has(rank)).map(|(_, reached)| reached);
            holder.ok_or_else(unknown)?.piece(&name_of(source), at, length)
        };
        match one(engine, part, (store, &parts), group, &|source| all.has(group, source), &read) {
            Err(error) if !matches!(error.kind(), ErrorKind::Write | ErrorKind::Interrupted) => {
                failed.push((name.clone(), error));
            }
            made => made?,
        }
    }
    let synced = File::open(part).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::write(part, &error)).map(|()| failed)
}

/// Rebuilds one file in the directory `target`.
///
/// # Errors
/// Those of `read`; `Write`; `Corrupt` for other bytes than were packed; `Interrupted`.
pub(in crate::levels) fn one(
    engine: &Engine,
    target: &Path,
    (store, parts): (&Store, &Parts),
    group: &ParityGroup,
    has: &dyn Fn(Source<'_>) -> bool,
    read: coding::Read<'_>,
) -> Result<()> {
    let piece = |at, length| coding::rebuild(group, &store.name, (at, length), has, read);
    Copied::of(store, parts)?.make(engine, target, piece)
}

/// Name of the file that has it.
pub(in crate::levels) fn name_of(source: Source<'_>) -> String {
    match source {
        Source::File(name) => name.to_owned(),
        Source::Parity(node) => file::name(node),
    }
}
