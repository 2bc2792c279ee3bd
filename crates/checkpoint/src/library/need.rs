//! Whether a program should write a checkpoint now: when the interval is over that loses the least time (see
//! [`interval`](crate::interval)), and before the job ends.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::interval::Costs;

/// How often jobs fail where nobody says it.
pub(super) const MTBF: Duration = Duration::from_secs(24 * 3600);
/// Variables that say when the job ends, in seconds since 1970: that of the user, and that of Slurm.
const ENDS: [&str; 2] = ["KNARR_JOB_END", "SLURM_JOB_END_TIME"];
/// A checkpoint may take so many times as long as the last one.
const RESERVE: u32 = 2;

/// What is known when the program asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Since the last checkpoint was handed over, if one was, or else since the program has begun.
    pub(super) since: Duration,
    pub(super) has_one: bool,
    /// The time between the last two questions, that of a step, and the longest one.
    pub(super) step: Duration,
    pub(super) longest: Duration,
    /// For how long the last checkpoint stopped the program, if that was measured.
    pub(super) cost: Option<Duration>,
    /// From its commit until it was complete.
    pub(super) packing: Duration,
    /// Mean time between failures that end the program.
    pub(super) mtbf: Duration,
    /// Until the job ends, if that is known.
    pub(super) left: Option<Duration>,
    /// The checkpoint before is not complete.
    pub(super) is_packing: bool,
}

impl Known {
    /// True if a checkpoint should be written now.
    pub(super) fn is_due(&self) -> bool {
        // The first one tells what one costs.
        let Some(cost) = self.cost else { return !self.is_packing };
        self.is_last(cost) || !self.is_packing && self.is_over(cost)
    }

    /// The interval is over, or will be nearer now than when the program asks again.
    fn is_over(&self, cost: Duration) -> bool {
        let costs = Costs { checkpoint: cost, restart: Duration::ZERO, mtbf: self.mtbf };
        self.since.as_secs_f64() + self.step.as_secs_f64() / 2.0 >= costs.daly()
    }

    /// When the program asks again it is too late for one that is complete before the job ends, and now it is not.
    fn is_last(&self, cost: Duration) -> bool {
        let Some(left) = self.left else { return false };
        // What was measured may be any number.
        let takes = cost.saturating_add(self.packing);
        let window = takes.saturating_add(self.longest).saturating_mul(RESERVE);
        // One that was begun within that time is the last one. One that is packed has to be complete first.
        let has_last = self.has_one && self.since.saturating_add(left) < window;
        let first = if self.is_packing { self.packing } else { Duration::ZERO };
        left > takes.saturating_add(first) && left < window && !has_last
    }
}

/// Until the job ends: at `end`, in seconds since 1970, or when the batch system says. `None` if nobody does.
pub(super) fn left(end: Option<u64>) -> Option<Duration> {
    let told = || ENDS.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok());
    let end = UNIX_EPOCH.checked_add(Duration::from_secs(end.or_else(told)?))?;
    Some(end.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    const KNOWN: Known = Known {
        since: seconds(0),
        has_one: true,
        step: seconds(10),
        longest: seconds(10),
        cost: Some(seconds(5)),
        packing: seconds(20),
        mtbf: seconds(8 * 3600),
        left: None,
        is_packing: false,
    };

    /// Seconds since the begin at which a program writes checkpoints whose steps take 10 s, within `ends`.
    fn written(known: Known, ends: u64) -> Vec<u64> {
        let (mut last, mut all) = (0, Vec::new());
        for now in (10..ends).step_by(10) {
            let left = known.left.map(|_| seconds(ends - now));
            let is_packing = !all.is_empty() && seconds(now - last) < known.packing;
            if (Known { since: seconds(now - last), left, is_packing, ..known }).is_due() {
                last = now;
                all.push(now);
            }
        }
        all
    }

    #[test]
    fn checkpoints_come_as_often_as_loses_the_least() {
        // Daly: sqrt(2 * 5 * 28800) = 537 s, and 5 s less and 1.7 s more.
        assert_eq!(written(KNOWN, 2000), [530, 1060, 1590]);
        let rare = Known { mtbf: seconds(80 * 3600), ..KNOWN };
        assert_eq!(written(rare, 2000), [1690]);
    }

    #[test]
    fn the_first_one_tells_what_it_costs_and_none_comes_while_one_is_packed() {
        assert!(Known { cost: None, ..KNOWN }.is_due() && !Known { cost: None, is_packing: true, ..KNOWN }.is_due());
        let over = Known { since: seconds(5000), ..KNOWN };
        assert!(over.is_due() && !Known { is_packing: true, ..over }.is_due());
        // It costs nothing: each step has one, and they do not wait for each other.
        let free = Known { cost: Some(Duration::ZERO), ..KNOWN };
        assert_eq!(written(free, 100), [10, 30, 50, 70, 90]);
    }

    #[test]
    fn one_is_complete_before_the_job_ends() {
        // It takes 25 s: at 1990 it would be too late.
        let ends = Known { left: Some(seconds(0)), mtbf: seconds(1 << 30), ..KNOWN };
        assert_eq!(written(ends, 2000), [1940], "and only one");
        // One that is packed is no reason to lose what came after it, if both will be complete.
        let late = Known { since: seconds(100), is_packing: true, ..KNOWN };
        assert!(Known { left: Some(seconds(50)), ..late }.is_due());
        assert!(!Known { left: Some(seconds(40)), ..late }.is_due(), "it would not be complete");
        assert!(!Known { left: Some(seconds(20)), since: seconds(100), ..KNOWN }.is_due(), "nor this one");
        let begun = Known { left: Some(seconds(40)), has_one: false, ..KNOWN };
        assert!(begun.is_due() && !Known { has_one: true, ..begun }.is_due(), "there is none of what was computed");
        assert!(!Known { packing: Duration::MAX, left: Some(seconds(40)), ..KNOWN }.is_due());
    }
}
