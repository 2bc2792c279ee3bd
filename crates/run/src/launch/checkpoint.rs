//! Route `checkpoint`: the restart files that a program writes become sets while it runs.
//!
//! Directories are watched as `knarr checkpoint watch` does, one thread for each rule, which serves programs of any
//! kind. What the library inside the program tells of HDF5 files, and how the program ended, decides where looking alone
//! cannot: a file that was open when its process died is not whole, however long it rests.

use std::ffi::OsString;
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Event, Message};
use knarr_checkpoint::measured::{self, By, Measured};
use knarr_checkpoint::pattern::Pattern;
use knarr_checkpoint::set::is_set;
use knarr_checkpoint::sets;
use knarr_checkpoint::{Input, PackOptions};
use knarr_config::{Config, FileRule, Route};
use knarr_flow::engine::{Engine, Progress, Silent};

use super::outcome::{Became, Row};
use super::start::program::GRACE;
use super::start::ranks;
use super::start::restart::{RestartPaths, Restarted, bring_back};
use crate::notices::Notices;
use knarr_capture::processes::System;
use knarr_decisions::ledger::{Closing, Ledger};
use knarr_watch::{Complete, Directory, End, Finished, Host, Made, Packing, Rules, Steps, Verdict, Watching, Writers};
use knarr_watch::{are_written, take};
use knarr_worker::means::Means;

/// How long a file rests before it is taken for finished, if the rule does not say.
const SETTLE: Duration = Duration::from_secs(2);
/// For how long a step waits for the next of its files before they are told to be missing.
const STEP_WAITS: Duration = Duration::from_mins(10);

/// A rule whose files will be watched.
pub(super) struct WatchedRule {
    rule: FileRule,
    names: Pattern,
    /// Absolute directory that the names are below.
    root: PathBuf,
    sets: PathBuf,
    ranks: RangeInclusive<u64>,
    directory: Directory,
    /// Nobody else writes sets there.
    _lock: std::fs::File,
}

/// The rules of route `checkpoint`, with everything in order that they need.
///
/// # Errors
/// `Config` for rules that cannot be served, `Exists` if another watch writes to the same sets, `Write`.
pub(super) fn prepare(
    config: &Config,
    path: &Path,
    command: &[OsString],
    notices: &dyn Notices,
) -> Result<Vec<WatchedRule>> {
    let here = std::env::current_dir().map_err(|error| Error::read(Path::new("."), &error))?;
    let beside = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let beside = beside.parent().unwrap_or(Path::new("/"));
    let mut rules: Vec<WatchedRule> = Vec::new();
    for (number, rule) in config.file.iter().enumerate().filter(|(_, rule)| rule.route() == Route::Checkpoint) {
        let place =
            |error: Error| error.at(format!("[[file]] pattern '{}'", rule.pattern)).at(path.display().to_string());
        let sets = beside.join(rule.checkpoint().sets.as_deref().unwrap_or(Path::new("sets")));
        if let Some(other) = rules.iter().find(|other| other.sets == sets) {
            let error =
                Error::new(ErrorKind::Config, format!("'{}' has the same directory for sets", other.rule.pattern));
            return Err(place(error.hint("write sets = \"…\" into each rule, with names of their own")));
        }
        rules.push(WatchedRule::new(config, number, rule, &here, sets, command, notices).map_err(place)?);
    }
    Ok(rules)
}

impl WatchedRule {
    fn new(
        config: &Config,
        number: usize,
        rule: &FileRule,
        here: &Path,
        sets: PathBuf,
        command: &[OsString],
        notices: &dyn Notices,
    ) -> Result<Self> {
        let files = rule.pattern.restart_files().filter(|files| files.names.has_step()).ok_or_else(|| {
            Error::new(ErrorKind::Config, "the pattern does not say where the time step stands in a name").hint(
                "write it like restart_{step}_{rank}.h5; files that are written again under the same names are for \
                 'knarr checkpoint pack'",
            )
        })?;
        let ranks = ranks_of(rule, files.names.has_rank(), command, notices)?;
        let lock = take(&sets)?;
        // Without the slash that joining nothing leaves.
        let root = here.join(&files.directory).components().collect::<PathBuf>();
        // The first rule that matches wins, for restart files too.
        let config = config.clone();
        let first = move |path: &Path| config.file.iter().position(|rule| rule.pattern.matches(path)) == Some(number);
        let directory = Directory::expected(&root, files.names.clone(), &sets, Box::new(first))?;
        Ok(Self { rule: rule.clone(), names: files.names.clone(), root, sets, ranks, directory, _lock: lock })
    }

