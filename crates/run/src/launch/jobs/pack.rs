//! What is done with one file that the program has closed: by route `compress` it is packed in another process, and the result
//! put in its place.
//!
//! The result is written on the same file system, synced and proven; then names are exchanged in one step. Before and after the
//! exchange the original must be what was read and nobody may have it open for writing; otherwise it gets its name back.
//! Programs under `knarr run` cannot open a file with HDF5 for writing between the two looks: they wait at the gate, and ranks that open
//! it together wait on all their nodes. For other libraries, whose files are packed when the program has ended, and for other programs,
//! the second look covers that moment, except on file systems that cannot exchange names, and for writers on other machines.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{HandedOver, Snapshot};
use knarr_codec::codec::{FilterSet, ReaderLevel};
use knarr_config::{FileRule, Output, Route};
use knarr_flow::engine::Silent;
use knarr_flow::output::FileIdentity;
use knarr_routes::compress::Repacked;

use crate::launch::aggregators::nodes::Others;
use crate::launch::jobs::estimate::Estimate;
use crate::launch::jobs::exchange::{Exchanged, copy_properties, exchange, is_unchanged, shut};
use crate::launch::jobs::packed::PackedFiles;
use crate::launch::jobs::replacement::{Replacement, is_temporary};
use crate::launch::jobs::tasks::PackFile;
use crate::launch::outcome::Outcome;
use knarr_capture::processes::{Identity, name_of, renamed, written_or_mapped};
use knarr_worker::{Failure, Pool, Share, Task};

/// A file to pack.
pub(in crate::launch) struct PackJob {
    /// Absolute path.
    pub(in crate::launch) path: PathBuf,
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

/// True if more memory may help: what is left of it is too little for one of the chunks.
pub(in crate::launch) fn is_short(share: &Share, error: &Error) -> bool {
    share.may_grow && error.kind() == ErrorKind::Usage
}

impl PackJob {
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
        match rule.route() {
            Route::Estimate => {
                let task = Estimate { input: self.path.clone(), rule: rule.clone(), filters };
                let estimated = self.ask_of(&task, &original, &before)?;
                Ok(estimated.map_or_else(
                    |outcome| outcome,
                    |forecast| Outcome::Estimated { path: self.path.clone(), forecast: Box::new(forecast) },
                ))
            }
            // Others are not handed out, see `Snapshot::rule_for`.
            Route::Compress | Route::Stage | Route::File | Route::Checkpoint | Route::Transfer => {
                self.pack((rule, filters), &original, &before)
            }
        }
    }

    /// Packs the file, and puts the result in its place.
    fn pack(
        &self,
        (rule, filters): (&FileRule, Option<FilterSet>),
        original: &File,
        before: &Metadata,
    ) -> Result<Outcome> {
        let mut packed = Replacement::new(&self.path, before, &self.scratch);
        let task = PackFile {
            input: self.path.clone(),
            output: packed.path().to_owned(),
            rule: rule.clone(),
            filters,
            command: self.command.clone(),
            when: self.when.clone(),
        };
        let repacked: Repacked = match self.ask_of(&task, original, before)? {
            Ok(repacked) => repacked,
            Err(outcome) => return Ok(outcome),
        };
        if repacked.output_bytes >= before.len() {
            return Ok(Outcome::Left("packing would not make it smaller".to_owned()));
        }
        copy_properties(original, before, packed.path()).map_err(|error| Error::write(&self.path, &error))?;
        let (was, now) = (FileIdentity::of(before), FileIdentity::at(packed.path()));
        let note = |path: &Path| {
            now.into_iter().for_each(|now| HandedOver::stored_anew(&self.spools, path, was, now));
        };
        note(&self.path);
        if self.share.effort.background {
            // Before it has its name: who opens it from then on knows.
            self.packed.note(packed.path(), &repacked.as_made)?;
        }
        let published = self.publish(original, before, &mut packed);
        if !matches!(published, Ok(Ok(_))) {
            self.packed.forget_at(packed.path());
        }
        let path = match published? {
            Ok(path) => path,
            Err(outcome) => return Ok(outcome),
        };
        // The program may have begun one meanwhile.
        note(&path);
        Ok(Outcome::Packed(Box::new(Repacked {
            input: path.clone(),
            output: path,
            input_bytes: before.len(),
            ..repacked
        })))
    }

    /// Has a task done with the file as it is, or says what is to become of it instead.
    fn ask_of<T: Task>(&self, task: &T, original: &File, before: &Metadata) -> Result<Result<T::Answer, Outcome>> {
        match self.ask(task) {
            Ok(answer) => Ok(Ok(answer)),
            Err(Failure::Died(error)) => Ok(Err(Outcome::Died(error))),
            // Half of one state and half of another may look damaged.
            Err(Failure::Failed(_)) if !is_unchanged(original, before) => {
                Ok(Err(Outcome::Changed("it was written again".to_owned())))
            }
            Err(Failure::Failed(error)) => Err(error),
        }
    }

    fn ask<T: Task>(&self, task: &T) -> Result<T::Answer, Failure> {
        self.workers.ask(task, &self.share, &self.cancel, &Silent)
    }

    /// The rule for `path`, and the filters of its reader, where the program is one.
    fn rule(&self, path: &Path) -> Option<(&FileRule, Option<FilterSet>)> {
        let (_, rule) = self.snapshot.rule_for(path)?;
        Some((rule, self.known(rule)))
    }

    /// If the rule names no readers, the program is one: it may want to read what it wrote, and its HDF5 said which filters
    /// it has.
    fn known(&self, rule: &FileRule) -> Option<FilterSet> {
        let known = self.filters.unwrap_or_else(|| FilterSet::of(ReaderLevel::Core));
        rule.compress().portable.is_none().then_some(known)
    }

    /// Exchanges the original and the packed file. Returns the name they had: the program may have renamed its file.
    fn publish(
        &self,
        original: &File,
        before: &Metadata,
        packed: &mut Replacement,
    ) -> Result<Result<PathBuf, Outcome>> {
        let changed = |why: &str| Ok(Err(Outcome::Changed(why.to_owned())));
        let Some(_gate) = shut(&self.gate)? else { return changed("the program keeps opening files") };
        let Some(path) = name_of(original) else {
            if self.path.exists() {
                return changed("another file has its name");
            }
            return Ok(Err(Outcome::Left("the program removed it".to_owned())));
        };
        if is_temporary(&path) {
            return changed("another 'knarr run' packs it");
        }
        if path != self.path && self.rule(&path).is_none() {
            return Ok(Err(Outcome::Left("the program gave it a name that no rule matches".to_owned())));
        }
        Ok(match exchange((original, before), packed, &path)? {
            Exchanged::Yes => Ok(path),
            Exchanged::Changed => Err(Outcome::Changed("it was written again".to_owned())),
            Exchanged::Removed => Err(Outcome::Left("the program removed it".to_owned())),
            Exchanged::Displaced(error) => Err(Outcome::Displaced(error)),
        })
    }
}
