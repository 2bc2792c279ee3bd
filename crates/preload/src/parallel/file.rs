//! One file whose values are handed over to Knarr, or by it to the program; and those of this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::Error;
use knarr_capture::Event;
use knarr_capture::program::run;
use knarr_captured::Ranks;
use knarr_captured::sessions::Incoming;
use knarr_config::{FileRule, Route};
use knarr_handover::{Gathered, PutLog};

use super::convert::pointers;
use super::header::Header;
use super::order::{How, Order};
use super::through::Through;
use crate::host::{CallerHdf5, Hid};
use crate::lists::{Close, Owned, address, file_name};

/// Where the values of a file are.
pub(super) enum Values {
    /// What this program puts.
    Own(Box<PutLog>),
    /// What another component has put. If another library than HDF5 has written the file, it is shown in a directory.
    Incoming { incoming: Box<Incoming>, puts: Arc<Gathered>, shown: Option<PathBuf> },
}

/// A captured file.
pub(super) struct Captured {
    /// The name that the program gave it, and where that leads.
    pub(super) named: Vec<u8>,
    pub(super) target: PathBuf,
    pub(super) rule: FileRule,
    /// In the spool.
    pub(super) directory: PathBuf,
    /// Number of the session if the file is transferred, else 0.
    pub(super) session: u64,
    pub(super) header: Header,
    pub(super) ranks: Ranks,
    pub(super) values: Values,
    /// With MPI-IO, the list by which the program opened the file, and that by which its header was opened; else -1.
    pub(super) access: Hid,
    pub(super) serial: Hid,
    /// Which of writes that overlap counts.
    pub(super) order: Order,
    /// How far this rank is with collective writes.
    pub(super) through: Through,
    /// The first error of handing over.
    pub(super) failed: Option<Error>,
    /// False if HDF5 could not write its header when the program last asked for that.
    pub(super) is_flushed: bool,
    pub(super) blocked: Duration,
    /// A forked child is none of the ranks.
    pub(super) process: u32,
}

/// Shared by the threads of the program.
pub(super) type Shared = Arc<Mutex<Captured>>;

/// By the names that their headers have for HDF5.
static FILES: Mutex<Vec<(Vec<u8>, Shared)>> = Mutex::new(Vec::new());
/// How many there are: most programs have none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn files() -> MutexGuard<'static, Vec<(Vec<u8>, Shared)>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file, for one thread.
pub(super) fn lock(file: &Shared) -> MutexGuard<'_, Captured> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if some file is captured.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Adds a file whose header has this name for HDF5.
pub(super) fn add(name: Vec<u8>, file: Captured) {
    let mut files = files();
    files.push((name, Arc::new(Mutex::new(file))));
    COUNT.store(files.len(), Ordering::Relaxed);
}

/// Takes out the files that `is_gone` says are closed.
pub(super) fn take(is_gone: impl Fn(&Captured) -> bool) -> Vec<Shared> {
    let mut files = files();
    let (gone, kept) = std::mem::take(&mut *files).into_iter().partition(|(_, file)| is_gone(&lock(file)));
    *files = kept;
    COUNT.store(files.len(), Ordering::Relaxed);
    let gone: Vec<(Vec<u8>, Shared)> = gone;
    gone.into_iter().map(|(_, file)| file).collect()
}

/// The captured file that holds `object`: a file, group, dataset or attribute.
pub(super) fn of(host: &CallerHdf5, object: Hid) -> Option<Shared> {
    if !any() {
        return None;
    }
    let name = host.quietly(|host| file_name(host, object)).flatten()?;
    files().iter().find(|(known, _)| *known == name).map(|(_, file)| Arc::clone(file))
}

/// The captured file that is to become `path`, or whose header that is.
pub(super) fn becoming(path: &Path) -> Option<Shared> {
    if !any() {
        return None;
    }
    let is_it = |file: &Captured| file.target == path || file.header.path() == path;
    files().iter().find(|(_, file)| is_it(&lock(file))).map(|(_, file)| Arc::clone(file))
}

/// Has the launcher tell something about a file. A library does not print: the program's standard error is its own.
pub(super) fn tell(path: &Path, text: String) {
    if let Some(run) = run() {
        run.tell(Event::Note { path: path.to_owned(), text });
    }
}

impl Captured {
    /// Makes a call and counts the time that it takes.
    pub(super) fn timed<T>(&mut self, call: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let result = call(self);
        self.blocked += start.elapsed();
        result
    }

