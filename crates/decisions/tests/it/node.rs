//! A node as the launcher sees it: memory, one tier, the place of the files, and jobs that take their time. It does what decisions
//! say as the main loop does, and looks after each step whether what was promised holds.

mod checks;
mod copies;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use knarr_decisions::level::EncodingLevel;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::planner::Planner;
use knarr_decisions::queue::{Class, Cost, JobId, Key, Limits, Next, Queue};
use knarr_decisions::stage::copies::Copies;
use knarr_decisions::stage::improve::WaitingFile;
use knarr_decisions::stage::{Latencies, Stage};

use crate::schedule::{End, Event, Random, Schedule};

/// Bytes a second of a core that encodes, and of the last tier as a rule.
const ENCODES: f64 = 100e6;
const DRAINS: f64 = 30e6;
/// Time that a step takes at most that is not said to take longer.
const SOON: f64 = 0.05;

/// What of a version of a file is where.
#[derive(Debug, Clone)]
struct Version {
    name: u8,
    bytes: u64,
    /// As it was handed over.
    in_memory: bool,
    /// The same, copied to the tier.
    copied: bool,
    /// Bytes of the file that was made of it, in the tier, and whether what is known of it is there, too.
    image: Option<(u64, bool)>,
    local_by: Option<f64>,
    was_named: bool,
    /// It was local by what decisions have heard.
    is_local: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Job {
    Make(u64),
    Move(u64),
    Improve(u64, EncodingLevel),
}

/// What ends later.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Later {
    Outside(Event),
    Job(JobId),
    Copied(u64),
    End,
}

/// How often something happened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) staged: u32,
    pub(crate) direct: u32,
    pub(crate) moved: u32,
    pub(crate) hastened: u32,
    pub(crate) improved: u32,
    pub(crate) stopped: u32,
    pub(crate) copied: u32,
    pub(crate) removed: u32,
    pub(crate) recovered: u32,
    pub(crate) lost: u32,
    pub(crate) passed: u32,
    pub(crate) kept: u32,
    pub(crate) dropped: u32,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            staged,
            direct,
            moved,
            hastened,
            improved,
            stopped,
            copied,
            removed,
            recovered,
            lost,
            passed,
            kept,
            dropped,
        } = other;
        self.staged += staged;
        self.direct += direct;
        self.moved += moved;
        self.hastened += hastened;
        self.improved += improved;
        self.stopped += stopped;
        self.copied += copied;
        self.removed += removed;
        self.recovered += recovered;
        self.lost += lost;
        self.passed += passed;
        self.kept += kept;
        self.dropped += dropped;
    }
}

pub(crate) struct Node {
    now: f64,
    later: Vec<(f64, u64, Later)>,
    pushed: u64,
    random: Random,
    // Decisions.
    queue: Queue<Job>,
    stage: Stage,
    planner: Planner,
    copies: Copies,
    // The world.
    /// Copies in the tier, by the versions of their files: bytes, and whether the file is as it was.
    kept: BTreeMap<u64, (u8, u64, bool)>,
    /// Jobs, and whether they count as awaited.
    running: BTreeMap<JobId, (Job, bool)>,
    versions: BTreeMap<u64, Version>,
    generation: u64,
    placed: BTreeMap<u8, u64>,
    /// The newest version of each name that has to come to its place; others were removed, or were lost and said to be.
    due: BTreeMap<u8, BTreeSet<u64>>,
    waited_for: BTreeSet<u8>,
    /// Versions in the order in which they came to wait in the tier.
    came: Vec<u64>,
    /// Since when a file is encoded anew though the link waits for it, or something else is to be done.
    others_wait: Option<f64>,
    /// When versions were accepted, and how long they took at most until they were local and durable.
    accepted: BTreeMap<u64, f64>,
    longest: Latencies,
    tier: u64,
    filled: u64,
    slow: f64,
    fails: bool,
    short: bool,
    is_terminated: bool,
    has_ended: bool,
    stopped: bool,
    seen: Seen,
}

type Checked = Result<(), String>;

