//! The captured files of this process, by their numbers.

use std::cell::Cell;
use std::ffi::c_int;
use std::path::Path;
use std::time::Instant;

use knarr_captured::{CapturedFile, Files, Shared, lock};
use knarr_names::own;

use crate::file::Captured;
use crate::real::library;

/// Files are known by their library, and the number that it gave them.
pub(crate) type Key = (usize, c_int);

static FILES: Files<Key, Captured> = Files::none();

/// Adds a file that the program has opened in a call since `begin`.
pub(crate) fn add(mut file: Captured, begin: Instant) {
    file.common.blocked_since(begin);
    take(file.id);
    FILES.add((library(), file.id), file);
}

/// Takes a file out.
pub(crate) fn take(id: c_int) -> Option<Shared<Captured>> {
    let key = (library(), id);
    FILES.take(|known| *known == key)
}

/// The files of this library, by their numbers.
fn here() -> Vec<(c_int, Shared<Captured>)> {
    let here = library();
    let mut all = FILES.all();
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().filter(|((library, _), _)| *library == here).map(|((_, id), file)| (id, file)).collect()
}

/// The number of the newest file that the program has called `named`, or that leads to `target`.
pub(crate) fn named(named: &[u8], target: &Path) -> Option<c_int> {
    let is_meant = |file: &Captured| file.common.named == named || file.common.target == target;
    here().into_iter().filter(|(_, file)| is_meant(&lock(file))).map(|(id, _)| id).last()
}

/// The file that is to become `target`, if so many ranks write it on this node and its definitions have ended.
pub(crate) fn written(target: &Path, ranks: usize) -> Option<Shared<Captured>> {
    let is_it = |captured: &Captured| {
        let file = &captured.common;
        let is_here = captured.is_written() && !file.ranks.span_nodes();
        is_here && file.target == target && file.ranks.comm().size() == ranks
    };
    FILES.all().into_iter().map(|(_, file)| file).find(|file| is_it(&lock(file)))
}

/// The files that the program writes, of all libraries, but for those that it transfers.
pub(crate) fn all_written() -> Vec<Key> {
    in_order(&FILES, |captured| Some(&captured.common).filter(|file| file.is_own() && file.session == 0))
}

/// Files of several ranks that `meant` chooses: the library and the number of each, in an order that all ranks have.
pub(crate) fn in_order<F>(files: &Files<Key, F>, meant: impl Fn(&F) -> Option<&CapturedFile>) -> Vec<Key> {
    let target = |file: &F| meant(file).filter(|file| !file.ranks.is_alone()).map(|file| file.target.clone());
    let mut all: Vec<_> = files.all().iter().filter_map(|(key, file)| Some((target(&lock(file))?, *key))).collect();
    all.sort();
    all.into_iter().map(|(_, key)| key).collect()
}

/// The numbers of all of them.
pub(crate) fn all() -> Vec<c_int> {
    here().into_iter().map(|(id, _)| id).collect()
}

thread_local! {
    /// This thread is in a call of a captured file. PnetCDF calls functions of its own by their public names, which lead
    /// here: those are for the header.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `call` with a file, and counts the time it takes; `None` if `id` is no captured file, or this is a call of
/// PnetCDF itself. The list is not locked meanwhile: other threads may use other files. No name that is used is waited for.
pub(crate) fn with<T>(id: c_int, call: impl FnOnce(&mut Captured) -> T) -> Option<T> {
    if !FILES.any() || INSIDE.get() {
        return None;
    }
    let key = (library(), id);
    let found = FILES.find(|known| *known == key)?;
    let mut file = lock(&found);
    INSIDE.set(true);
    let _inside = Leave;
    Some(own(|| {
        let begin = Instant::now();
        let result = call(&mut file);
        file.common.blocked_since(begin);
        result
    }))
}

/// Notes that a call is over, also if it panics.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}