    /// The number of a dataset. `None` if it was not created by a call that Knarr sees. To be asked quietly.
    pub(super) fn number(&self, host: &CallerHdf5, dataset: Hid) -> Option<u32> {
        self.header.number(address(host, dataset)?[0])
    }

    /// What all ranks have put until now, without puts of later numbers than `last`.
    ///
    /// # Errors
    /// As for [`Gathered::of`].
    pub(super) fn gathered(&self, last: u64) -> Result<Arc<Gathered>, Error> {
        if let Values::Incoming { puts, .. } = &self.values {
            return Ok(Arc::clone(puts));
        }
        Gathered::of(last, self.ranks.held(&self.directory)).map(Arc::new)
    }

    /// A collective call begins.
    pub(super) fn calls(&mut self) {
        self.order.calls();
    }

    /// A collective write of this rank has come to its end.
    pub(super) fn wrote_collectively(&mut self) {
        if self.counts_writes() {
            self.through.wrote(&self.directory, self.ranks.comm().rank());
        }
    }

    /// This rank writes no more.
    pub(super) fn writes_no_more(&mut self) {
        if self.counts_writes() {
            self.through.ends(&self.directory, self.ranks.comm().rank());
        }
    }

    /// To be called before an independent read: what other ranks have written in collective calls before this one's last is there
    /// then. Ranks on other nodes are not waited for.
    pub(super) fn await_collective_writes(&self) {
        if self.counts_writes() {
            self.through.await_others(&self.directory);
        }
    }

    /// True if several ranks of one node write the file.
    fn counts_writes(&self) -> bool {
        !self.is_incoming() && !self.ranks.are_apart() && self.ranks.comm().size() > 1
    }

    /// HDF5 has written what it had of the header, or could not. Programs may ask for that on some ranks only: the others hear of
    /// a failure when they close the file.
    pub(super) fn flushed(&mut self, is_written: bool) {
        self.is_flushed = is_written;
    }

    /// True if what was last asked for on each rank was written. Collective.
    pub(super) fn are_flushed(&self) -> bool {
        self.ranks.largest(u64::from(!self.is_flushed)).is_ok_and(|failures| failures == 0)
    }

    /// The number of a write: of writes that overlap, that of the largest number counts.
    ///
    /// # Errors
    /// Those of the node that makes the file, if that is asked.
    pub(super) fn number_of_write(&self, how: How) -> Result<u64, Error> {
        self.order.number(how, || self.ranks.next_number())
    }

    /// The number of the last write that a read may see.
    pub(super) fn last_seen(&self, how: How) -> u64 {
        self.order.seen(how)
    }

    /// Where this program's puts go; `None` if it only reads.
    pub(super) fn log(&mut self) -> Option<&mut PutLog> {
        match &mut self.values {
            Values::Own(log) => Some(log),
            Values::Incoming { .. } => None,
        }
    }

    /// True if the program reads what another component has put.
    pub(super) fn is_incoming(&self) -> bool {
        matches!(self.values, Values::Incoming { .. })
    }

    /// True if the values of a dataset are in the header: all of a file that is shown, or places in the file, which would mean
    /// nothing elsewhere. Parallel HDF5 does not write those. To be asked quietly.
    pub(super) fn is_in_header(&self, host: &CallerHdf5, dataset: Hid) -> bool {
        if matches!(self.values, Values::Incoming { shown: Some(_), .. }) {
            return true;
        }
        // SAFETY: the dataset is the program's own; the type is closed when dropped.
        let datatype = || Owned::new(host, unsafe { host.type_of?(dataset) }, Close::Reference);
        (self.ranks.is_alone() || self.is_incoming())
            && datatype().is_some_and(|datatype| pointers(host, datatype.id).is_some())
    }

    /// True if a file may have to be made of it.
    pub(super) fn may_be_kept(&self) -> bool {
        self.rule.route != Route::Transfer || self.rule.transfer.keep()
    }

    /// Notes an error of handing over, which no later call makes good, and says so.
    pub(super) fn fail(&mut self, error: Error) {
        if self.failed.is_none() {
            // First of all: nothing that comes next may make it forgotten.
            self.failed = Some(error.clone());
            self.refuse(&error);
        }
    }

    /// Says why a call fails, which does nothing else.
    pub(super) fn refuse(&self, error: &Error) {
        tell(&self.target, error.to_string());
    }
}
