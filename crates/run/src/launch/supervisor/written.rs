//! Files that the program itself writes in tiers, whole. The system tells when one of their descriptors is closed. The file is closed
//! when no process has it open to write.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_capture::HandedOver;
use knarr_capture::processes::written_or_mapped;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

use super::Supervisor;
use crate::launch::outcome::Outcome;
use crate::launch::start::prepare::RunSetup;

/// What is known of files that the program writes in tiers.
pub(super) struct WrittenFiles {
    /// Tells of descriptors that were closed. Without it all files are looked at.
    events: Option<Events>,
    /// Directories of files of which a descriptor was closed since they were looked at.
    closed: BTreeSet<PathBuf>,
    /// When processes are looked at again.
    next_look: Instant,
    /// They were looked at since the program has ended.
    has_looked: bool,
    /// Directories of files that take more than was taken for them, and the bytes that were charged for that.
    grown: BTreeMap<PathBuf, u64>,
}

struct Events {
    descriptor: OwnedFd,
    /// Numbers of what is watched, and the directories.
    watched: Vec<(i32, PathBuf)>,
}

/// Between two looks at all processes passes so many times as long as one takes.
const PAUSE: u32 = 10;
/// Bytes of events that are read at once.
const ROOM: usize = 1 << 14;

impl Events {
    fn of(spools: &[PathBuf]) -> rustix::io::Result<Self> {
        let descriptor = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let watch = |spool: &PathBuf| Ok((add_watch(&descriptor, spool, WatchFlags::CLOSE_WRITE)?, spool.clone()));
        let watched = spools.iter().map(watch).collect::<rustix::io::Result<_>>()?;
        Ok(Self { descriptor, watched })
    }

    /// The files of which a descriptor was closed; `None` if there were too many to tell.
    fn read(&self) -> Option<Vec<PathBuf>> {
        let (mut room, mut files) = ([MaybeUninit::uninit(); ROOM], Vec::new());
        let mut reader = Reader::new(&self.descriptor, &mut room);
        // It ends when there is none.
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return None;
            }
            let spool = self.watched.iter().find(|(number, _)| *number == event.wd()).map(|(_, spool)| spool);
            if let Some((spool, name)) = spool.zip(event.file_name()) {
                files.push(spool.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
        Some(files)
    }
}

impl WrittenFiles {
    pub(super) fn of(setup: &RunSetup) -> Self {
        let spools: Vec<_> = setup.staged.iter().map(|(_, spool)| spool.path().to_owned()).collect();
        let events = if spools.is_empty() { None } else { Events::of(&spools).ok() };
        Self { events, closed: BTreeSet::new(), next_look: Instant::now(), has_looked: false, grown: BTreeMap::new() }
    }
}

impl Supervisor<'_> {
    /// Directories of files that the program writes in tiers, and what is known of these.
    fn open_in_tiers(&self) -> impl Iterator<Item = (PathBuf, HandedOver)> {
        let open = self.staged_spools().flat_map(HandedOver::open);
        let open = open.filter_map(|(directory, open)| Some((directory, open.ok()?)));
        open.filter(|(_, open)| open.reserved.is_some())
    }

    /// True if the program has a file open that it writes in a tier.
    pub(super) fn is_written(&self) -> bool {
        self.open_in_tiers().next().is_some()
    }

    /// True if nothing that the program has written in tiers is open, as far as was looked since it has ended.
    pub(super) fn has_looked_at_written(&self) -> bool {
        self.written.has_looked || !self.is_written()
    }

