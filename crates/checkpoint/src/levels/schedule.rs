//! Which steps are brought to a level: the directory of sets, or a disk of each node. It has no files and no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disk::parts::Waited;

/// How often a step is brought to a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// Each so many steps.
    Sets(u64),
    /// After this time.
    Time(Duration),
}

/// Decides it after each step.
#[derive(Debug)]
pub(super) struct Schedule {
    every: Every,
    /// Time that earlier sessions waited.
    earlier: Duration,
    /// Steps that were complete, also in earlier sessions since the last one that came.
    complete: u64,
    /// When the last one was taken.
    taken: Moment,
    /// When the last one was taken that has come there.
    came: Moment,
    /// The last one that was taken has not come there.
    is_overdue: bool,
}

/// So many steps were complete then, and so long steps had been written.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    complete: u64,
    time: Duration,
}

impl Schedule {
    pub(super) fn new(every: Every) -> Self {
        let (taken, came) = (Moment::default(), Moment::default());
        Self { every, earlier: Duration::ZERO, complete: 0, taken, came, is_overdue: false }
    }

    /// The step that was taken last has not come there: the next one is taken.
    pub(super) fn failed(&mut self) {
        self.is_overdue = true;
    }

    /// The last step was complete there first, at the time `now`.
    pub(super) fn was_there_first(&mut self, now: Duration) {
        self.complete += 1;
        (self.taken, self.is_overdue) = (Moment { complete: self.complete, time: self.earlier + now }, false);
        self.came = self.taken;
    }

    /// The step that was taken last has come there.
    pub(super) fn came(&mut self) {
        self.came = self.taken;
    }

    /// How long the step that is written at the time `now` will have waited if none comes before it is complete.
    pub(super) fn waited(&self, now: Duration) -> Waited {
        let time = (self.earlier + now).saturating_sub(self.came.time);
        Waited { sets: self.complete + 1 - self.came.complete, time }
    }

    /// The program goes on at the time `now` from a step that is on the nodes and has waited. True if it is taken at once. What this
    /// session has written itself counts more than what an earlier one has left.
    pub(super) fn resumes(&mut self, waited: Waited, now: Duration, is_busy: bool) -> bool {
        if self.complete == 0 {
            (self.complete, self.earlier) = (waited.sets, waited.time);
        }
        self.takes_now(now, is_busy)
    }

    /// A step is complete on all nodes at the time `now` since the beginning. True if it is taken. While another one is on its way
    /// none is: then the next one.
    pub(super) fn takes(&mut self, now: Duration, is_busy: bool) -> bool {
        self.complete += 1;
        self.takes_now(now, is_busy)
    }

    fn takes_now(&mut self, now: Duration, is_busy: bool) -> bool {
        let time = self.earlier + now;
        let is_due = match self.every {
            Every::Sets(sets) => self.complete - self.taken.complete >= sets,
            Every::Time(every) => time.saturating_sub(self.taken.time) >= every,
        };
        let takes = (is_due || self.is_overdue) && !is_busy;
        if takes {
            (self.taken, self.is_overdue) = (Moment { complete: self.complete, time }, false);
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(every: Every, seconds: &[u64], busy: &[u64]) -> Vec<u64> {
        let mut schedule = Schedule::new(every);
        let takes = |second: &&u64| schedule.takes(Duration::from_secs(**second), busy.contains(second));
        seconds.iter().filter(takes).copied().collect()
    }

    #[test]
    fn steps_are_taken_by_their_number_or_by_time() {
        let seconds: Vec<u64> = (1..10).collect();
        assert_eq!(taken(Every::Sets(1), &seconds, &[]), seconds);
        assert_eq!(taken(Every::Sets(3), &seconds, &[]), [3, 6, 9]);
        assert_eq!(taken(Every::Time(Duration::from_secs(4)), &[1, 3, 5, 6, 8, 9, 20, 21], &[]), [5, 9, 20]);
    }

    #[test]
    fn after_one_that_has_not_come_the_next_one_is_taken() {
        let mut schedule = Schedule::new(Every::Sets(3));
        let mut takes = |second| schedule.takes(Duration::from_secs(second), false);
        assert_eq!([1, 2, 3].map(&mut takes), [false, false, true]);
        schedule.failed();
        let mut takes = |second| schedule.takes(Duration::from_secs(second), false);
        assert_eq!([4, 5, 6, 7].map(&mut takes), [true, false, false, true]);
    }

    #[test]
    fn while_one_is_on_its_way_none_is_taken_and_then_the_next_one() {
        let seconds: Vec<u64> = (1..10).collect();
        assert_eq!(taken(Every::Sets(2), &seconds, &[2, 3, 4, 5]), [6, 8]);
        assert_eq!(taken(Every::Time(Duration::from_secs(3)), &seconds, &[3, 4]), [5, 8]);
    }

    #[test]
    fn programs_that_are_stopped_before_one_is_due_bring_one_together() {
        let (mut waited, mut brought) = (Waited::default(), Vec::new());
        for run in 0..5 {
            let mut schedule = Schedule::new(Every::Sets(10));
            if run > 0 && schedule.resumes(waited, Duration::ZERO, false) {
                brought.push((run, 0));
                schedule.came();
            }
            // Each is stopped after its fourth step.
            for step in 1..5 {
                waited = schedule.waited(Duration::from_secs(step));
                if schedule.takes(Duration::from_secs(step), false) {
                    brought.push((run, step));
                    schedule.came();
                }
            }
        }
        assert_eq!(brought, [(2, 2), (4, 4)]);
    }

    #[test]
    fn one_that_was_on_its_way_when_the_program_stopped_is_taken_at_once() {
        let mut schedule = Schedule::new(Every::Sets(2));
        assert!(!schedule.takes(Duration::from_secs(1), false));
        let waited = schedule.waited(Duration::from_secs(2));
        assert!(schedule.takes(Duration::from_secs(2), false));
        let mut next = Schedule::new(Every::Sets(2));
        assert!(next.resumes(waited, Duration::ZERO, false) && !next.takes(Duration::from_secs(1), false));
        // By time, with that which earlier programs had.
        let time = Every::Time(Duration::from_secs(10));
        let waited = |seconds| Waited { sets: 1, time: Duration::from_secs(seconds) };
        assert!(Schedule::new(time).resumes(waited(10), Duration::ZERO, false));
        let mut next = Schedule::new(time);
        assert!(!next.resumes(waited(7), Duration::from_secs(1), false));
        assert!(!next.takes(Duration::from_secs(2), false) && next.takes(Duration::from_secs(3), false));
    }

    #[test]
    fn one_that_was_complete_there_first_begins_a_new_period() {
        let mut schedule = Schedule::new(Every::Sets(3));
        let second = Duration::from_secs;
        assert!(!schedule.takes(second(1), false) && !schedule.takes(second(2), false));
        schedule.was_there_first(second(3));
        assert_eq!([4, 5, 6].map(|now| schedule.takes(second(now), false)), [false, false, true]);
        let mut schedule = Schedule::new(Every::Time(second(10)));
        schedule.was_there_first(second(8));
        assert_eq!([12, 17, 18].map(|now| schedule.takes(second(now), false)), [false, false, true]);
    }
}
