//! What became of the restart files of each time step: which are there, since when they rest, which are missing. Touches
//! no file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind};

use super::ranks::{Ranges, missing};
use super::times::{FileTime, between};
use knarr_capture::processes::Identity;

/// A restart file as a look at the directory found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) step: u64,
    pub(crate) rank: u64,
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// For how long it has not been written to, as its file system says.
    pub(crate) age: Duration,
    /// When it was made, if the file system tells and that was while this watches.
    pub(crate) created: Option<FileTime>,
}

/// What changes when a file is written to or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub(crate) identity: Identity,
    pub(crate) length: u64,
    pub(crate) modified: FileTime,
}

/// All files of a time step, by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complete {
    /// The step.
    pub step: u64,
    /// Its files, by rank.
    pub files: BTreeMap<u64, Finished>,
    /// From the making of its first file until the last was written to for the last time, if that is known.
    pub written_in: Option<Duration>,
}

/// A file of a complete time step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Where it is.
    pub path: PathBuf,
    /// How it was found.
    pub state: State,
    /// Since when it has been seen to have this state.
    pub since: Instant,
    /// Its rank has written the file of another step since: it was done with this one.
    pub followed: bool,
    /// What became of its writer, where that shows that it is not whole.
    pub torn: Option<String>,
    /// Nothing on this machine can tell whether its writer was done with it.
    pub unproven: bool,
}

impl Complete {
    /// Why nothing says that all of its files are whole, if so.
    pub fn unproven(&self) -> Option<String> {
        let ranks: Vec<u64> = self.files.iter().filter(|(_, file)| file.unproven).map(|(rank, _)| *rank).collect();
        let why = "written on another node or by a process whose end nobody saw: that they rest is all that is known";
        (!ranks.is_empty()).then(|| format!("files of {} were {why}", Ranges::of(&ranks)))
    }
}

/// What is asked of the files.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The ranks that write.
    pub ranks: RangeInclusive<u64>,
    /// A file that was not written to for so long is finished.
    pub settle: Duration,
    /// For how long a step waits for the next of its files, and after its set could not be written.
    pub patience: Duration,
    /// Steps that are written again after they were packed are packed again.
    pub force: bool,
    /// All files are written while this watches: sets of their steps are older, and a step whose set could not be written
    /// is given up when a later one has its set, so that the newest set is of the newest files.
    pub live: bool,
    /// What users call the request for ranks.
    pub ranks_key: &'static str,
    /// What users call the request to remove files.
    pub remove_key: &'static str,
}

/// The time steps that have files.
#[derive(Debug)]
pub struct Steps {
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
    /// When its writing began, if that is known.
    begun: Option<FileTime>,
    /// A set holds it: when its step is written again, it is not what the step waits for.
    packed: bool,
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
    /// It is not to be packed, which was told.
    Left,
}

impl Step {
    /// When the last of its files was written.
    fn written(&self) -> Option<FileTime> {
        self.files.values().map(|file| file.state.modified).max()
    }

    /// How long writing all of its files took.
    fn written_in(&self) -> Option<Duration> {
        let begun = self.files.values().map(|file| file.begun).collect::<Option<Vec<_>>>()?;
        between(begun.into_iter().min()?, self.written()?)
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Gathering | Stage::Overdue)
    }

    /// Of `ranks`, those whose file is waited for.
    fn missing(&self, ranks: &RangeInclusive<u64>) -> Ranges {
        missing(ranks, self.files.iter().filter(|(_, file)| !file.packed).map(|(rank, _)| rank))
    }
}

