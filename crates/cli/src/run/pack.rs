//! Packs one file that the program has closed, and puts the result in its place.
//!
//! The result is written on the same file system, synced and proven; then names are exchanged in one step. Before and after the
//! exchange the original must be what was read and nobody may have it open for writing; otherwise it gets its name back.
//! Programs under `knarr run` cannot open a file for writing between the two looks: they wait at the gate. For others
//! the second look covers that moment, except on file systems that cannot exchange names, and for writers on other
//! machines.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use knarr_core::capture::{Prescription, Snapshot};
use knarr_core::codec::{FilterSet, Reader};
use knarr_core::config::When;
use knarr_core::engine::{Engine, Silent};
use knarr_core::error::{Error, Result};
use knarr_core::output::take_access;
use knarr_core::settings::Settings;
use knarr_formats::repack::{Pipeline, RepackOptions, Repacked, pack, pipelines};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::processes::{Identity, name_of, renamed, writer};

/// A file to pack.
pub(super) struct Job {
    /// Absolute path.
    pub(super) path: PathBuf,
    /// Device and inode, if they are known: the program may rename what it has closed.
    pub(super) identity: Option<(u64, u64)>,
    /// Filters that the program's HDF5 has, if they are known.
    pub(super) filters: Option<FilterSet>,
    pub(super) engine: Engine,
    pub(super) snapshot: Snapshot,
    pub(super) options: RepackOptions,
    pub(super) gate: PathBuf,
    /// Where packed files are made, if that is on their file system.
    pub(super) scratch: PathBuf,
    /// Whether to learn from a file that was compressed as it was written.
    pub(super) learn: bool,
}

/// What became of it.
pub(super) enum Outcome {
    /// The packed file is in place.
    Packed(Box<Repacked>),
    /// It was compressed as it was written: what was learnt from it, and in how many seconds.
    Written(Result<Vec<Prescription>>, f64),
    /// The file stays as it is, for this reason.
    Left(String),
    /// It is being written again, or was: packing may be tried later.
    Changed(String),
    /// Packing failed; the file stays as it is.
    Failed(Error),
}

/// How long to wait for programs that are opening files.
const PATIENCE: Duration = Duration::from_secs(5);

impl Job {
    pub(super) fn run(self) -> Outcome {
        let outcome = self.attempt();
        if !matches!(outcome, Ok(Outcome::Packed(_))) && !self.path.exists() {
            return match self.identity.and_then(|identity| renamed(&self.path, identity)) {
                Some(path) => Self { path, identity: None, ..self }.run(),
                None => Outcome::Left("the program removed or renamed it".to_owned()),
            };
        }
        outcome.unwrap_or_else(Outcome::Failed)
    }

    fn attempt(&self) -> Result<Outcome> {
        if let Some((number, rule)) = self.snapshot.rule_for(&self.path)
            && rule.when == When::Write
        {
            let begin = Instant::now();
            let learnt = if self.learn { self.learn(number) } else { Ok(Vec::new()) };
            return Ok(Outcome::Written(learnt, begin.elapsed().as_secs_f64()));
        }
        let read_error = |error: std::io::Error| Error::read(&self.path, &error);
        let original = File::open(&self.path).map_err(read_error)?;
        let before = original.metadata().map_err(read_error)?;
        if !before.is_file() {
            return Ok(Outcome::Left("it is not a regular file".to_owned()));
        }
        if before.nlink() > 1 {
            return Ok(Outcome::Left("it has other names (hard links)".to_owned()));
        }
        if let Some(process) = writer(Identity::of(&before)) {
            return Ok(Outcome::Changed(format!("open for writing in process {process}")));
        }
        let Some(settings) = self.settings(&self.path)? else {
            return Ok(Outcome::Left("no rule matches it any more".to_owned()));
        };
        let packed = Beside::new(&self.path, &before, &self.scratch);
        let repacked = pack(&self.engine, &self.path, &packed.0, &settings, &self.options, &Silent)?;
        if repacked.output_bytes >= before.len() {
            return Ok(Outcome::Left("packing would not make it smaller".to_owned()));
        }
        copy_properties(&original, &before, &packed.0).map_err(|error| Error::write(&self.path, &error))?;
        let path = match self.publish(&original, &before, &packed)? {
            Ok(path) => path,
            Err(outcome) => return Ok(outcome),
        };
        Ok(Outcome::Packed(Box::new(Repacked {
            input: path.clone(),
            output: path,
            input_bytes: before.len(),
            ..repacked
        })))
    }

    /// The chains that would have suited the file, for the next ones of its rule.
    fn learn(&self, rule: usize) -> Result<Vec<Prescription>> {
        let Some(settings) = self.settings(&self.path)? else { return Ok(Vec::new()) };
        if settings.portable == Reader::Knarr {
            // The filter chooses by itself.
            return Ok(Vec::new());
        }
        let found = pipelines(&self.engine, &self.path, &settings, &Silent)?;
        let learnt = found.into_iter().map(|Pipeline { path, dtype, chain, filters }| Prescription {
            rule,
            variable: path,
            dtype,
            chain,
            filters,
            asked: false,
        });
        Ok(learnt.collect())
    }

