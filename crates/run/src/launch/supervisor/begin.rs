//! What is to be done with files goes to the queue, and what it says is begun.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::HandedOver;

use super::Supervisor;
use super::done::Ended;
use super::running_jobs::{RunningJob, Todo};
use super::staged::staged;
use super::undelivered::is_for_bucket;
use crate::launch::jobs::closed::ClosedJob;
use crate::launch::jobs::cost;
use crate::launch::jobs::deliver::{DeliverJob, Delivered};
use crate::launch::jobs::when_closed;
use crate::launch::names::Beat;
use crate::launch::news::{News, StagedFile, spawn};
use crate::launch::outcome::Outcome;
use knarr_capture::processes::{Identity, renamed};
use knarr_decisions::ledger::Due;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::{Class, JobId, Key, Limits, Next, StartedJob};
use knarr_routes::compress::is_classic;
use knarr_worker::Share;

/// Of files that the ledger hands out, so many may wait for other jobs of the same file.
const HANDED_OUT: usize = 8;

/// How a job is started.
pub(super) struct Start {
    pub(super) id: JobId,
    pub(super) share: Share,
    pub(super) cancel: Arc<AtomicBool>,
}

impl Supervisor<'_> {
    /// A file is to be made of what lies in a directory.
    pub(super) fn push_delivery(&mut self, directory: PathBuf) {
        let mut keys = vec![Key::Path(directory.clone())];
        let (mut cost, mut generation, mut family, mut bytes) = (cost::of_bytes(0), 0, None, 0);
        if let Ok(Some(handed)) = HandedOver::read(&directory) {
            keys.extend([Key::Path(handed.rule.made_of(&handed.target)), Key::Path(handed.target.clone())]);
            (generation, bytes) = (handed.generation, handed.bytes);
            cost = cost::of_bytes(bytes);
            // One that waits in a tier is sent by another job.
            cost.link = is_for_bucket(&handed) && handed.rule.place.is_none();
            // Of a file that the program has written itself nothing is chosen, unless it is packed.
            let is_chosen = handed.reserved.is_none() || handed.rule.compress().when.is_some();
            let rule = self.setup.snapshot.rule_for(&handed.target).filter(|_| is_chosen);
            family = rule.map(|(rule, _)| Family::of(rule, &handed.target));
            self.closed_for_stage(&handed);
        }
        self.jobs.queue.push(Class::Deliver, keys, cost, Todo::Deliver { directory, generation, family, bytes });
        if self.setup.names.is_awaited() {
            self.hasten();
        }
    }

    /// Hands the next file that is closed to the queue, if it may begin there.
    fn push_closed(&mut self, limits: &Limits) -> bool {
        let handed_out = self.jobs.queue.waiting().filter(|todo| matches!(todo, Todo::Pack(_))).count();
        if handed_out >= HANDED_OUT || !self.jobs.queue.has_room(limits, Class::Pack) {
            return false;
        }
        let jobs = &self.jobs;
        let Some(due) = self.ledger.next(self.ended.is_some(), |path| jobs.is_busy(path)) else { return false };
        if !due.is_told && !is_classic_there(&due) {
            self.ledger.done(&due.path);
            return true;
        }
        // The program may have given another file this name since.
        let found = std::fs::metadata(&due.path).ok();
        let files = due.identity.map(Identity::from).into_iter().chain(found.as_ref().map(Identity::of));
        let keys = files.map(Key::File).chain([Key::Path(due.path.clone())]);
        let cost = cost::of_bytes(found.as_ref().map_or(0, Metadata::len));
        self.jobs.queue.push(Class::Pack, keys, cost, Todo::Pack(due));
        true
    }

    /// Begins all that may begin.
    pub(super) fn begin_next(&mut self) {
        // When all ends soon, what is moved out of memory comes first.
        let is_moving_out = self.evacuation.threads > 0 && self.setup.signals.is_terminated();
        if is_moving_out || self.setup.engine.cancel.load(Ordering::Relaxed) {
            return;
        }
        // Directories of which the program says in a moment whether it wants a file.
        let mut held = BTreeSet::new();
        loop {
            let limits = self.limits();
            let plan_cache = &self.plan_cache;
            let stage = &self.stage;
            let may = |todo: &Todo, class: Class| match todo {
                Todo::Deliver { directory, family, .. } => {
                    let is_ready =
                        class == Class::Awaited || family.as_ref().is_none_or(|family| plan_cache.is_ready(family));
                    is_ready && !held.contains(directory)
                }
                Todo::Drain { directory, generation, .. } => {
                    stage.may_move(*generation, class == Class::Awaited) && !held.contains(directory)
                }
                _ => true,
            };
            match self.jobs.queue.begin(&limits, may) {
                Next::Begin(started) => held.extend(self.start(started, &limits)),
                Next::Full => return,
                Next::Idle if self.push_closed(&limits) => {}
                Next::Idle => return,
            }
        }
    }

    /// Gives each job its threads.
    pub(super) fn share_threads(&mut self) {
        let limits = self.limits();
        for (id, share) in self.jobs.queue.shares(limits.threads) {
            if let Some(job) = self.jobs.running.get(&id).filter(|job| job.allowed.get() != share) {
                job.allowed.set(share);
            }
        }
        if self.jobs.threads != limits.threads {
            self.jobs.threads = limits.threads;
            self.jobs.workers.keep(limits.threads);
        }
    }

    /// Begins a job. Returns its directory if the program is about to say whether it wants a file.
    fn start(&mut self, started: StartedJob<Todo>, limits: &Limits) -> Option<PathBuf> {
        let StartedJob { id, bytes, job } = started;
        let background = self.ended.is_none() && !self.is_urgent(&job);
        let share = cost::share(bytes, limits, self.setup.engine.jobs, background);
        let start = Start { id, share, cancel: Arc::default() };
        if !matches!(job, Todo::Ahead(_)) {
            self.stop_ahead();
        }
        match job {
            Todo::Answer(directory) => self.answer(start, directory),
            Todo::Deliver { ref directory, ref family, .. } => {
                let (directory, family, todo) = (directory.clone(), family.clone(), job.clone());
                return self.deliver(start, todo, directory, family);
            }
            Todo::Drain { ref directory, .. } => {
                let (directory, todo) = (directory.clone(), job.clone());
                return self.deliver(start, todo, directory, None);
            }
            Todo::Pack(due) => self.pack(start, due),
            Todo::Improve { generation, level } => self.begin_improving(start, generation, level),
            Todo::Ahead(ahead) => {
                let send = self.send.clone();
                let sent = move |directory, plan| drop(send.send(News::Ahead(id, directory, plan)));
                if !self.ahead.start(*ahead, self.setup.engine.jobs, sent) {
                    // It is looked at again when there is more of the file.
                    self.jobs.queue.end(id);
                }
            }
        }
        None
    }

    /// Begins to encode what there is of open files, if there is nothing else to do.
    pub(super) fn encode_ahead(&mut self) {
        if self.ended.is_some() || self.setup.engine.cancel.load(Ordering::Relaxed) {
            return self.stop_ahead();
        }
        if self.jobs.queue.is_running() || self.jobs.queue.is_waiting() {
            return;
        }
        let (snapshot, plan_cache) = (&self.setup.snapshot, &self.plan_cache);
        let family_of = |path: &Path| snapshot.rule_for(path).map(|(rule, _)| Family::of(rule, path));
        let earlier = |path: &Path| plan_cache.earlier(&family_of(path)?);
        if let Some(ahead) = self.ahead.next(self.setup, earlier) {
            self.jobs.queue.push(Class::Improve, [], cost::NOTHING, Todo::Ahead(Box::new(ahead)));
        }
    }

    /// What is encoded ahead stops at the next chunk.
    fn stop_ahead(&mut self) {
        self.ahead.stop();
        for todo in self.jobs.queue.take(|todo| matches!(todo, Todo::Ahead(_))) {
            if let Todo::Ahead(ahead) = todo {
                self.ahead.not_begun(&ahead);
            }
        }
    }

    /// Begins what is asked for in a directory.
    fn answer(&mut self, start: Start, directory: PathBuf) {
        let Start { id, share, cancel, .. } = start;
        let running = self.running((directory.clone(), None), Todo::Answer(directory.clone()), &share, &cancel);
        if self.begin_answer(id, share, cancel, directory) {
            self.jobs.running.insert(id, running);
        } else {
            self.jobs.queue.end(id);
        }
    }

    /// What is known of a job that begins.
    pub(super) fn running(
        &mut self,
        (path, directory): (PathBuf, Option<PathBuf>),
        todo: Todo,
        share: &Share,
        cancel: &Arc<AtomicBool>,
    ) -> RunningJob {
        RunningJob {
            todo,
            path,
            directory,
            cancel: Arc::clone(cancel),
            allowed: share.allowed.clone(),
            after_end: self.ended.is_some(),
            since: Instant::now(),
            order: self.report.files.next(),
            numbered: None,
            generation: None,
        }
    }

    /// Begins to pack a file.
    fn pack(&mut self, start: Start, due: Due) {
        let Start { id, share, cancel, .. } = start;
        let path = due.path.clone();
        let running = self.running((path.clone(), None), Todo::Pack(due.clone()), &share, &cancel);
        let Due { filters, identity, .. } = due;
        let job = ClosedJob {
            when_closed,
            spools: self.spools(),
            path: path.clone(),
            identity,
            filters,
            workers: Arc::clone(&self.jobs.workers),
            share,
            cancel,
            snapshot: self.setup.snapshot.clone(),
            command: self.setup.command.clone(),
            when: self.setup.when.clone(),
            gate: self.setup.run_directory.gate(),
            scratch: self.setup.scratch.path().to_owned(),
            others: self.setup.nodes.others(self.others.co_writers.get(&path).cloned().unwrap_or_default()),
            packed: Arc::clone(&self.packed),
        };
        let send = self.send.clone();
        let started = spawn("packer", move || {
            let _ = send.send(job.run().map_or(News::Short(id), |outcome| News::of_job(id, outcome)));
        });
        self.began(id, running, started, Outcome::Failed);
    }

    /// A job was begun, or could not be.
    fn began(&mut self, id: JobId, running: RunningJob, started: Result<()>, failed: impl FnOnce(Error) -> Outcome) {
        match started {
            Ok(()) => drop(self.jobs.running.insert(id, running)),
            Err(error) => {
                self.jobs.queue.end(id);
                self.conclude(Ended { directory: None, ..running.into() }, failed(error), None);
            }
        }
    }

    /// Begins to make a file of what was handed over, or to move it to its place. Returns the directory if it is to be asked for again
    /// in a moment.
    fn deliver(&mut self, start: Start, todo: Todo, directory: PathBuf, family: Option<Family>) -> Option<PathBuf> {
        let Start { id, share, cancel, .. } = start;
        match self.is_wanted(&directory) {
            Some(true) => {}
            Some(false) => {
                self.jobs.queue.end(id);
                todo.generation().into_iter().for_each(|generation| self.stage.gone(generation));
                return None;
            }
            None => {
                self.jobs.queue.put_back(id, todo, false);
                return Some(directory);
            }
        }
        let handed = match self.deliverable(&directory) {
            Ok(handed) => handed,
            Err(not_made) => {
                let (path, error) = *not_made;
                self.jobs.queue.end(id);
                todo.generation().into_iter().for_each(|generation| self.stage.gone(generation));
                let _ = HandedOver::set_aside(&directory);
                match todo {
                    Todo::Drain { target, .. } if !directory.exists() => {
                        let what =
                            "the file that waited in a tier is gone: the tier was lost, or somebody has removed it";
                        let error = Error::new(ErrorKind::Read, what).hint("have the program write it again");
                        let error = error.at(directory.display().to_string());
                        self.not_made(&directory, target, Outcome::Lost(error));
                    }
                    _ => {
                        let outcome = Outcome::Undelivered(error, directory.clone());
                        self.not_made(&directory, path, outcome);
                    }
                }
                return None;
            }
        };
        let path = handed.target.clone();
        if handed.reserved.is_none() {
            self.report.blocked.insert(path.clone(), handed.blocked_s);
        }
        // Of one that waits in a tier other nodes have heard.
        if !handed.parts.is_empty() && !matches!(todo, Todo::Drain { .. }) {
            self.setup.nodes.begin(&handed);
            self.others.multi_node.insert(path.clone(), handed.clone());
        }
        if matches!(todo, Todo::Drain { .. }) {
            self.stage.moves(handed.generation);
        }
        let mut running = self.running((path, Some(directory.clone())), todo, &share, &cancel);
        running.generation = Some(handed.generation);
        let level = family.as_ref().and_then(|family| self.level_of(family, &handed));
        let family = family.map(|family| family.at(level));
        let earlier = family.as_ref().and_then(|family| self.plan_cache.earlier(family));
        running.numbered = family.map(|family| (family.clone(), self.plan_cache.begin(&family)));
        // It may have a name since of which another rule says something else.
        let rule = self.setup.snapshot.rule_for(&handed.target);
        let is_packed = rule.is_some_and(|(_, rule)| *rule == handed.rule && rule.packs_when_closed());
        let names = Arc::clone(&self.setup.names);
        let (staging, spools) = self.staging(&handed);
        let staged_one = handed.clone();
        let is_moved = matches!(running.todo, Todo::Drain { .. });
        let keeping = if is_moved { self.keeping(&directory, &handed) } else { None };
        let job = DeliverJob {
            directory: directory.clone(),
            spools: self.spools(),
            found: BTreeMap::new(),
            earlier,
            staging,
            level,
            keeping,
            is_packed,
            handed,
            workers: Arc::clone(&self.jobs.workers),
            share,
            cancel,
            is_running: self.ended.is_none(),
            was_made: false,
            command: self.setup.command.clone(),
            when: self.setup.when.clone(),
            packed: Arc::clone(&self.packed),
            progress: Box::new(Beat::of(&names, &directory)),
        };
        let (send, made) = (self.send.clone(), directory.clone());
        let started = spawn("deliverer", move || {
            let news = match job.run() {
                Delivered::Is(outcome) => News::of_job(id, outcome),
                Delivered::Short => News::Short(id),
                Delivered::Staged(repacked) => {
                    let to = staged(&made, &spools);
                    News::Staged(id, Box::new(StagedFile { handed: staged_one, repacked: *repacked, to }))
                }
            };
            // They go with the main loop.
            drop(spools);
            if let News::Done(_, outcome, _) = &news {
                names.end(&made, outcome);
            }
            let _ = send.send(news);
        });
        if started.is_err() {
            let _ = HandedOver::set_aside(&directory);
        }
        let names = Arc::clone(&self.setup.names);
        self.began(id, running, started, |error| {
            let outcome = Outcome::Undelivered(error, directory.clone());
            names.end(&directory, &outcome);
            outcome
        });
        None
    }

    /// What is to be delivered of a directory, or the name of the file and why it is not made. Other nodes are told.
    fn deliverable(&mut self, directory: &Path) -> Result<HandedOver, Box<(PathBuf, Error)>> {
        let nothing = || Error::internal("nothing is handed over there").at(directory.display().to_string());
        let handed = HandedOver::read(directory).and_then(|handed| handed.ok_or_else(nothing)).map_err(|error| {
            self.setup.nodes.tell_unread(directory, &error);
            Box::new((directory.to_owned(), error))
        })?;
        // What waits in a tier on its way there is made all the same.
        let is_sent = is_for_bucket(&handed) && (handed.rule.place.is_none() || HandedOver::has_image(directory));
        let down = self.deliveries.server_is_down.clone().filter(|_| is_sent);
        match self.deliveries.outputs.take(&handed).err().or(down) {
            None => Ok(handed),
            Some(error) => {
                self.setup.nodes.notify(&handed, Err(error.clone()));
                Err(Box::new((handed.target, error)))
            }
        }
    }
}

/// True if a file of which HDF5 has said nothing is a classic one, under the name that it has now. Others may be of any format, or were
/// written by an HDF5 that nobody asked whether they are whole.
pub(super) fn is_classic_there(due: &Due) -> bool {
    let path = match due.identity {
        Some(identity) if !due.path.exists() => renamed(&due.path, identity),
        _ => Some(due.path.clone()),
    };
    let is_one = |path: PathBuf| path.is_file() && File::open(path).is_ok_and(|file| is_classic(&file));
    path.is_some_and(is_one)
}
