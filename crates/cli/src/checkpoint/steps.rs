//! What became of the restart files of each time step: which are there, since when they rest, which are missing. Touches
//! no file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use knarr_core::error::{Error, ErrorKind};

use crate::run::processes::Identity;

/// A restart file as a look at the directory found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) step: u64,
    pub(super) rank: u64,
    pub(super) path: PathBuf,
    pub(super) state: State,
    /// For how long it has not been written to, as its file system says.
    pub(super) age: Duration,
}

/// What changes when a file is written to or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) identity: Identity,
    pub(super) length: u64,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, i64),
}

/// All files of a time step, by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complete {
    pub(super) step: u64,
    pub(super) files: BTreeMap<u64, (PathBuf, State)>,
}

/// What is asked of the files.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// The ranks that write.
    pub(super) ranks: RangeInclusive<u64>,
    /// A file that was not written to for so long is finished.
    pub(super) settle: Duration,
    /// For how long a step waits for the next of its files, and after its set could not be written.
    pub(super) patience: Duration,
    /// Steps that are written again after they were packed are packed again.
    pub(super) force: bool,
}

/// The time steps that have files.
#[derive(Debug)]
pub(super) struct Steps {
    rules: Rules,
    steps: BTreeMap<u64, Step>,
    /// Steps with two files of one rank: which of them counts is not ours to say.
    doubled: BTreeSet<u64>,
    /// Files of which was told already that they are in the way.
    told: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Step {
    files: BTreeMap<u64, File>,
    /// When a file of it came or changed last.
    news: Instant,
    stage: Stage,
    /// When it may be tried again after its set could not be written.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    state: State,
    /// Since when it has had this state.
    since: Instant,
    age: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its files come.
    Gathering,
    /// Its missing ranks were told.
    Overdue,
    /// Its set is there.
    Packed,
    /// Its set is there, and files that are newer were told.
    Rewritten,
    /// Files of it went away, which was told.
    Broken,
}

impl Steps {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, steps: BTreeMap::new(), doubled: BTreeSet::new(), told: BTreeSet::new() }
    }

    /// Takes note of everything that is there `now`. Returns what is wrong, once.
    pub(super) fn look(&mut self, found: Vec<Found>, now: Instant) -> Vec<Error> {
        let mut troubles = Vec::new();
        let mut present: BTreeSet<(u64, u64)> = BTreeSet::new();
        self.doubled.clear();
        for file in found {
            if !self.rules.ranks.contains(&file.rank) {
                if self.told.insert(file.path.clone()) {
                    troubles.push(self.foreign(&file));
                }
                continue;
            }
            if !present.insert((file.step, file.rank)) {
                self.doubled.insert(file.step);
                if self.told.insert(file.path.clone()) {
                    troubles.push(doubled(&file));
                }
                continue;
            }
            troubles.extend(self.note(file, now));
        }
        troubles.extend(self.forget(&present));
        troubles.extend(self.overdue(now));
        troubles
    }

    fn note(&mut self, file: Found, now: Instant) -> Option<Error> {
        let empty = || Step { files: BTreeMap::new(), news: now, stage: Stage::Gathering, not_before: None };
        let step = self.steps.entry(file.step).or_insert_with(empty);
        let known = step.files.get_mut(&file.rank);
        if let Some(known) = known.filter(|known| known.state == file.state && known.path == file.path) {
            known.age = file.age;
            return None;
        }
        let Found { step: number, rank, path, state, age } = file;
        let place = path.display().to_string();
        step.files.insert(rank, File { path, state, since: now, age });
        step.news = now;
        match step.stage {
            Stage::Packed if !self.rules.force => {
                step.stage = Stage::Rewritten;
                Some(again(number, &place))
            }
            Stage::Packed | Stage::Broken => {
                step.stage = Stage::Gathering;
                None
            }
            Stage::Gathering | Stage::Overdue | Stage::Rewritten => None,
        }
    }

    /// Files that are gone are no longer waited with.
    fn forget(&mut self, present: &BTreeSet<(u64, u64)>) -> Vec<Error> {
        let mut troubles = Vec::new();
        self.steps.retain(|number, step| {
            let before = step.files.len();
            step.files.retain(|rank, _| present.contains(&(*number, *rank)));
            if step.files.len() < before && matches!(step.stage, Stage::Gathering | Stage::Overdue) {
                step.stage = Stage::Broken;
                troubles.push(
                    Error::new(ErrorKind::NotFound, "files were removed before they were packed")
                        .mend("let the program keep more of its restart files, or remove them with --remove")
                        .at(format!("step {number}")),
                );
            }
            !step.files.is_empty() || matches!(step.stage, Stage::Packed | Stage::Rewritten)
        });
        troubles
    }

    fn overdue(&mut self, now: Instant) -> Vec<Error> {
        let mut troubles = Vec::new();
        for (number, step) in &mut self.steps {
            let waited = now.saturating_duration_since(step.news);
            if step.stage != Stage::Gathering || waited < self.rules.patience {
                continue;
            }
            let missing = missing(&self.rules.ranks, &step.files);
            if !missing.is_empty() {
                step.stage = Stage::Overdue;
                troubles.push(
                    Error::new(ErrorKind::NotFound, format!("no file of {missing} came"))
                        .mend("see why these ranks did not write; should they still do so, the step is packed")
                        .at(format!("step {number}")),
                );
            }
        }
        troubles
    }

    /// The first step whose files are all there and finished, if nobody writes to them.
    pub(super) fn complete(&self, now: Instant) -> Option<Complete> {
        let settle = self.rules.settle;
        let rests = |file: &File| now.saturating_duration_since(file.since) >= settle || file.age >= settle;
        let (number, step) = self.whole(now).find(|(_, step)| step.files.values().all(rests))?;
        let files = step.files.iter().map(|(rank, file)| (*rank, (file.path.clone(), file.state))).collect();
        Some(Complete { step: *number, files })
    }

    /// True if all files of a step are there, finished or not.
    pub(super) fn waits_to_settle(&self, now: Instant) -> bool {
        self.whole(now).next().is_some()
    }

    fn whole(&self, now: Instant) -> impl Iterator<Item = (&u64, &Step)> {
        self.steps.iter().filter(move |(number, step)| {
            matches!(step.stage, Stage::Gathering | Stage::Overdue)
                && step.not_before.is_none_or(|when| now >= when)
                && !self.doubled.contains(number)
                && missing(&self.rules.ranks, &step.files).is_empty()
        })
    }

    /// The step is in a set.
    pub(super) fn packed(&mut self, step: u64) {
        self.stage(step, Stage::Packed);
    }

    /// The step's set could not be written: full disks are emptied, so it is tried again.
    pub(super) fn postponed(&mut self, step: u64, now: Instant) {
        if let Some(step) = self.steps.get_mut(&step) {
            step.not_before = now.checked_add(self.rules.patience);
        }
    }

    /// The step has a set, and files that are newer.
    pub(super) fn rewritten(&mut self, step: u64) {
        self.stage(step, Stage::Rewritten);
    }

    /// Somebody still writes to the step's files: they are waited for anew.
    pub(super) fn restless(&mut self, step: u64, now: Instant) {
        if let Some(step) = self.steps.get_mut(&step) {
            step.news = now;
            for file in step.files.values_mut() {
                (file.since, file.age) = (now, Duration::ZERO);
            }
        }
    }

    fn stage(&mut self, step: u64, stage: Stage) {
        if let Some(step) = self.steps.get_mut(&step) {
            step.stage = stage;
        }
    }

    /// What is left undone of which was not told yet.
    pub(super) fn unfinished(&self) -> Vec<Error> {
        let waiting = self.steps.iter().filter(|(_, step)| step.stage == Stage::Gathering);
        waiting
            .map(|(number, step)| {
                let missing = missing(&self.rules.ranks, &step.files);
                let why =
                    if missing.is_empty() { "was not packed".to_owned() } else { format!("has no file of {missing}") };
                Error::new(ErrorKind::Interrupted, format!("step {number} {why}")).mend("watch again to pack it")
            })
            .collect()
    }

    fn foreign(&self, file: &Found) -> Error {
        let (first, last) = self.rules.ranks.clone().into_inner();
        Error::usage(format!("rank {} is not one of {first} to {last}", file.rank))
            .mend("correct --ranks")
            .at(file.path.display().to_string())
    }
}

