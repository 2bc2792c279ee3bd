//! `knarr checkpoint watch`: each time step of a running program becomes a set once its last file is closed.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knarr_core::checkpoint::pattern::Pattern;
use knarr_core::checkpoint::set::is_set;
use knarr_core::checkpoint::sets::{lock, of_step, prune, sweep, when, whole};
use knarr_core::checkpoint::{Input, PackOptions, Packed, pack};
use knarr_core::engine::Engine;
use knarr_core::error::{Error, ErrorKind, Result};
use knarr_core::table;

use super::args::Watch;
use super::look::{Directory, are_written};
use super::merging::Configured;
use super::steps::{Complete, Rules, State, Steps};
use super::stop::Stop;
use crate::progress::Bar;

/// How often the directory is looked at when nothing is told of it: other machines' writing is not.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Files that are closed together are looked at together.
const TOGETHER: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Watch) -> Result<u8> {
    let pattern: Pattern = arguments.pattern.parse()?;
    if !pattern.has_step() || !pattern.has_rank() {
        return Err(Error::usage(format!("pattern '{pattern}' tells steps or ranks not apart"))
            .mend("write both {step} and {rank} into it, like restart_{step}_{rank}.h5"));
    }
    let rules = Rules {
        ranks: parse_ranks(&arguments.ranks)?,
        settle: arguments.settle,
        patience: arguments.patience,
        force: arguments.force,
    };
    fs::create_dir_all(&arguments.output).map_err(|error| Error::write(&arguments.output, &error))?;
    // Two watches of one directory would pack every step twice.
    let _lock = lock(&arguments.output)?;
    sweep(&arguments.output)?;
    let configured = Configured::read(&arguments.merging)?;
    let engine = crate::session::engine_for_run(&arguments.resources, &configured.machine())?;
    let stop = Stop::listen(Arc::clone(&engine.cancel))?;
    let directory = Directory::open(&arguments.directory, pattern, &arguments.output)?;
    if !arguments.once {
        // Threads inherit it; where it is refused packing is only less polite.
        let _ = rustix::process::setpriority_process(None, crate::run::BACKGROUND);
    }
    let mut watching = Watching {
        arguments,
        configured,
        engine,
        stop,
        directory,
        steps: Steps::new(rules),
        sets: Vec::new(),
        worst: None,
    };
    watching.watch()?;
    watching.end()
}

/// `64`: ranks 0 to 63; `1-64`: those.
fn parse_ranks(text: &str) -> Result<RangeInclusive<u64>> {
    let refuse = || {
        Error::usage(format!("--ranks '{text}'")).mend("write the number of ranks, or the first and the last: 64, 1-64")
    };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| refuse());
    let ranks = match text.split_once('-') {
        Some((first, last)) => number(first)?..=number(last)?,
        None => 0..=number(text)?.checked_sub(1).ok_or_else(refuse)?,
    };
    if ranks.is_empty() { Err(refuse()) } else { Ok(ranks) }
}

struct Watching<'a> {
    arguments: &'a Watch,
    configured: Configured<'a>,
    engine: Engine,
    stop: Stop,
    directory: Directory,
    steps: Steps,
    /// Of each set that was made, in words for machines.
    sets: Vec<serde_json::Value>,
    /// The first thing that went wrong: it gives the exit code.
    worst: Option<ErrorKind>,
}

