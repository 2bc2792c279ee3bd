//! Brings steps from the disk of one node to the directory of sets, without the program: its nodes do it one by one, or at the same
//! time, before they are given back.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::copying::{Copied, piece};
use super::flush::{is_there, mode_of};
use super::node_sets::{self, Held, held};
use crate::disk::manifest::Store;
use crate::disk::parts::Parts;
use crate::disk::set::{MANIFEST, MANIFEST_COPY, Set};
use crate::disk::sets;
use knarr_array::error::{Error, Result};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::AtomicFile;

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scavenged {
    /// It is in the directory of sets, and was before.
    There(u64),
    /// It is there now.
    Complete(u64),
    /// These files of frames are still on other nodes.
    Waits(u64, Vec<String>),
}

/// Brings what this node has in `local` of the sets of `directory` there: all that are newer than the newest set there. A set
/// appears when all of its files of frames have come.
///
/// # Errors
/// `NotFound` if this node has nothing of these sets; `Read`, `Write`; `Corrupt` for other bytes than were packed.
pub fn scavenge(engine: &Engine, local: &Path, directory: &Path, progress: &dyn Progress) -> Result<Vec<Scavenged>> {
    let place = node_sets::place(local, directory)?;
    let all = held(&place, &engine.codecs);
    if all.is_empty() {
        return Err(Error::new(knarr_array::error::ErrorKind::NotFound, "this node has no part of these sets")
            .hint("name the directory that the program had as option 'local', on a node that it ran on")
            .at(place.display().to_string()));
    }
    let mut found = Vec::new();
    let newest = || node_sets::when(&sets::completed(directory).ok()?.pop()?).ok();
    let is_old = |held: &Held| newest().is_some_and(|newest| newest > held.when) && !is_there(engine, directory, held);
    let mut rest = all.iter().rev();
    for held in rest.by_ref() {
        let bring = || bring(engine, &sets::of_step(&place, held.step), directory, held, progress);
        let brought = if is_old(held) { None } else { Some(bring()) };
        // Another node may have brought a newer one meanwhile, and removed what had come of this one.
        let Some(brought) = brought.filter(|_| !is_old(held)) else {
            let _ = fs::remove_dir_all(gathering(directory, held));
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

fn bring(engine: &Engine, part: &Path, directory: &Path, held: &Held, progress: &dyn Progress) -> Result<Scavenged> {
    if is_there(engine, directory, held) {
        return Ok(Scavenged::There(held.step));
    }
    let gathered = gathering(directory, held);
    let write_error = |error: std::io::Error| Error::write(&gathered, &error);
    fs::create_dir_all(&gathered).map_err(write_error)?;
    let (set, parts) = (Set::open(part, &engine.codecs)?, Parts::read(part)?);
    let has = |store: &Store| gathered.join(&store.name).metadata().is_ok_and(|found| found.len() == store.length);
    let lacking = || set.manifest().stores.iter().filter(|store| !has(store));
    let own: Vec<&Store> = lacking().filter(|store| held.here.contains(&store.name)).collect();
    progress.begin("copying", own.iter().map(|store| store.length).sum());
    for store in own {
        let crc32c = parts.crc32c.get(&store.name).copied().unwrap_or_default();
        Copied { store: store.clone(), crc32c }.make(engine, &gathered, |at, length| {
            piece(part, &store.name, at, length).inspect(|_| progress.advance(length as u64))
        })?;
    }
    // Who comes last completes it. Two at the same time do the same.
    let lock = File::open(&gathered).map_err(write_error)?;
    let _ = lock.lock();
    if is_there(engine, directory, held) {
        return Ok(Scavenged::There(held.step));
    }
    let missing: Vec<String> = lacking().map(|store| store.name.clone()).collect();
    if !missing.is_empty() {
        return Ok(Scavenged::Waits(held.step, missing));
    }
    let bytes = set.manifest().write(&engine.codecs)?;
    for name in [MANIFEST_COPY, MANIFEST] {
        let path = gathered.join(name);
        let file = AtomicFile::create(&path, true)?;
        file.file().write_all(&bytes).map_err(|error| Error::write(&path, &error))?;
        file.publish()?;
    }
    sets::set_date(&gathered.join(MANIFEST), UNIX_EPOCH + Duration::from_nanos(held.when));
    set_mode(&gathered, mode_of(part))?;
    let target = sets::of_step(directory, held.step);
    if target.symlink_metadata().is_ok() {
        // An older set of this step, or a damaged one.
        sets::remove(&target)?;
    }
    fs::rename(&gathered, &target).map_err(write_error)?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(write_error)?;
    Ok(Scavenged::Complete(held.step))
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| Error::write(path, &error))
}