    /// Settings of the rule for `path`. If the rule names no readers, the program is one: it may want to read what it
    /// wrote, and its HDF5 said which filters it has.
    fn settings(&self, path: &Path) -> Result<Option<Settings>> {
        let Some((_, rule)) = self.snapshot.rule_for(path) else { return Ok(None) };
        let known = self.filters.unwrap_or_else(|| FilterSet::of(Reader::Core));
        let filters = rule.portable.is_none().then_some(known);
        Ok(Some(Settings { filters, ..rule.settings()? }))
    }

    /// Exchanges the original and the packed file. Returns the name they had: the program may have renamed its file.
    fn publish(&self, original: &File, before: &Metadata, packed: &Beside) -> Result<Result<PathBuf, Outcome>> {
        let changed = |why: &str| Ok(Err(Outcome::Changed(why.to_owned())));
        let _gate = match self.shut_gate()? {
            Some(gate) => gate,
            None => return changed("the program keeps opening files"),
        };
        let Some(path) = name_of(original) else {
            return Ok(Err(Outcome::Left("the program removed it".to_owned())));
        };
        if path != self.path && self.settings(&path)?.is_none() {
            return Ok(Err(Outcome::Left("the program gave it a name that no rule matches".to_owned())));
        }
        if !is_unchanged(original, before) {
            return changed("it was written again");
        }
        let write_error = |error: rustix::io::Errno| Error::write(&path, &error.into());
        match renameat_with(CWD, &packed.0, CWD, &path, RenameFlags::EXCHANGE) {
            Ok(()) => {
                let here = std::fs::symlink_metadata(&packed.0).map(|found| Identity::of(&found));
                if here.is_ok_and(|here| here == Identity::of(before)) && is_unchanged(original, before) {
                    // The original loses its last name when `packed` is dropped.
                } else {
                    renameat_with(CWD, &packed.0, CWD, &path, RenameFlags::EXCHANGE).map_err(write_error)?;
                    return changed("it was written again");
                }
            }
            Err(rustix::io::Errno::NOENT) => return Ok(Err(Outcome::Left("the program removed it".to_owned()))),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
                rustix::fs::rename(&packed.0, &path).map_err(write_error)?;
            }
            Err(error) => return Err(write_error(error)),
        }
        for directory in [path.parent(), packed.0.parent()].into_iter().flatten() {
            // Some file systems cannot sync directories; the exchange itself has succeeded.
            let _ = File::open(directory).and_then(|directory| directory.sync_all());
        }
        Ok(Ok(path))
    }

    /// Shuts the gate until the result is dropped; `None` if programs hold it open for long.
    fn shut_gate(&self) -> Result<Option<File>> {
        let gate = File::open(&self.gate).map_err(|error| Error::read(&self.gate, &error))?;
        let begin = Instant::now();
        while gate.try_lock().is_err() {
            if begin.elapsed() > PATIENCE {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(Some(gate))
    }
}

/// True if the file is as long and as old as it was, with the same owner, permissions and number of names, and nobody
/// has it open for writing.
fn is_unchanged(file: &File, before: &Metadata) -> bool {
    let look = |found: &Metadata| {
        let time = (found.mtime(), found.mtime_nsec());
        (found.len(), time, found.nlink(), found.mode(), found.uid(), found.gid())
    };
    file.metadata().is_ok_and(|now| look(&now) == look(before)) && writer(Identity::of(before)).is_none()
}

/// A name on the same file system for the packed file, and for a moment the original; removed when dropped.
struct Beside(PathBuf);

impl Beside {
    /// In `scratch` if that is on the file system of `file`, else in the directory of `path`: what appears there may be
    /// in the way of a program that removes the directory.
    fn new(path: &Path, file: &Metadata, scratch: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".knarr-run-{:x}-{number:x}", std::process::id());
        let same = std::fs::metadata(scratch).is_ok_and(|found| found.dev() == file.dev());
        Self(if same { scratch.join(name) } else { path.with_file_name(name) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Permissions, owner, times and extended attributes of the original, as far as this user may set them.
fn copy_properties(original: &File, before: &Metadata, packed: &Path) -> std::io::Result<()> {
    let target = File::options().write(true).open(packed)?;
    take_access(&target, before)?;
    copy_attributes(original, &target);
    target.set_times(std::fs::FileTimes::new().set_accessed(before.accessed()?).set_modified(before.modified()?))
}

fn copy_attributes(original: &File, target: &File) {
    let mut names = vec![0u8; 1 << 16];
    let Ok(len) = rustix::fs::flistxattr(original, &mut names) else { return };
    let mut value = vec![0u8; 1 << 16];
    for name in names.get(..len).unwrap_or_default().split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        // Attributes of the system (labels, capabilities) are not ours to set.
        if let Ok(len) = rustix::fs::fgetxattr(original, name, &mut value) {
            let set = value.get(..len).unwrap_or_default();
            let _ = rustix::fs::fsetxattr(target, name, set, rustix::fs::XattrFlags::empty());
        }
    }
}
