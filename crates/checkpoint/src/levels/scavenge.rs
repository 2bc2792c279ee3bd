//! Brings steps from the disk of one node to the directory of sets, without the program: its nodes do it one by one, or at the same
//! time, before they are given back.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::copying::{Copied, piece};
use super::flush::{PRIVATE, complete, is_unreadable, mode_of};
use super::node_sets::{self, Held, held};
use crate::disk::manifest::Store;
use crate::disk::parts::Parts;
use crate::disk::set::{MANIFEST, MANIFEST_COPY, Set};
use crate::disk::sets;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::temporary_name;

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

/// Brings what this node has in `local` of the sets of `directory` there: all that are newer than the newest set there. A set
/// appears when all of its files of frames have come. Files that cannot be read here are left to other nodes, and returned.
///
/// # Errors
/// `NotFound` if this node has nothing of these sets; `Exists` if the program goes on; `Read`, `Write`.
pub fn scavenge(
    engine: &Engine,
    local: &Path,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<(Vec<Scavenged>, Vec<Error>)> {
    let place = node_sets::place(local, directory)?;
    let all = held(&place, &engine.codecs);
    if all.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "this node has no part of these sets")
            .hint("name the directory that the program had as option 'local', on a node that it ran on")
            .at(place.display().to_string()));
    }
    let _lock = sets::lock(&place)?;
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    let is_old = |held: &Held| {
        let newest = node_sets::newest_whole(directory, None, &engine.codecs);
        newest.is_some_and(|newest| newest > held.when) && !held.is_in(directory, &engine.codecs)
    };
    let mut rest = all.iter().rev();
    for held in rest.by_ref() {
        let mut bring = || bring(engine, &sets::of_step(&place, held.step), directory, held, &mut damaged, progress);
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
    Ok((found, damaged))
}

/// Where the files of a set come together.
fn gathering(directory: &Path, held: &Held) -> PathBuf {
    directory.join(format!(".{}{}.scavenged-{}", sets::NAME, held.step, &held.id[..8]))
}

fn bring(
    engine: &Engine,
    part: &Path,
    directory: &Path,
    held: &Held,
    damaged: &mut Vec<Error>,
    progress: &dyn Progress,
) -> Result<Scavenged> {
    if held.is_in(directory, &engine.codecs) {
        return Ok(Scavenged::There(held.step));
    }
    let gathered = gathering(directory, held);
    match DirBuilder::new().mode(PRIVATE).create(&gathered) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(Error::write(&gathered, &error)),
        _ => {}
    }
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    let has = |store: &Store| gathered.join(&store.name).metadata().is_ok_and(|found| found.len() == store.length);
    let lacking = || set.manifest().stores.iter().filter(|store| !has(store));
    let own: Vec<&Store> = lacking().filter(|store| held.here.contains(&store.name)).collect();
    progress.begin("copying", own.iter().map(|store| store.length).sum());
    for store in own {
        let read = |at, length| piece(part, &store.name, at, length).inspect(|_| progress.advance(length as u64));
        match Copied::of(store, &parts).and_then(|copied| copied.make(engine, &gathered, read)) {
            Err(error) if is_unreadable(&error) => damaged.push(error.at(part.display().to_string())),
            made => made?,
        }
    }
    let missing: Vec<String> = lacking().map(|store| store.name.clone()).collect();
    if !missing.is_empty() && !held.is_in(directory, &engine.codecs) {
        return Ok(Scavenged::Waits(held.step, missing));
    }
    publish(engine, &gathered, &set, held, directory)
}

/// Gives a set that has come together its manifest and its name. Of several nodes that see it whole the one counts that gives the directory
/// another name first: not all file systems have locks.
fn publish(engine: &Engine, gathered: &Path, set: &Set, held: &Held, directory: &Path) -> Result<Scavenged> {
    let target = sets::of_step(directory, held.step);
    let own = directory.join(temporary_name(target.file_name().unwrap_or_default()));
    let write_error = |error: std::io::Error| Error::write(&target, &error);
    if let Err(error) = fs::rename(gathered, &own) {
        let is_claimed = error.kind() == std::io::ErrorKind::NotFound;
        return if is_claimed { Ok(Scavenged::There(held.step)) } else { Err(write_error(error)) };
    }
    let names: Vec<&str> = set.manifest().stores.iter().map(|store| store.name.as_str()).collect();
    for entry in fs::read_dir(&own).map_err(write_error)?.flatten() {
        // What another process was writing when it was killed.
        if !names.iter().any(|name| entry.file_name() == *name) {
            fs::remove_file(entry.path()).map_err(write_error)?;
        }
    }
    let bytes = set.manifest().write(&engine.codecs)?;
    for name in [MANIFEST_COPY, MANIFEST] {
        let mut file = File::create_new(own.join(name)).map_err(write_error)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(write_error)?;
    }
    complete(&own, mode_of(set.path()), held.when)?;
    let sync = |path: &Path| File::open(path).and_then(|directory| directory.sync_all()).map_err(write_error);
    sync(&own)?;
    let renamed = match renameat_with(CWD, &own, CWD, &target, RenameFlags::NOREPLACE) {
        // An older version of the step, or a damaged one.
        Err(Errno::EXIST) => {
            renameat_with(CWD, &own, CWD, &target, RenameFlags::EXCHANGE).map(|()| drop(fs::remove_dir_all(&own)))
        }
        renamed => renamed,
    };
    renamed.map_err(|error| write_error(error.into()))?;
    sync(directory)?;
    Ok(Scavenged::Complete(held.step))
}
