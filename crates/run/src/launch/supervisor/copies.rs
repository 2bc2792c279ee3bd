//! Copies of files that are in their places, in the tiers in which they have waited: which stay is decided in
//! [`knarr_decisions::stage::copies`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use knarr_capture::HandedOver;
use knarr_decisions::stage::copies::{Copies, Room, Speeds};
use knarr_names::Identity;
use knarr_tier::{Account, Purpose, available_memory, is_in_memory};

use super::Supervisor;
use super::running_jobs::Todo;
use crate::launch::jobs::stage::kept::{Keeping, KeptCopy};
use crate::launch::jobs::stage::room::HEADER;
use crate::launch::news::News;

/// How often is looked whether a process has given a copy up, and whether the files are what they were. Nobody is led to a copy of one
/// that is not: this only gives its room back.
const LOOK_FOR_LINKS: Duration = Duration::from_secs(1);
const LOOK_AT_FILES: Duration = Duration::from_secs(10);

/// Copies, and where they lie.
pub(super) struct KeptCopies {
    decisions: Copies,
    lie: BTreeMap<u64, KeptCopy>,
    looked: [Instant; 2],
}

impl Default for KeptCopies {
    fn default() -> Self {
        Self { decisions: Copies::default(), lie: BTreeMap::new(), looked: [Instant::now(); 2] }
    }
}

/// What copies of files were good for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopiesUsed {
    /// Files that had one.
    pub files: u64,
    /// The most bytes that they took at a time.
    pub most_bytes: u64,
    /// How often one was opened to read.
    pub reads: u64,
}

impl Supervisor<'_> {
    /// What keeps a file in its tier that is about to move to its place; `None` if no copy is to stay.
    pub(super) fn keeping(&self, directory: &Path, handed: &HandedOver) -> Option<Keeping> {
        let place = self.setup.snapshot.spool.as_ref()?;
        let image = HandedOver::whole_path(directory)?;
        let (tier, spool) = self.setup.staged.iter().find(|(_, spool)| image.starts_with(spool.path()))?;
        let (here, last) = (place.places.get(*tier)?, place.places.last()?);
        // What is in a bucket has no name here.
        if handed.rule.place.is_some() || !self.setup.names.are_seen() {
            return None;
        }
        let measured = |number: usize| place.account(number).as_ref().and_then(Account::bytes_per_second);
        let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
        let are_real = here.rate.is_none() && last.rate.is_none();
        let speeds = Speeds {
            tier: here.rate.or_else(|| measured(*tier)),
            last: last.rate.or_else(|| measured(place.places.len() - 1)),
            are_one: are_real && handed.target.parent().is_some_and(|parent| device(parent) == device(spool.path())),
        };
        let waits_in = self.monitored.waiting.get(*tier)?;
        let bytes = waits_in.counts(&fs::metadata(&image).ok()?, Purpose::Values);
        let (names, send) = (self.setup.names.clone(), self.send.clone());
        self.copies.decisions.may_stay(*tier, bytes, &self.room(*tier)?, &speeds).then(|| Keeping {
            generation: handed.generation,
            tier: *tier,
            lead: Box::new(move |name, path| names.keep(name, path)),
            tell: Box::new(move |copy| drop(send.send(News::Kept(copy)))),
        })
    }

    /// A copy stays in a tier.
    pub(super) fn kept(&mut self, copy: KeptCopy) {
        let (generation, target) = (copy.generation, copy.target.clone());
        let of_copy = (copy.tier, copy.bytes, nanoseconds(SystemTime::now()));
        self.copies.lie.insert(generation, copy);
        let gone = self.copies.decisions.stays(generation, &target, of_copy);
        self.drop_copies(gone);
    }

    /// A version of a file is in its place.
    pub(super) fn drop_older_copies(&mut self, target: &Path, generation: u64) {
        let gone = self.copies.decisions.replaced(target, generation);
        self.drop_copies(gone);
    }

    /// Drops the copies that have to go.
    pub(super) fn settle_copies(&mut self) {
        if self.ended.is_some() || self.setup.signals.is_terminated() {
            let gone = self.copies.decisions.end();
            return self.drop_copies(gone);
        }
        if self.copies.lie.is_empty() {
            return;
        }
        self.look_at_copies();
        for (tier, _) in &self.setup.staged {
            let tier = *tier;
            if self.copies.decisions.bytes_in(tier) > 0
                && let Some(room) = self.room(tier)
                && self.copies.decisions.are_to_go(tier, &room)
            {
                self.drop_changed(false);
                let gone = self.copies.decisions.to_go(tier, &room);
                self.drop_copies(gone);
            }
        }
    }

    /// Drops those of files that are not what they were, and hears when the others were read.
    fn look_at_copies(&mut self) {
        let [of_links, of_files] = self.copies.looked.map(|looked| looked.elapsed());
        if of_links < LOOK_FOR_LINKS {
            return;
        }
        let looks_at_files = of_files >= LOOK_AT_FILES;
        self.copies.looked = [Instant::now(), if looks_at_files { Instant::now() } else { self.copies.looked[1] }];
        self.drop_changed(looks_at_files);
    }

    /// Hears when copies were read, and drops those that somebody has given up, and if it `looks_at_files` those of files that have changed.
    fn drop_changed(&mut self, looks_at_files: bool) {
        let mut gone = Vec::new();
        for (generation, copy) in &self.copies.lie {
            let is_same = || {
                let found = rustix::fs::stat(&copy.target).ok();
                found.and_then(|found| Identity::of(&found)).is_some_and(|identity| identity.name() == copy.name)
            };
            match self.setup.names.copy_was_read(&copy.name).filter(|_| !looks_at_files || is_same()) {
                Some(read) => self.copies.decisions.was_read(*generation, nanoseconds(read)),
                None => gone.push(*generation),
            }
        }
        for generation in &gone {
            self.copies.decisions.changed(*generation);
        }
        self.drop_copies(gone);
    }

    /// What there is of a tier.
    fn room(&self, tier: usize) -> Option<Room> {
        let path = &self.setup.snapshot.spool.as_ref()?.places.get(tier)?.path;
        let tier = self.monitored.waiting.get(tier)?;
        let made = self.jobs.running.values().map(|job| match job.todo {
            Todo::Deliver { bytes, .. } => bytes.saturating_add(HEADER),
            _ => 0,
        });
        let account = tier.account();
        Some(Room {
            limit: account.limit().bytes,
            taken: account.taken().bytes,
            expected: made.fold(0, u64::saturating_add),
            left: tier.left().bytes,
            memory: is_in_memory(path).then(|| available_memory().unwrap_or(0)),
        })
    }

    fn drop_copies(&mut self, gone: Vec<u64>) {
        for copy in gone.iter().filter_map(|generation| self.copies.lie.remove(generation)) {
            self.setup.names.drop_copy(&copy.name);
            // What stays goes with the spool in that tier.
            let _ = fs::remove_file(copy.path);
        }
    }

    /// What copies were good for.
    pub(in crate::launch) fn copies_used(&self) -> CopiesUsed {
        let (files, most_bytes) = self.copies.decisions.totals();
        CopiesUsed { files, most_bytes, reads: self.setup.names.copies_read() }
    }
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
