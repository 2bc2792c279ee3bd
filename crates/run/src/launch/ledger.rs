//! What became of each file, from messages of the program's processes. Decides, and touches no file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use knarr_capture::{Event, Given, Message, Writers};
use knarr_codec::codec::FilterSet;

use crate::processes::Processes;

/// One file that the program has open for writing, or had.
#[derive(Debug, Default)]
struct Entry {
    /// Processes that have it open, and how.
    writers: BTreeMap<u32, Writer>,
    /// Filters that the program's HDF5 has.
    filters: Option<FilterSet>,
    /// Its device and inode when it was last closed.
    identity: Option<(u64, u64)>,
    state: State,
    /// It was opened again after it had been closed.
    reopened: bool,
    /// Where datasets are compressed as they are written, the names in the file of those that got filters, and of these those
    /// with Knarr's own. Ranks each tell of the same ones.
    compressed: BTreeSet<String>,
    own: BTreeSet<String>,
    /// Of these, too, those with other filters than the rule wants, by the reason.
    usual: BTreeMap<String, BTreeSet<String>>,
    /// Datasets left as the program wanted them, by the reason.
    left: BTreeMap<String, BTreeSet<String>>,
    /// Datasets that are written in thin slices across their chunks, with chunks that would suit.
    across: BTreeMap<String, Vec<u64>>,
}

/// How a process has a file open.
#[derive(Debug, Clone, Copy, Default)]
struct Writer {
    /// Times it was opened and not closed.
    opens: u32,
    /// The program has closed it, or its process ends in order; HDF5 may still hold it open.
    closing: bool,
    /// Ranks on other nodes have it open, too: that this process ends in order says nothing of them.
    is_apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Being written, or written and not yet packed.
    #[default]
    Written,
    /// Handed out to be packed.
    Packing,
    /// Done, packed or not.
    Done,
    /// A process ended, or was replaced, while the file was open.
    Lost,
    /// HDF5 keeps it in several files.
    InParts,
}

/// A file to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    /// The name it was opened by.
    pub(super) path: PathBuf,
    /// Filters that the program's HDF5 has, if they are known.
    pub(super) filters: Option<FilterSet>,
    /// Its device and inode, if they are known.
    pub(super) identity: Option<(u64, u64)>,
    /// Datasets that were compressed as they were written, by their names in it.
    pub(super) compressed: BTreeSet<String>,
}

/// How a file was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// Not yet.
    Open,
    /// By the program.
    InOrder,
    /// Its process ended, or was replaced, while the file was open.
    Lost,
}

/// All files of a run.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    files: BTreeMap<PathBuf, Entry>,
    /// Files that ranks on other nodes write, too, and that are not for this launcher: another one looks after them, or nobody can
    /// tell when they are closed.
    apart: BTreeSet<PathBuf>,
    /// Processes that said that they end in order.
    ending: BTreeSet<u32>,
    /// Some process called HDF5.
    pub(super) calls_seen: bool,
}

