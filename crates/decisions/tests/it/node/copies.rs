//! Copies of files that have moved, in the tier: kept, read, and removed, as decisions say.

use knarr_decisions::stage::copies::{Room, Speeds};

use super::{DRAINS, Job, Node, path};

impl Node {
    /// Now, in nanoseconds.
    pub(super) fn moment(&self) -> u128 {
        std::time::Duration::from_secs_f64(self.now).as_nanos()
    }

    /// A process reads a file that has a copy.
    pub(super) fn reads(&mut self, name: u8) {
        let now = self.moment();
        let here = self.kept.iter().filter(|(_, (of, ..))| *of == name).map(|(generation, _)| *generation);
        here.for_each(|generation| self.copies.was_read(generation, now));
    }

    /// Somebody changes a file that is in its place: that is seen at once in the run, and later otherwise.
    pub(super) fn changes(&mut self, name: u8) {
        for (generation, (of, _, is_same)) in &mut self.kept {
            if *of == name {
                *is_same = false;
                if generation % 2 == 0 {
                    self.copies.changed(*generation);
                }
            }
        }
        self.drop_copies();
    }

    /// The tier as decisions see it: copies do not count.
    pub(super) fn room_of_tier(&self) -> Room {
        let running = self.running.values().filter(|(job, _)| matches!(job, Job::Make(_)));
        let expected = running.map(|(job, _)| self.versions[&job.of()].bytes).sum();
        let limit = self.tier.saturating_sub(self.filled);
        Room { limit, taken: limit.saturating_sub(self.room()), expected, left: u64::MAX, memory: None }
    }

    /// A file of the tier is in its place.
    pub(super) fn keep(&mut self, generation: u64, (name, bytes): (u8, u64)) {
        let speeds = Speeds { tier: Some(DRAINS * 10.0), last: Some(DRAINS), are_one: false };
        let mut room = self.room_of_tier();
        room.taken += bytes;
        if self.copies.may_stay(0, bytes, &room, &speeds) {
            self.kept.insert(generation, (name, bytes, true));
            self.copies.stays(generation, &path(name), (0, bytes, self.moment()));
            self.seen.kept += 1;
        }
        self.drop_copies();
    }

    pub(super) fn settle_copies(&mut self) {
        if self.has_ended || self.is_terminated {
            self.copies.end();
        } else {
            let room = self.room_of_tier();
            self.copies.to_go(0, &room);
            // It is looked at now and then.
            let changed: Vec<u64> = self.kept.iter().filter(|(_, (.., same))| !same).map(|(of, _)| *of).collect();
            for generation in &changed {
                self.copies.changed(*generation);
            }
        }
        self.drop_copies();
    }

    /// Removes what decisions have let go.
    pub(super) fn drop_copies(&mut self) {
        let (before, left) = (self.kept.len(), self.copies.all());
        self.kept.retain(|generation, _| left.contains(generation));
        self.seen.dropped += u32::try_from(before - self.kept.len()).unwrap();
    }
}