impl Node {
    /// Runs all of a schedule. Returns what happened, or what was not as promised.
    pub(crate) fn run(schedule: &Schedule) -> Result<Seen, String> {
        let mut node = Self {
            now: 0.0,
            later: Vec::new(),
            pushed: 0,
            random: Random(schedule.seed ^ 0x5eed),
            queue: Queue::default(),
            stage: Stage::default(),
            planner: Planner::default(),
            copies: Copies::default(),
            kept: BTreeMap::new(),
            running: BTreeMap::new(),
            versions: BTreeMap::new(),
            generation: 0,
            placed: BTreeMap::new(),
            due: BTreeMap::new(),
            waited_for: BTreeSet::new(),
            came: Vec::new(),
            others_wait: None,
            accepted: BTreeMap::new(),
            longest: Latencies::default(),
            tier: schedule.tier,
            filled: 0,
            slow: 1.0,
            fails: false,
            short: false,
            is_terminated: false,
            has_ended: false,
            stopped: false,
            seen: Seen::default(),
        };
        schedule.events.iter().for_each(|(at, event)| node.later(*at, Later::Outside(*event)));
        let (at, clears_memory) = match schedule.end {
            End::Done => (f64::INFINITY, false),
            End::Killed(at) => (at, false),
            End::Restarted(at) => (at, true),
        };
        if at.is_finite() {
            node.later(at, Later::End);
        }
        while let Some((at, later)) = node.next_later() {
            node.now = at;
            match later {
                Later::Outside(event) => node.event(event),
                Later::Job(id) => node.ended(id)?,
                Later::Copied(generation) => node.copied(generation),
                Later::End => return node.recovered(clears_memory),
            }
            // It looks again soon, though nothing happens.
            node.settle()?;
            node.settle()?;
            node.settle_copies();
            node.check()?;
        }
        node.check_end()
    }

    fn later(&mut self, at: f64, later: Later) {
        self.pushed += 1;
        self.later.push((at, self.pushed, later));
    }

