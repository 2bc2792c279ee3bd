//! Files of route `stage`: made in a tier, they wait there until they are moved to their place, in the order in which the program
//! has closed them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use knarr_array::error::Result;
use knarr_capture::{HandedOver, SpoolPlace};
use knarr_choose::place::objective::Objective;
use knarr_choose::place::outlook::{Outlook, ToCome};
use knarr_config::{FileRule, StageRule, Time};

use super::Supervisor;
use super::running_jobs::Todo;
use crate::launch::aggregators::nodes::Fate;
use crate::launch::jobs::cost;
use crate::launch::jobs::stage::room::Staging;
use crate::launch::news::StagedFile;
use crate::launch::spools::on_disk::SpoolOnDisk;
use knarr_decisions::level::EncodingLevel;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::queue::{Class, JobId, Key};
use knarr_routes::compress::Repacked;
use knarr_tier::{Account, Tier};

/// Bytes a second of the last tier, before anything was measured.
const USUAL_DRAIN: f64 = 200e6;

/// The tiers as they are looked at before each decision: opened once.
pub(super) struct Monitored {
    /// Those in which files wait.
    pub(super) waiting: Vec<Arc<dyn Tier>>,
    /// What is counted of the last one.
    last: Option<Account>,
}

impl Monitored {
    pub(super) fn of(place: Option<&SpoolPlace>) -> Self {
        let (mut waiting, mut last) = (Vec::new(), None);
        if let Some(place) = place
            && let Some(number) = place.places.len().checked_sub(1)
        {
            waiting.extend((0..number).filter_map(|number| Some(place.tier(number)?.0)));
            last = place.account(number);
        }
        Self { waiting, last }
    }
}

