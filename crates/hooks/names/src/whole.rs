//! Files that the program writes in a tier, whole: how a call makes one, and gives it another name.

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use knarr_capture::HandedOver;
use knarr_captured::guard;
use knarr_captured::whole::{Begins, Below, Busy, WholeFile, rename};
use knarr_names::{Directory, Hold, Names, here, is_opened_by_library, is_own, last_of};

use super::does::Does;
use super::instead;
use super::next::{Answer, fail};
use super::path::{Name, Target};
use super::signals::{Blocked, Guarded};
use super::uses::Use;

/// What came of a call that may make a file.
pub(crate) enum Made<A> {
    /// It has made it in a tier.
    Whole(A),
    /// It is to be made as without Knarr.
    Itself,
    /// Another process has begun the file.
    Again,
}

/// Makes a call that may make a file in a tier.
pub(crate) fn make<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> Made<A> {
    let Some(makes) = uses.makes.filter(|_| uses.name.satisfies(WholeFile::may_be)) else { return Made::Itself };
    if is_opened_by_library() || uses.name.is_elsewhere() {
        return Made::Itself;
    }
    let _blocked = Blocked::new();
    if names.notes().is_some() {
        let tell = || uses.name.bytes().iter().for_each(|path| WholeFile::stays(path, "the run has several launchers"));
        guard((), tell);
        return Made::Itself;
    }
    let begin = || uses.name.bytes().map_or(Begins::Itself, |path| WholeFile::begin(names, &path, makes));
    let whole = match guard(Begins::Itself, begin) {
        Begins::Itself => return Made::Itself,
        Begins::Again => return Made::Again,
        Begins::Whole(whole) => whole,
    };
    let path = guard(None, || CString::new(whole.path().as_os_str().as_bytes()).ok());
    let answer = path.map(|path| instead::with(uses.name.path, path.as_ptr(), call));
    let answer = answer.filter(|answer| !answer.has_failed());
    guard((), || {
        match answer {
            Some(_) => whole.made(),
            None => whole.not_made(names),
        }
        drop(whole);
    });
    answer.map_or(Made::Itself, Made::Whole)
}

/// True if the program may write files in tiers that a listing of their directory has to show.
pub(crate) fn may_list() -> bool {
    here().is_some_and(|names| names.writes_in_tiers() && names.any()) && !is_own()
}

/// Names that a listing of the directory at `path` has besides those on the disk.
pub(crate) fn listed(path: &CStr) -> Vec<OsString> {
    let mut listed = Vec::new();
    if let Some(names) = here().filter(|_| may_list())
        && let Some(directory) = Directory::at(rustix::fs::CWD, path)
    {
        guard((), || names.whole_in(directory, |name| listed.push(OsString::from_vec(name))));
    }
    listed
}

/// Where the file of a name is to be, if the program writes it in a tier.
pub(crate) fn place(name: Name) -> Option<CString> {
    let names = here().filter(|names| names.any())?;
    let Target::Pending(key) = name.target(names, false) else { return None };
    names.find(&key.key(), u64::MAX).filter(|found| names.is_whole(*found))?;
    let path = name.bytes()?;
    let (last, directory) = last_of(&path)?;
    let directory = if directory.is_empty() { b"." } else { directory };
    let directory = std::fs::canonicalize(std::ffi::OsStr::from_bytes(directory)).ok()?;
    CString::new(directory.join(std::ffi::OsStr::from_bytes(last)).into_os_string().into_vec()).ok()
}

/// Makes a call that gives a directory another name, if that is what it does, and if there are files below that the program writes in
/// tiers.
pub(crate) fn move_directory<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> Option<A> {
    let (to, does) = uses.other.filter(|_| uses.does == Does::MovesFrom && names.any())?;
    for _ in 0..TRIES {
        let blocked = Blocked::new();
        let below = |name: Name| {
            let of = || name.bytes().map_or(Ok(None), |path| Below::of(names, &path));
            guard(Ok(None), of)
        };
        // Two directories are not exchanged below which files are in tiers.
        let is_exchange = does == Does::MovesFrom;
        match below(uses.name) {
            Ok(None) if is_exchange && !matches!(below(to), Ok(None)) => return Some(fail(libc::EINVAL)),
            Ok(None) => return None,
            Ok(Some(_)) if is_exchange => return Some(fail(libc::EINVAL)),
            Ok(Some(below)) => {
                let answer = call();
                guard((), || below.end(to.bytes().filter(|_| !answer.has_failed()).as_deref()));
                return Some(answer);
            }
            Err(Busy) => {}
        }
        drop(blocked);
        names.settle_in(None, true);
    }
    Some(fail(libc::EBUSY))
}

/// How often a directory is tried to be given another name below which files are busy.
const TRIES: usize = 100;

/// Gives a file that is written in a tier, the first of what is held, the other name of the call. The second is what that gives up.
pub(crate) fn move_to<A: Answer>(uses: &Use, holds: Guarded<(Hold<'_>, Option<Hold<'_>>)>) -> A {
    let (hold, over) = holds.value;
    let give_up =
        || over.into_iter().for_each(|over| over.give_up([HandedOver::NAME, HandedOver::OPEN], HandedOver::GIVEN_UP));
    let moved = || {
        let (name, does) = uses.other.ok_or(libc::EFAULT)?;
        let (old, new) = uses.name.bytes().zip(name.bytes()).ok_or(libc::EFAULT)?;
        if does == Does::Makes && std::fs::symlink_metadata(std::ffi::OsStr::from_bytes(&new)).is_ok() {
            return Err(libc::EEXIST);
        }
        rename(hold, (&old, &new), give_up)
    };
    match guard(Err(libc::EIO), moved) {
        Ok(()) => A::DONE,
        Err(reason) => fail(reason),
    }
}