    /// `--restart`: brings the newest whole set back.
    ///
    /// # Errors
    /// As for [`bring_back`].
    pub(super) fn restart(&self, engine: &Engine, force: bool, notices: &dyn Notices) -> Result<Option<Restarted>> {
        let places = RestartPaths { sets: &self.sets, root: &self.root, pattern: &self.names, force, notices };
        let begin = Instant::now();
        let restarted = bring_back(engine, &places)?;
        if let Some(Restarted { set, there: 0, .. }) = &restarted {
            measured::note(set, &Measured::restart(By::Run, begin.elapsed()));
        }
        Ok(restarted)
    }

    pub(super) fn pattern(&self) -> &str {
        self.rule.pattern.as_str()
    }

    pub(super) fn sets(&self) -> &Path {
        &self.sets
    }

    /// How many ranks write files.
    pub(super) fn count(&self) -> u64 {
        (self.ranks.end() - self.ranks.start()).saturating_add(1)
    }

    /// To be called before the program starts: what is there was not written by it, and may be half of a step that an
    /// earlier program did not finish. Returns a word on files that no set holds, if there are any.
    ///
    /// # Errors
    /// `Read` if the directory cannot be read.
    pub(super) fn begin(&mut self) -> Result<Option<String>> {
        let mut steps = self.directory.pass_over()?;
        steps.retain(|step| !is_set(&sets::of_step(&self.sets, *step)));
        let Some((first, last)) = steps.first().zip(steps.last()) else { return Ok(None) };
        let which = match steps.len() {
            1 => format!("step {first}"),
            count => format!("{count} steps ({first} to {last})"),
        };
        Ok(Some(format!(
            "files of {which} were there before, and no set holds them: they are left alone. If they are whole, 'knarr \
             checkpoint watch {} --pattern '{}' --ranks {}-{} -o {} --once' packs them",
            self.root.display(),
            self.names,
            self.ranks.start(),
            self.ranks.end(),
            self.sets.display()
        )))
    }
}

/// The ranks that write files: those of the rule, else as many as the command starts.
fn ranks_of(
    rule: &FileRule,
    in_names: bool,
    command: &[OsString],
    notices: &dyn Notices,
) -> Result<RangeInclusive<u64>> {
    if !in_names {
        return Ok(0..=0);
    }
    if let Some(ranks) = &rule.checkpoint().ranks {
        return Ok(ranks.0.clone());
    }
    let tasks = std::env::var("SLURM_NTASKS").ok();
    let told = ranks::of_command(command, tasks.as_deref()).ok_or_else(|| {
        Error::new(ErrorKind::Config, "nothing says how many ranks write files in each step")
            .hint("write ranks = 64 into the rule, or start the program with mpirun -n 64 under 'knarr run'")
    })?;
    let last = told.ranks.saturating_sub(1);
    notices.notify(&format!(
        "'{}': ranks 0 to {last} write files, as {} says; else write ranks into the rule",
        rule.pattern, told.by
    ));
    Ok(0..=last)
}

/// What is known of the program, by all threads.
struct Known {
    /// What HDF5 did with restart files.
    ledger: Mutex<Ledger>,
    /// When the program ended, and whether that was in order.
    ended: Mutex<Option<(Instant, bool)>>,
    cancel: Arc<AtomicBool>,
}

impl Known {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> Option<(Instant, bool)> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads that watch.
pub(super) struct Watches {
    known: Arc<Known>,
    threads: Vec<(UnixStream, JoinHandle<Vec<Row>>)>,
}

impl Watches {
    /// Begins to watch.
    ///
    /// # Errors
    /// `Internal` if there are no threads to be had.
    pub(super) fn start(
        rules: Vec<WatchedRule>,
        engine: &Engine,
        means: &Means,
        notices: &Arc<dyn Notices>,
    ) -> Result<Self> {
        let known =
            Arc::new(Known { ledger: Mutex::default(), ended: Mutex::default(), cancel: Arc::clone(&engine.cancel) });
        let mut threads = Vec::new();
        for watched_rule in rules {
            let internal = |error: std::io::Error| Error::internal(format!("cannot start a thread: {error}"));
            let (teller, news) = UnixStream::pair().map_err(internal)?;
            let watched = Watched {
                known: Arc::clone(&known),
                engine: engine.clone(),
                means: means.clone(),
                notices: Arc::clone(notices),
                news,
                settle: watched_rule.rule.checkpoint().settle.map_or(SETTLE, |time| time.0),
                rows: Vec::new(),
                rule: watched_rule.rule.clone(),
            };
            let work = move || watched.watch(watched_rule);
            let thread = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(work).map_err(internal)?;
            threads.push((teller, thread));
        }
        Ok(Self { known, threads })
    }

