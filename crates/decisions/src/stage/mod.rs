//! Files of route `stage`, from the time when the program closes them until they are in their places: which is moved next, which is
//! encoded anew meanwhile, which has to leave memory now, and what was promised of each. A file is
//!
//! - *accepted* when it is closed: its values survive the program and the launcher;
//! - *local* when it is synced in a tier, whole or as it was handed over: it survives a restart of the node;
//! - *durable* when it is in its place, synced, under its name.
//!
//! [`Stage`] hears all that happens to these files, and promises that
//!
//! 1. they move one at a time, in the order in which they were closed, unless somebody waits for one; of two versions of one name
//!    that one moves first that has waited for longer;
//! 2. a file is never encoded anew while it moves, nor moved while it is encoded anew, and the link never waits for that;
//! 3. a file that has to be local by some time, and is not, is named when that time comes, and once;
//! 4. a file is accepted, local and durable once each. One that finds no room in a tier is durable without having been local.
//!
//! Reading order: here, then [`improve`] (which file is encoded anew, and how well), then [`copies`] (which files stay in a tier when they
//! are in their places).

pub mod copies;
pub mod improve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::level::EncodingLevel;
use crate::planner::Planner;
use improve::{Means, WaitingFile};

/// How long files took at most after they were accepted, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latencies {
    /// Until they were local; `None` if none was.
    pub local: Option<f64>,
    /// Until they were durable; `None` if none was.
    pub durable: Option<f64>,
}

/// The files of a launcher, by their generations: numbers that no two versions of a name have, and of which later ones are larger. Times
/// are seconds since any moment.
#[derive(Debug, Default)]
pub struct Stage {
    files: BTreeMap<u64, File>,
    /// The file that is encoded anew, and whether that is to stop.
    improving: Option<(u64, bool)>,
    /// Files that have waited by now.
    waited: u64,
    latencies: Latencies,
}

#[derive(Debug)]
struct File {
    name: PathBuf,
    /// When it was accepted.
    accepted: f64,
    is_local: bool,
    /// It has to be local by then, and nobody was asked for that yet.
    local_by: Option<f64>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// As it was handed over. A file is to be made of it, or is being made.
    Accepted,
    /// Encoded, in a tier. Of two, the one with the smaller number came first.
    Waits(u64, WaitingFile),
    /// On its way to its place.
    Moves(u64, WaitingFile),
}

impl Stage {
    /// The program has closed a version of a file. It has to be local by some time, if that is given. One that was closed before and
    /// is closed again was accepted then.
    pub fn accepted(&mut self, generation: u64, name: &Path, local_by: Option<f64>, now: f64) {
        self.files.entry(generation).or_insert_with(|| File::new(name, local_by, now)).state = State::Accepted;
    }

    /// What was handed over of a file was copied out of memory, and synced.
    pub fn copied(&mut self, generation: u64, now: f64) {
        if let Some(file) = self.files.get_mut(&generation) {
            file.is_local_now(now, &mut self.latencies);
        }
    }

    /// A file was made, and waits in a tier to be moved: what is known of it is on a disk, too, if it `is_local`.
    pub fn waits(&mut self, (generation, name): (u64, &Path), waiting: WaitingFile, is_local: bool, now: f64) {
        let file = self.files.entry(generation).or_insert_with(|| File::new(name, None, now));
        self.waited += 1;
        file.state = State::Waits(self.waited, waiting);
        if is_local {
            file.is_local_now(now, &mut self.latencies);
        }
    }

    /// A file begins to move to its place.
    pub fn moves(&mut self, generation: u64) {
        if let Some(File { state, .. }) = self.files.get_mut(&generation)
            && let State::Waits(order, waiting) = state
        {
            *state = State::Moves(*order, waiting.clone());
        }
    }

    /// A file that was to move waits again, for memory or for an answer.
    pub fn waits_again(&mut self, generation: u64) {
        if let Some(File { state, .. }) = self.files.get_mut(&generation)
            && let State::Moves(order, waiting) = state
        {
            *state = State::Waits(*order, waiting.clone());
        }
    }

    /// A file is in its place.
    pub fn durable(&mut self, generation: u64, now: f64) {
        if let Some(file) = self.files.remove(&generation) {
            longest(&mut self.latencies.durable, now - file.accepted);
        }
    }

    /// Nothing more is done about a file: the program does not want it any more or writes it again, or it is kept for later, or lost.
    pub fn gone(&mut self, generation: u64) {
        self.files.remove(&generation);
    }

    /// The file that is moved next; `None` if one moves, or if none waits.
    pub fn next(&self) -> Option<u64> {
        let mut waiting = Vec::with_capacity(self.files.len());
        for (generation, file) in &self.files {
            match file.state {
                State::Moves(..) => return None,
                State::Waits(order, _) => waiting.push((*generation, order, &file.name)),
                State::Accepted => {}
            }
        }
        let (_, _, oldest) = waiting.first()?;
        let versions = waiting.iter().filter(|(_, _, name)| name == oldest);
        versions.min_by_key(|(_, order, _)| *order).map(|(generation, ..)| *generation)
    }

