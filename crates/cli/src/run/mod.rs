//! `knarr run`: a program is started with a library that tells which HDF5 and netCDF-4 files it writes; each is packed
//! in the background once it is closed, and put in its place. Restart files become sets.

mod beside;
mod checkpoint;
mod deliver;
mod ledger;
mod pack;
pub(crate) mod program;
mod ranks;
mod restart;
mod spool;
mod stage;
mod summary;
mod tasks;
mod written;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::config::{Config, FileRule, When};
use knarr_capture::{Event, HandedOver, Message, Prescription, Shown, Snapshot};
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::output::remove_abandoned;
use knarr_routes::compress::{refuse_other_plan, save_plan};

use crate::args::Run;
use crate::place::{self, Own};
use crate::processes::System;
use crate::session::Means;
use crate::worker::{Effort, Worker};
use checkpoint::{Kept, Watches};
use deliver::Delivery;
pub(crate) use deliver::{Deliver, Show};
use ledger::{Due, Ledger};
use pack::{Job, Outcome};
use program::{CANNOT_BEGIN, Signals};
use restart::Restarted;
use spool::Spool;
use stage::Stage;
use summary::Summary;
pub(crate) use tasks::{Look, PackFile};
use written::Learnt;

/// How often files are looked after whose closing nobody tells of.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long processes that the program left behind may take to close their files.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &Run) -> Result<u8> {
    if let Some(directory) = &arguments.recover {
        return deliver::recover(arguments, directory);
    }
    let begun = match prepare(arguments) {
        Ok(begun) => begun,
        Err(error) => {
            errln!("knarr: {error}; the program was not started");
            return Ok(CANNOT_BEGIN);
        }
    };
    begun.run(arguments)
}

/// Everything that must be in order before the program starts.
struct Begun {
    /// What processes that read files set up for themselves.
    means: Means,
    engine: Engine,
    snapshot: Snapshot,
    learnt: Learnt,
    stage: Stage,
    /// Where programs hand values over; kept as long as the run lasts.
    spool: Option<Spool>,
    /// `.knarr` beside the configuration.
    scratch: PathBuf,
    preload: std::ffi::OsString,
    signals: Signals,
    /// The rules of route `checkpoint`; taken when the program starts.
    kept: Vec<Kept>,
}

fn prepare(arguments: &Run) -> Result<Begun> {
    ranks::refuse_many(|name| std::env::var(name).ok())?;
    for (path, own) in [(&arguments.report, Own::Page), (&arguments.json, Own::Outcome)] {
        let Some(path) = path else { continue };
        // The program may yet make its directory.
        let is_missing = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists());
        if is_missing { place::refuse_other(path, own, None)? } else { place::check(path, own, None)? }
    }
    let mut config = Config::read(&arguments.config)
        .map_err(|error| error.hint("write the file, or name another with --config; docs/run.md has an example"))?;
    let machine = config.machine.beside(&arguments.config);
    let means = Means::new(&arguments.resources, &machine)?;
    let mut engine = means.engine()?;
    engine.cancel = Arc::new(AtomicBool::new(false));
    // What was asked for stands last: it wins over what was learnt.
    let learnt = Learnt::read(&written::path(&arguments.config));
    let mut prescriptions = learnt.prescriptions(&config);
    let asked = written::asked(&config, &engine.codecs);
    prescriptions.extend(asked.map_err(|error| error.at(arguments.config.display().to_string()))?);
    let kept = restart_files(arguments, &config)?;
    let here = std::env::current_dir().map_err(|error| Error::read(Path::new("."), &error))?;
    for rule in &mut config.file {
        rule.pattern = rule.pattern.below(&here);
    }
    let library = crate::hdf5_filter::plugin();
    let filters = written::filters(&engine.codecs);
    let preload = stage::library()?;
    let adapters = preload.parent().unwrap_or(Path::new("")).to_owned();
    let threads = engine.jobs;
    let mut snapshot = Snapshot { config, prescriptions, library, filters, threads, spool: None, adapters };
    if snapshot.library.is_none() && snapshot.uses_own_filter() {
        return Err(Error::new(
            ErrorKind::NotFound,
            "Knarr's HDF5 filter, which portable = \"knarr\" needs, is missing",
        )
        .hint(
            "install libknarr_h5.so in hdf5-plugins beside knarr ('make build' does), or set portable to \"standard\"",
        ));
    }
    let preload = stage::preload(&preload)?;
    let signals = Signals::listen(Arc::clone(&engine.cancel))?;
    let scratch = written::directory(&arguments.config);
    // Where it cannot be made, packed files are made beside the files.
    let _ = std::fs::create_dir_all(&scratch);
    for kept in remove_abandoned(&scratch) {
        let was = "was written while a run that was killed packed it: put it where it belongs";
        errln!("knarr: {}: {was}", kept.display());
    }
    for spool in [Path::new(spool::SHARED_MEMORY), &scratch].into_iter().flat_map(spool::abandoned) {
        let left = HandedOver::left(&spool).len();
        errln!(
            "knarr: {left} files that a program has handed over were not delivered when their run was killed\n  hint: \
             'knarr run --recover {}' finishes them",
            spool.display()
        );
    }
    // Without a place for values programs write them through their own library.
    let spool = Spool::create(&scratch).ok();
    snapshot.spool = spool.as_ref().map(|spool| spool.path().to_owned());
    let stage = Stage::new(&snapshot)?;
    let mut begun = Begun { means, engine, stage, spool, snapshot, learnt, scratch, preload, signals, kept };
    begun.restart(arguments)?;
    Ok(begun)
}