fn doubled(file: &Found) -> Error {
    Error::usage(format!("rank {} of step {} has another file already", file.rank, file.step))
        .mend("remove one of them, or give a pattern that only one of them has")
        .at(file.path.display().to_string())
}

/// A step that has a set is there with newer files.
pub(super) fn again(step: u64, place: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("step {step} was packed already, and is written again"))
        .mend("its set is kept as it was; remove the set and start anew to pack these files, or use --force")
        .at(place.to_owned())
}

/// Ranks without a file, as ranges.
fn missing(ranks: &RangeInclusive<u64>, files: &BTreeMap<u64, File>) -> Ranges {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    let mut next = *ranks.start();
    for &rank in files.keys() {
        if rank > next {
            ranges.push(next..=rank - 1);
        }
        next = rank.saturating_add(1);
    }
    if next <= *ranks.end() && !files.contains_key(ranks.end()) {
        ranges.push(next..=*ranks.end());
    }
    Ranges(ranges)
}

/// Ranks in words: `rank 3`, `ranks 3, 17-19`.
#[derive(Debug)]
struct Ranges(Vec<RangeInclusive<u64>>);

impl Ranges {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |range: &RangeInclusive<u64>| match range.clone().into_inner() {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let words: Vec<String> = self.0.iter().map(word).collect();
        let is_one = matches!(self.0.as_slice(), [one] if one.start() == one.end());
        write!(f, "{} {}", if is_one { "rank" } else { "ranks" }, words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(2);
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Watch {
        steps: Steps,
        begin: Instant,
    }

    impl Watch {
        fn new(force: bool) -> Self {
            let rules = Rules { ranks: 0..=3, settle: SETTLE, patience: PATIENCE, force };
            Self { steps: Steps::new(rules), begin: Instant::now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.begin + Duration::from_secs(seconds)
        }

        /// Looks at files given as (step, rank, length).
        fn look(&mut self, seconds: u64, files: &[(u64, u64, u64)]) -> Vec<String> {
            let found = files.iter().map(|&(step, rank, length)| found(step, rank, length)).collect();
            self.steps.look(found, self.at(seconds)).iter().map(ToString::to_string).collect()
        }

        fn complete(&self, seconds: u64) -> Option<u64> {
            self.steps.complete(self.at(seconds)).map(|complete| complete.step)
        }
    }

    fn found(step: u64, rank: u64, length: u64) -> Found {
        let identity = Identity::of(&std::fs::metadata("/").unwrap());
        let state = State { identity, length, modified: (0, 0) };
        Found { step, rank, path: format!("r_{step}_{rank}").into(), state, age: Duration::ZERO }
    }

    const WHOLE: [(u64, u64, u64); 4] = [(1, 0, 5), (1, 1, 5), (1, 2, 5), (1, 3, 5)];

    #[test]
    fn a_step_is_complete_when_its_last_file_rests() {
        let mut watch = Watch::new(false);
        assert!(watch.look(0, &WHOLE[..3]).is_empty());
        assert_eq!(watch.complete(10), None);
        assert!(watch.look(10, &WHOLE).is_empty());
        assert_eq!(watch.complete(11), None);
        assert!(watch.steps.waits_to_settle(watch.at(11)));
        assert_eq!(watch.complete(12), Some(1));
        // It grows: it is waited for anew.
        assert!(watch.look(12, &[WHOLE[0], WHOLE[1], WHOLE[2], (1, 3, 6)]).is_empty());
        assert_eq!(watch.complete(13), None);
        assert_eq!(watch.complete(14), Some(1));
        watch.steps.restless(1, watch.at(14));
        assert_eq!(watch.complete(15), None);
        watch.steps.packed(1);
        assert_eq!(watch.complete(99), None);
        assert!(watch.steps.unfinished().is_empty());
    }

    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let mut watch = Watch::new(false);
        watch.look(0, &WHOLE);
        assert_eq!(watch.complete(2), Some(1));
        watch.steps.postponed(1, watch.at(2));
        assert_eq!(watch.complete(61), None);
        assert!(!watch.steps.waits_to_settle(watch.at(61)));
        assert!(watch.look(62, &WHOLE).is_empty());
        assert_eq!(watch.complete(62), Some(1));
    }

    #[test]
    fn files_that_were_finished_long_ago_need_no_waiting() {
        let mut watch = Watch::new(false);
        let old = (0..4).map(|rank| Found { age: SETTLE, ..found(7, rank, 1) }).collect();
        assert!(watch.steps.look(old, watch.at(0)).is_empty());
        assert_eq!(watch.complete(0), Some(7));
    }

    #[test]
    fn earlier_steps_come_first_and_incomplete_ones_hold_none_up() {
        let mut watch = Watch::new(false);
        let files: Vec<_> = [1, 5, 3].iter().flat_map(|&step| (0..4).map(move |rank| (step, rank, 1))).collect();
        watch.look(0, &files[1..]);
        assert_eq!(watch.complete(5), Some(3));
        watch.steps.packed(3);
        assert_eq!(watch.complete(5), Some(5));
    }

    #[test]
    fn missing_ranks_are_named_once_and_may_still_come() {
        let mut watch = Watch::new(false);
        assert!(watch.look(0, &[(4, 1, 1)]).is_empty());
        assert!(watch.look(59, &[(4, 1, 1)]).is_empty());
        let troubles = watch.look(60, &[(4, 1, 1)]);
        assert_eq!(troubles.len(), 1);
        assert!(troubles[0].starts_with("step 4: no file of ranks 0, 2-3 came; "), "{troubles:?}");
        assert!(watch.look(61, &[(4, 1, 1)]).is_empty());
        watch.look(100, &[(4, 0, 1), (4, 1, 1), (4, 2, 1), (4, 3, 1)]);
        assert_eq!(watch.complete(102), Some(4));
        // A step that waits for one file is not impatient while files come.
        let mut watch = Watch::new(false);
        for rank in 0..3u64 {
            let files: Vec<_> = (0..=rank).map(|rank| (1, rank, 1)).collect();
            assert!(watch.look(50 * rank, &files).is_empty());
        }
        assert!(watch.look(160, &WHOLE.map(|(step, rank, _)| (step, rank, 1))[..3])[0].contains("no file of rank 3"));
    }

    #[test]
    fn files_in_the_way_are_told_once() {
        let mut watch = Watch::new(false);
        let foreign = watch.look(0, &[(1, 4, 1)]);
        assert_eq!(foreign, ["r_1_4: rank 4 is not one of 0 to 3; correct --ranks"]);
        assert!(watch.look(1, &[(1, 4, 1)]).is_empty());

        let twin = Found { path: "r_01_2".into(), ..found(1, 2, 9) };
        let mut files: Vec<Found> = WHOLE.iter().map(|&(step, rank, length)| found(step, rank, length)).collect();
        files.push(twin);
        let troubles = watch.steps.look(files.clone(), watch.at(2));
        assert_eq!(troubles.len(), 1);
        assert!(troubles[0].to_string().starts_with("r_01_2: rank 2 of step 1 has another file"), "{troubles:?}");
        assert!(watch.steps.look(files.clone(), watch.at(3)).is_empty());
        assert_eq!(watch.complete(9), None);
        files.pop();
        watch.steps.look(files, watch.at(10));
        assert_eq!(watch.complete(10), Some(1));
    }

    #[test]
    fn packed_steps_may_go_and_may_not_be_written_again() {
        let mut watch = Watch::new(false);
        watch.look(0, &WHOLE);
        watch.steps.packed(1);
        assert!(watch.look(1, &WHOLE[1..]).is_empty());
        assert!(watch.look(2, &[]).is_empty());
        let troubles = watch.look(3, &[(1, 0, 7)]);
        assert!(troubles[0].contains("step 1 was packed already, and is written again"), "{troubles:?}");
        assert_eq!(troubles.len(), 1);
        // Told once, however many files it is.
        assert!(watch.look(4, &WHOLE.map(|(step, rank, _)| (step, rank, 9))).is_empty());
        assert_eq!(watch.complete(99), None);

        let mut watch = Watch::new(true);
        watch.look(0, &WHOLE);
        watch.steps.packed(1);
        assert!(watch.look(1, &WHOLE.map(|(step, rank, _)| (step, rank, 8))).is_empty());
        assert_eq!(watch.complete(3), Some(1));
    }

    #[test]
    fn files_that_vanish_are_told() {
        let mut watch = Watch::new(false);
        watch.look(0, &WHOLE[..2]);
        let troubles = watch.look(1, &WHOLE[..1]);
        assert!(troubles[0].starts_with("step 1: files were removed before they were packed"), "{troubles:?}");
        assert!(watch.look(2, &[]).is_empty());
        assert!(watch.steps.unfinished().is_empty());
    }

    #[test]
    fn what_is_left_is_told_at_the_end() {
        let mut watch = Watch::new(false);
        let mut files = WHOLE.to_vec();
        files.push((2, 1, 1));
        watch.look(0, &files);
        let left: Vec<String> = watch.steps.unfinished().iter().map(ToString::to_string).collect();
        assert!(left[0].starts_with("step 1 was not packed"), "{left:?}");
        assert!(left[1].starts_with("step 2 has no file of ranks 0, 2-3"), "{left:?}");
    }
}
