//! The main loop of a run: hears what the program does, has closed files packed one after the other, and ends when the
//! program has ended and its files are done.

mod asked;
mod draining;
mod finish;
mod named;
mod pending;
mod undelivered;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::{Event, HandedOver, Message, Part, Prescription, Writers};
use knarr_choose::plan::Plan;
use knarr_flow::pipeline::for_later;
use knarr_link::Peer;

use super::aggregators::nodes::{Fate, tell_end};
use super::checkpoint::{self, Watches};
use super::coupling::transfer::Transfers;
use super::jobs::ahead::AheadWork;
use super::jobs::deliver::{Delivery, made_instead};
use super::jobs::outputs::Outputs;
use super::jobs::pack::Job;
use super::jobs::packed::PackedFiles;
use super::ledger::{Due, Ledger};
use super::names::Beat;
use super::news::{News, spawn};
use super::outcome::{Files, Outcome};
use super::spools::drain::Drained;
use super::spools::spool::Spool;
use super::spools::taken::Unused;
use super::start::prepare::Begun;
use super::start::program::{self, GRACE};
use super::waiting::Waiting;
use crate::processes::System;
use crate::worker::{Effort, Worker};
use undelivered::is_for_bucket;

/// How often files are looked after whose closing nobody tells of.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the spool is looked at for what nobody has told of: messages may be lost.
const LOOK_FOR_MORE: Duration = Duration::from_secs(1);

/// The same while other components are to take what the program has written.
const LOOK_OFTEN: Duration = Duration::from_millis(20);

/// A file that is being packed.
struct UnderWay {
    path: PathBuf,
    /// In the spool, if it was handed over.
    directory: Option<PathBuf>,
    /// Set to stop it.
    cancel: Arc<AtomicBool>,
    /// The program had ended when it began: nobody but others can change the file.
    after_end: bool,
    /// The program waits for it.
    is_awaited: bool,
    since: Instant,
}

/// The main loop.
pub(super) struct Work<'a> {
    begun: &'a Begun,
    watches: &'a Watches,
    worker: Arc<Mutex<Worker>>,
    send: Sender<News>,
    receive: Receiver<News>,
    ledger: Ledger,
    files: Files,
    /// What was learnt of files that are compressed as they are written, newest last.
    learnt: Vec<Prescription>,
    /// What was chosen for the last file of each rule that was handed over.
    chosen: BTreeMap<usize, Arc<Plan>>,
    outputs: Outputs,
    /// What was not delivered was tried again.
    has_tried_again: bool,
    /// Why a server did not answer: nothing more goes there before the program has ended.
    server_is_down: Option<Error>,
    /// How many files of each rule were compressed as they were written.
    written: BTreeMap<usize, u64>,
    /// Files whose packing was tried, and the process that did it died.
    died: BTreeMap<PathBuf, Error>,
    /// Directories in which the program asks for something.
    asked: VecDeque<PathBuf>,
    /// Files that it may want back as it has made them, and those that it has got so.
    packed: Arc<PackedFiles>,
    given_back: BTreeSet<PathBuf>,
    /// Directories of files that were handed over and wait for their delivery.
    handed_over: VecDeque<PathBuf>,
    /// Those of files that could not be made, and not be set aside either.
    pending: BTreeSet<PathBuf>,
    /// All directories of the spool that were heard of.
    known: BTreeSet<PathBuf>,
    /// Those of them that are shown to the program, and may come back.
    lent: BTreeSet<PathBuf>,
    /// Where those lie that were moved out of memory.
    drained: Option<Arc<Drained>>,
    /// Threads that move something out of memory.
    draining: usize,
    /// Copies of what is being delivered from memory.
    copies: BTreeMap<PathBuf, PathBuf>,
    /// SIGTERM was heeded: while the program ran, and when it had ended.
    has_drained: [bool; 2],
    /// Memory that waits for values.
    unused: Unused,
    /// Files that are made of what several nodes hold.
    apart: BTreeMap<PathBuf, HandedOver>,
    /// Number of files of which this node holds a part, and that others make, and of nodes that are told that the program has
    /// ended here.
    awaited: usize,
    /// Other nodes whose ranks write files that this launcher looks after, by the tokens of their spools.
    beside: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Launchers on other nodes that look after files which ranks of this one write, too.
    keepers: Vec<Peer>,
    /// Versions of files that are being made.
    versions: BTreeMap<PathBuf, u64>,
    /// Why parallel HDF5 has written files itself that were to be handed over.
    by_itself: BTreeMap<PathBuf, String>,
    /// Seconds that the program spent in calls for files that were handed over.
    blocked: BTreeMap<PathBuf, f64>,
    /// What goes to other components, and comes from them.
    transfers: Transfers<'a>,
    under_way: Option<UnderWay>,
    /// What is encoded of files that are open.
    ahead: AheadWork,
    /// Processes of the program that wait.
    waiting: Waiting,
    ended: Option<(ExitStatus, Instant)>,
}