impl Ledger {
    /// Takes a message in. Returns the file whose packing it makes useless, if there is one.
    pub(super) fn hear(&mut self, message: Message) -> Option<PathBuf> {
        let Message { process, event } = message;
        match event {
            Event::Calls
            | Event::HandedOver { .. }
            | Event::SetAside { .. }
            | Event::Note { .. }
            | Event::NotHandedOver { .. }
            | Event::Asked { .. }
            | Event::Passed { .. }
            | Event::Received { .. }
            | Event::Flown { .. }
            | Event::Waits(_)
            | Event::Awaits { .. }
            | Event::Renamed { .. }
            | Event::Missed { .. } => self.calls_seen = true,
            // The launcher that looks after it waits for all that processes of this node do with it.
            Event::Apart { path, .. } | Event::Opened { path, writers: Writers::Elsewhere(_), .. } => {
                self.apart.insert(path.clone());
                let forgotten = self.files.remove(&path);
                return forgotten.is_some_and(|entry| entry.state == State::Packing).then_some(path);
            }
            Event::Started => {
                // The same process with another program: what it had open was not closed.
                self.ending.remove(&process);
                for entry in self.files.values_mut().filter(|entry| entry.writers.contains_key(&process)) {
                    entry.writers.remove(&process);
                    entry.state = State::Lost;
                }
            }
            Event::Exiting => {
                self.ending.insert(process);
            }
            Event::Opened { path, writers: Writers::Near, .. } if self.apart.contains(&path) => {}
            Event::Opened { path, created, writers } => {
                self.apart.remove(&path);
                let entry = self.files.entry(path.clone()).or_default();
                let useless = entry.state == State::Packing;
                if created && entry.writers.is_empty() {
                    *entry = Entry { reopened: entry.reopened || entry.filters.is_some(), ..Entry::default() };
                } else {
                    entry.reopened |= entry.writers.is_empty();
                    if entry.state != State::Lost {
                        entry.state = State::Written;
                    }
                }
                let writer = entry.writers.entry(process).or_default();
                writer.opens += 1;
                writer.closing = false;
                writer.is_apart |= matches!(writers, Writers::Apart(_));
                return useless.then_some(path);
            }
            Event::Created { path, variable, given } => {
                let entry = self.files.get_mut(&path)?;
                if !matches!(given, Given::Nothing(_)) {
                    entry.compressed.insert(variable.clone());
                }
                let _ = match given {
                    Given::Standard => false,
                    Given::Own => entry.own.insert(variable),
                    Given::Usual(why) => entry.usual.entry(why).or_default().insert(variable),
                    Given::Nothing(why) => entry.left.entry(why).or_default().insert(variable),
                };
            }
            Event::InParts { path } => self.files.entry(path).or_default().state = State::InParts,
            Event::Across { path, variable, chunk } => {
                self.files.get_mut(&path)?.across.insert(variable, chunk);
            }
            Event::Closed { path, still_open, filters, identity } => {
                let entry = self.files.get_mut(&path)?;
                // All processes that write it must be able to read it.
                entry.filters = Some(entry.filters.map_or(filters, |others| others.and(filters)));
                entry.identity = identity.or(entry.identity);
                if let Some(writer) = entry.writers.get_mut(&process) {
                    writer.opens = writer.opens.saturating_sub(1);
                    writer.closing = writer.opens == 0;
                    if writer.closing && !still_open {
                        entry.writers.remove(&process);
                    }
                }
            }
        }
        None
    }

    /// Looks after files whose closing nobody told of: HDF5 waits for objects in them, or their process is gone.
    pub(super) fn settle(&mut self, processes: &dyn Processes) {
        let ending = &self.ending;
        for (path, entry) in &mut self.files {
            let before = entry.writers.len();
            let mut lost = false;
            entry.writers.retain(|&process, writer| {
                if processes.alive(process) {
                    // One that closed the file behind the back of HDF5 has not said that it is whole.
                    return !writer.closing || processes.writes(process, path);
                }
                lost |= !writer.closing && (writer.is_apart || !ending.contains(&process));
                false
            });
            if lost && before > 0 {
                entry.state = State::Lost;
            }
        }
    }

    /// The next file to pack, which counts as handed out, with the filters of its program's HDF5 and its identity. A file that the program opens
    /// again and again is packed once, when the program has `ended`.
    pub(super) fn next(&mut self, ended: bool) -> Option<Due> {
        let (path, entry) = self.files.iter_mut().find(|(_, entry)| {
            entry.state == State::Written && entry.writers.is_empty() && (ended || !entry.reopened)
        })?;
        entry.state = State::Packing;
        Some(Due {
            path: path.clone(),
            filters: entry.filters,
            identity: entry.identity,
            compressed: entry.compressed.clone(),
        })
    }

