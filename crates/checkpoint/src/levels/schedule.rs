//! Which steps are brought to the directory of sets. It has no files and no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often a step is brought to the directory of sets.
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
    /// Steps that were complete since the last one was taken.
    sets: u64,
    /// When the last one was taken.
    last: Duration,
    /// The last one that was taken has not come there.
    is_overdue: bool,
}

impl Schedule {
    pub(super) fn new(every: Every) -> Self {
        Self { every, sets: 0, last: Duration::ZERO, is_overdue: false }
    }

    /// The step that was taken last has not come there: the next one is taken.
    pub(super) fn failed(&mut self) {
        self.is_overdue = true;
    }

    /// A step is complete on all nodes at the time `now` since the beginning. True if it is taken. While another one is on its way
    /// none is: then the next one.
    pub(super) fn takes(&mut self, now: Duration, is_busy: bool) -> bool {
        self.sets += 1;
        let is_due = match self.every {
            Every::Sets(sets) => self.sets >= sets,
            Every::Time(time) => now.saturating_sub(self.last) >= time,
        };
        let takes = (is_due || self.is_overdue) && !is_busy;
        if takes {
            (self.sets, self.last, self.is_overdue) = (0, now, false);
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
}