impl<'a> Work<'a> {
    pub(super) fn new(begun: &'a Begun, watches: &'a Watches, send: Sender<News>, receive: Receiver<News>) -> Self {
        Self {
            begun,
            watches,
            worker: Arc::new(Mutex::new(Worker::with_allowed(begun.means.clone(), begun.engine.allowed.clone()))),
            send,
            receive,
            ledger: Ledger::default(),
            files: Files::default(),
            learnt: Vec::new(),
            chosen: BTreeMap::new(),
            outputs: Outputs::default(),
            has_tried_again: false,
            server_is_down: None,
            written: BTreeMap::new(),
            died: BTreeMap::new(),
            asked: VecDeque::new(),
            packed: Arc::new(PackedFiles::new(begun.spool.as_ref().map(Spool::path))),
            given_back: BTreeSet::new(),
            handed_over: VecDeque::new(),
            pending: BTreeSet::new(),
            known: BTreeSet::new(),
            lent: BTreeSet::new(),
            drained: None,
            draining: 0,
            copies: BTreeMap::new(),
            has_drained: [false, false],
            unused: Unused::default(),
            apart: BTreeMap::new(),
            awaited: 0,
            beside: BTreeMap::new(),
            keepers: Vec::new(),
            versions: BTreeMap::new(),
            by_itself: BTreeMap::new(),
            blocked: BTreeMap::new(),
            transfers: Transfers::new(begun),
            under_way: None,
            ahead: AheadWork::new(begun),
            waiting: Waiting::default(),
            ended: None,
        }
    }

    /// One thread works as long as the program computes, all as long as it waits, and when it has ended.
    fn share_cores(&mut self) {
        let is_awaited = self.under_way.as_ref().is_some_and(|under_way| under_way.is_awaited);
        let allowed = &self.begun.engine.allowed;
        let now = if self.ended.is_some() || is_awaited || self.waiting.is_any() || self.begun.names.is_awaited() {
            usize::MAX
        } else {
            1
        };
        if allowed.get() != now {
            allowed.set(now);
            self.begun.nodes.wake();
        }
    }