    /// What comes next; of two things at one time, what was known first.
    fn next_later(&mut self) -> Option<(f64, Later)> {
        let order =
            |a: &(f64, u64, Later), b: &(f64, u64, Later)| -> Ordering { a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)) };
        let first = (0..self.later.len()).min_by(|a, b| order(&self.later[*a], &self.later[*b]))?;
        let (at, _, later) = self.later.swap_remove(first);
        Some((at.max(self.now), later))
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Close { .. } if self.has_ended => {}
            Event::Close { name, bytes, within } => self.close(name, bytes, within),
            Event::Wait { name } => drop(self.waited_for.insert(name)),
            Event::Reads { name } => self.reads(name),
            Event::Changes { name } => self.changes(name),
            Event::Remove { name } => self.remove(name),
            Event::Filled { bytes } => self.filled = bytes,
            Event::Slow { times } => self.slow = times,
            Event::Fails => self.fails = true,
            Event::Short => self.short = true,
            Event::TierLost => {
                self.tier = 0;
                let lost: Vec<u64> = self.kept.keys().copied().collect();
                for generation in &lost {
                    self.copies.changed(*generation);
                }
                self.drop_copies();
                let mut lost = Vec::new();
                for (generation, version) in &mut self.versions {
                    if version.image.take().is_some() || !version.in_memory {
                        // Users are told when its turn comes.
                        lost.push(*generation);
                        version.was_named = true;
                    }
                    version.is_local &= !version.copied;
                    version.copied = false;
                }
                lost.iter().for_each(|generation| self.not_due(*generation));
            }
            Event::Terminated => {
                self.is_terminated = true;
                let in_memory: Vec<u64> = self.versions.keys().copied().collect();
                in_memory.into_iter().for_each(|generation| self.copy(generation));
            }
            Event::Ended => self.has_ended = true,
        }
    }

    fn close(&mut self, name: u8, bytes: u64, within: Option<f64>) {
        self.generation += 1;
        let (generation, path) = (self.generation, path(name));
        let local_by = within.map(|within| self.now + within / 2.0);
        let version = Version {
            name,
            bytes,
            in_memory: true,
            copied: false,
            image: None,
            local_by,
            was_named: false,
            is_local: false,
        };
        self.versions.insert(generation, version);
        self.due.entry(name).or_default().insert(generation);
        self.accepted.insert(generation, self.now);
        self.stage.accepted(generation, &path, local_by, self.now);
        self.planner.closed(bytes, self.now);
        let keys = [Key::Path(directory(generation)), Key::Path(path)];
        self.queue.push(Class::Deliver, keys, cost(bytes, 2), Job::Make(generation));
    }

    /// The program may have back what the launcher has not begun.
    fn remove(&mut self, name: u8) {
        let newest = self.versions.iter().rev().find(|(_, version)| version.name == name).map(|(of, _)| *of);
        let Some(generation) = newest else { return };
        let is_begun = self.running.values().any(|(job, _)| job.of() == generation);
        let is_whole = self.versions[&generation].image.is_some();
        if is_begun || is_whole || self.queue.take(|job| job.of() == generation).is_empty() {
            return;
        }
        self.stage.gone(generation);
        self.versions.remove(&generation);
        self.not_due(generation);
        self.seen.removed += 1;
    }

    fn not_due(&mut self, generation: u64) {
        self.due.values_mut().for_each(|due| due.retain(|of| *of != generation));
    }

    /// Copies what was handed over to the tier, if that has room.
    fn copy(&mut self, generation: u64) {
        let Some(version) = self.versions.get(&generation).filter(|version| version.in_memory && !version.copied)
        else {
            return;
        };
        if self.room() >= version.bytes {
            let takes = self.random.between(0.0, SOON);
            self.later(self.now + takes, Later::Copied(generation));
        }
    }

    fn copied(&mut self, generation: u64) {
        let room = self.room();
        let Some(version) = self.versions.get_mut(&generation).filter(|version| version.in_memory) else { return };
        if room >= version.bytes && !version.copied {
            let is_made = self.running.values().any(|(job, _)| *job == Job::Make(generation));
            // Whoever makes a file of it goes on with what is in memory.
            let was_local = std::mem::replace(&mut version.is_local, true);
            (version.copied, version.in_memory) = (true, is_made);
            if !was_local {
                self.is_local(generation);
            }
            self.stage.copied(generation, self.now);
            self.seen.copied += 1;
        }
    }

    /// A version is local from now on.
    fn is_local(&mut self, generation: u64) {
        let seconds = self.now - self.accepted[&generation];
        self.longest.local = Some(self.longest.local.unwrap_or(0.0).max(seconds));
    }

    fn room(&self) -> u64 {
        let copies = self.versions.values().filter(|version| version.copied).map(|version| version.bytes);
        let images = self.versions.values().filter_map(|version| version.image).map(|(bytes, _)| bytes);
        self.tier.saturating_sub(self.filled).saturating_sub(copies.chain(images).sum())
    }

    /// What the main loop does each time.
    fn settle(&mut self) -> Checked {
        if !self.is_terminated {
            for generation in self.stage.late(self.now) {
                if let Some(version) = self.versions.get_mut(&generation) {
                    if std::mem::replace(&mut version.was_named, true) {
                        return Err(format!("{generation} is to leave memory twice"));
                    }
                    self.copy(generation);
                }
            }
        }
        let (names, versions) = (self.waited_for.clone(), &self.versions);
        let is_awaited = |job: &Job| versions.get(&job.of()).is_some_and(|version| names.contains(&version.name));
        self.queue.raise(is_awaited);
        for (id, (_, counts)) in self.running.iter_mut().filter(|(_, (job, _))| is_awaited(job)) {
            self.queue.raise_running(*id);
            *counts = true;
        }
        self.improve()?;
        self.begin()
    }

    fn improve(&mut self) -> Checked {
        let is_time = !self.is_terminated && self.waited_for.is_empty() && !self.has_more();
        if self.stage.is_to_stop(is_time) {
            let is_one = |job: &Job| matches!(job, Job::Improve(..));
            if let Some(Job::Improve(generation, _)) = self.queue.take(is_one).first() {
                self.stage.improved(*generation, 0, true);
            } else {
                self.stopped = true;
                let running = self.running.iter().find(|(_, (job, _))| is_one(job)).map(|(id, _)| *id);
                // It ends soon instead of when it would.
                let takes = self.random.between(0.0, SOON);
                running.into_iter().for_each(|id| {
                    self.later.retain(|(_, _, later)| *later != Later::Job(id));
                    self.later(self.now + takes, Later::Job(id));
                });
            }
        }
        if self.stage.is_improving() || !is_time || self.stage.rule_to_improve().is_none() {
            return Ok(());
        }
        let next = self.stage.next();
        if let Some((generation, level)) = self.stage.improve(&self.planner, DRAINS / self.slow, 1.0) {
            if next == Some(generation) {
                return Err(format!("{generation} moves next, and is to be encoded anew"));
            }
            self.queue.push(Class::Improve, [], cost(1, 1), Job::Improve(generation, level));
        }
        Ok(())
    }

    fn threads(&self) -> usize {
        if self.has_ended || !self.waited_for.is_empty() { 2 } else { 1 }
    }

    fn begin(&mut self) -> Checked {
        let limits = Limits::new(self.threads(), 1 << 32);
        loop {
            let stage = &self.stage;
            let may = |job: &Job, class: Class| match job {
                Job::Move(generation) => stage.may_move(*generation, class == Class::Awaited),
                _ => true,
            };
            let mut awaited = false;
            let mut seen = |job: &Job, class: Class| {
                awaited = class == Class::Awaited;
                may(job, class)
            };
            let Next::Begin(started) = self.queue.begin(&limits, &mut seen) else { return Ok(()) };
            self.start(started.id, started.job, awaited)?;
        }
    }

    fn start(&mut self, id: JobId, job: Job, is_awaited: bool) -> Checked {
        let generation = job.of();
        let version = self.versions[&generation].clone();
        let takes = match job {
            Job::Make(_) if !version.in_memory && !version.copied => {
                return self.lost(id, generation);
            }
            Job::Make(_) => version.bytes as f64 / ENCODES,
            Job::Move(_) => {
                let Some((bytes, _)) = version.image else { return self.lost(id, generation) };
                self.check_move(id, generation, is_awaited)?;
                self.stage.moves(generation);
                bytes as f64 / DRAINS * self.slow
            }
            Job::Improve(..) => {
                if self.running.values().any(|(job, _)| *job == Job::Move(generation)) {
                    return Err(format!("{generation} is encoded anew while it moves"));
                }
                version.bytes as f64 / ENCODES * 4.0
            }
        };
        self.running.insert(id, (job, is_awaited));
        let takes = takes * self.random.between(0.5, 1.5);
        self.later(self.now + takes, Later::Job(id));
        Ok(())
    }

    /// The file of a job is gone, and users are told.
    fn lost(&mut self, id: JobId, generation: u64) -> Checked {
        self.queue.end(id);
        self.stage.gone(generation);
        self.versions.remove(&generation);
        self.seen.lost += 1;
        let is_due = self.due.values().any(|due| due.contains(&generation));
        if is_due { Err(format!("{generation} is gone")) } else { Ok(()) }
    }

    fn ended(&mut self, id: JobId) -> Checked {
        let Some((job, _)) = self.running.remove(&id) else { return Ok(()) };
        let generation = job.of();
        let is_short = std::mem::take(&mut self.short);
        if is_short && !matches!(job, Job::Improve(..)) {
            // Moving takes no memory: it waits for an answer.
            self.queue.put_back(id, job, matches!(job, Job::Make(_)));
            self.stage.waits_again(generation);
            return Ok(());
        }
        self.queue.end(id);
        if let Job::Improve(generation, _) = job {
            return self.encoded_anew(generation);
        }
        if std::mem::take(&mut self.fails) {
            // It is kept, and users are told.
            self.stage.gone(generation);
            self.versions.remove(&generation);
            self.not_due(generation);
            return Ok(());
        }
        match job {
            Job::Make(_) => self.made(generation),
            _ => self.place(generation),
        }
    }

    fn made(&mut self, generation: u64) -> Checked {
        let room = self.room();
        let Some(version) = self.versions.get_mut(&generation) else { return Ok(()) };
        let (name, bytes, raw) = (version.name, version.bytes * 5 / 8, version.bytes);
        if room < bytes {
            self.seen.direct += 1;
            return self.place(generation);
        }
        let is_local = version.copied || !self.random.is(0.05);
        version.image = Some((bytes, is_local));
        let is_new = is_local && !version.is_local;
        version.is_local |= is_local;
        if is_local {
            (version.in_memory, version.copied) = (false, false);
        }
        let family = Family::of(0, Path::new("a.h5")).at(Some(EncodingLevel::Speed));
        let file = WaitingFile { family: Some(family), raw, bytes };
        self.stage.waits((generation, &path(name)), file, is_local, self.now);
        let keys = [Key::Path(directory(generation)), Key::Path(path(name))];
        self.queue.push(Class::Drain, keys, cost(0, 0), Job::Move(generation));
        self.seen.staged += 1;
        self.came.push(generation);
        if is_new {
            self.is_local(generation);
        }
        if self.versions.iter().all(|(of, version)| version.name != name || *of <= generation) {
            self.waited_for.remove(&name);
        }
        Ok(())
    }

    fn place(&mut self, generation: u64) -> Checked {
        let Some(version) = self.versions.remove(&generation) else { return Ok(()) };
        if self.placed.get(&version.name) > Some(&generation) {
            return Err(format!("{generation} takes the place of a newer one"));
        }
        if version.image.is_some() {
            self.seen.moved += 1;
        }
        self.stage.durable(generation, self.now);
        let seconds = self.now - self.accepted[&generation];
        self.longest.durable = Some(self.longest.durable.unwrap_or(0.0).max(seconds));
        self.placed.insert(version.name, generation);
        self.copies.replaced(&path(version.name), generation);
        if let Some((bytes, _)) = version.image {
            self.keep(generation, (version.name, bytes));
        }
        self.drop_copies();
        self.waited_for.remove(&version.name);
        // Older ones that wait were passed by one for which the tier had no room.
        let is_older = |job: &Job| matches!(job, Job::Move(of) if *of < generation && self.versions.get(of).is_some_and(|it| it.name == version.name));
        for job in self.queue.take(is_older) {
            self.stage.gone(job.of());
            self.versions.remove(&job.of());
            self.seen.passed += 1;
        }
        self.due.entry(version.name).or_default().retain(|due| *due > generation);
        Ok(())
    }

    fn encoded_anew(&mut self, generation: u64) -> Checked {
        if self.running.values().any(|(job, _)| *job == Job::Move(generation)) {
            return Err(format!("{generation} moves while it is encoded anew"));
        }
        let is_stopped = std::mem::take(&mut self.stopped);
        let mut saved = 0;
        if let Some(Version { image: Some((bytes, _)), .. }) = self.versions.get_mut(&generation)
            && !is_stopped
        {
            saved = *bytes / 5;
            *bytes -= saved;
            self.seen.improved += 1;
        }
        self.seen.stopped += u32::from(is_stopped);
        self.stage.improved(generation, saved, is_stopped);
        Ok(())
    }
}

impl Job {
    fn of(self) -> u64 {
        match self {
            Self::Make(generation) | Self::Move(generation) | Self::Improve(generation, _) => generation,
        }
    }
}

fn path(name: u8) -> PathBuf {
    PathBuf::from(format!("file-{name}"))
}

fn directory(generation: u64) -> PathBuf {
    PathBuf::from(format!("spool/{generation}"))
}

fn cost(bytes: u64, threads: usize) -> Cost {
    Cost { threads, bytes: bytes.min(1 << 28), link: false, is_least: false }
}