    /// In words, what became of the datasets of a file that is compressed as it is written.
    pub(super) fn datasets(&self, path: &Path) -> String {
        let Some(entry) = self.files.get(path) else { return String::new() };
        let mut text = format!("{} compressed as written", counted(entry.compressed.len()));
        if !entry.own.is_empty() {
            text.push_str(&format!(", {} with Knarr's filter, whose plugin readers need", entry.own.len()));
        }
        for (why, names) in &entry.usual {
            text.push_str(&format!("; {} with the usual chain instead: {why}", counted(names.len())));
        }
        for (why, names) in &entry.left {
            text.push_str(&format!("; {} not: {why}", counted(names.len())));
        }
        if let Some((name, chunk)) = entry.across.first_key_value() {
            let (name, chunk) = (name.trim_start_matches('/'), chunk.iter().map(u64::to_string).collect::<Vec<_>>());
            text.push_str(&format!(
                "; {} slowly, in thin slices across the chunks: set variables.\"{name}\".chunks = \"{}\", or when = \
                 \"close\"",
                counted(entry.across.len()),
                chunk.join("x")
            ));
        }
        text
    }

    /// A file that was packed is as the program has made it again: it is handed out when the program has ended.
    pub(super) fn given_back(&mut self, path: PathBuf) {
        let entry = self.files.entry(path).or_default();
        entry.reopened = true;
        if entry.state != State::Lost {
            entry.state = State::Written;
        }
    }

    /// A file that was handed out is done; one that was opened again meanwhile is not.
    pub(super) fn done(&mut self, path: &Path) {
        if let Some(entry) = self.files.get_mut(path).filter(|entry| entry.state == State::Packing) {
            entry.state = State::Done;
        }
    }

    /// A file that was handed out changed under way, and is to be handed out again once the program has ended.
    pub(super) fn again(&mut self, path: &Path) {
        if let Some(entry) = self.files.get_mut(path).filter(|entry| entry.state == State::Packing) {
            entry.state = State::Written;
            entry.reopened = true;
        }
    }

    /// How the file was closed; `None` if no process told that it opened it.
    pub(super) fn closing(&self, path: &Path) -> Option<Closing> {
        let entry = self.files.get(path)?;
        Some(match entry.state {
            State::Lost => Closing::Lost,
            _ if entry.writers.is_empty() => Closing::InOrder,
            _ => Closing::Open,
        })
    }

    /// True if some process still has a file open for writing.
    pub(super) fn is_open(&self) -> bool {
        self.files.values().any(|entry| !entry.writers.is_empty())
    }

    /// Files that stay as they are, and why.
    pub(super) fn left(&self) -> impl Iterator<Item = (&Path, String)> {
        self.files.iter().filter_map(|(path, entry)| {
            let why = match (entry.state, entry.writers.keys().next()) {
                (State::Lost, _) => "its process ended while the file was open".to_owned(),
                (State::InParts, _) => "HDF5 keeps it in several files".to_owned(),
                (_, Some(process)) => format!("still open for writing in process {process}"),
                _ => return None,
            };
            Some((path.as_path(), why))
        })
    }
}

