//! What a decision of route `stage` takes: `cargo bench -p knarr-decisions --bench decision`. One is made for each file. Nanoseconds,
//! the best of several rounds.

use std::ffi::OsString;
use std::hint::black_box;
use std::time::Instant;

use knarr_choose::place::objective::Objective;
use knarr_choose::place::outlook::Outlook;
use knarr_decisions::plan_cache::Family;
use knarr_decisions::planner::Planner;

const ROUNDS: usize = 9;
const TIMES: u32 = 2000;

/// The least nanoseconds that one `run` takes.
fn nanoseconds<T>(mut run: impl FnMut() -> T) -> f64 {
    let mut round = || {
        let begin = Instant::now();
        for _ in 0..TIMES {
            black_box(run());
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let mut planner = Planner::default();
    for step in 0..5u32 {
        planner.closed(60_000_000, f64::from(step) * 1.5);
    }
    let to_come = planner.to_come(7.0, 29e6);
    let outlook =
        Outlook { queued: 50e6, to_come, memory: 72e6, room: 144e6, drain: 29e6, idle_cores: 0.5, cores: 2.0 };
    let family = Family::of_names(0, Some(OsString::from("h5")));
    for count in [0, 1, 8, 64] {
        let waiting = vec![(family.clone(), 60_000_000); count];
        let level = || planner.level((&family, 60_000_000), &waiting, &outlook, Objective::Blocked);
        println!("level of a file while {count} wait: {:.0} ns", nanoseconds(level));
    }
    let urgent = || black_box(outlook).is_urgent(60e6, Objective::Blocked);
    println!("whether it takes time of the program: {:.1} ns", nanoseconds(urgent));
    let mut noting = Planner::default();
    let mut at = 0.0;
    let closed = || {
        at += 1.5;
        noting.closed(60_000_000, at);
    };
    println!("noting that a file was closed: {:.1} ns", nanoseconds(closed));
}