/// The rules of route `checkpoint`, ready to be watched.
fn restart_files(arguments: &Run, config: &Config) -> Result<Vec<Kept>> {
    let say = |what: &str| arguments.say(what);
    let kept = checkpoint::prepare(config, &arguments.config, &arguments.program, &say)?;
    if arguments.restart && kept.is_empty() {
        return Err(Error::usage("--restart, but no rule has route \"checkpoint\"")
            .hint("add a rule for restart files, or leave --restart out")
            .at(arguments.config.display().to_string()));
    }
    Ok(kept)
}

impl Run {
    /// Tells what users should know, unless they want to hear of failures only.
    fn say(&self, what: &str) {
        if !self.quiet {
            errln!("knarr: {what}");
        }
    }
}

/// What the main loop hears.
enum News {
    /// A process of the program did something.
    Message(Message),
    /// The program has ended, and all its messages have come before.
    Ended(ExitStatus),
    /// A file is done.
    Done(PathBuf, Outcome),
    /// A file is shown, or cannot be.
    Shown,
}

/// What Knarr sends to its own socket when the program has ended, behind all messages of the program.
const ENDED: &[u8] = b"ended";

impl Begun {
    /// What is to be done with restart files before the program starts.
    fn restart(&mut self, arguments: &Run) -> Result<()> {
        let mut steps = BTreeSet::new();
        for kept in self.kept.iter().filter(|_| arguments.restart) {
            let place = |error: Error| error.at(format!("--restart, '{}'", kept.pattern()));
            let Some(found) = kept.restart(&self.engine, arguments.force).map_err(place)? else {
                arguments
                    .say(&format!("no set is in {} yet: the program starts from its beginning", kept.sets().display()));
                continue;
            };
            for damage in &found.damaged {
                errln!("knarr: {damage}; an earlier set is taken instead");
            }
            let Restarted { step, set, restored, there, .. } = &found;
            arguments.say(&format!(
                "restart from step {step}: {restored} of {} files were brought back from {}, {there} were there already",
                restored + there,
                set.display()
            ));
            if (restored + there) as u64 != kept.count() {
                errln!("knarr: {} has {} files, and {} ranks write now", set.display(), restored + there, kept.count());
            }
            steps.insert(*step);
        }
        if steps.len() > 1 {
            errln!("knarr: not all rules restart from the same step: {steps:?}");
        }
        for kept in &mut self.kept {
            if let Some(word) = kept.begin()? {
                arguments.say(&word);
            }
        }
        self.engine.check_cancelled()
    }

