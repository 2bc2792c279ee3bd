//! How long to compute between two checkpoints: too often costs time, too rarely loses work.
//!
//! - J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17(9),
//!   1974: √(2δM).
//! - J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
//!   Computer Systems 22(3), 2006: its series for the best interval, and its complete model of the run time, which
//!   counts failures while a checkpoint is written and while the program restarts.

use knarr_array::error::{Error, Result};
use std::time::Duration;

/// What is known of a program and its machine. Failures come independently of each other and of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// δ: for how long a checkpoint stops the program.
    pub checkpoint: Duration,
    /// R: from a failure until the program computes again.
    pub restart: Duration,
    /// M: mean time between failures that end the program, over all nodes it runs on.
    pub mtbf: Duration,
}

impl Costs {
    /// # Errors
    /// `Usage` if a checkpoint costs nothing or failures come all the time: then no interval is the best.
    pub fn check(&self) -> Result<()> {
        if self.checkpoint.is_zero() {
            return Err(Error::usage("a checkpoint that costs no time may be written all the time")
                .hint("give the time for which it stops the program"));
        }
        if self.mtbf.is_zero() {
            return Err(Error::usage("the mean time between failures is 0")
                .hint("give that of the whole job: the time of one node divided by the number of nodes"));
        }
        Ok(())
    }

    /// Young's interval: seconds of computing between the end of a checkpoint and the begin of the next.
    pub fn young(&self) -> f64 {
        let (cost, _, mtbf) = self.seconds();
        (2.0 * cost * mtbf).sqrt()
    }

    /// Daly's interval, in seconds as for [`Costs::young`]; the mean time between failures if checkpoints take more
    /// than twice that.
    pub fn daly(&self) -> f64 {
        let (cost, _, mtbf) = self.seconds();
        if cost >= 2.0 * mtbf {
            return mtbf;
        }
        let ratio = cost / (2.0 * mtbf);
        (2.0 * cost * mtbf).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost
    }

    /// Expected run time with checkpoints after every `interval` seconds of computing, as a multiple of the time that
    /// the program would run without checkpoints and failures.
    pub fn run_time(&self, interval: f64) -> f64 {
        let (cost, restart, mtbf) = self.seconds();
        mtbf * (restart / mtbf).exp() * ((interval + cost) / mtbf).exp_m1() / interval
    }

    fn seconds(&self) -> (f64, f64, f64) {
        (self.checkpoint.as_secs_f64(), self.restart.as_secs_f64(), self.mtbf.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(checkpoint: f64, restart: f64, mtbf: f64) -> Costs {
        let seconds = Duration::from_secs_f64;
        Costs { checkpoint: seconds(checkpoint), restart: seconds(restart), mtbf: seconds(mtbf) }
    }

    /// Failures drawn one by one, as they would come.
    fn simulated(costs: &Costs, interval: f64, segments: u32) -> f64 {
        let (cost, restart, mtbf) = costs.seconds();
        let mut state = 1u64;
        let mut next_failure = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
            let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -mtbf * uniform.ln()
        };
        let (mut total, mut left) = (0.0, next_failure());
        let mut take = |needed: f64, total: &mut f64| {
            if left >= needed {
                left -= needed;
                *total += needed;
                return true;
            }
            *total += left;
            left = next_failure();
            false
        };
        for _ in 0..segments {
            while !take(interval + cost, &mut total) {
                while !take(restart, &mut total) {}
            }
        }
        total / (f64::from(segments) * interval)
    }

    #[test]
    fn run_times_are_those_of_failures_drawn_by_lot() {
        for costs in [costs(60.0, 120.0, 3600.0), costs(300.0, 600.0, 1800.0), costs(5.0, 10.0, 86_400.0)] {
            let interval = costs.daly();
            let (expected, drawn) = (costs.run_time(interval), simulated(&costs, interval, 200_000));
            assert!((expected / drawn - 1.0).abs() < 0.01, "{costs:?}: {expected} {drawn}");
        }
    }

    #[test]
    fn the_interval_is_the_best_one() {
        for costs in [costs(12.0, 30.0, 28_800.0), costs(300.0, 300.0, 3600.0), costs(1.0, 0.0, 1e6)] {
            let best = costs.run_time(costs.daly());
            for factor in [0.5, 0.8, 1.25, 2.0] {
                assert!(costs.run_time(costs.daly() * factor) > best, "{costs:?} {factor}");
            }
            assert!(best <= costs.run_time(costs.young()) * 1.000_001, "{costs:?}");
        }
        // Rare failures: both say the same. Checkpoints that take longer than the machine lasts: once is enough.
        let rare = costs(1.0, 1.0, 1e9);
        assert!((rare.daly() / rare.young() - 1.0).abs() < 1e-4);
        assert!((costs(100.0, 1.0, 40.0).daly() - 40.0).abs() < 1e-9);
    }

    #[test]
    fn what_gives_no_interval_is_refused() {
        assert!(costs(0.0, 1.0, 1.0).check().is_err());
        assert!(costs(1.0, 1.0, 0.0).check().is_err());
        assert!(costs(1.0, 0.0, 1.0).check().is_ok());
    }
}
