//! What became of each file, from messages of the program's processes. Decides, and touches no file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use knarr_capture::{Event, Message, Writers};
use knarr_codec::codec::FilterSet;

use knarr_capture::processes::Processes;

/// One file that the program has open for writing, or had.
#[derive(Debug, Default)]
struct Entry {
    /// Processes that have it open, and how.
    writers: BTreeMap<u32, Writer>,
    /// Filters that the program's HDF5 has.
    filters: Option<FilterSet>,
    /// HDF5 has told of it.
    is_told: bool,
    /// Its device and inode when it was last closed.
    identity: Option<(u64, u64)>,
    state: State,
    /// It was opened again after it had been closed.
    reopened: bool,
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
    /// HDF5 says nothing of it: descriptors go on in another program of the process.
    is_untold: bool,
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
pub struct Due {
    /// The name it was opened by.
    pub path: PathBuf,
    /// Filters that the program's HDF5 has, if they are known.
    pub filters: Option<FilterSet>,
    /// HDF5 has told of it; else it may be of any format.
    pub is_told: bool,
    /// Its device and inode, if they are known.
    pub identity: Option<(u64, u64)>,
}

/// How a file was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Not yet.
    Open,
    /// By the program.
    InOrder,
    /// Its process ended, or was replaced, while the file was open.
    Lost,
}

/// All files of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    files: BTreeMap<PathBuf, Entry>,
    /// Files that ranks on other nodes write, too, and that are not for this launcher: another one looks after them, or nobody can
    /// tell when they are closed.
    unwatched: BTreeSet<PathBuf>,
    /// Processes that said that they end in order.
    ending: BTreeSet<u32>,
    /// Some process called HDF5.
    pub calls_seen: bool,
}

