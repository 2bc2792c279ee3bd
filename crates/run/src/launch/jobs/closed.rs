//! What holds for every file that a program has closed, whatever its route does with it then. It is read in another process.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::Snapshot;
use knarr_codec::codec::{FilterSet, ReaderLevel};
use knarr_config::{FileRule, Output, Route};
use knarr_flow::engine::Silent;

use crate::launch::aggregators::nodes::Others;
use crate::launch::jobs::exchange::is_unchanged;
use crate::launch::jobs::packed::PackedFiles;
use crate::launch::outcome::Outcome;
use knarr_capture::processes::{Identity, renamed, written_or_mapped};
use knarr_worker::{Failure, Pool, Share, Task};

/// A file that a program has closed, and what work on it needs.
pub(in crate::launch) struct ClosedJob {
    /// Absolute path.
    pub(in crate::launch) path: PathBuf,
    /// What each route does with it.
    pub(in crate::launch) when_closed: fn(Route) -> WhenClosed,
    /// Device and inode, if they are known: the program may rename what it has closed.
    pub(in crate::launch) identity: Option<(u64, u64)>,
    /// Filters that the program's HDF5 has, if they are known.
    pub(in crate::launch) filters: Option<FilterSet>,
    /// Do what needs the file read.
    pub(in crate::launch) workers: Arc<Pool>,
    pub(in crate::launch) share: Share,
    /// Set to stop.
    pub(in crate::launch) cancel: Arc<AtomicBool>,
    pub(in crate::launch) snapshot: Snapshot,
    /// The command as typed, and when: files that are packed say so.
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
    pub(in crate::launch) gate: PathBuf,
    /// Where packed files are made, if that is on their file system.
    pub(in crate::launch) scratch: PathBuf,
    /// Spools in which there may be newer versions of the file, which are to replace it.
    pub(in crate::launch) spools: Vec<PathBuf>,
    /// Other nodes whose ranks have written the file.
    pub(in crate::launch) others: Others,
    /// Files that the program may want back.
    pub(in crate::launch) packed: Arc<PackedFiles>,
}

/// Such a file as it was found: it is regular, has no other names, and nobody has it open for writing.
pub(in crate::launch) struct Closed<'j> {
    pub(in crate::launch::jobs) original: File,
    pub(in crate::launch::jobs) before: Metadata,
    pub(in crate::launch::jobs) rule: &'j FileRule,
    /// Those of its reader, where the program is one.
    pub(in crate::launch::jobs) filters: Option<FilterSet>,
}

/// What a route does with such a file.
pub(in crate::launch) type WhenClosed = fn(&ClosedJob, &Closed<'_>) -> Result<Outcome>;

/// True if more memory may help: what is left of it is too little for one of the chunks.
pub(in crate::launch) fn is_short(share: &Share, error: &Error) -> bool {
    share.may_grow && error.kind() == ErrorKind::Usage
}

impl ClosedJob {
    /// Returns nothing if it needs more memory than its share.
    pub(in crate::launch) fn run(self) -> Option<Outcome> {
        let outcome = self.attempt();
        if outcome.as_ref().is_err_and(|error| is_short(&self.share, error)) {
            return None;
        }
        if !matches!(outcome, Ok(Outcome::Packed(_) | Outcome::Displaced(_))) && !self.path.exists() {
            return match self.identity.and_then(|identity| renamed(&self.path, identity)) {
                Some(path) => Self { path, identity: None, ..self }.run(),
                None => Some(Outcome::Left("the program removed or renamed it".to_owned())),
            };
        }
        Some(outcome.unwrap_or_else(Outcome::Failed))
    }

    fn attempt(&self) -> Result<Outcome> {
        if let Some((_, rule)) = self.snapshot.rule_for(&self.path)
            && rule.route().traits().may_be_replaced
            && let Err(error) = self.others.await_end(&self.cancel)
        {
            return Ok(Outcome::Left(error.message().to_owned()));
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
        let written = written_or_mapped(&HashSet::from([Identity::of(&before)])).map_err(read_error)?;
        if let Some(process) = written.values().next() {
            return Ok(Outcome::Changed(format!("open for writing in process {process}")));
        }
        let Some((rule, filters)) = self.rule(&self.path) else {
            return Ok(Outcome::Left("no rule matches it any more".to_owned()));
        };
        if *rule.compress().output() != Output::Netcdf4 {
            let why = "'output' is for files that are handed over: this file stays what it is";
            return Ok(Outcome::Left(why.to_owned()));
        }
        (self.when_closed)(rule.route())(self, &Closed { original, before, rule, filters })
    }

    /// Has a task done with the file as it is, or says what is to become of it instead.
    pub(in crate::launch::jobs) fn ask_of<T: Task>(
        &self,
        task: &T,
        file: &Closed<'_>,
    ) -> Result<Result<T::Answer, Outcome>> {
        match self.workers.ask(task, &self.share, &self.cancel, &Silent) {
            Ok(answer) => Ok(Ok(answer)),
            Err(Failure::Died(error)) => Ok(Err(Outcome::Died(error))),
            // Half of one state and half of another may look damaged.
            Err(Failure::Failed(_)) if !is_unchanged(&file.original, &file.before) => {
                Ok(Err(Outcome::Changed("it was written again".to_owned())))
            }
            Err(Failure::Failed(error)) => Err(error),
        }
    }

    /// The rule for `path`, and the filters of its reader, where the program is one.
    pub(in crate::launch::jobs) fn rule(&self, path: &Path) -> Option<(&FileRule, Option<FilterSet>)> {
        let (_, rule) = self.snapshot.rule_for(path)?;
        Some((rule, self.known(rule)))
    }

    /// If the rule names no readers, the program is one: it may want to read what it wrote, and its HDF5 said which filters
    /// it has.
    fn known(&self, rule: &FileRule) -> Option<FilterSet> {
        let known = self.filters.unwrap_or_else(|| FilterSet::of(ReaderLevel::Core));
        rule.compress().portable.is_none().then_some(known)
    }
}
