//! The parts of sets that lie on a disk of this node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::parity::file as parity_file;
use super::parity::group::{ParityGroup, Source};
use crate::disk::parts::{Parts, Waited};
use crate::disk::set::{MANIFEST, MANIFEST_COPY, Set};
use crate::disk::sets;
use knarr_array::error::{Error, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::output::{is_of_running, is_temporary_name};

/// A step on a level of the nodes, by the number of the level: the fastest one is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) level: usize,
    pub(crate) step: u64,
}

/// A part of a set that lies here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) step: u64,
    /// Equal in all parts of one set.
    pub(super) id: String,
    /// When it was completed: nanoseconds since 1970.
    pub(super) when: u64,
    /// All files of frames of the set.
    pub(super) all: BTreeSet<String>,
    /// Those that are here.
    pub(super) here: BTreeSet<String>,
    /// Nodes whose parity is here, with those that they keep it with.
    pub(super) parity: BTreeMap<usize, ParityGroup>,
    /// How long the directory of sets had got none.
    pub(super) waited: Waited,
}

/// Where a node has its parts of the sets of a directory: below a directory of the node, which other programs may use as well.
///
/// # Errors
/// `Read` if the directory of sets is not there.
pub(super) fn place(local: &Path, directory: &Path) -> Result<PathBuf> {
    let whole = directory.canonicalize().map_err(|error| Error::read(directory, &error))?;
    let hash = blake3::hash(whole.as_os_str().as_encoded_bytes()).to_hex();
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push("-");
    name.push(&hash.as_str()[..8]);
    Ok(local.join(name))
}

/// What tells a set from all others.
///
/// # Errors
/// `Internal` if its manifest cannot be written.
pub(super) fn id(set: &Set) -> Result<String> {
    Ok(blake3::hash(&set.manifest().body()?).to_hex().to_string())
}

/// When the set at this path was completed. Manifest and copy have one date, and nothing else tells it.
///
/// # Errors
/// `Read`.
pub(super) fn when(path: &Path) -> Result<u64> {
    let date = |name: &str| path.join(name).metadata().and_then(|found| found.modified());
    let date = date(MANIFEST).or_else(|_| date(MANIFEST_COPY)).map_err(|error| Error::read(path, &error))?;
    let since = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// What lies in the directory `place`, the newest last. What cannot be read is not there.
pub(super) fn held(place: &Path, codecs: &CodecList) -> Vec<Held> {
    let all = sets::completed(place).unwrap_or_default();
    all.iter().filter_map(|path| part(path, codecs).ok()).collect()
}

/// What lies here of one set.
///
/// # Errors
/// Those of reading it.
pub(super) fn part(path: &Path, codecs: &CodecList) -> Result<Held> {
    let step = sets::step(path).ok_or_else(|| Error::usage("not the set of a step"))?;
    let set = Set::open(path, codecs)?;
    let waited = Parts::read(path)?.waited;
    let all = set.manifest().stores.iter();
    let here = all.clone().filter(|store| set.has_file(store)).map(|store| store.name.clone()).collect();
    let id = id(&set)?;
    let parity = parity_file::all(path, &id).into_iter().map(|file| (file.head.node, file.head.group)).collect();
    let all = all.map(|store| store.name.clone()).collect();
    Ok(Held { step, id, when: when(path)?, all, here, parity, waited })
}

/// The sets of which all these parts together have files, the newest last.
pub(super) fn together<'a>(parts: impl Iterator<Item = &'a Held>) -> Vec<Held> {
    let mut found: BTreeMap<&str, Held> = BTreeMap::new();
    for held in parts {
        let found = found.entry(&held.id).or_insert_with(|| held.clone());
        found.here.extend(held.here.iter().cloned());
        found.parity.extend(held.parity.iter().map(|(node, group)| (*node, group.clone())));
    }
    let mut found: Vec<Held> = found.into_values().collect();
    found.sort_by_key(|held| held.when);
    found
}

