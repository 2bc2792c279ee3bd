//! One file whose values are handed over to Knarr, or by it to the program; and those of this process.

use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use knarr_array::error::Error;
use knarr_captured::{CapturedFile, Files, Values, by_name, lock, note};
use knarr_config::Route;
use knarr_handover::AssembledPuts;

use super::header::Header;
use super::values::convert::pointers;
use super::values::order::{How, Order};
use super::values::through::Through;
use crate::files::{has_open, identity_by, identity_of, is_open, written_by};
use crate::host::{CallerHdf5, Hid};
use crate::property_lists::{Close, Owned, address, file_name};

/// A captured file.
pub(super) struct Captured {
    pub(super) common: CapturedFile,
    pub(super) header: Header,
    /// Device and inode of the header, since the program has the file.
    pub(super) identity: Option<(u64, u64)>,
    /// By which HDF5 writes the header. Nobody else opens a file for writing that has such a name.
    pub(super) descriptor: Option<RawFd>,
    /// Device and inode of the file, if it was handed back: HDF5 writes and reads its values itself.
    pub(super) handed_back: Option<(u64, u64)>,
    /// With MPI-IO, the list by which the program opened the file, and that by which its header was opened; else -1.
    pub(super) access: Hid,
    pub(super) serial: Hid,
    /// Which of writes that overlap counts.
    pub(super) order: Order,
    /// How far this rank is with collective writes.
    pub(super) through: Through,
    /// False if HDF5 could not write its header when the program last asked for that. Programs may ask on some ranks only: the
    /// others hear of a failure when they close the file.
    pub(super) is_flushed: bool,
    /// A forked child is none of the ranks.
    pub(super) process: u32,
    /// The HDF5 that writes it, if it may be handed back to that.
    pub(super) host: Option<&'static CallerHdf5>,
}

/// Shared by the threads of the program.
pub(super) type Shared = knarr_captured::Shared<Captured>;

/// What is known of a file of this process.
#[derive(Clone)]
struct Known {
    /// The name that its header has for HDF5.
    name: Vec<u8>,
    /// The file that it is to become, in the eyes of the program.
    target: PathBuf,
    may_be_handed_back: bool,
    is_handed_back: bool,
}

static FILES: Files<Known, Captured> = Files::none();

/// True if some file is captured.
pub(crate) fn any() -> bool {
    FILES.any()
}

/// Counts the files that may be handed back.
fn count() {
    FILES.with(|all| by_name::count(all.iter().filter(|(known, _)| known.may_be_handed_back).count()));
}

/// Adds a file that the program has opened in a call since `begin`.
pub(super) fn add(mut file: Captured, begin: Instant) {
    file.common.blocked_since(begin);
    file.identity = identity_of(&file.header.now(file.header.path()));
    file.descriptor = file.identity.filter(|_| !file.common.is_incoming()).and_then(written_by);
    let name = file.header.path().as_os_str().as_bytes().to_vec();
    let (target, may_be_handed_back) = (file.common.target.clone(), file.may_be_handed_back());
    FILES.add(Known { name, target, may_be_handed_back, is_handed_back: false }, file);
    count();
}

/// Takes out the files that `is_gone` says are closed.
pub(super) fn take(is_gone: impl Fn(&Captured) -> bool) -> Vec<Shared> {
    let mut gone: Vec<Shared> = FILES.all().into_iter().map(|(_, file)| file).collect();
    gone.retain(|file| is_gone(&lock(file)) && FILES.remove(file));
    count();
    gone
}

/// Takes one file out. False if another thread has done so.
pub(super) fn take_one(file: &Shared) -> bool {
    let is_taken = FILES.remove(file);
    count();
    is_taken
}

/// Notes that a file was handed back whose header is at `path`.
pub(super) fn hand_back(path: &Path) {
    FILES.with(|all| {
        for (known, _) in all.iter_mut().filter(|(known, _)| known.name == path.as_os_str().as_bytes()) {
            known.is_handed_back = true;
            known.may_be_handed_back = false;
        }
    });
    count();
}

/// Files that may be handed back, and that `is_asked` says of their paths. None if another thread has the list: it may be one
/// that a `fork` has left behind.
pub(super) fn that_may_go(is_asked: impl Fn(&Path) -> bool) -> Vec<Shared> {
    let asked = |known: &Known| known.may_be_handed_back && is_asked(&known.target);
    let found =
        FILES.try_with(|all| all.iter().filter(|(known, _)| asked(known)).map(|(_, file)| Arc::clone(file)).collect());
    found.unwrap_or_default()
}

/// The captured file that holds `object`: a file, group, dataset or attribute. `None` for one that was handed back.
pub(super) fn of(host: &CallerHdf5, object: Hid) -> Option<Shared> {
    found(host, object, |known| !known.is_handed_back)
}

/// The same, also if it was handed back.
pub(super) fn named(host: &CallerHdf5, object: Hid) -> Option<Shared> {
    found(host, object, |_| true)
}

fn found(host: &CallerHdf5, object: Hid, is_asked: impl Fn(&Known) -> bool) -> Option<Shared> {
    if !any() {
        return None;
    }
    let name = host.quietly(|host| file_name(host, object)).flatten()?;
    FILES.find(|known| known.name == name && is_asked(known))
}