impl Ledger {
    /// Takes a message in. Returns the file whose packing it makes useless, if there is one.
    pub fn on_message(&mut self, message: Message) -> Option<PathBuf> {
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
            | Event::LossyTransfer { .. }
            | Event::Waits(_)
            | Event::Awaits { .. }
            | Event::Renamed { .. }
            | Event::Missed { .. } => self.calls_seen = true,
            // The launcher that looks after it waits for all that processes of this node do with it.
            Event::Unwatched { path, .. } | Event::Opened { path, writers: Writers::OtherNode(_), .. } => {
                self.unwatched.insert(path.clone());
                let forgotten = self.files.remove(&path);
                return forgotten.is_some_and(|entry| entry.state == State::Packing).then_some(path);
            }
            Event::Started => {
                // The same process with another program: what it had open was not closed.
                self.ending.remove(&process);
                let is_told = |entry: &&mut Entry| entry.writers.get(&process).is_some_and(|writer| !writer.is_untold);
                for entry in self.files.values_mut().filter(is_told) {
                    entry.writers.remove(&process);
                    entry.state = State::Lost;
                }
            }
            Event::Exiting => {
                self.ending.insert(process);
            }
            Event::Opened { path, writers: Writers::SameNode, .. } if self.unwatched.contains(&path) => {}
            Event::Opened { path, created, writers } => {
                self.unwatched.remove(&path);
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
                entry.is_told = true;
                let writer = entry.writers.entry(process).or_default();
                writer.opens += 1;
                writer.closing = false;
                writer.is_untold = false;
                writer.is_apart |= matches!(writers, Writers::SeveralNodes(_));
                return useless.then_some(path);
            }
            // What the program has found there stays as it is.
            Event::Written { path, created, .. }
                if self.unwatched.contains(&path) || !created && !self.files.contains_key(&path) => {}
            Event::Written { path, created, identity } => {
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
                entry.identity = identity;
                // HDF5 says more of its files, before or after it opens them.
                entry.writers.entry(process).or_insert(Writer { closing: true, is_untold: true, ..Writer::default() });
                return useless.then_some(path);
            }
            Event::InParts { path } => self.files.entry(path).or_default().state = State::InParts,
            Event::Closed { path, still_open, filters, identity } => {
                let entry = self.files.get_mut(&path)?;
                entry.is_told = true;
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
    pub fn settle(&mut self, processes: &dyn Processes) {
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
    /// again and again is packed once, when the program has `ended`; so is one that HDF5 has not told of: netCDF opens a file twice, and
    /// it must not become another format in between. One that `is_busy` waits: what was begun with it is of an earlier
    /// state, and its end is not to be taken for that of what begins now.
    pub fn next(&mut self, ended: bool, is_busy: impl Fn(&Path) -> bool) -> Option<Due> {
        let (path, entry) = self.files.iter_mut().find(|(path, entry)| {
            let may_now = ended || !entry.reopened && entry.is_told;
            let is_due = entry.state == State::Written && entry.writers.is_empty() && may_now;
            is_due && !is_busy(path)
        })?;
        entry.state = State::Packing;
        let Entry { filters, is_told, identity, .. } = *entry;
        Some(Due { path: path.clone(), filters, is_told, identity })
    }

    /// A file that was packed is as the program has made it again: it is handed out when the program has ended.
    pub fn given_back(&mut self, path: PathBuf) {
        let entry = self.files.entry(path).or_default();
        (entry.reopened, entry.is_told) = (true, true);
        if entry.state != State::Lost {
            entry.state = State::Written;
        }
    }

    /// A file that was handed out is done; one that was opened again meanwhile is not.
    pub fn done(&mut self, path: &Path) {
        if let Some(entry) = self.files.get_mut(path).filter(|entry| entry.state == State::Packing) {
            entry.state = State::Done;
        }
    }

    /// A file that was handed out changed under way, and is to be handed out again once the program has ended.
    pub fn again(&mut self, path: &Path) {
        if let Some(entry) = self.files.get_mut(path).filter(|entry| entry.state == State::Packing) {
            entry.state = State::Written;
            entry.reopened = true;
        }
    }

    /// How the file was closed; `None` if no process told that it opened it.
    pub fn closing(&self, path: &Path) -> Option<Closing> {
        let entry = self.files.get(path)?;
        Some(match entry.state {
            State::Lost => Closing::Lost,
            _ if entry.writers.is_empty() => Closing::InOrder,
            _ => Closing::Open,
        })
    }

    /// True if some process still has a file open for writing.
    pub fn is_open(&self) -> bool {
        self.files.values().any(|entry| !entry.writers.is_empty())
    }

    /// True if a process has closed a file that it holds open yet: nobody tells of the end of that.
    pub fn is_closing(&self) -> bool {
        self.files.values().any(|entry| entry.writers.values().any(|writer| writer.closing))
    }

    /// Files that stay as they are, and why. Of those that HDF5 has not told of nothing is known.
    pub fn left(&self) -> impl Iterator<Item = (&Path, String)> {
        self.files.iter().filter(|(_, entry)| entry.is_told || entry.state == State::InParts).filter_map(
            |(path, entry)| {
                let why = match (entry.state, entry.writers.keys().next()) {
                    (State::Lost, _) => "its process ended while the file was open".to_owned(),
                    (State::InParts, _) => "HDF5 keeps it in several files".to_owned(),
                    (_, Some(process)) => format!("still open for writing in process {process}"),
                    _ => return None,
                };
                Some((path.as_path(), why))
            },
        )
    }
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
        opened_by(process, created, Writers::SameNode)
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
            ledger.on_message(message);
        }
        ledger.settle(&Fake);
        ledger
    }

    #[test]
    fn a_closed_file_is_handed_out_once() {
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        let filters = Some(FilterSet::of(ReaderLevel::NetCdf));
        let due = Due { path: "/a.nc".into(), filters, is_told: true, identity: None };
        assert_eq!(ledger.next(false, |_| false), Some(due));
        assert_eq!(ledger.next(true, |_| false), None);
        ledger.done(Path::new("/a.nc"));
        assert_eq!(ledger.next(true, |_| false), None);
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
        assert_eq!(ledger.next(false, |_| false).unwrap().filters, Some(FilterSet::from_iter([1, 32015])));
    }

    #[test]
    fn all_writers_must_have_closed() {
        let mut ledger = ledger([opened(1, true), opened(2, true), closed(1, false)]);
        assert!(ledger.next(true, |_| false).is_none() && ledger.is_open());
        ledger.on_message(closed(2, false));
        assert!(ledger.next(false, |_| false).is_some() && !ledger.is_open());
    }

    #[test]
    fn what_hdf5_still_holds_open_is_waited_for() {
        assert!(ledger([opened(1, true), closed(1, true)]).next(true, |_| false).is_none());
        let is_closing = |events: &[Message]| ledger(events.to_vec()).is_closing();
        assert!(is_closing(&[opened(1, true), closed(1, true)]));
        assert!(!is_closing(&[opened(1, true)]) && !is_closing(&[opened(1, true), closed(1, false)]));
        assert!(
            ledger([opened(50, true), closed(50, true)]).next(true, |_| false).is_some(),
            "closed since, the process runs"
        );
        assert!(
            ledger([opened(1, true), opened(1, false), closed(1, false)]).next(true, |_| false).is_none(),
            "opened twice"
        );
        let behind = ledger([opened(50, true)]);
        assert_eq!(behind.closing(Path::new("/a.nc")), Some(Closing::Open), "closed behind the back of HDF5");
    }

    fn written(process: u32, created: bool) -> Message {
        let identity = Some((1, 2));
        Message { process, event: Event::Written { path: "/a.nc".into(), created, identity } }
    }

    #[test]
    fn a_file_whose_closing_nobody_tells_of_is_closed_when_no_process_writes_it() {
        assert!(ledger([written(1, true)]).next(true, |_| false).is_none(), "the process has it open");
        let mut closed = ledger([written(50, true)]);
        assert!(closed.next(false, |_| false).is_none(), "the program may open it again");
        let due = closed.next(true, |_| false).unwrap();
        assert_eq!((due.is_told, due.filters, due.identity), (false, None, Some((1, 2))));
        assert!(ledger([written(50, false)]).next(true, |_| false).is_none(), "it was there before");
        assert!(ledger([written(200, true)]).next(true, |_| false).is_some(), "the process is gone");
        // A shell opens it for a program that it becomes.
        let mut inherited = ledger([written(1, true), Message { process: 1, event: Event::Started }]);
        assert!(
            inherited.next(true, |_| false).is_none() && inherited.closing(Path::new("/a.nc")) == Some(Closing::Open)
        );
    }

    #[test]
    fn what_hdf5_says_of_its_files_counts_more() {
        for messages in [[written(1, true), opened(1, true)], [opened(1, true), written(1, true)]] {
            let mut both = ledger(messages);
            assert!(both.next(true, |_| false).is_none());
            both.on_message(closed(1, false));
            assert!(both.next(false, |_| false).unwrap().filters.is_some());
        }
        assert!(ledger([written(200, true), opened(200, true)]).left().count() == 1, "open at a crash");
        let started = Message { process: 1, event: Event::Started };
        let replaced = ledger([written(1, true), opened(1, true), closed(1, true), started]);
        assert_eq!(replaced.left().count(), 1, "HDF5 had it open yet when the process became another program");
    }

    #[test]
    fn a_file_open_at_a_crash_is_left_and_one_open_at_an_orderly_end_is_not() {
        let mut crashed = ledger([opened(200, true)]);
        assert!(crashed.next(true, |_| false).is_none());
        assert_eq!(crashed.left().count(), 1);
        let mut ended = ledger([opened(200, true), Message { process: 200, event: Event::Exiting }]);
        assert!(ended.next(true, |_| false).is_some());
        let mut replaced = ledger([opened(1, true), Message { process: 1, event: Event::Started }]);
        assert!(replaced.next(true, |_| false).is_none());
        assert_eq!(replaced.left().count(), 1);
        let how = |ledger: &Ledger| ledger.closing(Path::new("/a.nc"));
        assert_eq!(
            (how(&crashed), how(&ended), how(&replaced)),
            (Some(Closing::Lost), Some(Closing::InOrder), Some(Closing::Lost))
        );
        assert_eq!((how(&ledger([opened(1, true)])), how(&ledger([]))), (Some(Closing::Open), None));
        let again = [opened(200, true), closed(200, false), opened(200, true)];
        assert!(ledger(again).next(true, |_| false).is_none(), "open at the crash, though closed before");
        let mended =
            [opened(200, true), Message { process: 200, event: Event::Started }, opened(1, true), closed(1, false)];
        assert!(ledger(mended).next(true, |_| false).is_some(), "written anew");
    }

    #[test]
    fn a_file_of_ranks_on_several_nodes_is_closed_when_they_say_so() {
        let unwatched = |process| opened_by(process, false, Writers::SeveralNodes(Vec::new()));
        let exits = |process| Message { process, event: Event::Exiting };
        let mut closed_by_all = ledger([unwatched(200), closed(200, false), exits(200)]);
        assert!(closed_by_all.next(true, |_| false).is_some());
        let mut left = ledger([unwatched(200), exits(200)]);
        assert!(left.next(true, |_| false).is_none(), "others may write it yet");
        assert_eq!(left.left().count(), 1);
    }

    #[test]
    fn a_file_that_another_node_looks_after_is_handed_out_no_more() {
        let peer = Peer { node: "b".to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let elsewhere = || opened_by(1, false, Writers::OtherNode(peer.clone()));
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        assert!(ledger.next(false, |_| false).is_some());
        assert_eq!(ledger.on_message(elsewhere()), Some("/a.nc".into()), "packing it is useless now");
        ledger.on_message(closed(1, false));
        assert!(ledger.next(true, |_| false).is_none());
        ledger.again(Path::new("/a.nc"));
        assert!(ledger.next(true, |_| false).is_none());
        // A process of this node that writes it by itself: the other launcher waits for its end.
        ledger.on_message(opened(2, false));
        ledger.on_message(closed(2, false));
        assert!(ledger.next(true, |_| false).is_none() && !ledger.is_open());
    }

    #[test]
    fn a_file_is_left_if_nobody_can_tell_when_it_is_closed_until_somebody_can() {
        let left = || Message { process: 1, event: Event::Unwatched { path: "/a.nc".into(), why: "x".to_owned() } };
        let mut ledger = ledger([opened(1, true), left(), closed(1, false), opened(1, false), closed(1, false)]);
        assert!(ledger.next(true, |_| false).is_none() && !ledger.is_open());
        ledger.on_message(opened_by(1, false, Writers::SeveralNodes(Vec::new())));
        ledger.on_message(closed(1, false));
        assert!(ledger.next(true, |_| false).is_some());
    }

    #[test]
    fn a_file_that_was_given_back_is_packed_at_the_end_whoever_opens_it() {
        let mut unheard_of = ledger([]);
        unheard_of.given_back("/a.nc".into());
        assert!(unheard_of.next(false, |_| false).is_none() && unheard_of.next(true, |_| false).is_some());
        let mut packed = ledger([opened(1, true), closed(1, false)]);
        assert!(packed.next(false, |_| false).is_some());
        packed.done(Path::new("/a.nc"));
        packed.given_back("/a.nc".into());
        packed.on_message(opened(200, false));
        packed.settle(&Fake);
        assert!(packed.next(true, |_| false).is_none(), "open at a crash");
        packed.given_back("/a.nc".into());
        assert!(packed.next(true, |_| false).is_none(), "it is not known to be whole");
    }

    #[test]
    fn a_file_is_not_handed_out_while_something_is_done_with_its_earlier_state() {
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        assert!(ledger.next(false, |_| false).is_some());
        assert!(ledger.on_message(opened(1, false)).is_some());
        ledger.on_message(closed(1, false));
        // That the first packing has found it changed must not make the second one useless.
        assert!(ledger.next(true, |path| path == Path::new("/a.nc")).is_none());
        ledger.again(Path::new("/a.nc"));
        assert!(ledger.next(true, |_| false).is_some() && ledger.next(true, |_| false).is_none());
    }

    #[test]
    fn a_file_opened_again_is_packed_at_the_end() {
        let mut ledger = ledger([opened(1, true), closed(1, false)]);
        assert!(ledger.next(false, |_| false).is_some());
        assert_eq!(ledger.on_message(opened(1, false)), Some("/a.nc".into()), "packing it is useless now");
        ledger.done(Path::new("/a.nc"));
        ledger.on_message(closed(1, false));
        assert!(ledger.next(false, |_| false).is_none());
        assert!(ledger.next(true, |_| false).is_some());
        ledger.again(Path::new("/a.nc"));
        assert!(ledger.next(true, |_| false).is_some());
    }
}
