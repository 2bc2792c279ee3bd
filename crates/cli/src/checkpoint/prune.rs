//! `knarr checkpoint prune`: the newest sets stay.

use std::fs;
use std::path::{Path, PathBuf};

use knarr_core::checkpoint::Set;
use knarr_core::checkpoint::set::MANIFEST;
use knarr_core::codec::CodecList;
use knarr_core::error::{Error, ErrorKind, Result};

use super::args::Prune;
use super::sets::whole;

pub(super) fn run(arguments: &Prune) -> Result<u8> {
    let keep = usize::try_from(arguments.keep).unwrap_or(usize::MAX);
    let pruned = prune(&arguments.sets, keep, &knarr_native::codecs()?, arguments.dry_run)?;
    if arguments.json {
        println!("{}", pruned.json());
        return Ok(0);
    }
    let verb = if arguments.dry_run { "would be removed" } else { "removed" };
    pruned.removed.iter().for_each(|path| println!("{verb}  {}", path.display()));
    pruned.kept.iter().for_each(|path| println!("kept  {}", path.display()));
    for error in &pruned.damaged {
        eprintln!("knarr: {error}; the set was not counted and left alone");
    }
    Ok(0)
}

/// What became of the sets of a directory.
#[derive(Debug, Default)]
pub(super) struct Pruned {
    pub(super) kept: Vec<PathBuf>,
    pub(super) removed: Vec<PathBuf>,
    pub(super) damaged: Vec<Error>,
}

impl Pruned {
    fn json(&self) -> serde_json::Value {
        let damaged: Vec<String> = self.damaged.iter().map(ToString::to_string).collect();
        serde_json::json!({"kept": self.kept, "removed": self.removed, "damaged": damaged})
    }
}

/// Removes all but the `keep` sets in `directory` that were completed last. Sets of which something is missing are not
/// counted and not removed.
///
/// # Errors
/// `NotFound` or `Read` if the directory cannot be read; `Write` if a set cannot be removed; `Exists` if files lie in it
/// that are not its own.
pub(super) fn prune(directory: &Path, keep: usize, codecs: &CodecList, dry_run: bool) -> Result<Pruned> {
    let (mut sets, damaged) = whole(directory, codecs)?;
    let mut pruned = Pruned { damaged, ..Pruned::default() };
    let stale = sets.len().saturating_sub(keep);
    for set in sets.drain(..stale) {
        if !dry_run {
            remove(&set)?;
        }
        pruned.removed.push(set.path().to_owned());
    }
    pruned.kept = sets.iter().map(|set| set.path().to_owned()).collect();
    Ok(pruned)
}

/// Takes the set's name away first: what is half removed must not look like a set.
fn remove(set: &Set) -> Result<()> {
    let path = set.path();
    let write_error = |error: std::io::Error| Error::write(path, &error);
    let own = |name: &std::ffi::OsStr| {
        name == MANIFEST || set.manifest().stores.iter().any(|store| name == store.name.as_str())
    };
    for entry in fs::read_dir(path).map_err(write_error)? {
        let name = entry.map_err(write_error)?.file_name();
        if !own(&name) {
            return Err(Error::new(ErrorKind::Exists, format!("'{}' is not of the set", name.to_string_lossy()))
                .mend("move it elsewhere, or remove the set yourself")
                .at(path.display().to_string()));
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hidden = path.with_file_name(format!(".{name}.removed-{}", std::process::id()));
    fs::rename(path, &hidden).map_err(write_error)?;
    fs::remove_dir_all(&hidden).map_err(write_error)
}
