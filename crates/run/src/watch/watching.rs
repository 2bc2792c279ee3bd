//! Watching a directory: each time step of a running program becomes a set once its last file is closed. How it ends,
//! what is packed how, and who hears of it is the business of a [`Host`].

use std::fs::{self, File};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::measured::{self, By, Measured};
use knarr_checkpoint::set::is_set;
use knarr_checkpoint::sets::{directory_of, lock, of_step, prune, when, whole};
use knarr_checkpoint::{Input, PackOptions, Set};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::remove_abandoned;

use super::look::Directory;
use super::pack_set::{PackSet, PackedSet};
use super::steps::{Complete, Rules, State, Steps, again};
use super::times::file_time;
use super::writers::Writers;
use crate::means::Means;
use crate::worker::{Effort, Failure, Worker};

/// How often the directory is looked at when nothing is told of it: other machines' writing is not.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Files that are closed together are looked at together.
const TOGETHER: Duration = Duration::from_millis(100);

/// When a watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not yet.
    Open,
    /// When no complete step is left to pack.
    WhenPacked,
    /// At once.
    Now,
}

/// What is to become of a complete step.
pub enum Verdict {
    /// A set.
    Pack,
    /// Somebody still writes to its files.
    Wait,
    /// It is not to be packed, for this reason.
    Leave(Error),
}

/// A set that was made.
pub struct Made<'a> {
    /// The step.
    pub step: u64,
    /// Where its set is.
    pub set: &'a Path,
    /// How many files the set holds.
    pub files: usize,
    /// What packing them came to.
    pub packed: &'a PackedSet,
    /// Why nothing says that the files are whole, if so: they stay, whatever was asked.
    pub unproven: Option<&'a str>,
}

/// Who has a directory watched.
pub trait Host {
    /// What packs the next set, and whether a program runs that it must not disturb.
    fn engine(&self) -> (Engine, bool);
    /// What the engine of another process needs.
    fn means(&self) -> &Means;
    /// How a set of these files is packed.
    ///
    /// # Errors
    /// Why that is not known.
    fn options(&self, inputs: &[Input]) -> Result<PackOptions>;
    /// Hears how far the set of a step is.
    fn progress(&self, step: u64) -> Box<dyn Progress>;
    /// Whether to go on.
    fn end(&self) -> End;
    /// Becomes readable when that changes.
    fn news(&self) -> BorrowedFd<'_>;
    /// Whether the step, whose files rest, is to be packed.
    fn judge(&mut self, complete: &Complete) -> Verdict;
    /// Why nothing says that the files of the step are whole, if so.
    fn unproven(&self, complete: &Complete) -> Option<String>;
    /// Hears what is wrong, each thing once.
    fn tell(&mut self, error: &Error);
    /// Hears of a set that was made.
    fn packed(&mut self, made: &Made<'_>);
    /// Hears of a set that was removed because newer ones are to be kept alone.
    fn removed(&mut self, set: &Path);
}

/// What is watched, and what becomes of it.
pub struct Watching {
    /// Where files come.
    pub directory: Directory,
    /// What became of them.
    pub steps: Steps,
    /// Directory of sets.
    pub sets: PathBuf,
    /// Files are removed when their set is complete.
    pub remove: bool,
    /// How many of the newest sets stay; all if `None`.
    pub keep: Option<u32>,
    /// Who says what a checkpoint took.
    pub by: By,
    /// Who writes the files.
    pub writers: Writers,
}

impl Watching {
    /// Watches until the host says that it is enough.
    ///
    /// # Errors
    /// If a directory cannot be read any more. What is wrong with a step alone is told, and others go on.
    pub fn run(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut last = false;
        loop {
            // Before the look, so that the last look is one after the end.
            let end = host.end();
            if end == End::WhenPacked && !last {
                last = true;
                self.steps.retry(Instant::now());
            }
            let found = self.directory.look()?;
            self.writers.look(&found);
            for trouble in self.steps.look(found, Instant::now()) {
                host.tell(&trouble);
            }
            if host.end() == End::Now {
                return Ok(());
            }
            if let Some(mut complete) = self.steps.complete(Instant::now()) {
                for file in complete.files.values_mut() {
                    file.torn = self.writers.torn(&file.state);
                    file.unproven = self.writers.ended_somehow(&file.state)
                        || !file.followed && !self.directory.is_of_this_machine(&file.path);
                }
                match host.judge(&complete) {
                    Verdict::Wait => self.steps.restless(complete.step, Instant::now()),
                    Verdict::Leave(error) => {
                        host.tell(&error);
                        self.steps.left(complete.step);
                        continue;
                    }
                    Verdict::Pack => {
                        self.pack(host, &complete)?;
                        continue;
                    }
                }
            }
            let waits = self.steps.waits_to_settle(Instant::now());
            if end == End::WhenPacked && !waits {
                return Ok(());
            }
            let rules = self.steps.rules();
            let rest = if waits { rules.settle } else { rules.patience };
            self.directory.wait(host.news(), rest.clamp(TOGETHER, LOOK_EVERY));
            // At once: who writes a file may not live long.
            self.writers.look(&self.directory.look()?);
            let Self { directory, writers, .. } = self;
            directory.rest(TOGETHER, || writers.look_again());
        }
    }