    /// Looks after files of which a descriptor was closed: those that no process writes any more are closed.
    pub(super) fn settle_written(&mut self) {
        if self.setup.staged.is_empty() {
            return;
        }
        let told = self.written.events.as_ref().and_then(Events::read);
        match told.filter(|_| self.ended.is_none()) {
            Some(files) => {
                self.written.closed.extend(files.iter().filter_map(|file| HandedOver::directory_of_whole(file)));
            }
            None => {
                let open: Vec<_> = self.open_in_tiers().map(|(directory, _)| directory).collect();
                self.written.closed.extend(open);
            }
        }
        self.written.closed.retain(|directory| directory.join(HandedOver::OPEN).exists());
        // When the program has ended nothing is slowed down.
        let has_ended = self.ended.is_some();
        if self.written.closed.is_empty() || !has_ended && Instant::now() < self.written.next_look {
            return;
        }
        let looked_at = std::mem::take(&mut self.written.closed);
        let (mut written, mut took) = (BTreeSet::new(), Duration::ZERO);
        let is_written = || {
            let begin = Instant::now();
            let file = |directory: &PathBuf| Some((HandedOver::whole_file(directory)?, directory.clone()));
            let files: HashMap<_, _> = looked_at.iter().filter_map(file).collect();
            // Nobody knows if that fails.
            let found = written_or_mapped(&files.keys().copied().collect());
            took = begin.elapsed();
            let found = found.ok()?;
            written = found.keys().filter_map(|file| files.get(file).cloned()).collect();
            Some(written.clone())
        };
        let closed = self.setup.names.close_written(&looked_at, is_written, |directory| {
            close(directory).map(|bytes| (directory.to_owned(), bytes))
        });
        // With many processes that takes a while.
        self.written.next_look = Instant::now() + took * PAUSE;
        self.written.has_looked |= has_ended && closed.is_some();
        self.forget_not_made(&looked_at);
        let closed: BTreeMap<_, _> = closed.into_iter().flatten().flatten().collect();
        // The others are looked at again: the program uses them at this moment, or there was no room to note that they are closed.
        let again =
            looked_at.into_iter().filter(|directory| !written.contains(directory) && !closed.contains_key(directory));
        self.written.closed.extend(again);
        for (directory, bytes) in closed {
            self.setup.names.closed_written(bytes);
            self.forget_growth(&directory);
            self.in_spool.known.insert(directory.clone());
            self.push_delivery(directory);
        }
    }

    /// Removes what is left of files whose processes were killed before they had made them.
    fn forget_not_made(&mut self, directories: &BTreeSet<PathBuf>) {
        for directory in directories {
            let names = &self.setup.names;
            // A process may be about to make it.
            let is_one = || HandedOver::begun(directory).is_ok_and(|open| open.was_not_made(directory));
            if is_one() {
                names.apart_from_writers(|| {
                    if is_one() {
                        names.end(directory, &Outcome::GivenUp);
                        HandedOver::discard(directory);
                    }
                });
            }
        }
    }

    /// Has the tiers count what open files take beyond what was taken for them: others are to find that there is less room.
    pub(super) fn count_written(&mut self) {
        let mut grown = BTreeMap::new();
        for (directory, open) in self.open_in_tiers() {
            let takes = open.whole_takes(&directory);
            let more = takes.saturating_sub(open.reserved.unwrap_or(0));
            grown.insert(directory, more);
        }
        let before = std::mem::take(&mut self.written.grown);
        for directory in before.keys().chain(grown.keys()).collect::<BTreeSet<_>>() {
            let of = |grown: &BTreeMap<PathBuf, u64>| grown.get(directory).copied().unwrap_or(0);
            HandedOver::recount_whole(directory, of(&before), of(&grown));
        }
        self.written.grown = grown;
    }

    /// What was charged for a file that has grown is counted otherwise from now on.
    fn forget_growth(&mut self, directory: &Path) {
        if let Some(grown) = self.written.grown.remove(directory) {
            HandedOver::recount_whole(directory, grown, 0);
        }
    }

    /// The program has opened a file again that was closed, before it was begun to be moved.
    pub(super) fn written_again(&mut self, directory: &Path) {
        HandedOver::reopen_whole(directory);
        self.written.closed.insert(directory.to_owned());
    }

    /// Removes what the program has written in tiers and has removed since.
    pub(super) fn drop_given_up(&mut self) {
        for name in self.setup.names.given_up().into_iter().filter(|name| HandedOver::is_name_of_whole(name)) {
            let name = OsStr::from_bytes(&name);
            let found = self.staged_spools().map(|spool| spool.join(name)).find(|directory| directory.is_dir());
            let Some(directory) = found else {
                self.setup.names.end(Path::new(name), &Outcome::GivenUp);
                continue;
            };
            // A job sees that by itself.
            if self.jobs.is_to_be_made(&directory) || self.jobs.delivering().any(|(_, of)| *of == directory) {
                continue;
            }
            self.forget_growth(&directory);
            self.setup.names.end(&directory, &Outcome::GivenUp);
            HandedOver::discard(&directory);
        }
    }
}

/// Notes that the file of a directory is closed. Returns its length; `None` if that cannot be, or if the program has given it up.
fn close(directory: &Path) -> Option<u64> {
    let open = HandedOver::begun(directory).ok().filter(|open| !open.was_not_made(directory))?;
    let bytes = std::fs::metadata(HandedOver::whole_path(directory)?).ok()?.len();
    open.close_whole(directory, bytes).ok().map(|()| bytes)
}