impl Held {
    /// True if no file of the set is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.here.is_superset(&self.all)
    }

    /// Files of the set that are missing.
    pub(super) fn missing(&self) -> impl Iterator<Item = &str> {
        self.all.difference(&self.here).map(String::as_str)
    }

    /// Whether what a group keeps parity of, or its parity, is here.
    pub(super) fn has(&self, group: &ParityGroup, source: Source<'_>) -> bool {
        match source {
            Source::File(name) => self.here.contains(name),
            Source::Parity(node) => self.parity.get(&node) == Some(group),
        }
    }

    /// The group whose parity a missing file can be rebuilt of.
    pub(super) fn rebuilds(&self, name: &str) -> Option<&ParityGroup> {
        self.parity.values().find(|group| group.can_rebuild(name, &|source| self.has(group, source)))
    }

    /// True if no file of the set is missing that cannot be rebuilt.
    pub(super) fn is_recoverable(&self) -> bool {
        self.missing().all(|name| self.rebuilds(name).is_some())
    }

    /// True if no file is missing, and all parity of each is there.
    pub(super) fn has_all_parity(&self) -> bool {
        let is_kept = |name: &String| {
            let mut groups = self.parity.values().filter(|group| group.find(name).is_some());
            groups.any(|group| group.nodes.iter().all(|node| self.has(group, Source::Parity(node.node))))
        };
        self.is_whole() && self.all.iter().all(is_kept)
    }

    /// True if it is in the directory of sets.
    pub(super) fn is_in(&self, directory: &Path, codecs: &CodecList) -> bool {
        let set = Set::open(&sets::of_step(directory, self.step), codecs);
        set.is_ok_and(|set| set.check_files().is_ok() && id(&set).is_ok_and(|id| id == self.id))
    }
}

/// When the newest set in the directory of sets was completed of which nothing is missing there, or the one of `step`.
pub(super) fn newest_whole(directory: &Path, step: Option<u64>, codecs: &CodecList) -> Option<u64> {
    let is_whole = |path: &&PathBuf| {
        let is_wanted = sets::step(path).is_some_and(|found| step.is_none_or(|step| step == found));
        is_wanted && Set::open(path, codecs).is_ok_and(|set| set.check_files().is_ok())
    };
    sets::completed(directory).ok()?.iter().rev().find(is_whole).and_then(|path| when(path).ok())
}

/// Removes all but the `keep` newest sets of a node, and not those of the steps `spared`. Returns what could not be removed.
pub(super) fn prune(place: &Path, keep: usize, spared: &[Option<u64>]) -> Vec<Error> {
    let all = match sets::completed(place) {
        Ok(all) => all,
        Err(error) => return vec![error],
    };
    let is_spared = |path: &Path| sets::step(path).is_some_and(|step| spared.contains(&Some(step)));
    let old = all.iter().rev().skip(keep).filter(|path| !is_spared(path));
    old.filter_map(|path| sets::remove(path).err()).collect()
}

/// Removes the sets of a node that are not newer than its part of the step `last`, which is in `from`, and not that of the step
/// `spared`. Returns what could not be removed.
pub(super) fn remove_until(place: &Path, (from, last): (&Path, u64), spared: Option<u64>) -> Vec<Error> {
    // Without a part this node does not know which ones are older.
    let Ok(until) = when(&sets::of_step(from, last)) else { return Vec::new() };
    let all = sets::completed(place).unwrap_or_default();
    let is_old = |path: &&PathBuf| sets::step(path) != spared && when(path).is_ok_and(|when| when <= until);
    all.iter().filter(is_old).filter_map(|path| sets::remove(path).err()).collect()
}

/// Makes the directory `place` for the parts of a node, below the one that `option` names, or takes one that is this user's own.
///
/// # Errors
/// `Write`; `Usage` if it is somebody else's, who could put other values there.
pub(super) fn make(place: &Path, option: &str) -> Result<()> {
    let write_error = |error: std::io::Error| Error::write(place, &error);
    fs::create_dir_all(place.parent().unwrap_or(place)).map_err(write_error)?;
    match DirBuilder::new().mode(0o700).create(place) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(write_error(error)),
        _ => {}
    }
    check_own(place, option)
}

/// Refuses a directory that is not this user's own.
///
/// # Errors
/// `Usage`; `Read` if it cannot be looked at.
pub(super) fn check_own(place: &Path, option: &str) -> Result<()> {
    let found = place.symlink_metadata().map_err(|error| Error::read(place, &error))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(Error::usage("it is no directory that only this user can write to")
            .hint(format!("remove it, or name another directory for '{option}'"))
            .at(place.display().to_string()));
    }
    Ok(())
}

/// Removes what processes that are gone have left on the way, also before the node was started again. Only who has the lock of
/// `place` calls it: nobody else makes sets there.
///
/// # Errors
/// `Read`.
pub(super) fn tidy(place: &Path) -> Result<()> {
    for directory in std::iter::once(place.to_owned()).chain(sets::completed(place)?) {
        let entries = fs::read_dir(&directory).map_err(|error| Error::read(&directory, &error))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default();
            if is_temporary_name(name) && !is_of_running(name) {
                let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            }
        }
    }
    Ok(())
}