    /// True if nothing is watched.
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Hears what a process did; of files, only restart files matter.
    pub(super) fn on_message(&self, message: Message) {
        self.known.ledger().on_message(message);
    }

    /// Looks after restart files whose closing nobody tells of.
    pub(super) fn settle(&self) {
        self.known.ledger().settle(&System);
    }

    /// The program has ended: what is complete is packed, and no more comes.
    pub(super) fn ended(&self, in_order: bool) {
        *self.known.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), in_order));
        self.wake();
    }

    fn wake(&self) {
        for (teller, _) in &self.threads {
            let mut teller = teller;
            let _ = teller.write(&[1]);
        }
    }

    /// Waits for what is owed, or until a signal stops it. Returns what became of all steps.
    pub(super) fn finish(mut self) -> Vec<Row> {
        while self.threads.iter().any(|(_, thread)| !thread.is_finished()) {
            if self.known.cancel.load(Ordering::Relaxed) {
                self.wake();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.threads.drain(..).flat_map(|(_, thread)| thread.join().unwrap_or_default()).collect()
    }
}

/// True if the message is of a restart file, so that no other route has to do with it.
pub(super) fn is_of_restart_file(config: &Config, message: &Message) -> bool {
    match &message.event {
        Event::Opened { path, .. }
        | Event::Written { path, .. }
        | Event::InParts { path }
        | Event::Passed { path, .. }
        | Event::Unwatched { path, .. }
        | Event::Closed { path, .. } => config.rule_for(path).is_some_and(|rule| rule.route() == Route::Checkpoint),
        Event::Calls
        | Event::Started
        | Event::HandedOver { .. }
        | Event::SetAside { .. }
        | Event::Note { .. }
        | Event::NotHandedOver { .. }
        | Event::Asked { .. }
        | Event::Received { .. }
        | Event::LossyTransfer { .. }
        | Event::Missed { .. }
        | Event::Waits(_)
        | Event::Awaits { .. }
        | Event::Renamed { .. }
        | Event::Exiting => false,
    }
}

/// A rule as host of its watch.
struct Watched {
    known: Arc<Known>,
    engine: Engine,
    means: Means,
    notices: Arc<dyn Notices>,
    news: UnixStream,
    settle: Duration,
    rows: Vec<Row>,
    rule: FileRule,
}

impl Watched {
    fn watch(mut self, watched: WatchedRule) -> Vec<Row> {
        let rules = Rules {
            ranks: watched.ranks.clone(),
            settle: self.settle,
            patience: STEP_WAITS,
            force: true,
            live: true,
            ranks_key: "ranks in knarr.toml",
            remove_key: "remove_originals = true",
        };
        let packing = Packing {
            steps: Steps::new(rules),
            sets: watched.sets,
            remove: watched.rule.checkpoint().remove_originals.unwrap_or_default(),
            keep: watched.rule.checkpoint().keep.map(std::num::NonZeroU32::get),
            by: By::Run,
        };
        let mut watching = Watching { directory: watched.directory, writers: Writers::default(), packing };
        let mut told = String::new();
        while let Err(error) = watching.run(&mut self) {
            // A file system that does not answer may do so again.
            if error.to_string() != told {
                told = error.to_string();
                self.notify(&error);
            }
            if self.end() != End::Open {
                break;
            }
            std::thread::sleep(SETTLE);
        }
        for (step, why, _) in watching.packing.steps.unfinished() {
            self.row(Some(step), Became::Left(format!("it {why}; its files stay")));
        }
        if self.rows.is_empty() {
            let why = format!("no file of it was written in {}", watched.root.display());
            self.row(None, Became::Left(why));
        }
        self.rows
    }

    /// Notes what became of a step, in place of what was noted before.
    fn row(&mut self, step: Option<u64>, became: Became) {
        self.rows.retain(|row| row.step != step);
        self.rows.push(Row { pattern: self.rule.pattern.to_string(), step, became });
    }

    /// Why the file may not be whole.
    fn doubt(&self, file: &Finished) -> Option<String> {
        match self.closing(file) {
            Some(Closing::Lost) => return Some("its process ended while it was open".to_owned()),
            Some(Closing::InOrder) => return None,
            Some(Closing::Open) | None => {}
        }
        if self.known.ended().is_some_and(|(ended, in_order)| {
            let rested = ended.saturating_duration_since(file.since) >= self.settle;
            !in_order && !file.followed && !rested
        }) {
            return Some("the program failed just after it was written, or while it was".to_owned());
        }
        file.torn.as_ref().map(|how| format!("{how} while it had the file open for writing"))
    }

    /// True if a process of this machine has one of the files open, or has not told that it closed it.
    fn is_written(&self, complete: &Complete) -> bool {
        complete.files.values().any(|file| self.closing(file) == Some(Closing::Open))
            || are_written(complete.files.values().map(|file| &file.state))
    }

    /// How HDF5 closed the file, if it was told of it.
    fn closing(&self, file: &Finished) -> Option<Closing> {
        let path = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        self.known.ledger().closing(&path)
    }
}

impl Host for Watched {
    fn engine(&self) -> (Engine, bool) {
        let runs = self.known.ended().is_none();
        let jobs = if runs { 1 } else { self.engine.jobs };
        (Engine { jobs, ..self.engine.clone() }, runs)
    }

    fn means(&self) -> &Means {
        &self.means
    }

    fn options(&self, _: &[Input]) -> Result<PackOptions> {
        self.rule.pack_options()
    }

    fn progress(&self, _: u64) -> Box<dyn Progress> {
        Box::new(Silent)
    }

    fn end(&self) -> End {
        if self.known.cancel.load(Ordering::Relaxed) {
            End::Now
        } else if self.known.ended().is_some() {
            End::WhenPacked
        } else {
            End::Open
        }
    }

    fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    fn judge(&mut self, complete: &Complete) -> Verdict {
        let leave = |why: &str, file: &Path| {
            Verdict::Leave(
                Error::new(ErrorKind::Corrupt, format!("{why}: its step is not packed"))
                    .hint("if the file is whole, 'knarr checkpoint pack' packs the step")
                    .at(file.display().to_string())
                    .at(format!("step {}", complete.step)),
            )
        };
        let doubt = complete.files.values().find_map(|file| Some((self.doubt(file)?, file)));
        let verdict = if let Some((why, file)) = doubt {
            leave(&why, &file.path)
        } else if !self.is_written(complete) {
            return Verdict::Pack;
        } else if self.known.ended().is_some_and(|(ended, _)| ended.elapsed() > self.settle + GRACE) {
            let any = complete.files.values().map(|file| file.path.as_path()).next().unwrap_or(Path::new(""));
            leave("a process that the program left behind has it, or another file of the step, open for writing", any)
        } else {
            return Verdict::Wait;
        };
        if let Verdict::Leave(error) = &verdict {
            self.row(Some(complete.step), Became::Left(error.message().to_owned()));
        }
        verdict
    }

    fn unproven(&self, complete: &Complete) -> Option<String> {
        let mut complete = complete.clone();
        for file in complete.files.values_mut() {
            file.unproven &= self.closing(file) != Some(Closing::InOrder);
        }
        complete.unproven()
    }

    fn notify(&mut self, error: &Error) {
        self.notices.warn(&error.to_string());
    }

    fn packed(&mut self, made: &Made<'_>) {
        let Made { step, set, files, packed, unproven } = made;
        self.row(
            Some(*step),
            Became::Packed {
                set: set.to_path_buf(),
                files: *files,
                raw_bytes: packed.raw_bytes,
                packed_bytes: packed.packed_bytes,
                seconds: packed.seconds,
                unproven: unproven.map(ToOwned::to_owned),
            },
        );
    }

    fn removed(&mut self, set: &Path) {
        let step = sets::step(set);
        let gone = self.rows.iter_mut().filter(|row| row.step.is_some() && row.step == step);
        for row in gone {
            row.became = Became::Left("it had a set, which newer ones have replaced".to_owned());
        }
    }
}
