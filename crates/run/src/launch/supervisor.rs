//! The main loop of a run: hears what the program does and what became of jobs, and ends when the program has ended and its files
//! are done. What is done with files are jobs, which [`begin`] hands to the queue and starts; [`done`] hears their end.

mod asked;
mod begin;
mod copies;
mod done;
mod evacuation;
mod finish;
mod improving;
mod load;
mod named;
mod pending;
mod running_jobs;
mod staged;
mod undelivered;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use knarr_capture::{Event, HandedOver, Message, Part, Writers};
use knarr_decisions::learned::Learned;
use knarr_decisions::plan_cache::PlanCache;
use knarr_decisions::planner::{ChoosingCosts, Forecasts, Planner};
use knarr_decisions::queue::{Class, Limits};
use knarr_decisions::stage::{Latencies, Stage};
use knarr_link::Peer;

use super::aggregators::gathering::Gathering;
use super::aggregators::nodes::tell_end;
use super::checkpoint::{self, Watches};
use super::coupling::transfer::Transfers;
use super::jobs::ahead::AheadWork;
use super::jobs::packed::PackedFiles;
use super::news::{News, spawn};
use super::outcome::Outcome;
use super::report::Report;
use super::spools::spool::Spool;
use super::spools::spool_usage::Unused;
use super::start::learned;
use super::start::prepare::RunSetup;
use super::start::program::{self, GRACE};
use super::waiting::Waiting;
pub use copies::CopiesUsed;
use copies::KeptCopies;
use evacuation::Evacuation;
use knarr_capture::processes::System;
use knarr_config::Route;
use knarr_decisions::ledger::Ledger;
use load::Load;
use running_jobs::{Jobs, Todo};
use staged::Monitored;
use undelivered::Deliveries;
use written::WrittenFiles;

/// How often files are looked after whose closing nobody tells of, and what is under way.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the spool is looked at for what nobody has told of: messages may be lost. Where nothing is under way, all that is looked at.
const LOOK_FOR_MORE: Duration = Duration::from_secs(1);
/// The end of a run waits no longer than so for a look at what the program has written in tiers.
const LONG_GRACE: Duration = Duration::from_secs(30);
/// The same while other components are to take what the program has written.
const LOOK_OFTEN: Duration = Duration::from_millis(20);

/// The main loop.
pub(super) struct Supervisor<'a> {
    setup: &'a RunSetup,
    watches: &'a Watches,
    send: Sender<News>,
    receive: Receiver<News>,
    ledger: Ledger,
    report: Report,
    plan_cache: PlanCache,
    /// What is done with files.
    jobs: Jobs,
    in_spool: InSpool,
    evacuation: Evacuation,
    /// Files that the program writes in tiers.
    written: WrittenFiles,
    /// At which level files that wait in tiers are encoded.
    planner: Planner,
    choosing: ChoosingCosts,
    /// What becomes of files that wait in tiers.
    stage: Stage,
    /// Copies of those that are in their places.
    copies: KeptCopies,
    load: Load,
    monitored: Monitored,
    since: Instant,
    deliveries: Deliveries,
    /// Files that the program may want back as it has made them.
    packed: Arc<PackedFiles>,
    others: Others,
    /// What goes to other components, and comes from them.
    transfers: Transfers<'a>,
    /// What is encoded of files that are open.
    ahead: AheadWork,
    /// Processes of the program that wait.
    waiting: Waiting,
    ended: Option<(ExitStatus, Instant)>,
}

/// Directories of the spool.
#[derive(Default)]
struct InSpool {
    /// All that were heard of.
    known: BTreeSet<PathBuf>,
    /// Those of them that are shown to the program, and may come back.
    lent: BTreeSet<PathBuf>,
    /// Those of files that could not be made, and not be set aside either.
    pending: BTreeSet<PathBuf>,
    /// Memory that waits for values.
    unused: Unused,
}

