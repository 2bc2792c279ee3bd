//! What becomes of complete steps: each is packed into a set by a process of its own, and what the set makes superfluous
//! is removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::measured::{self, By, Measured};
use knarr_checkpoint::set::is_set;
use knarr_checkpoint::sets::{directory_of, of_step, prune, when, whole};
use knarr_checkpoint::{Input, PackOptions, Set};
use knarr_codec::codec::CodecList;
use knarr_flow::output::remove_abandoned;

use super::host::{Host, Made};
use super::pack_set::{PackSet, PackedSet};
use super::steps::{Complete, Rules, State, Steps, again};
use super::times::file_time;
use knarr_worker::{Effort, Failure, Worker};

/// The steps, and where and how they are packed.
pub struct Packing {
    /// What became of the steps.
    pub steps: Steps,
    /// Directory of sets.
    pub sets: PathBuf,
    /// Files are removed when their set is complete.
    pub remove: bool,
    /// How many of the newest sets stay; all if `None`.
    pub keep: Option<u32>,
    /// Who says what a checkpoint took.
    pub by: By,
}

impl Packing {
    /// Packs the files of a complete step, which `inputs` names.
    ///
    /// # Errors
    /// If the sets cannot be read any more. What is wrong with the step alone is told.
    pub(super) fn pack(&mut self, host: &mut dyn Host, complete: &Complete, inputs: &[Input]) -> Result<()> {
        let step = complete.step;
        let target = of_step(&self.sets, step);
        let &Rules { force, live, .. } = self.steps.rules();
        if is_set(&target) && !live {
            let codecs = host.engine().0.codecs;
            match not_in(&target, inputs, &codecs) {
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
                    host.notify(&error);
                    self.steps.rewritten(step);
                    return Ok(());
                }
            }
        }
        let (mut sets, _damaged) = whole(&self.sets, &host.engine().0.codecs)?;
        let base = sets.pop().map(|set| set.path().to_owned());
        let unproven = host.unproven(complete);
        let keep = self.keep.and_then(|keep| usize::try_from(keep).ok());
        let options = PackOptions { force, base, keep, unproven: unproven.clone(), ..host.options(inputs)? };
        let mut packed = pack_apart(&*host, step, inputs, &target, &options);
        if let Err(Failure::Died(error)) = &packed {
            // A program may have changed a file just then.
            host.notify(&error.clone().at(format!("step {step}, which is tried again")));
            packed = pack_apart(&*host, step, inputs, &target, &options);
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
                host.notify(&error.at(format!("step {step}")));
                self.steps.postponed(step, Instant::now());
                Ok(())
            }
        }
    }

    fn packed(&mut self, host: &mut dyn Host, step: u64) {
        for trouble in self.steps.packed(step) {
            host.notify(&trouble);
        }
    }

    /// Removes what a new set makes superfluous, if that was asked for.
    fn clear(&self, host: &mut dyn Host, complete: &Complete, unproven: bool) {
        if self.remove && !unproven {
            for file in complete.files.values().filter(|file| now(&file.path) == Some(file.state)) {
                if let Err(error) = fs::remove_file(&file.path) {
                    host.notify(&Error::write(&file.path, &error));
                }
            }
        }
        if let Some(keep) = self.keep {
            let keep = usize::try_from(keep).unwrap_or(usize::MAX);
            match prune(&self.sets, keep, &host.engine().0.codecs, false) {
                Ok(pruned) => {
                    pruned.removed.iter().for_each(|path| host.removed(path));
                    pruned.failed.iter().for_each(|error| host.notify(error));
                }
                Err(error) => host.notify(&error),
            }
        }
    }
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
    let effort = Effort { jobs: engine.jobs, background, memory: None };
    let task = PackSet::new(inputs, target, options);
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
fn not_in(target: &Path, inputs: &[Input], codecs: &CodecList) -> Result<Option<PathBuf>> {
    let completed = when(target)?;
    let is_past = completed <= SystemTime::now();
    let set = Set::open(target, codecs)?;
    set.check_files()?;
    let is_held = |input: &Input| {
        let Some(held) = set.manifest().ranks.iter().find(|rank| rank.name == input.name) else { return false };
        let Ok(metadata) = fs::symlink_metadata(&input.path) else { return true };
        let is_later = |seconds, nanoseconds| (seconds, nanoseconds) > file_time(completed);
        !is_later(metadata.mtime(), metadata.mtime_nsec())
            && (is_past && !is_later(metadata.ctime(), metadata.ctime_nsec())
                || held.is_at(&input.path).unwrap_or(false))
    };
    Ok(inputs.iter().find(|input| !is_held(input)).map(|input| input.path.clone()))
}