impl Watching<'_> {
    /// Until a signal comes or, if that was asked for, nothing is left to pack.
    fn watch(&mut self) -> Result<()> {
        loop {
            let found = self.directory.look()?;
            for trouble in self.steps.look(found, Instant::now()) {
                self.tell(&trouble);
            }
            if self.stop.came() {
                return Ok(());
            }
            if let Some(complete) = self.steps.complete(Instant::now()) {
                if are_written(complete.files.values().map(|(_, state)| state)) {
                    self.steps.restless(complete.step, Instant::now());
                } else {
                    self.pack(&complete)?;
                    continue;
                }
            }
            let waits = self.steps.waits_to_settle(Instant::now());
            if self.arguments.once && !waits {
                return Ok(());
            }
            let rest = if waits { self.arguments.settle } else { self.arguments.patience };
            self.directory.wait(self.stop.news(), rest.clamp(TOGETHER, LOOK_EVERY));
            std::thread::sleep(TOGETHER);
        }
    }

    /// Packs a step. What is wrong with the step alone is told, and others go on.
    fn pack(&mut self, complete: &Complete) -> Result<()> {
        let step = complete.step;
        let target = of_step(&self.arguments.output, step);
        if is_set(&target) {
            match later_than(&target, complete)? {
                None => {
                    self.steps.packed(step);
                    return Ok(());
                }
                Some(_) if self.arguments.force => {}
                Some(path) => {
                    self.tell(&super::steps::again(step, &path.display().to_string()));
                    self.steps.rewritten(step);
                    return Ok(());
                }
            }
        }
        let inputs: Vec<Input> = complete
            .files
            .values()
            .map(|(path, _)| Input { path: path.clone(), name: self.directory.name(path).to_vec() })
            .collect();
        let (mut sets, _damaged) = whole(&self.arguments.output, &self.engine.codecs)?;
        let base = sets.pop().map(|set| set.path().to_owned());
        let first = inputs.first().map(|input| input.path.as_path());
        let options = PackOptions { force: self.arguments.force, base, ..self.configured.options(first)? };
        let bar = Bar::new(format!("step {step}"));
        let result = pack(&self.engine, &inputs, &target, &options, &knarr_formats::layout::read, &bar);
        drop(bar);
        match result {
            Ok(packed) => {
                self.packed(complete, &target, &packed);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            // Somebody writes on: once more when they rest.
            Err(_) if complete.files.values().any(|(path, state)| now(path) != Some(*state)) => {
                self.steps.restless(step, Instant::now());
                Ok(())
            }
            Err(error) => {
                self.tell(&error.at(format!("step {step}")));
                self.steps.postponed(step, Instant::now());
                Ok(())
            }
        }
    }

    fn packed(&mut self, complete: &Complete, target: &Path, packed: &Packed) {
        self.steps.packed(complete.step);
        eprintln!(
            "step {}: {} files, {} in {}, ratio {}, {:.1} s: {}",
            complete.step,
            complete.files.len(),
            table::bytes(packed.raw_bytes),
            table::bytes(packed.packed_bytes),
            table::ratio(packed.raw_bytes, packed.packed_bytes),
            packed.seconds,
            target.display()
        );
        self.sets.push(serde_json::json!({
            "step": complete.step, "set": target, "files": complete.files.len(), "raw_bytes": packed.raw_bytes,
            "packed_bytes": packed.packed_bytes, "seconds": packed.seconds,
        }));
        if self.arguments.remove {
            for (path, _) in complete.files.values().filter(|(path, state)| now(path) == Some(*state)) {
                if let Err(error) = fs::remove_file(path) {
                    self.tell(&Error::write(path, &error));
                }
            }
        }
        if let Some(keep) = self.arguments.keep {
            let keep = usize::try_from(keep).unwrap_or(usize::MAX);
            match prune(&self.arguments.output, keep, &self.engine.codecs, false) {
                Ok(pruned) => pruned.removed.iter().for_each(|path| eprintln!("removed {}", path.display())),
                Err(error) => self.tell(&error),
            }
        }
    }

    fn tell(&mut self, error: &Error) {
        eprintln!("knarr: {error}");
        self.worst.get_or_insert(error.kind());
    }

    /// The exit code.
    fn end(mut self) -> Result<u8> {
        for error in self.steps.unfinished() {
            // A watch that is stopped leaves the rest to the next one; one that was to pack all did not do so.
            eprintln!("knarr: {error}");
            if self.arguments.once {
                self.worst.get_or_insert(ErrorKind::NotFound);
            }
        }
        if self.arguments.json {
            println!("{}", serde_json::json!({ "sets": self.sets }));
        }
        Ok(self.worst.map_or(0, ErrorKind::exit_code))
    }
}

/// The state of the file at `path` now; `None` if it is gone.
fn now(path: &Path) -> Option<State> {
    fs::symlink_metadata(path).ok().map(|metadata| State::of(&metadata))
}

/// A file of the step that was written to after the set `target` was completed.
fn later_than(target: &Path, complete: &Complete) -> Result<Option<PathBuf>> {
    let completed = when(target)?;
    let is_later = |path: &Path| {
        let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified > completed)
    };
    Ok(complete.files.values().map(|(path, _)| path).find(|path| is_later(path)).cloned())
}

#[cfg(test)]
mod tests {
    use super::parse_ranks;

    #[test]
    fn ranks_are_counted_or_named() {
        assert_eq!(parse_ranks("64").unwrap(), 0..=63);
        assert_eq!(parse_ranks("1-64").unwrap(), 1..=64);
        for bad in ["", "0", "-1", "5-2", "a", "1-", "1-2-3"] {
            assert!(parse_ranks(bad).is_err(), "{bad}");
        }
    }
}
