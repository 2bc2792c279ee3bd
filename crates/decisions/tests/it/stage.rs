//! Files of route `stage` through schedules of full and lost tiers, slow links, failures, kills and restarts. What was promised is looked
//! at after each step, in `node/checks.rs`. `KNARR_SEEDS=1000000 cargo one -p knarr-decisions schedules` runs new ones too, and
//! `KNARR_SCHEDULE=17` one.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::node::Node;
use crate::schedule::{End, Event, Schedule};

fn failed(schedule: &Schedule) -> Option<String> {
    Node::run(schedule).err()
}

/// Runs these seeds. One that fails is shown as short as it gets.
fn check(seeds: impl Iterator<Item = u64>) {
    for schedule in seeds.map(Schedule::of) {
        if failed(&schedule).is_some() {
            let least = schedule.clone().shrunk(|schedule| failed(schedule).is_some());
            panic!("{}\nKNARR_SCHEDULE={}\n{least:?}", failed(&least).unwrap_or_default(), schedule.seed);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap())
}

#[test]
fn schedules_keep_what_was_promised() {
    if let Some(seed) = number("KNARR_SCHEDULE") {
        return check(std::iter::once(seed));
    }
    // The same in each run, so that a change that passes here passes elsewhere. `make soak` looks for new ones.
    check(0..100_000);
    if let Some(more) = number("KNARR_SEEDS") {
        let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() << 24;
        check(first..first + more);
    }
}

#[test]
fn schedules_reach_what_they_are_for() {
    let mut seen = crate::node::Seen::default();
    (0..2000).for_each(|seed| seen.add(&Node::run(&Schedule::of(seed)).unwrap()));
    let counts = [
        ("waited in the tier", seen.staged),
        ("went to its place at once", seen.direct),
        ("was moved", seen.moved),
        ("was moved before others", seen.hastened),
        ("was encoded anew", seen.improved),
        ("was stopped while it was encoded anew", seen.stopped),
        ("left memory in time", seen.copied),
        ("was removed", seen.removed),
        ("was recovered", seen.recovered),
        ("was lost with its tier", seen.lost),
        ("was passed by a newer one", seen.passed),
        ("stayed in the tier as a copy", seen.kept),
        ("had a copy that went", seen.dropped),
    ];
    for (what, count) in counts {
        assert!(count > 20, "a file {what}: {count} times");
    }
}

const MB: u64 = 1_000_000;

/// A schedule of what the seeds have found, or might not find again.
fn kept(events: &[(f64, Event)], end: End) {
    let schedule = Schedule { events: events.to_vec(), end, tier: 500 * MB, seed: 1 };
    assert_eq!(failed(&schedule), None, "{schedule:?}");
}

#[test]
fn versions_of_one_name_keep_their_order_though_somebody_waits() {
    let close = |bytes| Event::Close { name: 1, bytes: bytes * MB, within: None };
    let events = [(0.0, close(80)), (0.1, close(1)), (0.1, Event::Wait { name: 1 }), (0.2, Event::Ended)];
    kept(&events, End::Done);
    (1..40).for_each(|tenth| kept(&events, End::Killed(f64::from(tenth) * 0.1)));
}
