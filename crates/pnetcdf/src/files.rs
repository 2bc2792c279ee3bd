//! The captured files of this process, by their numbers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use knarr_names::own;

use crate::file::{Captured, Mode, Values};
use crate::real::library;

/// Files are known by their library, and the number that it gave them.
pub(crate) type Key = (usize, c_int);

static FILES: Mutex<BTreeMap<Key, Arc<Mutex<Captured>>>> = Mutex::new(BTreeMap::new());
/// How many there are: most programs have none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn files() -> MutexGuard<'static, BTreeMap<Key, Arc<Mutex<Captured>>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a file.
pub(crate) fn add(file: Captured) {
    let mut files = files();
    files.insert((library(), file.id), Arc::new(Mutex::new(file)));
    COUNT.store(files.len(), Ordering::Relaxed);
}

/// Takes a file out.
pub(crate) fn take(id: c_int) -> Option<Arc<Mutex<Captured>>> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut files = files();
    let found = files.remove(&(library(), id));
    COUNT.store(files.len(), Ordering::Relaxed);
    found
}

/// The number of the newest file that the program has called `named`, or that leads to `target`.
pub(crate) fn named(named: &[u8], target: &Path) -> Option<c_int> {
    // Locked one by one: a call of one of them may be under way.
    let here = library();
    let all: Vec<_> = files().iter().map(|(key, file)| (*key, Arc::clone(file))).collect();
    let all = all.into_iter().filter(|((library, _), _)| *library == here).map(|((_, id), file)| (id, file));
    let is_meant = |file: &Captured| file.named == named || file.target == target;
    let meant = all.filter(|(_, file)| is_meant(&file.lock().unwrap_or_else(PoisonError::into_inner)));
    meant.map(|(id, _)| id).last()
}

/// A file that the program writes.
pub(crate) struct Written {
    pub(crate) file: Weak<Mutex<Captured>>,
    pub(crate) directory: PathBuf,
    pub(crate) header: PathBuf,
}

/// The file that is to become `target`, if so many ranks write it on this node and its definitions have ended.
pub(crate) fn written(target: &Path, ranks: usize) -> Option<Written> {
    let all: Vec<_> = files().values().cloned().collect();
    all.into_iter().find_map(|shared| {
        let file = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = matches!(file.values, Values::Own(_)) && file.mode != Mode::Define && !file.ranks.are_apart();
        let is_it = is_own && file.target == target && file.ranks.comm().size() == ranks;
        let (directory, header) = (file.directory.clone(), file.ranks.header(&file.directory));
        is_it.then(|| Written { file: Arc::downgrade(&shared), directory, header })
    })
}

/// The files that the program writes, of all libraries, but for those that it transfers: the library and the number of each, in
/// an order that all ranks have.
pub(crate) fn all_written() -> Vec<Key> {
    let all: Vec<_> = files().iter().map(|(key, file)| (*key, Arc::clone(file))).collect();
    let target = |file: &Mutex<Captured>| {
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_file = matches!(file.values, Values::Own(_)) && file.session == 0;
        (is_file && !file.ranks.is_alone()).then(|| file.target.clone())
    };
    let mut all: Vec<_> = all.iter().filter_map(|(key, file)| Some((target(file)?, *key))).collect();
    all.sort();
    all.into_iter().map(|(_, key)| key).collect()
}

/// The numbers of all of them.
pub(crate) fn all() -> Vec<c_int> {
    let here = library();
    files().keys().filter(|(library, _)| *library == here).map(|(_, id)| *id).collect()
}

thread_local! {
    /// This thread is in a call of a captured file. PnetCDF calls functions of its own by their public names, which lead
    /// here: those are for the header.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `call` with a file, and counts the time it takes; `None` if `id` is no captured file, or this is a call of
/// PnetCDF itself. The list is not locked meanwhile: other threads may use other files. No name that is used is waited for.
pub(crate) fn with<T>(id: c_int, call: impl FnOnce(&mut Captured) -> T) -> Option<T> {
    if COUNT.load(Ordering::Relaxed) == 0 || INSIDE.get() {
        return None;
    }
    let found = files().get(&(library(), id)).cloned()?;
    let mut file = found.lock().unwrap_or_else(PoisonError::into_inner);
    INSIDE.set(true);
    let _inside = Leave;
    Some(own(|| file.timed(call)))
}

/// Notes that a call is over, also if it panics.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}
