//! What was promised of files, and is looked at after each step, and at the end.

use std::collections::BTreeSet;

use knarr_decisions::queue::JobId;

use super::{Checked, Job, Node, SOON, Seen, Version};

impl Node {
    /// A file begins to move, that of a job.
    pub(super) fn check_move(&mut self, id: JobId, generation: u64, is_awaited: bool) -> Checked {
        let moves = |job: &&Job| matches!(job, Job::Move(_));
        let name = |of: u64| self.versions[&of].name;
        let waiting = self.queue.waiting().filter(moves).map(|job| job.of());
        let waiting: Vec<u64> = waiting.chain([generation]).collect();
        if let Some(earlier) =
            self.came.iter().find(|earlier| waiting.contains(earlier) && name(**earlier) == name(generation))
            && *earlier != generation
        {
            return Err(format!("{generation} moves before {earlier}, which came before it"));
        }
        if is_awaited {
            self.seen.hastened += 1;
            return Ok(());
        }
        if let Some(other) = self.running.iter().find(|(other, (job, _))| **other != id && moves(&job)) {
            return Err(format!("{generation} moves beside {other:?}"));
        }
        match waiting.iter().min() {
            Some(oldest) if name(*oldest) != name(generation) => Err(format!("{generation} moves before {oldest}")),
            _ => Ok(()),
        }
    }

    /// What is encoded anew ends soon when the link waits for it, or anything else is to be done.
    fn check_improving(&mut self) -> Checked {
        let encoded = self.running.values().find_map(|(job, _)| match job {
            Job::Improve(generation, _) => Some(*generation),
            _ => None,
        });
        let others_wait = self.is_terminated || !self.waited_for.is_empty() || self.has_more();
        if encoded.is_none() || self.stage.next() != encoded && !others_wait {
            self.others_wait = None;
        } else if self.now - *self.others_wait.get_or_insert(self.now) > 2.0 * SOON {
            return Err(format!("others wait, and {encoded:?} is encoded anew"));
        }
        Ok(())
    }

    /// What somebody waits for moves if it is the next thing to do with its file, unless as many others as there are threads are under
    /// way that somebody waits for.
    fn check_awaited(&self) -> Checked {
        let others = self.running.values().filter(|(_, is_awaited)| *is_awaited).count();
        let mut busy: BTreeSet<u8> = self.running.values().map(|(job, _)| self.versions[&job.of()].name).collect();
        for job in self.queue.waiting() {
            let name = self.versions[&job.of()].name;
            let is_next = busy.insert(name) && matches!(job, Job::Move(_));
            if is_next && self.waited_for.contains(&name) && others < self.threads() {
                return Err(format!("somebody waits for file {name}, and {} does not move", job.of()));
            }
        }
        Ok(())
    }

    pub(super) fn has_more(&self) -> bool {
        let is_more = |job: &Job| matches!(job, Job::Make(_));
        self.queue.waiting().any(is_more) || self.running.values().any(|(job, _)| is_more(job))
    }

    pub(super) fn check(&mut self) -> Checked {
        self.check_improving()?;
        self.check_awaited()?;
        self.check_copies()?;
        for (generation, version) in &self.versions {
            let is_due = self.due.get(&version.name).is_some_and(|due| due.contains(generation));
            if is_due && !version.in_memory && !version.copied && version.image.is_none() {
                return Err(format!("{generation} was accepted, and is nowhere"));
            }
            let is_late = version.local_by.is_some_and(|by| by < self.now) && !version.is_local;
            if is_late && version.image.is_none() && !version.was_named && !self.is_terminated {
                return Err(format!("{generation} has to be local, and was not named"));
            }
        }
        for (name, due) in &self.due {
            for generation in due {
                if !self.versions.contains_key(generation) {
                    return Err(format!("{generation} of file {name} was accepted, and nobody knows it"));
                }
            }
        }
        Ok(())
    }

    /// Copies are of files in their places, as they are, and cost nobody room.
    fn check_copies(&self) -> Checked {
        for (generation, (name, ..)) in &self.kept {
            if self.placed.get(name) != Some(generation) {
                return Err(format!("{generation} has a copy, and {:?} is in its place", self.placed.get(name)));
            }
        }
        if let Some((of, _)) = self.kept.iter().find(|(_, (.., is_same))| !is_same) {
            return Err(format!("{of} was changed, and has a copy"));
        }
        if (self.has_ended || self.is_terminated) && !self.kept.is_empty() {
            return Err(format!("copies stay: {:?}", self.kept));
        }
        let bytes: u64 = self.kept.values().map(|(_, bytes, _)| bytes).sum();
        if bytes > 0 && bytes > self.room() {
            return Err(format!("copies take {bytes} bytes, and {} are left", self.room()));
        }
        Ok(())
    }

    /// All that was to be done is done.
    pub(super) fn check_end(self) -> Result<Seen, String> {
        if self.queue.is_waiting() || self.queue.is_running() {
            return Err(format!("nothing more happens, and jobs wait: {:?}; {:?}", self.queue, self.stage));
        }
        let left = |(name, due): (&u8, &BTreeSet<u64>)| due.last().map(|last| (*name, *last));
        if let Some(left) = self.due.iter().find_map(left) {
            return Err(format!("file {} never came to its place: {}", left.0, left.1));
        }
        if self.stage.next().is_some() || self.stage.to_move() > 0 {
            return Err(format!("all is done, and files wait: {:?}", self.stage));
        }
        if self.stage.latencies() != self.longest {
            return Err(format!("it took {:?}, and is said to have taken {:?}", self.longest, self.stage.latencies()));
        }
        Ok(self.seen)
    }

    /// Everything stops at this moment, and what is left is recovered: the versions in their order.
    pub(super) fn recovered(mut self, clears_memory: bool) -> Result<Seen, String> {
        for (generation, version) in self.versions.clone() {
            let Version { name, in_memory, copied, image, is_local, .. } = version;
            let is_left =
                in_memory && !clears_memory || copied || image.is_some_and(|(_, is_known)| is_known || !clears_memory);
            let is_due = self.due.get(&name).is_some_and(|due| due.contains(&generation));
            if is_left {
                self.seen.recovered += 1;
                self.placed.insert(name, generation);
            } else if is_due && (is_local || !clears_memory) {
                return Err(format!("{generation} was promised to survive, and has not"));
            }
        }
        for (name, due) in &self.due {
            // What was not local may be gone with the memory, and an older version may be all that there is.
            let newest = due.last().filter(|newest| self.versions[newest].is_local || !clears_memory);
            if newest.is_some_and(|newest| self.placed.get(name) < Some(newest)) {
                return Err(format!(
                    "file {name} is not {newest:?} after all was recovered: {:?}",
                    self.placed.get(name)
                ));
            }
        }
        Ok(self.seen)
    }
}