impl Steps {
    /// None yet.
    pub fn new(rules: Rules) -> Self {
        Self { rules, steps: BTreeMap::new(), doubled: BTreeSet::new(), told: BTreeSet::new() }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// True if no file of any step has been there.
    pub fn saw_nothing(&self) -> bool {
        self.steps.is_empty() && self.told.is_empty()
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
        let Found { step: number, rank, path, state, age, created } = file;
        let place = path.display().to_string();
        if !step.is_open() {
            // When a file that is there is written again, nobody knows since when.
            step.files.values_mut().for_each(|file| file.begun = None);
        }
        let is_new = |known: &File| known.state.identity != state.identity || created > Some(known.state.modified);
        let begun = step.files.get(&rank).filter(|known| !is_new(known)).map_or(created, |known| known.begun);
        step.files.insert(rank, File { path, state, since: now, age, begun, packed: false });
        step.news = now;
        match step.stage {
            Stage::Packed if !self.rules.force => {
                step.stage = Stage::Rewritten;
                Some(again(number, &place))
            }
            Stage::Packed | Stage::Broken | Stage::Left => {
                step.stage = Stage::Gathering;
                None
            }
            Stage::Gathering | Stage::Overdue | Stage::Rewritten => None,
        }
    }

    /// Files that are gone are no longer waited with.
    fn forget(&mut self, present: &BTreeSet<(u64, u64)>) -> Vec<Error> {
        let mut troubles = Vec::new();
        let remove_key = self.rules.remove_key;
        self.steps.retain(|number, step| {
            let before = step.files.len();
            step.files.retain(|rank, _| present.contains(&(*number, *rank)));
            if step.files.len() < before && step.is_open() {
                step.stage = Stage::Broken;
                let hint = format!("let the program keep more of its restart files, or remove them with {remove_key}");
                troubles.push(
                    Error::new(ErrorKind::NotFound, "files were removed before they were packed")
                        .hint(hint)
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
            let missing = step.missing(&self.rules.ranks);
            if !missing.is_empty() {
                step.stage = Stage::Overdue;
                troubles.push(
                    Error::new(ErrorKind::NotFound, format!("no file of {missing} came"))
                        .hint("see why these ranks did not write; should they still do so, the step is packed")
                        .at(format!("step {number}")),
                );
            }
        }
        troubles
    }

    /// Of the steps whose files are all there and rest, the one that was written first.
    pub(super) fn complete(&self, now: Instant) -> Option<Complete> {
        let settle = self.rules.settle;
        let rests = |file: &File| now.saturating_duration_since(file.since) >= settle || file.age >= settle;
        let resting = self.whole(now).filter(|(_, step)| step.files.values().all(rests));
        let (number, step) = resting.min_by_key(|(number, step)| (step.written(), **number))?;
        let finished = |rank: u64, file: &File| Finished {
            path: file.path.clone(),
            state: file.state,
            since: file.since,
            followed: self.has_later(rank, file),
            torn: None,
            unproven: false,
        };
        let files = step.files.iter().map(|(rank, file)| (*rank, finished(*rank, file))).collect();
        Some(Complete { step: *number, files, written_in: step.written_in() })
    }

    /// True if the rank has a file that was written later.
    fn has_later(&self, rank: u64, file: &File) -> bool {
        let files = self.steps.values().filter_map(|step| step.files.get(&rank));
        files.into_iter().any(|other| other.state.modified > file.state.modified)
    }

    /// True if all files of a step are there, finished or not.
    pub(super) fn waits_to_settle(&self, now: Instant) -> bool {
        self.whole(now).next().is_some()
    }

    fn whole(&self, now: Instant) -> impl Iterator<Item = (&u64, &Step)> {
        self.steps.iter().filter(move |(number, step)| {
            step.is_open()
                && step.not_before.is_none_or(|when| now >= when)
                && !self.doubled.contains(number)
                && step.missing(&self.rules.ranks).is_empty()
        })
    }

    /// The step is in a set. Returns the earlier ones that are given up for that.
    pub(super) fn packed(&mut self, step: u64) -> Vec<Error> {
        self.stage(step, Stage::Packed);
        let mut written = None;
        if let Some(step) = self.steps.get_mut(&step) {
            step.files.values_mut().for_each(|file| file.packed = true);
            written = step.written();
        }
        let live = self.rules.live;
        let late = |step: &Step| live && step.is_open() && step.not_before.is_some() && step.written() < written;
        let mut troubles = Vec::new();
        for (number, step) in self.steps.iter_mut().filter(|(_, step)| late(step)) {
            step.stage = Stage::Left;
            troubles.push(
                Error::new(ErrorKind::Write, "a later step has its set by now: this one is not tried again")
                    .hint("its files stay; 'knarr checkpoint pack' packs them")
                    .at(format!("step {number}")),
            );
        }
        troubles
    }

    /// The step's set could not be written: full disks are emptied, so it is tried again.
    pub(super) fn postponed(&mut self, step: u64, now: Instant) {
        if let Some(step) = self.steps.get_mut(&step) {
            step.not_before = now.checked_add(self.rules.patience);
        }
    }

    /// What could not be written may be tried again at once.
    pub(super) fn retry(&mut self, now: Instant) {
        for step in self.steps.values_mut().filter(|step| step.not_before.is_some()) {
            step.not_before = Some(now);
        }
    }

    /// The step is not to be packed unless it is written again.
    pub(super) fn left(&mut self, step: u64) {
        self.stage(step, Stage::Left);
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

    /// Steps that are left undone: number, why, and whether their missing ranks were told.
    pub fn unfinished(&self) -> Vec<(u64, String, bool)> {
        let waiting = self.steps.iter().filter(|(_, step)| step.is_open());
        waiting
            .map(|(number, step)| {
                let missing = step.missing(&self.rules.ranks);
                let why =
                    if missing.is_empty() { "was not packed".to_owned() } else { format!("has no file of {missing}") };
                (*number, why, step.stage == Stage::Overdue)
            })
            .collect()
    }

    fn foreign(&self, file: &Found) -> Error {
        let (first, last) = self.rules.ranks.clone().into_inner();
        Error::usage(format!("rank {} is not one of {first} to {last}", file.rank))
            .hint(format!("correct {}", self.rules.ranks_key))
            .at(file.path.display().to_string())
    }
}

fn doubled(file: &Found) -> Error {
    Error::usage(format!("rank {} of step {} has another file already", file.rank, file.step))
        .hint("remove one of them, or give a pattern that only one of them has")
        .at(file.path.display().to_string())
}

/// A step that has a set is there with newer files.
pub(super) fn again(step: u64, place: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("step {step} was packed already, and is written again"))
        .hint("its set is kept as it was; remove the set and start anew to pack these files, or use --force")
        .at(place.to_owned())
}

#[cfg(test)]
mod tests;