/// What this launcher and those of other nodes do together.
#[derive(Default)]
struct Others {
    /// Files that are made of what several nodes hold.
    multi_node: BTreeMap<PathBuf, HandedOver>,
    /// Number of files of which this node holds a part, and that others make, and of nodes that are told that the program has
    /// ended here.
    awaited: usize,
    /// Directories with parts of files that others make, and who is told if a process here waits for such a file.
    gathering: BTreeMap<PathBuf, Sender<()>>,
    /// Other nodes whose ranks write files that this launcher looks after, by the tokens of their spools.
    co_writers: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Launchers on other nodes that look after files which ranks of this one write, too.
    keepers: Vec<Peer>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(setup: &'a RunSetup, watches: &'a Watches, send: Sender<News>, receive: Receiver<News>) -> Self {
        Self {
            setup,
            watches,
            send,
            receive,
            ledger: Ledger::default(),
            report: Report::default(),
            plan_cache: PlanCache::default(),
            jobs: Jobs::new(&setup.means),
            in_spool: InSpool::default(),
            evacuation: Evacuation::default(),
            written: WrittenFiles::of(setup),
            planner: planner(setup),
            choosing: ChoosingCosts::default(),
            stage: Stage::default(),
            copies: KeptCopies::default(),
            load: Load::new(),
            monitored: Monitored::of(setup.snapshot.spool.as_ref()),
            since: Instant::now(),
            deliveries: Deliveries::default(),
            packed: Arc::new(PackedFiles::new(setup.spool.as_ref().map(Spool::path))),
            others: Others::default(),
            transfers: Transfers::new(setup),
            ahead: AheadWork::new(setup),
            waiting: Waiting::default(),
            ended: None,
        }
    }

    /// One thread works as long as the program computes, all as long as it waits, and when it has ended.
    fn limits(&mut self) -> Limits {
        let may_work = self.ended.is_some()
            || self.jobs.queue.has(Class::Awaited)
            || self.waiting.is_any()
            || self.setup.names.is_awaited();
        let engine = &self.setup.engine;
        let now = if may_work { usize::MAX } else { 1 };
        if engine.allowed.get() != now {
            engine.allowed.set(now);
            self.setup.nodes.wake();
        }
        Limits::new(now.min(engine.jobs), engine.max_mem)
    }