/// The captured file that is to become `path`, or whose header that is.
pub(super) fn becoming(path: &Path) -> Option<Shared> {
    FILES.find(|known| known.target == path || Path::new(OsStr::from_bytes(&known.name)) == path)
}

impl Captured {
    /// A file that the program opens with this header.
    pub(super) fn new(common: CapturedFile, header: Header, order: Order) -> Self {
        Self {
            common,
            header,
            identity: None,
            descriptor: None,
            handed_back: None,
            access: -1,
            serial: -1,
            order,
            through: Through::default(),
            is_flushed: true,
            process: std::process::id(),
            host: None,
        }
    }

    /// Makes a call and counts the time that it takes.
    pub(super) fn timed<T>(&mut self, call: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let result = call(self);
        self.common.blocked_since(start);
        result
    }

    /// The number of a dataset. `None` if it was not created by a call that Knarr sees. To be asked quietly.
    pub(super) fn number(&self, host: &CallerHdf5, dataset: Hid) -> Option<u32> {
        self.header.number(address(host, dataset)?[0])
    }

    /// What all ranks have put until now, without puts of later numbers than `last`.
    ///
    /// # Errors
    /// As for [`AssembledPuts::of`].
    pub(super) fn gathered(&self, last: u64) -> Result<Arc<AssembledPuts>, Error> {
        if let Values::ReadSession(incoming) = &self.common.values {
            return incoming.puts().cloned().ok_or_else(|| Error::internal("a session that was not waited for"));
        }
        AssembledPuts::of(last, self.common.rank_values()).map(Arc::new)
    }

    /// A collective write of this rank has come to its end.
    pub(super) fn wrote_collectively(&mut self) {
        if self.counts_writes() {
            self.through.wrote(&self.common.directory, self.common.ranks.comm().rank());
        }
    }

    /// This rank writes no more.
    pub(super) fn writes_no_more(&mut self) {
        if self.counts_writes() {
            self.through.ends(&self.common.directory, self.common.ranks.comm().rank());
        }
    }

    /// To be called before an independent read: what other ranks have written in collective calls before this one's last is there
    /// then. Ranks on other nodes are not waited for.
    pub(super) fn await_collective_writes(&self) {
        if self.counts_writes() {
            self.through.await_others(&self.common.directory);
        }
    }

    /// True if several ranks of one node write the file.
    fn counts_writes(&self) -> bool {
        !self.common.is_incoming() && !self.common.ranks.span_nodes() && self.common.ranks.comm().size() > 1
    }

    /// True if what was last asked for on each rank was written. Collective.
    pub(super) fn are_flushed(&self) -> bool {
        self.common.ranks.largest(u64::from(!self.is_flushed)).is_ok_and(|failures| failures == 0)
    }

    /// The number of a write: of writes that overlap, that of the largest number counts.
    ///
    /// # Errors
    /// Those of the node that makes the file, if that is asked.
    pub(super) fn number_of_write(&self, how: How) -> Result<u64, Error> {
        self.order.number(how, || self.common.ranks.next_number())
    }

    /// True if HDF5 has the file that the program asked for.
    pub(super) fn is_handed_back(&self) -> bool {
        self.handed_back.is_some()
    }

    /// True if HDF5 can be given the file that the program asked for.
    pub(super) fn may_be_handed_back(&self) -> bool {
        self.common.is_own() && self.host.is_some()
    }

    /// True if HDF5 has the file open.
    pub(super) fn is_open(&self) -> bool {
        match (self.handed_back, self.descriptor) {
            // The program may have given it another name, and may have it open in other ways.
            (Some(identity), _) => has_open(identity),
            (None, Some(descriptor)) => identity_by(descriptor) == self.identity,
            // A driver that writes it later, or a header that could not be looked at in that moment.
            (None, None) => match self.identity {
                Some(identity) => has_open(identity),
                None => is_open(&self.header.now(self.header.path())),
            },
        }
    }

    /// True if the values of a dataset are in the header: all of a file that is shown, or places in the file, which would mean
    /// nothing elsewhere. Parallel HDF5 does not write those. To be asked quietly.
    pub(super) fn is_in_header(&self, host: &CallerHdf5, dataset: Hid) -> bool {
        if self.header.has_values() {
            return true;
        }
        // SAFETY: the dataset is the program's own; the type is closed when dropped.
        let datatype = || Owned::new(host, unsafe { host.type_of?(dataset) }, Close::Reference);
        (self.common.ranks.is_alone() || self.common.is_incoming())
            && datatype().is_some_and(|datatype| pointers(host, datatype.id).is_some())
    }

    /// True if a file may have to be made of it.
    pub(super) fn may_be_kept(&self) -> bool {
        self.common.rule.route() != Route::Transfer || self.common.rule.transfer().keep()
    }

    /// Notes an error of handing over, which no later call makes good, and says so.
    pub(super) fn fail(&mut self, error: Error) {
        // First of all: nothing that comes next may make it forgotten.
        if self.common.fail(error.clone()) {
            self.refuse(&error);
        }
    }

    /// Says why a call fails, which does nothing else.
    pub(super) fn refuse(&self, error: &Error) {
        note(&self.common.target, error.to_string());
    }
}
