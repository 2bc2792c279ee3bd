//! `--restart`: the files of the newest whole set are brought back before the program starts.
//!
//! They are made in a hidden directory beside their places, and moved only when all of them are whole: of a damaged set
//! nothing is left, and the set before it is taken. Files that are there and hold the same stay; others are not replaced
//! unless that was asked for. A kill leaves whole files only, and the next restart goes on.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::make_parent;
use knarr_checkpoint::pattern::Pattern;
use knarr_checkpoint::restore;
use knarr_checkpoint::sets;
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::output::{remove_abandoned, temporary_name};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::notices::Notices;
use crate::sets::open;

/// Where files come from and go to.
pub(in crate::launch) struct RestartPaths<'a> {
    /// Directory of sets.
    pub(in crate::launch) sets: &'a Path,
    /// Directory that the names of files are relative to.
    pub(in crate::launch) root: &'a Path,
    /// What the names must be.
    pub(in crate::launch) pattern: &'a Pattern,
    /// Files that differ may be replaced.
    pub(in crate::launch) force: bool,
    /// Hears of copies that are damaged.
    pub(in crate::launch) notices: &'a dyn Notices,
}

/// What a restart found.
pub(in crate::launch) struct Restarted {
    pub(in crate::launch) step: u64,
    pub(in crate::launch) set: PathBuf,
    /// How many files were brought back, and how many were there.
    pub(in crate::launch) restored: usize,
    pub(in crate::launch) there: usize,
    /// Later sets that are not whole, and why.
    pub(in crate::launch) damaged: Vec<Error>,
}

/// Brings the files of the newest whole set back. `None` if there is no set.
///
/// # Errors
/// `Corrupt` if no set is whole, `Exists` for files that differ from those of the set, `Unsupported` for sets of a later
/// version, `Write`.
pub(in crate::launch) fn bring_back(engine: &Engine, places: &RestartPaths<'_>) -> Result<Option<Restarted>> {
    let mut damaged = Vec::new();
    for path in sets::completed(places.sets)?.into_iter().rev() {
        let Some(step) = sets::step(&path) else { continue };
        match from_set(engine, places, &path, step) {
            Ok((restored, there)) => return Ok(Some(Restarted { step, set: path, restored, there, damaged })),
            Err(error) if is_damage(error.kind()) => damaged.push(error.at_once(&path.display().to_string())),
            Err(error) => return Err(error),
        }
    }
    match damaged.into_iter().next() {
        None => Ok(None),
        Some(newest) => Err(Error::new(newest.kind(), format!("no set is whole; the newest one: {newest}"))
            .hint("restore single files with 'knarr checkpoint restore', or leave --restart out to begin anew")
            .at(places.sets.display().to_string())),
    }
}

/// Whether an earlier set may do: what the set says of itself or holds is not right.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Read)
}

/// Brings the files of one set back, all or none. Returns how many were brought back, and how many were there.
fn from_set(engine: &Engine, places: &RestartPaths<'_>, path: &Path, step: u64) -> Result<(usize, usize)> {
    let set = open(path, &engine.codecs, places.notices)?;
    let files = &set.manifest().ranks;
    if let Some(other) = files.iter().find(|file| !places.is_of_step(&file.name, step)) {
        let what = format!("it holds '{}', which '{}' does not name for step {step}", other.display(), places.pattern);
        return Err(Error::usage(what)
            .hint("correct the pattern in knarr.toml, or name another directory for sets")
            .at(path.display().to_string()));
    }
    let same = engine.parallel(files.len(), |rank| match files.get(rank) {
        Some(file) => file.is_at(&places.root.join(file.path())),
        None => Ok(true),
    });
    // What cannot be read is not the file of the set.
    let same = same.or_else(|error| match error.kind() {
        ErrorKind::Read => Ok(vec![false; files.len()]),
        _ => Err(error),
    })?;
    let missing: Vec<usize> = same.iter().enumerate().filter(|(_, same)| !**same).map(|(rank, _)| rank).collect();
    if missing.is_empty() {
        return Ok((0, files.len()));
    }
    fs::create_dir_all(places.root).map_err(|error| Error::write(places.root, &error))?;
    let scratch = ScratchDirectory::create(places.root)?;
    let restored = restore(engine, &set, &missing, &scratch.directory, false, &Silent)?;
    if let Some(damage) = restored.damage.into_iter().next() {
        return Err(damage.error.at(damage.name));
    }
    for error in set.spared() {
        places.notices.warn(&format!("{error}; the other copy serves"));
    }
    let target = |rank: usize| files.get(rank).map(|file| places.root.join(file.path())).unwrap_or_default();
    // Before anything is moved: a restart brings all files back or none.
    if !places.force
        && let Some(rank) = missing.iter().find(|rank| target(**rank).symlink_metadata().is_ok())
    {
        return Err(Error::new(ErrorKind::Exists, format!("it is not the file of step {step} that {} holds", path.display()))
            .hint("move it away to restart from the set; --force replaces such files; or remove the set, if the file is the right one")
            .at(target(*rank).display().to_string()));
    }
    for (rank, from) in &restored.files {
        put(from, &target(*rank), places)?;
    }
    Ok((missing.len(), files.len() - missing.len()))
}

impl RestartPaths<'_> {
    fn is_of_step(&self, name: &[u8], step: u64) -> bool {
        self.pattern.parse(name).is_some_and(|named| named.step == Some(step))
    }
}

/// Moves a whole file to its place.
fn put(from: &Path, to: &Path, places: &RestartPaths<'_>) -> Result<()> {
    make_parent(places.root, to)?;
    let write_error = |error: std::io::Error| Error::write(to, &error);
    let moved = if places.force {
        fs::rename(from, to)
    } else {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // File systems without this flag: that nothing was there a moment ago has to do.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => fs::rename(from, to),
            moved => moved.map_err(Into::into),
        }
    };
    moved.map_err(write_error)?;
    if let Some(directory) = to.parent() {
        // Some file systems cannot sync directories; the move itself has succeeded.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

/// A directory beside the places of files, removed when dropped.
struct ScratchDirectory {
    directory: PathBuf,
}

impl ScratchDirectory {
    /// Makes it, and removes what killed restarts left.
    fn create(root: &Path) -> Result<Self> {
        remove_abandoned(root);
        let directory = root.join(temporary_name(OsStr::new("restart")));
        fs::create_dir(&directory).map_err(|error| Error::write(&directory, &error))?;
        Ok(Self { directory })
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