    /// Until the program has ended and its files are done. Returns the program's exit code.
    pub(super) fn until_done(&mut self) -> u8 {
        let (mut last_look, mut last_search) = (Instant::now(), Instant::now());
        loop {
            let most = if self.transfers.are_open() { LOOK_OFTEN } else { LOOK_EVERY };
            match self.receive.recv_timeout(most) {
                Ok(News::Message(message)) => self.hear(message),
                Ok(News::Ended(status, all)) => {
                    self.ended = Some((status, Instant::now()));
                    self.watches.ended(status.success());
                    // The other side hears first what was read.
                    self.begun.away.tell();
                    self.begun.nodes.ended();
                    self.transfers.ended();
                    if all {
                        self.tell_keepers();
                    }
                }
                Ok(News::Done(path, outcome, made)) => self.done(path, outcome, made),
                Ok(News::Ahead(directory, plan)) => self.ahead.done(&directory, plan),
                Ok(News::Answered) => self.under_way = None,
                Ok(News::GivenBack(path)) => {
                    self.given_back.insert(path.clone());
                    self.ledger.given_back(path);
                }
                Ok(News::Drained(from, to)) => self.drained(&from, to),
                Ok(News::DrainEnded) => self.draining -= 1,
                Ok(News::Told) => self.awaited -= 1,
                Ok(News::Named) => self.hasten(),
                Ok(News::Gathered(path, outcome)) => {
                    self.awaited -= 1;
                    let version = self.versions.remove(&path);
                    if let (Outcome::Gathered { .. }, Some(generation)) = (&outcome, version) {
                        self.supersede(&path, generation);
                    }
                    match outcome {
                        Outcome::Missed(error) => self.transfers.lost(&path, &error),
                        outcome => self.files.add(path, outcome, String::new()),
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.begun.engine.cancel.load(Ordering::Relaxed)
                && let Some(under_way) = &self.under_way
            {
                under_way.cancel.store(true, Ordering::Relaxed);
            }
            if last_look.elapsed() >= LOOK_EVERY || self.ended.is_some() {
                self.heed_termination();
                self.encode_ahead();
                self.ledger.settle(&System);
                self.watches.settle();
                last_look = Instant::now();
            }
            if last_search.elapsed() >= LOOK_FOR_MORE {
                self.look_for_more();
                last_search = Instant::now();
            }
            self.keep_sessions();
            self.try_again();
            self.begin_next();
            self.share_cores();
            if let Some((status, since)) = self.ended
                && self.under_way.is_none()
                && self.ahead.is_idle()
                && self.awaited == 0
                && self.draining == 0
                && (self.handed_over.is_empty() && !self.transfers.are_open()
                    || self.begun.engine.cancel.load(Ordering::Relaxed))
                && (!self.ledger.is_open()
                    || since.elapsed() > GRACE
                    || self.begun.engine.cancel.load(Ordering::Relaxed))
                // Whatever nobody has told of is done, too.
                && !self.look_for_more()
            {
                return program::exit_code(status);
            }
        }
    }

    /// Begins to encode what there is of open files, if there is nothing else to do.
    fn encode_ahead(&mut self) {
        if self.ended.is_some() || self.begun.engine.cancel.load(Ordering::Relaxed) {
            return self.ahead.stop();
        }
        if self.under_way.is_none() {
            let (snapshot, chosen) = (&self.begun.snapshot, &self.chosen);
            let earlier = |path: &Path| snapshot.rule_for(path).and_then(|(rule, _)| chosen.get(&rule).cloned());
            self.ahead.begin(self.begun, &self.send, earlier);
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
            Event::HandedOver { directory } => self.closed(directory.clone()),
            Event::SetAside { directory } => self.set_aside(directory.clone()),
            Event::Asked { directory } => self.asked_for(directory.clone()),
            Event::NotHandedOver { path, why } => drop(self.by_itself.insert(path.clone(), why.clone())),
            Event::Note { path, text } => self.begun.notices.warn(&format!("{}: {text}", path.display())),
            Event::Passed { path, why } | Event::Apart { path, why } => {
                self.files.add(path.clone(), Outcome::Left(why.clone()), String::new());
            }
            Event::Opened { path, writers: Writers::Elsewhere(keeper), .. } => {
                if !self.keepers.contains(keeper) {
                    self.keepers.push(keeper.clone());
                }
                self.files.add(path.clone(), Outcome::Gathered { node: keeper.node.clone() }, String::new());
            }
            Event::Opened { path, writers: Writers::Apart(others), .. } => {
                self.beside.entry(path.clone()).or_default().extend(others.iter().cloned());
            }
            // What was packed is no more.
            Event::Opened { path, created: true, .. } => self.packed.forget_at(path),
            Event::Renamed { path } => {
                if let Some(rule) = self.begun.snapshot.rule_to(path, Some(Part::Writes)) {
                    self.transfers.renamed(path, rule);
                }
            }
            Event::Waits(waits) => self.waiting.hear(message.process, *waits),
            event => self.transfers.hear(event),
        }
        if let Some(useless) = self.ledger.hear(message) {
            self.stop(&useless);
        }
    }

    /// Tells the launchers that may replace files of this program that nobody here writes them any more.
    fn tell_keepers(&mut self) {
        let Some(token) = self.begun.snapshot.spool.as_ref().map(|spool| spool.token.clone()) else { return };
        for keeper in std::mem::take(&mut self.keepers) {
            let (send, token) = (self.send.clone(), token.clone());
            let told = spawn("ended", move || {
                tell_end(&keeper, &token);
                let _ = send.send(News::Told);
            });
            // One that hears nothing leaves the files as they are.
            self.awaited += usize::from(told.is_ok());
        }
    }

    /// Waits for the node that makes a file of which a part was handed over here.
    fn await_maker(&mut self, directory: PathBuf, handed: HandedOver) {
        let path = handed.target.clone();
        self.versions.insert(path.clone(), handed.generation);
        let ask = self.begun.nodes.await_maker(handed, Arc::clone(&self.begun.engine.cancel));
        let (send, target) = (self.send.clone(), path.clone());
        let (names, place) = (Arc::clone(&self.begun.names), directory.clone());
        let gathered = move || {
            let outcome = ask();
            names.end(&place, &outcome);
            drop(send.send(News::Gathered(target, outcome)));
        };
        match spawn("gathered", gathered) {
            Ok(()) => self.awaited += 1,
            Err(error) => self.files.add(path, Outcome::Undelivered(error, directory), String::new()),
        }
    }

    /// Begins to pack the next file if none is under way.
    fn begin_next(&mut self) {
        // What is moved out of memory comes first: there may be little time.
        if self.under_way.is_some() || self.draining > 0 || self.begun.engine.cancel.load(Ordering::Relaxed) {
            return;
        }
        let ended = self.ended.is_some();
        if let Some(directory) = self.asked.pop_front() {
            self.ahead.stop();
            return self.answer(directory);
        }
        if let Some(directory) = self.handed_over.pop_front() {
            self.ahead.stop();
            return self.deliver(directory, ended);
        }
        let Some(Due { path, filters, identity, compressed }) = self.ledger.next(ended) else { return };
        self.ahead.stop();
        let cancel = Arc::new(AtomicBool::new(false));
        let learn = match self.begun.snapshot.rule_for(&path) {
            Some((number, rule)) if rule.compresses_writes() => {
                let count = self.written.entry(number).or_default();
                *count += 1;
                // Of the 1st, 2nd, 4th, 8th, …: data may change with time, and learning is not to take much of it.
                count.is_power_of_two()
            }
            _ => false,
        };
        let job = Job {
            learn,
            spools: self.spools(),
            path: path.clone(),
            identity,
            filters,
            compressed,
            worker: Arc::clone(&self.worker),
            jobs: self.begun.engine.jobs,
            background: !ended,
            cancel: Arc::clone(&cancel),
            snapshot: self.begun.snapshot.clone(),
            command: self.begun.command.clone(),
            when: self.begun.when.clone(),
            gate: self.begun.stage.gate(),
            scratch: self.begun.scratch.path().to_owned(),
            others: self.begun.nodes.others(self.beside.get(&path).cloned().unwrap_or_default()),
            packed: Arc::clone(&self.packed),
        };
        let send = self.send.clone();
        let started = spawn("packer", move || {
            let (path, outcome) = (job.path.clone(), job.run());
            let found = outcome.made();
            let _ = send.send(News::Done(path, outcome, found));
        });
        match started {
            Ok(()) => {
                let since = Instant::now();
                self.under_way =
                    Some(UnderWay { path, directory: None, cancel, after_end: ended, is_awaited: false, since });
            }
            Err(error) => self.done(path, Outcome::Failed(error), None),
        }
    }

    /// Begins to make a file of what was handed over.
    fn deliver(&mut self, directory: PathBuf, ended: bool) {
        let Some(directory) = self.wanted(directory) else { return };
        let handed = match HandedOver::read(&directory).and_then(|handed| {
            handed.ok_or_else(|| Error::internal("nothing is handed over there").at(directory.display().to_string()))
        }) {
            Ok(handed) => handed,
            Err(error) => {
                let _ = HandedOver::set_aside(&directory);
                self.begun.nodes.tell_unread(&directory, &error);
                return self.not_made(&directory.clone(), directory.clone(), Outcome::Undelivered(error, directory));
            }
        };
        let cancel = Arc::new(AtomicBool::new(false));
        let (path, target) = (handed.target.clone(), handed.target.clone());
        if let Err(error) = self.outputs.take(&handed) {
            let _ = HandedOver::set_aside(&directory);
            self.begun.nodes.tell(&handed, Err(error.clone()));
            return self.not_made(&directory.clone(), path, Outcome::Undelivered(error, directory));
        }
        if let Some(error) = self.server_is_down.clone().filter(|_| is_for_bucket(&handed)) {
            let _ = HandedOver::set_aside(&directory);
            self.begun.nodes.tell(&handed, Err(error.clone()));
            return self.not_made(&directory.clone(), path, Outcome::Undelivered(error, directory));
        }
        self.blocked.insert(path.clone(), handed.blocked_s);
        self.versions.insert(path.clone(), handed.generation);
        if !handed.parts.is_empty() {
            self.begun.nodes.begin(&handed);
            self.apart.insert(path.clone(), handed.clone());
        }
        let (names, place) = (Arc::clone(&self.begun.names), directory.clone());
        let job = Delivery {
            directory: directory.clone(),
            spools: self.spools(),
            found: BTreeMap::new(),
            earlier: self.begun.snapshot.rule_for(&path).and_then(|(rule, _)| self.chosen.get(&rule).cloned()),
            handed,
            worker: Arc::clone(&self.worker),
            effort: Effort { jobs: self.begun.engine.jobs, background: !ended },
            cancel: Arc::clone(&cancel),
            command: self.begun.command.clone(),
            when: self.begun.when.clone(),
            packed: Arc::clone(&self.packed),
            progress: Box::new(Beat(Arc::clone(&names))),
        };
        let (send, made) = (self.send.clone(), place.clone());
        let started = spawn("deliverer", move || {
            let outcome = job.run();
            let found = outcome.made();
            names.end(&made, &outcome);
            let _ = send.send(News::Done(target, outcome, found));
        });
        match started {
            Ok(()) => {
                let (directory, since) = (Some(directory), Instant::now());
                self.under_way = Some(UnderWay { path, directory, cancel, after_end: ended, is_awaited: false, since });
            }
            Err(error) => {
                let _ = HandedOver::set_aside(&directory);
                self.not_made(&place, path, Outcome::Undelivered(error, directory));
            }
        }
    }

    fn stop(&self, path: &Path) {
        if let Some(under_way) = self.under_way.as_ref().filter(|under_way| under_way.path == path) {
            under_way.cancel.store(true, Ordering::Relaxed);
        }
    }

    fn done(&mut self, path: PathBuf, mut outcome: Outcome, made: Option<Metadata>) {
        let under_way = self.under_way.take();
        let directory = under_way.as_ref().and_then(|under_way| under_way.directory.clone());
        if let Some(directory) = &directory {
            self.drop_copy(directory, &mut outcome);
        }
        let stopped = under_way.as_ref().is_some_and(|under_way| under_way.cancel.load(Ordering::Relaxed));
        let took = under_way.as_ref().map(|under_way| under_way.since.elapsed()).unwrap_or_default();
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
        if let Some(handed) = self.apart.remove(&path) {
            self.begun.nodes.tell(&handed, delivered(&outcome));
        }
        if let Outcome::Written(Ok(found), _) = &outcome {
            self.learn(&found.learnt);
        }
        let name = match &outcome {
            Outcome::Packed(repacked) => repacked.output.clone(),
            Outcome::Estimated { path, .. } => path.clone(),
            _ => path.clone(),
        };
        if let (Outcome::Packed(repacked), true) = (&outcome, self.blocked.contains_key(&path))
            && let Some((rule, _)) = self.begun.snapshot.rule_for(&path)
        {
            self.chosen.insert(rule, Arc::new(for_later(repacked.plan.clone())));
        }
        if let Some(generation) = self.versions.remove(&path).filter(|_| matches!(outcome, Outcome::Packed(_))) {
            self.supersede(&path, generation);
        }
        let mut note = match (&outcome, self.died.remove(&path)) {
            (Outcome::Packed(_), Some(earlier)) => format!("at the second attempt: {}", earlier.message()),
            (Outcome::Written(..), _) => self.ledger.datasets(&name),
            (Outcome::Packed(made), None) => match self.blocked.get(&path) {
                Some(blocked) => {
                    let rule = self.begun.snapshot.rule_for(&path).map(|(_, rule)| rule);
                    let instead = rule.and_then(|rule| made_instead(rule, made)).map(|why| format!("; {why}"));
                    format!("handed over: the program waited {blocked:.2} s{}", instead.unwrap_or_default())
                }
                None => self.by_itself.get(&path).map(|why| format!("not handed over: {why}")).unwrap_or_default(),
            },
            _ => String::new(),
        };
        if matches!(outcome, Outcome::Packed(_)) && directory.is_none() && self.given_back.contains(&path) {
            let words = "its ranks opened it again to write: packed again after the program had ended";
            note.push_str(if note.is_empty() { "" } else { "; " });
            note.push_str(words);
        }
        let undelivered = match &outcome {
            Outcome::Undelivered(error, directory) => Some((error.clone(), directory.clone())),
            _ => None,
        };
        if let (Outcome::Packed(_), Some(directory)) = (&outcome, &directory) {
            self.transfers.made(&path, directory);
        }
        self.files.add_made(name, (outcome, made), note);
        if let Some((error, directory)) = undelivered {
            self.note_pending(&directory);
            self.keep(&directory, &error, took);
        }
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

    /// What was learnt of files that were compressed as they were written, newest last; and whether some process called HDF5.
    pub(super) fn into_learnt(self) -> (Vec<Prescription>, bool) {
        (self.learnt, self.ledger.calls_seen)
    }
}

/// What other nodes are told of a file.
fn delivered(outcome: &Outcome) -> Result<Fate> {
    match outcome {
        Outcome::Packed(_) => Ok(Fate::Done),
        Outcome::Undelivered(error, _) | Outcome::Failed(error) => Err(error.clone()),
        _ => Err(Error::internal("it was not made")),
    }
}