    /// Until the program has ended and its files are done. Returns the program's exit code.
    pub(super) fn until_done(&mut self) -> u8 {
        let (mut last_look, mut last_search) = (Instant::now(), Instant::now());
        loop {
            let within = self.looks_within();
            match self.receive.recv_timeout(within) {
                Ok(News::Message(message)) => self.on_message(message),
                Ok(News::Ended(status, all)) => {
                    self.ended = Some((status, Instant::now()));
                    self.watches.ended(status.success());
                    // The other side hears first what was read.
                    self.setup.remote_components.notify();
                    self.setup.nodes.ended();
                    self.transfers.ended();
                    if all {
                        self.tell_keepers();
                    }
                }
                Ok(News::Done(job, outcome, made)) => self.done(job, outcome, made),
                Ok(News::Short(job)) => self.again_with_more(job),
                Ok(News::Kept(copy)) => self.kept(copy),
                Ok(News::Staged(job, file)) => self.drain(job, *file),
                Ok(News::Ahead(job, directory, plan)) => {
                    self.jobs.queue.end(job);
                    self.ahead.done(&directory, plan);
                }
                Ok(News::Improved(job, improved)) => self.improved(job, improved),
                Ok(News::Answered(job)) => drop(self.jobs.end(job)),
                Ok(News::GivenBack(path)) => {
                    self.report.given_back.insert(path.clone());
                    self.ledger.given_back(path);
                }
                Ok(News::MovedOut(from, to)) => self.moved_out(&from, to),
                Ok(News::MovingEnded) => self.evacuation.threads -= 1,
                Ok(News::EndNoted) => self.others.awaited -= 1,
                Ok(News::Named) => {
                    self.drop_given_up();
                    self.hasten();
                }
                Ok(News::Gathered { path, directory, outcome }) => {
                    self.others.awaited -= 1;
                    self.others.gathering.remove(&directory);
                    let version = self.deliveries.versions.remove(&path);
                    if let (Outcome::Gathered { .. }, Some(generation)) = (&outcome, version) {
                        self.supersede(&path, generation);
                    }
                    match outcome {
                        Outcome::Missed(error) => self.transfers.lost(&path, &error),
                        outcome => self.report.files.add(path, outcome, String::new()),
                    }
                }
                Ok(News::Signalled) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let is_stopped = self.setup.engine.cancel.load(Ordering::Relaxed);
            if is_stopped {
                self.jobs.stop_all();
            }
            if last_look.elapsed() >= LOOK_EVERY || self.ended.is_some() {
                self.check_termination();
                self.check_local();
                self.settle_written();
                self.encode_ahead();
                self.ledger.settle(&System);
                self.watches.settle();
                last_look = Instant::now();
            }
            if last_search.elapsed() >= LOOK_FOR_MORE {
                self.look_for_more();
                self.count_written();
                last_search = Instant::now();
            }
            self.keep_sessions();
            self.try_again();
            self.improve();
            self.begin_next();
            self.settle_copies();
            self.share_threads();
            if let Some((status, since)) = self.ended
                && !self.jobs.queue.is_running()
                && self.ahead.is_idle()
                && self.others.awaited == 0
                && self.evacuation.threads == 0
                && (!self.jobs.queue.is_waiting() && !self.transfers.are_open() || is_stopped)
                && (!self.ledger.is_open() && !self.is_written()
                    || since.elapsed() > GRACE && (self.has_looked_at_written() || since.elapsed() > LONG_GRACE)
                    || is_stopped)
                // Whatever nobody has told of is done, too.
                && !self.look_for_more()
            {
                return program::exit_code(status);
            }
        }
    }

    /// How soon something has to be looked at, if nothing is told. An idle program leaves its launcher idle.
    fn looks_within(&mut self) -> Duration {
        if self.transfers.are_open() {
            return LOOK_OFTEN;
        }
        let is_under_way = self.jobs.queue.is_running() || self.jobs.queue.is_waiting() || !self.ahead.is_idle();
        let looks_at_files = self.ledger.is_closing() || !self.watches.is_empty() || !self.setup.staged.is_empty();
        // Nobody tells when another component is late.
        let is_coupled = self.setup.snapshot.config.file.iter().any(|rule| rule.route() == Route::Transfer);
        let is_moved = self.evacuation.threads > 0 || self.setup.signals.is_terminated();
        if self.ended.is_some() || is_under_way || looks_at_files || is_coupled || is_moved || self.waiting.is_any() {
            LOOK_EVERY
        } else {
            LOOK_FOR_MORE
        }
    }

    fn on_message(&mut self, message: Message) {
        if !self.watches.is_empty() {
            self.watches.on_message(message.clone());
            if checkpoint::is_of_restart_file(&self.setup.snapshot.config, &message) {
                return;
            }
        }
        match &message.event {
            Event::HandedOver { directory } => self.closed(directory.clone()),
            Event::SetAside { directory } => self.set_aside(directory.clone()),
            Event::Asked { directory } => self.asked_for(directory.clone()),
            Event::NotHandedOver { path, why } => drop(self.report.by_itself.insert(path.clone(), why.clone())),
            Event::Note { path, text } => self.setup.notices.warn(&format!("{}: {text}", path.display())),
            Event::Passed { path, why } | Event::Unwatched { path, why } => {
                self.report.files.add(path.clone(), Outcome::Left(why.clone()), String::new());
            }
            Event::Opened { path, writers: Writers::OtherNode(keeper), .. } => {
                if !self.others.keepers.contains(keeper) {
                    self.others.keepers.push(keeper.clone());
                }
                self.report.files.add(path.clone(), Outcome::Gathered { node: keeper.node.clone() }, String::new());
            }
            Event::Opened { path, writers: Writers::SeveralNodes(others), .. } => {
                self.others.co_writers.entry(path.clone()).or_default().extend(others.iter().cloned());
            }
            // What was packed is no more.
            Event::Opened { path, created: true, .. } => self.packed.forget_at(path),
            Event::Renamed { path } => {
                if let Some(rule) = self.setup.snapshot.rule_to(path, Some(Part::Writes)) {
                    self.transfers.renamed(path, rule);
                }
            }
            Event::Waits(waits) => self.waiting.on_wait(message.process, *waits),
            event => self.transfers.on_event(event),
        }
        if let Some(useless) = self.ledger.on_message(message) {
            self.stop(&useless);
        }
    }

    /// Tells the launchers that may replace files of this program that nobody here writes them any more.
    fn tell_keepers(&mut self) {
        let Some(token) = self.setup.snapshot.spool.as_ref().map(|spool| spool.token.clone()) else { return };
        for keeper in std::mem::take(&mut self.others.keepers) {
            let (send, token) = (self.send.clone(), token.clone());
            let told = spawn("ended", move || {
                tell_end(&keeper, &token);
                let _ = send.send(News::EndNoted);
            });
            // One that hears nothing leaves the files as they are.
            self.others.awaited += usize::from(told.is_ok());
        }
    }

    /// Waits for the node that makes a file of which a part was handed over here.
    fn await_maker(&mut self, directory: PathBuf, handed: HandedOver) {
        let path = handed.target.clone();
        self.deliveries.versions.insert(path.clone(), handed.generation);
        let (want, wanted) = channel();
        let (cancel, names) = (Arc::clone(&self.setup.engine.cancel), Arc::clone(&self.setup.names));
        let gathering = Gathering::new(&self.setup.nodes, (handed, directory.clone()), wanted, cancel, names);
        let (send, path_of, directory_of) = (self.send.clone(), path.clone(), directory.clone());
        let gathered = move || {
            let outcome = gathering.run();
            let _ = send.send(News::Gathered { path: path_of, directory: directory_of, outcome });
        };
        match spawn("gathered", gathered) {
            Ok(()) => {
                self.others.awaited += 1;
                self.others.gathering.insert(directory, want);
                if self.setup.names.is_awaited() {
                    self.hasten();
                }
            }
            Err(error) => self.report.files.add(path, Outcome::Undelivered(error, directory), String::new()),
        }
    }

    /// What is done with a file is of no use any more: the program writes it again.
    fn stop(&mut self, path: &Path) {
        self.jobs.stop(path);
        // The ledger hands it out again.
        self.jobs.queue.take(|todo| matches!(todo, Todo::Pack(due) if due.path == path));
    }

    /// How well it was predicted what files that wait in tiers become; `None` if there were none.
    pub(super) fn forecasts(&self) -> Option<Forecasts> {
        self.planner.forecasts().map(|forecasts| Forecasts { costs: self.choosing, ..forecasts })
    }

    /// What was learned of such files.
    pub(super) fn learned(&self) -> Learned {
        let rules = &self.setup.snapshot.config.file;
        self.planner.learned(|rule| Some(rules.get(rule)?.pattern.as_str().to_owned()))
    }

    /// How long files took that wait in tiers.
    pub(super) fn latencies(&self) -> Latencies {
        self.stage.latencies()
    }

    /// True if some process called HDF5.
    pub(super) fn calls_seen(&self) -> bool {
        self.ledger.calls_seen
    }
}

/// The planner, with what earlier runs have learned.
fn planner(setup: &RunSetup) -> Planner {
    let rules = &setup.snapshot.config.file;
    let profile = setup.means.profile().filter(|_| rules.iter().any(|rule| rule.stage().is_some()));
    let rule = |pattern: &str| rules.iter().position(|rule| rule.pattern.as_str() == pattern);
    Planner::with_learned(learned::read(profile), rule)
}