    fn run(mut self, arguments: &Run) -> Result<u8> {
        let watches = Watches::start(std::mem::take(&mut self.kept), &self.engine, &self.means)?;
        let mut child = match self.signals.start(&arguments.program, &self.stage.directory, &self.preload) {
            Ok(child) => child,
            Err(code) => return Ok(code),
        };
        let (send, receive) = channel();
        let (ended, status) = channel();
        let listener = self.stage.socket.try_clone().map_err(|error| Error::internal(error.to_string()))?;
        spawn("listener", {
            let send = send.clone();
            move || listen(&listener, &status, &send)
        })?;
        let mut work = Work::new(&self, &watches, send, receive);
        let signals = &self.signals;
        let socket = self.stage.directory.join(knarr_capture::SOCKET);
        let code = std::thread::scope(|scope| {
            scope.spawn(move || {
                let status = signals.wait(&mut child).unwrap_or_default();
                let _ = ended.send(status);
                if let Ok(own) = UnixDatagram::unbound() {
                    while own
                        .send_to(ENDED, &socket)
                        .is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
                    {}
                }
            });
            work.supervise()
        });
        let mut summary = work.finish();
        let calls_seen = work.ledger.calls_seen;
        let learnt = std::mem::take(&mut work.learnt);
        drop(work);
        summary.add_steps(watches.finish());
        if !learnt.is_empty() {
            self.learnt.take(&learnt, &self.snapshot.config);
            if let Err(error) = self.learnt.save(&written::path(&arguments.config)) {
                errln!("knarr: what was learnt of the files is not kept for the next run: {error}");
            }
        }
        // What a signal stopped is told by the exit code, unless the program has a failure of its own to tell.
        let code = self.signals.stopped_code().filter(|_| code == 0).unwrap_or(code);
        // A program that has handed a file over counts on it.
        let code = if code == 0 { summary.undelivered() } else { code };
        // Plans come now: before, they could be in the way of a program that removes its directories.
        for done in summary.packed().filter(|done| done.output.exists()) {
            if let Err(error) =
                refuse_other_plan(&done.output, false).and_then(|()| save_plan(&done.plan, &done.output))
            {
                errln!("knarr: the plan of {} is not saved: {error}", done.output.display());
            }
        }
        // Only if nothing is kept there.
        let _ = std::fs::remove_dir(&self.scratch);
        match self.tell(arguments, &summary, code, calls_seen) {
            // A failure of the program says more than a page that has no place.
            Err(error) if code != 0 => errln!("knarr: {error}"),
            told => told?,
        }
        Ok(code)
    }

    fn tell(&self, arguments: &Run, summary: &Summary, code: u8, calls_seen: bool) -> Result<()> {
        for line in summary.failures() {
            errln!("knarr: {line}");
        }
        if !arguments.quiet {
            crate::terminal::tell(knarr_routes::compress::notes::limits_missed(
                summary.packed().map(|done| &done.plan),
            ));
            crate::terminal::tell(summary.packed().filter_map(knarr_routes::compress::notes::references_lost));
            if !summary.is_empty() {
                errln!("{}", summary.table().trim_end());
            } else if calls_seen {
                errln!("knarr: no file that the program wrote matches a pattern of {}", arguments.config.display());
            } else {
                errln!(
                    "knarr: no HDF5 calls were seen: the program makes none, or is linked statically, or changes its \
                     user; see docs/run.md"
                );
            }
        }
        if let Some(path) = &arguments.json {
            let text = format!("{}\n", summary.json(code, calls_seen, self.snapshot.config.site));
            crate::output::replace(path, text.as_bytes())?;
        }
        if let Some(path) = &arguments.report {
            crate::report::write(path, summary.packed(), &[], true, Some(&mut Worker::new(self.means.clone())))?;
        }
        Ok(())
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Error::internal(format!("cannot start a thread: {error}")))
}