    fn pack(&mut self, host: &mut dyn Host, complete: &Complete) -> Result<()> {
        let step = complete.step;
        let target = of_step(&self.sets, step);
        let &Rules { force, live, .. } = self.steps.rules();
        if is_set(&target) && !live {
            let codecs = host.engine().0.codecs;
            match not_in(&target, complete, &codecs, |path| self.directory.name(path).to_vec()) {
                Ok(None) => {
                    self.packed(host, step);
                    return Ok(());
                }
                Ok(Some(_)) | Err(_) if force => {}
                other => {
                    let error = other.map_or_else(
                        |error| {
                            Error::new(error.kind(), format!("its set is not whole: {error}"))
                                .hint("use --force to pack the step again")
                                .at(format!("step {step}"))
                        },
                        |path| again(step, &path.unwrap_or_default().display().to_string()),
                    );
                    host.tell(&error);
                    self.steps.rewritten(step);
                    return Ok(());
                }
            }
        }
        let inputs: Vec<Input> = complete
            .files
            .iter()
            .map(|(&number, file)| {
                let name = self.directory.name(&file.path).to_vec();
                Input { path: file.path.clone(), name, number }
            })
            .collect();
        let (mut sets, _damaged) = whole(&self.sets, &host.engine().0.codecs)?;
        let base = sets.pop().map(|set| set.path().to_owned());
        let unproven = host.unproven(complete);
        let keep = self.keep.and_then(|keep| usize::try_from(keep).ok());
        let options = PackOptions { force, base, keep, unproven: unproven.clone(), ..host.options(&inputs)? };
        let mut packed = pack_apart(&*host, step, &inputs, &target, &options);
        if let Err(Failure::Died(error)) = &packed {
            // A program may have changed a file just then.
            host.tell(&error.clone().at(format!("step {step}, which is tried again")));
            packed = pack_apart(&*host, step, &inputs, &target, &options);
        }
        match packed.map_err(Error::from) {
            Ok(packed) => {
                measured::note(&target, &Measured::checkpoint(self.by, complete.written_in, packed.seconds));
                let unproven = unproven.as_deref();
                host.packed(&Made { step, set: &target, files: inputs.len(), packed: &packed, unproven });
                self.packed(host, step);
                self.clear(host, complete, unproven.is_some());
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            // Somebody writes on: once more when they rest.
            Err(_) if complete.files.values().any(|file| now(&file.path) != Some(file.state)) => {
                self.steps.restless(step, Instant::now());
                Ok(())
            }
            Err(error) => {
                host.tell(&error.at(format!("step {step}")));
                self.steps.postponed(step, Instant::now());
                Ok(())
            }
        }
    }

    fn packed(&mut self, host: &mut dyn Host, step: u64) {
        for trouble in self.steps.packed(step) {
            host.tell(&trouble);
        }
    }

    /// Removes what a new set makes superfluous, if that was asked for.
    fn clear(&self, host: &mut dyn Host, complete: &Complete, unproven: bool) {
        if self.remove && !unproven {
            for file in complete.files.values().filter(|file| now(&file.path) == Some(file.state)) {
                if let Err(error) = fs::remove_file(&file.path) {
                    host.tell(&Error::write(&file.path, &error));
                }
            }
        }
        if let Some(keep) = self.keep {
            let keep = usize::try_from(keep).unwrap_or(usize::MAX);
            match prune(&self.sets, keep, &host.engine().0.codecs, false) {
                Ok(pruned) => {
                    pruned.removed.iter().for_each(|path| host.removed(path));
                    pruned.failed.iter().for_each(|error| host.tell(error));
                }
                Err(error) => host.tell(&error),
            }
        }
    }
}

/// Makes the directory of sets, and removes what killed watches left there. Two watches would pack every step twice: it
/// belongs to this one until the result is dropped.
///
/// # Errors
/// `Exists` if somebody else has it, `Write` if it cannot be made.
pub fn take(sets: &Path) -> Result<File> {
    fs::create_dir_all(sets).map_err(|error| Error::write(sets, &error))?;
    let taken = lock(sets)?;
    remove_abandoned(sets);
    Ok(taken)
}

/// Packs a set in a process of its own: a file that is damaged, or that a program writes on, may crash what reads it.
fn pack_apart(
    host: &dyn Host,
    step: u64,
    inputs: &[Input],
    target: &Path,
    options: &PackOptions,
) -> Result<PackedSet, Failure> {
    let (engine, background) = host.engine();
    let (task, effort) = (PackSet::new(inputs, target, options), Effort { jobs: engine.jobs, background });
    let mut worker = Worker::new(host.means().clone());
    let packed = worker.ask(&task, effort, &engine.cancel, host.progress(step).as_ref());
    drop(worker);
    if packed.is_err() {
        // What a process that died has left half written.
        remove_abandoned(directory_of(target));
    }
    packed
}

/// The state of the file at `path` now; `None` if it is gone.
fn now(path: &Path) -> Option<State> {
    fs::symlink_metadata(path).ok().map(|metadata| State::of(&metadata))
}

/// A file of the step that the set `target` does not hold as it is. Bytes are compared where dates do not say so: files
/// that are moved into place keep the date of their content, and the set may be of a time that is still to come.
///
/// # Errors
/// What is wrong with the set, as far as that shows without reading its frames.
fn not_in(
    target: &Path,
    complete: &Complete,
    codecs: &CodecList,
    name: impl Fn(&Path) -> Vec<u8>,
) -> Result<Option<PathBuf>> {
    let completed = when(target)?;
    let is_past = completed <= SystemTime::now();
    let set = Set::open(target, codecs)?;
    set.check_files()?;
    let is_held = |path: &Path| {
        let Some(held) = set.manifest().ranks.iter().find(|rank| rank.name == name(path)) else { return false };
        let Ok(metadata) = fs::symlink_metadata(path) else { return true };
        let is_later = |seconds, nanoseconds| (seconds, nanoseconds) > file_time(completed);
        !is_later(metadata.mtime(), metadata.mtime_nsec())
            && (is_past && !is_later(metadata.ctime(), metadata.ctime_nsec()) || held.is_at(path).unwrap_or(false))
    };
    Ok(complete.files.values().map(|file| &file.path).find(|path| !is_held(path)).cloned())
}
