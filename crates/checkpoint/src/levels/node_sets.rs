//! The parts of sets that lie on a disk of this node.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::disk::parts::Parts;
use crate::disk::set::Set;
use crate::disk::sets;
use knarr_array::error::{Error, Result};
use knarr_codec::codec::CodecList;

/// A part of a set that lies here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) step: u64,
    /// Equal in all parts of one set, and in no other.
    pub(super) id: String,
    /// When it was completed: nanoseconds since 1970.
    pub(super) when: u64,
    /// All files of frames of the set.
    pub(super) all: BTreeSet<String>,
    /// Those that are here.
    pub(super) here: BTreeSet<String>,
}

/// Where a node has its parts of the sets of a directory: below `local`, which other programs may use as well.
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

/// When the set at this path was completed.
///
/// # Errors
/// As for [`sets::when`].
pub(super) fn when(path: &Path) -> Result<u64> {
    let since = sets::when(path)?.duration_since(UNIX_EPOCH).unwrap_or_default();
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
    Parts::read(path)?;
    let all = set.manifest().stores.iter();
    let here = all.clone().filter(|store| set.has_file(store)).map(|store| store.name.clone()).collect();
    Ok(Held { step, id: id(&set)?, when: when(path)?, all: all.map(|store| store.name.clone()).collect(), here })
}

/// Removes all but the `keep` newest sets of a node, and not the one of step `spared`. Returns what could not be removed.
pub(super) fn prune(place: &Path, keep: usize, spared: Option<u64>) -> Vec<Error> {
    let all = match sets::completed(place) {
        Ok(all) => all,
        Err(error) => return vec![error],
    };
    let old = all.iter().rev().skip(keep).filter(|path| sets::step(path) != spared || spared.is_none());
    old.filter_map(|path| sets::remove(path).err()).collect()
}