/// Hands on what comes to the socket, until the program has ended.
fn listen(socket: &UnixDatagram, status: &Receiver<ExitStatus>, news: &Sender<News>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = match socket.recv(&mut buffer) {
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let heard = if bytes == ENDED {
            status.recv().ok().map(News::Ended)
        } else {
            Message::from_bytes(bytes).map(News::Message)
        };
        let last = matches!(heard, Some(News::Ended(_)));
        if heard.is_some_and(|heard| news.send(heard).is_err()) || last {
            return;
        }
    }
}

/// A file that is being packed.
struct UnderWay {
    path: PathBuf,
    /// Set to stop it.
    cancel: Arc<AtomicBool>,
    /// The program had ended when it began: nobody but others can change the file.
    after_end: bool,
}

/// The main loop.
struct Work<'a> {
    begun: &'a Begun,
    watches: &'a Watches,
    worker: Arc<Mutex<Worker>>,
    when: String,
    send: Sender<News>,
    receive: Receiver<News>,
    ledger: Ledger,
    summary: Summary,
    /// What was learnt of files that are compressed as they are written, newest last.
    learnt: Vec<Prescription>,
    /// How many files of each rule were compressed as they were written.
    written: BTreeMap<usize, u64>,
    /// Files whose packing was tried, and the process that did it died.
    died: BTreeMap<PathBuf, Error>,
    /// Seconds that the program spent in calls for files that were handed over.
    blocked: BTreeMap<PathBuf, f64>,
    /// Directories of files that wait to be shown to PnetCDF.
    shown: VecDeque<PathBuf>,
    /// Directories of files that were handed over and wait for their delivery.
    handed_over: VecDeque<PathBuf>,
    under_way: Option<UnderWay>,
    ended: Option<(ExitStatus, Instant)>,
}

impl<'a> Work<'a> {
    fn new(begun: &'a Begun, watches: &'a Watches, send: Sender<News>, receive: Receiver<News>) -> Self {
        Self {
            begun,
            watches,
            worker: Arc::new(Mutex::new(Worker::new(begun.means.clone()))),
            when: crate::report::today(),
            send,
            receive,
            ledger: Ledger::default(),
            summary: Summary::default(),
            learnt: Vec::new(),
            written: BTreeMap::new(),
            died: BTreeMap::new(),
            blocked: BTreeMap::new(),
            shown: VecDeque::new(),
            handed_over: VecDeque::new(),
            under_way: None,
            ended: None,
        }
    }