impl Supervisor<'_> {
    /// Where a file may wait, and the spools in which what is known of it goes; nothing if it is not to wait.
    pub(super) fn staging(&self, handed: &HandedOver) -> (Option<Staging>, Vec<Arc<SpoolOnDisk>>) {
        let place = self.setup.snapshot.spool.as_ref().filter(|_| handed.rule.stage().is_some());
        let Some(place) = place else { return (None, Vec::new()) };
        let spools = self.setup.staged.iter().cloned();
        let tiers = spools.clone().map(|(number, spool)| (number, spool.path().to_owned())).collect();
        let staging = Staging { place: place.clone(), tiers };
        (Some(staging), spools.map(|(_, spool)| spool).collect())
    }

    /// Seconds since the run has begun.
    pub(super) fn now(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// A file was closed that may wait in a tier.
    pub(super) fn closed_for_stage(&mut self, handed: &HandedOver) {
        if handed.rule.stage().is_none() {
            return;
        }
        let now = self.now();
        // Moving it out of memory takes its time, too. What the program has written itself lies in a tier.
        let within = handed.rule.stage().filter(|_| handed.reserved.is_none()).and_then(|rule| rule.local_within);
        let local_by = within.map(|Time(within)| now + within.as_secs_f64() / 2.0);
        self.stage.accepted(handed.generation, &handed.target, local_by, now);
        if self.ended.is_none() {
            self.planner.closed(handed.bytes, now);
        }
    }

    /// True for a job that is not to wait until the program leaves a core idle: an answer; the move of a file to its place, which
    /// takes little of a core; and a file for which the planner says so.
    pub(super) fn is_urgent(&mut self, job: &Todo) -> bool {
        let (family, bytes) = match job {
            Todo::Answer(_) | Todo::Drain { .. } => return true,
            // It is whole in a tier, and only looked at, unless it is packed there.
            Todo::Deliver { directory, family, .. }
                if self.is_in_tier(directory) && !self.is_packed(family.as_ref()) =>
            {
                return true;
            }
            Todo::Deliver { family: Some(family), bytes, .. } => (family, *bytes),
            _ => return false,
        };
        let rules = &self.setup.snapshot.config.file;
        let Some(rule) = rules.get(family.rule).and_then(FileRule::stage).cloned() else { return false };
        let Some(outlook) = self.outlook(&rule, bytes) else { return false };
        let waiting = self.jobs.to_make().iter().map(|(_, bytes)| bytes).sum::<u64>() + bytes;
        outlook.is_urgent(waiting as f64, self.objective(&rule))
    }

    /// True if files of a family are packed when the program has closed them.
    fn is_packed(&self, family: Option<&Family>) -> bool {
        let rule = family.and_then(|family| self.setup.snapshot.config.file.get(family.rule));
        rule.is_some_and(|rule| rule.compress().when.is_some())
    }

    /// How well the next file of a family is to be encoded; `None` if its rule says it, or it is to wait nowhere.
    pub(super) fn level_of(&mut self, family: &Family, handed: &HandedOver) -> Option<EncodingLevel> {
        let rule = handed.rule.stage().filter(|_| handed.rule.compress().goal.is_none())?.clone();
        let outlook = self.outlook(&rule, handed.bytes)?;
        let waiting = self.jobs.to_make();
        let begin = Instant::now();
        let level = self.planner.level((family, handed.bytes), &waiting, &outlook, self.objective(&rule));
        self.choosing.decisions += begin.elapsed().as_secs_f64();
        Some(level)
    }

    /// A file was made of a family. What it has become says what the next ones will be.
    pub(super) fn learn(&mut self, family: &Family, made: &Repacked) {
        let begin = Instant::now();
        self.planner.made(family, &made.plan, &made.execution);
        self.choosing.feedback += begin.elapsed().as_secs_f64();
    }

    /// What is to be least. When the program has ended nothing blocks it any more, and the files are waited for.
    fn objective(&self, rule: &StageRule) -> Objective {
        match rule.objective() {
            Objective::Blocked if self.ended.is_some() => Objective::Durable,
            objective => objective,
        }
    }

    /// What there is for files of so many bytes, those that wait and those that are to come; `None` without tiers.
    pub(super) fn outlook(&mut self, rule: &StageRule, bytes: u64) -> Option<Outlook> {
        let begin = Instant::now();
        let outlook = self.look_out(rule, bytes);
        self.choosing.monitor += begin.elapsed().as_secs_f64();
        outlook
    }

    fn look_out(&mut self, rule: &StageRule, bytes: u64) -> Option<Outlook> {
        let place = self.setup.snapshot.spool.as_ref()?;
        let last = place.places.last()?;
        let held = |tier: &Arc<dyn Tier>| {
            let (left, taken) = (tier.left().bytes, tier.account().taken().bytes);
            let room = left.saturating_add(taken).min(tier.account().limit().bytes);
            // Half a file is not there.
            (room - room.checked_rem(bytes).unwrap_or(0)) as f64
        };
        let room = self.monitored.waiting.iter().map(held).sum();
        let measured = self.monitored.last.as_ref().and_then(Account::bytes_per_second);
        let drain = measured.or(last.rate).unwrap_or(USUAL_DRAIN);
        let drain = rule.drain.map_or(drain, |most| drain.min(most.0));
        let to_come = match self.ended {
            Some(_) => ToCome::NOTHING,
            None => self.planner.to_come(self.now(), drain),
        };
        let cores = self.setup.engine.jobs;
        // While the program computes one thread encodes.
        let idle_cores = if self.ended.is_some() { cores as f64 } else { self.load.idle_cores(cores).min(1.0) };
        Some(Outlook {
            queued: self.stage.to_move() as f64,
            to_come,
            memory: place.most as f64,
            room,
            drain,
            idle_cores,
            cores: cores as f64,
        })
    }

    /// Directories in tiers in which files wait.
    pub(super) fn staged_spools(&self) -> impl Iterator<Item = &Path> {
        self.setup.staged.iter().map(|(_, spool)| spool.path())
    }

    /// True if a directory lies in a tier in which files wait.
    pub(super) fn is_in_tier(&self, directory: &Path) -> bool {
        self.staged_spools().any(|spool| directory.starts_with(spool))
    }

    /// A file waits in a tier, and is to be moved to its place.
    pub(super) fn drain(&mut self, job: JobId, file: StagedFile) {
        let StagedFile { handed, repacked, to } = file;
        let Some(running) = self.jobs.end(job) else { return };
        let family = running.numbered.as_ref().map(|(family, _)| family);
        let mut file = self.waiting_file(family, &handed, &repacked);
        if let Some(numbered) = running.numbered {
            self.learn(&numbered.0, &repacked);
            self.plan_cache.end(numbered, Some(&repacked.plan));
        }
        let Some(from) = running.directory else { return };
        let to = to.unwrap_or_else(|error| {
            let path = running.path.display();
            self.setup.notices.warn(&format!("{path}: it is lost if memory is cleared: {error}"));
            None
        });
        let to = self.drop_copy_of_staged(&from, to.is_some()).or(to);
        // Otherwise what is known of it stays in memory, and so do the values, unless these were moved out of it.
        let directory = to.clone().unwrap_or_else(|| from.clone());
        let is_local = self.is_in_tier(&directory);
        // It is under way at any moment.
        self.show_staged(&directory);
        if let Some(to) = to {
            self.in_spool.known.insert(to);
            handed.staged(&from, &directory);
        } else if is_local {
            HandedOver::free_values(&directory);
        }
        if is_local {
            // Other nodes have to keep their parts until then.
            self.setup.nodes.notify(&handed, Ok(Fate::Staged));
        }
        // What is known of it is to lie beside it.
        file.family = file.family.filter(|_| is_local);
        let (target, generation) = (handed.target, handed.generation);
        self.stage.waits((generation, &target), file, is_local, self.now());
        let keys = [directory.clone(), target.clone()].map(Key::Path);
        let todo = Todo::Drain { directory, target, generation };
        self.jobs.queue.push(Class::Drain, keys, cost::MOVING, todo);
        if self.setup.names.is_awaited() {
            self.hasten();
        }
    }

    /// Who reads the file that waits for what is in a directory may do so.
    pub(super) fn show_staged(&self, directory: &Path) {
        if let Ok(path) = std::fs::read_link(directory.join(HandedOver::IMAGE))
            && self.setup.names.stage(directory, &path)
        {
            HandedOver::drop_plain(directory);
        }
    }
}

/// Brings what is known of a file that waits in a tier there. Returns the directory; `None` if it stays in memory.
pub(super) fn staged(directory: &Path, spools: &[Arc<SpoolOnDisk>]) -> Result<Option<PathBuf>> {
    let image = std::fs::read_link(directory.join(HandedOver::IMAGE)).unwrap_or_default();
    let spool = spools.iter().find(|spool| image.starts_with(spool.path()));
    spool.map_or(Ok(None), |spool| spool.copy(directory))
}