    /// True if a file that waits may move now. For one that somebody waits for others do not come first. One that is not known waits for
    /// nothing.
    pub fn may_move(&self, generation: u64, is_awaited: bool) -> bool {
        let is_encoded = self.improving.is_some_and(|(improving, _)| improving == generation);
        let is_free = is_awaited || !self.files.contains_key(&generation);
        !is_encoded && (is_free || self.next() == Some(generation))
    }

    /// Files that have to be local by now, and are not: they are to be moved out of memory. Each is named once.
    pub fn late(&mut self, now: f64) -> Vec<u64> {
        let mut late = Vec::new();
        for (generation, file) in &mut self.files {
            let is_late = matches!(file.state, State::Accepted) && !file.is_local;
            if is_late && file.local_by.take_if(|by| *by <= now).is_some() {
                late.push(*generation);
            }
        }
        late
    }

    /// Bytes of files that wait to be moved, or are being moved.
    pub fn to_move(&self) -> u64 {
        let (waiting, moving) = self.row();
        waiting.iter().fold(moving, |sum, (_, file)| sum.saturating_add(file.bytes))
    }

    /// Files that wait to be moved, in the order in which they are as a rule, and bytes of what is being moved.
    fn row(&self) -> (Vec<(u64, &WaitingFile)>, u64) {
        let (mut waiting, mut moving) = (Vec::new(), 0_u64);
        for (generation, file) in &self.files {
            match &file.state {
                State::Accepted => {}
                State::Waits(_, file) => waiting.push((*generation, file)),
                State::Moves(_, file) => moving = moving.saturating_add(file.bytes),
            }
        }
        (waiting, moving)
    }

    /// True if a file is being encoded anew.
    pub fn is_improving(&self) -> bool {
        self.improving.is_some()
    }

    /// True if the file that is encoded anew is to stop: there is no time for that (`is_time`), or it is the next to move, and the link
    /// does not wait. That is said once.
    pub fn is_to_stop(&mut self, is_time: bool) -> bool {
        let Some((generation, false)) = self.improving else { return false };
        let is_to_stop = !is_time || self.next() == Some(generation) || self.waiting(generation).is_none();
        self.improving = Some((generation, is_to_stop));
        is_to_stop
    }

    /// The number of the rule for files that may be encoded anew; `None` if none of them waits.
    pub fn rule_to_improve(&self) -> Option<usize> {
        let (waiting, _) = self.row();
        waiting.iter().find_map(|(_, file)| file.family.as_ref()).map(|family| family.rule)
    }

    /// The file that is encoded anew from now on, and its level, where the last tier takes `drain` bytes a second, and so many cores
    /// are idle. `None` if there is time for none.
    pub fn improve(&mut self, planner: &Planner, drain: f64, cores: f64) -> Option<(u64, EncodingLevel)> {
        let (waiting, moving) = self.row();
        let files: Vec<WaitingFile> = waiting.iter().map(|(_, file)| (*file).clone()).collect();
        // Half of the file that is being moved is there, as a rule.
        let (index, level) = planner.to_improve(&files, Means { moving: moving / 2, drain, cores })?;
        let (generation, _) = *waiting.get(index)?;
        self.improving = Some((generation, false));
        Some((generation, level))
    }

    /// A file that waits; `None` if it does not.
    pub fn waiting(&self, generation: u64) -> Option<&WaitingFile> {
        match &self.files.get(&generation)?.state {
            State::Waits(_, file) => Some(file),
            _ => None,
        }
    }

    /// A file is encoded anew no longer. It has become smaller by so many bytes. It may be tried `again`, or stays as it is.
    pub fn improved(&mut self, generation: u64, saved: u64, again: bool) {
        self.improving.take_if(|(improving, _)| *improving == generation);
        if let Some(File { state: State::Waits(_, file) | State::Moves(_, file), .. }) = self.files.get_mut(&generation)
        {
            file.bytes = file.bytes.saturating_sub(saved);
            file.family = file.family.take().filter(|_| again);
        }
    }

    /// Those of the slowest files by now.
    pub fn latencies(&self) -> Latencies {
        self.latencies
    }
}

impl File {
    fn new(name: &Path, local_by: Option<f64>, now: f64) -> Self {
        Self { name: name.to_owned(), accepted: now, is_local: false, local_by, state: State::Accepted }
    }

    fn is_local_now(&mut self, now: f64, latencies: &mut Latencies) {
        if !std::mem::replace(&mut self.is_local, true) {
            longest(&mut latencies.local, now - self.accepted);
        }
    }
}

fn longest(longest: &mut Option<f64>, seconds: f64) {
    *longest = Some(longest.map_or(seconds, |before| before.max(seconds)));
}