    /// Until the program has ended and its files are done. Returns the program's exit code.
    fn supervise(&mut self) -> u8 {
        let mut last_look = Instant::now();
        loop {
            match self.receive.recv_timeout(LOOK_EVERY) {
                Ok(News::Message(message)) => self.hear(message),
                Ok(News::Ended(status)) => {
                    self.ended = Some((status, Instant::now()));
                    self.watches.ended(status.success());
                }
                Ok(News::Done(path, outcome)) => self.done(path, outcome),
                Ok(News::Shown) => self.under_way = None,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.begun.engine.cancel.load(Ordering::Relaxed)
                && let Some(under_way) = &self.under_way
            {
                under_way.cancel.store(true, Ordering::Relaxed);
            }
            if last_look.elapsed() >= LOOK_EVERY || self.ended.is_some() {
                self.ledger.settle(&System);
                self.watches.settle();
                last_look = Instant::now();
            }
            self.begin_next();
            if let Some((status, since)) = self.ended
                && self.under_way.is_none()
                && (self.handed_over.is_empty() || self.begun.engine.cancel.load(Ordering::Relaxed))
                && (!self.ledger.is_open()
                    || since.elapsed() > GRACE
                    || self.begun.engine.cancel.load(Ordering::Relaxed))
            {
                return program::exit_code(status);
            }
        }
    }

    fn hear(&mut self, message: Message) {
        if !self.watches.is_empty() {
            self.watches.hear(message.clone());
            if checkpoint::is_of_restart_file(&self.begun.snapshot.config, &message) {
                return;
            }
        }
        match &message.event {
            Event::HandedOver { directory } => self.handed_over.push_back(directory.clone()),
            Event::Shown { directory } => self.shown.push_back(directory.clone()),
            Event::Passed { path, why } => {
                self.summary.add(path.clone(), Outcome::Left(why.clone()), String::new());
            }
            _ => {}
        }
        if let Some(useless) = self.ledger.hear(message) {
            self.stop(&useless);
        }
    }

    /// Begins to pack the next file if none is under way.
    fn begin_next(&mut self) {
        if self.under_way.is_some() || self.begun.engine.cancel.load(Ordering::Relaxed) {
            return;
        }
        let ended = self.ended.is_some();
        if let Some(directory) = self.shown.pop_front() {
            return self.show(directory);
        }
        if let Some(directory) = self.handed_over.pop_front() {
            return self.deliver(directory, ended);
        }
        let Some(Due { path, filters, identity }) = self.ledger.next(ended) else { return };
        let cancel = Arc::new(AtomicBool::new(false));
        let learn = match self.begun.snapshot.rule_for(&path) {
            Some((rule, FileRule { when: When::Write, .. })) => {
                let count = self.written.entry(rule).or_default();
                *count += 1;
                // Of the 1st, 2nd, 4th, 8th, …: data may change with time, and learning is not to take much of it.
                count.is_power_of_two()
            }
            _ => false,
        };
        let job = Job {
            learn,
            path: path.clone(),
            identity,
            filters,
            worker: Arc::clone(&self.worker),
            jobs: if ended { self.begun.engine.jobs } else { 1 },
            background: !ended,
            cancel: Arc::clone(&cancel),
            snapshot: self.begun.snapshot.clone(),
            when: self.when.clone(),
            gate: self.begun.stage.gate(),
            scratch: self.begun.scratch.clone(),
        };
        let send = self.send.clone();
        let started = spawn("packer", move || {
            let path = job.path.clone();
            let _ = send.send(News::Done(path, job.run()));
        });
        match started {
            Ok(()) => self.under_way = Some(UnderWay { path, cancel, after_end: ended }),
            Err(error) => self.done(path, Outcome::Failed(error)),
        }
    }

    /// Begins to show a file. The program waits for it.
    fn show(&mut self, directory: PathBuf) {
        let cancel = Arc::new(AtomicBool::new(false));
        let (worker, stop, send) = (Arc::clone(&self.worker), Arc::clone(&cancel), self.send.clone());
        let (effort, place) = (Effort { jobs: self.begun.engine.jobs, background: false }, directory.clone());
        let started = spawn("shower", move || {
            let task = Show::new(place.clone());
            let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            let shown = worker.ask(&task, effort, &stop, &Silent).map_err(Error::from);
            // If that cannot be written the program hears nothing, and asks whether the launcher lives.
            let _ = Shown::answer(&place, &shown);
            let _ = send.send(News::Shown);
        });
        match started {
            Ok(()) => self.under_way = Some(UnderWay { path: directory, cancel, after_end: false }),
            Err(error) => drop(Shown::answer(&directory, &Err(error))),
        }
    }

    /// Begins to make a file of what was handed over.
    fn deliver(&mut self, directory: PathBuf, ended: bool) {
        let handed = match HandedOver::read(&directory).and_then(|handed| {
            handed.ok_or_else(|| Error::internal("nothing is handed over there").at(directory.display().to_string()))
        }) {
            Ok(handed) => handed,
            Err(error) => return self.done(directory, Outcome::Failed(error)),
        };
        let cancel = Arc::new(AtomicBool::new(false));
        let (path, blocked) = (handed.target.clone(), handed.blocked_s);
        let jobs = if ended { self.begun.engine.jobs } else { 1 };
        let job = Delivery {
            directory,
            handed,
            worker: Arc::clone(&self.worker),
            effort: Effort { jobs, background: !ended },
            cancel: Arc::clone(&cancel),
            when: self.when.clone(),
        };
        let send = self.send.clone();
        let target = path.clone();
        let started = spawn("deliverer", move || {
            let _ = send.send(News::Done(target, job.run()));
        });
        self.blocked.insert(path.clone(), blocked);
        match started {
            Ok(()) => self.under_way = Some(UnderWay { path, cancel, after_end: ended }),
            Err(error) => self.done(path, Outcome::Failed(error)),
        }
    }

    fn stop(&self, path: &Path) {
        if let Some(under_way) = self.under_way.as_ref().filter(|under_way| under_way.path == path) {
            under_way.cancel.store(true, Ordering::Relaxed);
        }
    }

    fn done(&mut self, path: PathBuf, outcome: Outcome) {
        let under_way = self.under_way.take();
        let stopped = under_way.as_ref().is_some_and(|under_way| under_way.cancel.load(Ordering::Relaxed));
        let after_end = under_way.is_some_and(|under_way| under_way.after_end);
        match &outcome {
            // Stopped because the program writes it again: the ledger knows.
            Outcome::Failed(_) if stopped && !self.begun.engine.cancel.load(Ordering::Relaxed) => return,
            Outcome::Changed(_) if !after_end => return self.ledger.again(&path),
            Outcome::Died(error) if !after_end => {
                self.died.insert(path.clone(), error.clone());
                return self.ledger.again(&path);
            }
            _ => self.ledger.done(&path),
        }
        if let Outcome::Written(Ok(found), _) = &outcome {
            self.learn(&found.learnt);
        }
        let name = match &outcome {
            Outcome::Packed(repacked) => repacked.output.clone(),
            _ => path.clone(),
        };
        let note = match (&outcome, self.died.remove(&path)) {
            (Outcome::Packed(_), Some(earlier)) => format!("at the second attempt: {}", earlier.message()),
            (Outcome::Written(..), _) => self.ledger.datasets(&name),
            (Outcome::Packed(_), None) => match self.blocked.get(&path) {
                Some(blocked) => format!("handed over: the program waited {blocked:.2} s"),
                None => String::new(),
            },
            _ => String::new(),
        };
        self.summary.add(name, outcome, note);
    }

    /// Lets the program's next files have what was learnt.
    fn learn(&mut self, learnt: &[Prescription]) {
        if learnt.is_empty() {
            return;
        }
        self.learnt.retain(|old| {
            !learnt.iter().any(|new| (new.rule, &new.variable, new.dtype) == (old.rule, &old.variable, old.dtype))
        });
        self.learnt.extend_from_slice(learnt);
        let mut snapshot = self.begun.snapshot.clone();
        let (asked, known): (Vec<_>, Vec<_>) = snapshot.prescriptions.into_iter().partition(|one| one.asked);
        snapshot.prescriptions = known.into_iter().chain(self.learnt.iter().cloned()).chain(asked).collect();
        // Programs go on with what they know if this fails.
        let _ = self.begun.stage.put_snapshot(&snapshot);
    }

    /// What became of all files.
    fn finish(&mut self) -> Summary {
        let mut summary = std::mem::take(&mut self.summary);
        for directory in std::mem::take(&mut self.handed_over) {
            let target = HandedOver::read(&directory).ok().flatten().map(|handed| handed.target);
            let outcome = Outcome::Undelivered(Error::new(ErrorKind::Interrupted, "interrupted"), directory.clone());
            summary.add(target.unwrap_or(directory), outcome, String::new());
        }
        for (directory, open) in self.begun.spool.iter().flat_map(|spool| HandedOver::open(spool.path())) {
            let Ok(open) = open else { continue };
            let _ = HandedOver::set_aside(&directory);
            let error = Error::new(ErrorKind::Write, "the program has ended before it had closed the file");
            summary.add(open.target, Outcome::Undelivered(error, directory), String::new());
        }
        while let Some(Due { path, .. }) = self.ledger.next(true) {
            let outcome = match self.died.remove(&path) {
                Some(error) => Outcome::Failed(error),
                None => Outcome::Left("interrupted before it was packed".to_owned()),
            };
            summary.add(path, outcome, String::new());
        }
        for (path, why) in self.ledger.left() {
            summary.add(path.to_path_buf(), Outcome::Left(why), String::new());
        }
        summary
    }
}