fn counted(datasets: usize) -> String {
    if datasets == 1 { "1 dataset".to_owned() } else { format!("{datasets} datasets") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_codec::codec::ReaderLevel;
    use knarr_link::{Peer, Secret};

    /// Process numbers below 100 run; those below 10 have every file open.
    struct Fake;

    impl Processes for Fake {
        fn alive(&self, process: u32) -> bool {
            process < 100
        }
        fn writes(&self, process: u32, _: &Path) -> bool {
            process < 10
        }
    }

    fn opened(process: u32, created: bool) -> Message {
        opened_by(process, created, Writers::Near)
    }

    fn opened_by(process: u32, created: bool, writers: Writers) -> Message {
        Message { process, event: Event::Opened { path: "/a.nc".into(), created, writers } }
    }

    fn closed(process: u32, still_open: bool) -> Message {
        Message {
            process,
            event: Event::Closed {
                path: "/a.nc".into(),
                still_open,
                filters: FilterSet::of(ReaderLevel::NetCdf),
                identity: None,
            },
        }
    }

    fn ledger(messages: impl IntoIterator<Item = Message>) -> Ledger {
        let mut ledger = Ledger::default();
        for message in messages {
            ledger.hear(message);
        }
        ledger.settle(&Fake);
        ledger
    }

    #[test]
    fn a_closed_file_is_handed_out_once() {
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        let due = Due {
            path: "/a.nc".into(),
            filters: Some(FilterSet::of(ReaderLevel::NetCdf)),
            identity: None,
            compressed: BTreeSet::new(),
        };
        assert_eq!(ledger.next(false), Some(due));
        assert_eq!(ledger.next(true), None);
        ledger.done(Path::new("/a.nc"));
        assert_eq!(ledger.next(true), None);
        assert_eq!(ledger.left().count(), 0);
    }

    #[test]
    fn filters_are_those_that_all_writers_have() {
        let closed = |process, ids: &[u32]| Message {
            process,
            event: Event::Closed {
                path: "/a.nc".into(),
                still_open: false,
                filters: ids.iter().copied().collect(),
                identity: None,
            },
        };
        let mut ledger =
            ledger([opened(1, true), opened(2, true), closed(1, &[1, 2, 32015]), closed(2, &[1, 32004, 32015])]);
        assert_eq!(ledger.next(false).unwrap().filters, Some(FilterSet::from_iter([1, 32015])));
    }

    #[test]
    fn all_writers_must_have_closed() {
        let mut ledger = ledger([opened(1, true), opened(2, true), closed(1, false)]);
        assert!(ledger.next(true).is_none() && ledger.is_open());
        ledger.hear(closed(2, false));
        assert!(ledger.next(false).is_some() && !ledger.is_open());
    }

    #[test]
    fn what_hdf5_still_holds_open_is_waited_for() {
        assert!(ledger([opened(1, true), closed(1, true)]).next(true).is_none());
        assert!(ledger([opened(50, true), closed(50, true)]).next(true).is_some(), "closed since, the process runs");
        assert!(ledger([opened(1, true), opened(1, false), closed(1, false)]).next(true).is_none(), "opened twice");
        let behind = ledger([opened(50, true)]);
        assert_eq!(behind.closing(Path::new("/a.nc")), Some(Closing::Open), "closed behind the back of HDF5");
    }

    #[test]
    fn a_file_open_at_a_crash_is_left_and_one_open_at_an_orderly_end_is_not() {
        let mut crashed = ledger([opened(200, true)]);
        assert!(crashed.next(true).is_none());
        assert_eq!(crashed.left().count(), 1);
        let mut ended = ledger([opened(200, true), Message { process: 200, event: Event::Exiting }]);
        assert!(ended.next(true).is_some());
        let mut replaced = ledger([opened(1, true), Message { process: 1, event: Event::Started }]);
        assert!(replaced.next(true).is_none());
        assert_eq!(replaced.left().count(), 1);
        let how = |ledger: &Ledger| ledger.closing(Path::new("/a.nc"));
        assert_eq!(
            (how(&crashed), how(&ended), how(&replaced)),
            (Some(Closing::Lost), Some(Closing::InOrder), Some(Closing::Lost))
        );
        assert_eq!((how(&ledger([opened(1, true)])), how(&ledger([]))), (Some(Closing::Open), None));
        let again = [opened(200, true), closed(200, false), opened(200, true)];
        assert!(ledger(again).next(true).is_none(), "open at the crash, though closed before");
        let mended =
            [opened(200, true), Message { process: 200, event: Event::Started }, opened(1, true), closed(1, false)];
        assert!(ledger(mended).next(true).is_some(), "written anew");
    }

    #[test]
    fn a_file_of_ranks_on_several_nodes_is_closed_when_they_say_so() {
        let apart = |process| opened_by(process, false, Writers::Apart(Vec::new()));
        let exits = |process| Message { process, event: Event::Exiting };
        let mut closed_by_all = ledger([apart(200), closed(200, false), exits(200)]);
        assert!(closed_by_all.next(true).is_some());
        let mut left = ledger([apart(200), exits(200)]);
        assert!(left.next(true).is_none(), "others may write it yet");
        assert_eq!(left.left().count(), 1);
    }

    #[test]
    fn a_file_that_another_node_looks_after_is_handed_out_no_more() {
        let peer = Peer { node: "b".to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let elsewhere = || opened_by(1, false, Writers::Elsewhere(peer.clone()));
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        assert!(ledger.next(false).is_some());
        assert_eq!(ledger.hear(elsewhere()), Some("/a.nc".into()), "packing it is useless now");
        ledger.hear(closed(1, false));
        assert!(ledger.next(true).is_none());
        ledger.again(Path::new("/a.nc"));
        assert!(ledger.next(true).is_none());
        // A process of this node that writes it by itself: the other launcher waits for its end.
        ledger.hear(opened(2, false));
        ledger.hear(closed(2, false));
        assert!(ledger.next(true).is_none() && !ledger.is_open());
    }

    #[test]
    fn a_file_is_left_if_nobody_can_tell_when_it_is_closed_until_somebody_can() {
        let left = || Message { process: 1, event: Event::Apart { path: "/a.nc".into(), why: "x".to_owned() } };
        let mut ledger = ledger([opened(1, true), left(), closed(1, false), opened(1, false), closed(1, false)]);
        assert!(ledger.next(true).is_none() && !ledger.is_open());
        ledger.hear(opened_by(1, false, Writers::Apart(Vec::new())));
        ledger.hear(closed(1, false));
        assert!(ledger.next(true).is_some());
    }

    #[test]
    fn what_datasets_got_is_told_in_words() {
        let created = |(variable, given): (&str, Given)| Message {
            process: 1,
            event: Event::Created { path: "/a.nc".into(), variable: variable.to_owned(), given },
        };
        let path = Path::new("/a.nc");
        assert_eq!(
            ledger([opened(1, true), created(("/T", Given::Standard))]).datasets(path),
            "1 dataset compressed as written"
        );
        let (usual, nothing) = (Given::Usual("x".to_owned()), Given::Nothing("y".to_owned()));
        // Each rank tells of what all of them create.
        let all = [
            ("/T", Given::Own),
            ("/U", Given::Own),
            ("/U", Given::Own),
            ("/V", usual),
            ("/W", nothing.clone()),
            ("/W", nothing),
        ];
        assert_eq!(
            ledger([opened(1, true)].into_iter().chain(all.map(created))).datasets(path),
            "3 datasets compressed as written, 2 with Knarr's filter, whose plugin readers need; 1 dataset with the \
             usual chain instead: x; 1 dataset not: y"
        );
    }

    #[test]
    fn datasets_that_are_written_across_their_chunks_are_told() {
        let across = |name: &str| Message {
            process: 1,
            event: Event::Across { path: "/a.nc".into(), variable: name.to_owned(), chunk: vec![3000, 43] },
        };
        let told = ledger([opened(1, true), across("/g/T"), across("/g/T")]).datasets(Path::new("/a.nc"));
        assert_eq!(
            told,
            "0 datasets compressed as written; 1 dataset slowly, in thin slices across the chunks: set \
             variables.\"g/T\".chunks = \"3000x43\", or when = \"close\""
        );
    }

    #[test]
    fn a_file_that_was_given_back_is_packed_at_the_end_whoever_opens_it() {
        let mut unheard_of = ledger([]);
        unheard_of.given_back("/a.nc".into());
        assert!(unheard_of.next(false).is_none() && unheard_of.next(true).is_some());
        let mut packed = ledger([opened(1, true), closed(1, false)]);
        assert!(packed.next(false).is_some());
        packed.done(Path::new("/a.nc"));
        packed.given_back("/a.nc".into());
        packed.hear(opened(200, false));
        packed.settle(&Fake);
        assert!(packed.next(true).is_none(), "open at a crash");
        packed.given_back("/a.nc".into());
        assert!(packed.next(true).is_none(), "it is not known to be whole");
    }

    #[test]
    fn a_file_opened_again_is_packed_at_the_end() {
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        assert!(ledger.next(false).is_some());
        assert_eq!(ledger.hear(opened(1, false)), Some("/a.nc".into()), "packing it is useless now");
        ledger.done(Path::new("/a.nc"));
        ledger.hear(closed(1, false));
        assert!(ledger.next(false).is_none());
        assert!(ledger.next(true).is_some());
        ledger.again(Path::new("/a.nc"));
        assert!(ledger.next(true).is_some());
    }
}
