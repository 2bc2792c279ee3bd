//! Which pending name a path leads to.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use knarr_names::{Directory, Identity, Key, Names, Notes, last_of};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, readlinkat_raw, statat};
use rustix::io::Errno;

use super::does::Does;

/// A path as a program gives it: it counts from a directory, or from the working directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    pub(crate) from: c_int,
    pub(crate) path: *const c_char,
}

/// What a path leads to.
#[allow(clippy::large_enum_variant, reason = "nothing here may ask for memory")]
pub(crate) enum Target {
    /// A name that is pending.
    Pending(Named),
    /// A directory, as the path alone says.
    Directory,
    /// Anything else.
    Other,
}

/// Longest name of a file.
const LONGEST: usize = 255;

/// A name, apart from the path that led to it.
pub(crate) struct Named {
    last: [u8; LONGEST],
    length: usize,
    directory: Directory,
}

impl Named {
    fn new(key: (&[u8], Directory)) -> Option<Self> {
        let (bytes, directory) = key;
        let mut last = [0; LONGEST];
        last.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { last, length: bytes.len(), directory })
    }

    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(self.last.get(..self.length).unwrap_or_default(), self.directory)
    }
}

/// How long the launcher takes, as a rule, to see that a file is closed that the program has written in a tier.
const SHORT: Duration = Duration::from_millis(200);
/// Links that lead to links, at most, as for the system.
const MOST_LINKS: usize = 40;
/// Bytes of a path that a link leads to. The stack of a signal handler may be small.
const ROOM: usize = 1024;

impl Name {
    /// The path, from the directory in which this process works. `None` if it is none.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let path = self.path()?.to_bytes();
        if self.from == libc::AT_FDCWD || path.starts_with(b"/") {
            return Some(path.to_vec());
        }
        let directory = std::fs::read_link(format!("/proc/self/fd/{}", self.from)).ok()?;
        Some([directory.as_os_str().as_encoded_bytes(), b"/", path].concat())
    }

    fn path(&self) -> Option<&CStr> {
        // SAFETY: a path that a program gives the C library is null or ends in a zero, and stays during the call.
        (!self.path.is_null()).then(|| unsafe { CStr::from_ptr(self.path) })
    }

    /// The directory that a relative path counts from. `None` if it is none: then the call fails.
    fn from(&self) -> Option<BorrowedFd<'_>> {
        match self.from {
            libc::AT_FDCWD => Some(CWD),
            // SAFETY: a descriptor of the program, which the system checks; it is not closed here.
            from => (from >= 0).then(|| unsafe { BorrowedFd::borrow_raw(from) }),
        }
    }

    /// True if the path is one, and `is_one` says so of it.
    pub(crate) fn satisfies(&self, is_one: impl Fn(&[u8]) -> bool) -> bool {
        self.path().is_some_and(|path| is_one(path.to_bytes()))
    }

    /// The directory of the path, as that gives it.
    pub(crate) fn directory(&self) -> Option<knarr_names::Path> {
        let (_, directory) = last_of(self.path()?.to_bytes())?;
        knarr_names::Path::of(&[if directory.is_empty() { b"." } else { directory }])
    }

    /// True for names that are never pending. An allocator may use them while it begins.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let Some(path) = self.path().map(CStr::to_bytes) else { return true };
        path.is_empty()
            || [&b"/proc/"[..], b"/sys/"].iter().any(|system| path.starts_with(system))
            || path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/")
    }

    /// What the path leads to. With `through_links`, what symbolic links lead to counts.
    pub(crate) fn target(&self, names: &Names, through_links: bool) -> Target {
        let Some((from, path)) = self.parts() else { return Target::Other };
        match look(names, from, path.to_bytes()) {
            Target::Other if through_links => follow(from, path, &mut |path| look(names, from, path)),
            target => target,
        }
    }

    /// The name of those that the path leads to about which another node has left a note.
    pub(crate) fn noted(&self, notes: &Notes, through_links: bool) -> Result<Option<Named>, Errno> {
        let Some((from, path)) = self.parts() else { return Ok(None) };
        let has_it = |path: &[u8]| last_of(path).is_some_and(|(last, _)| notes.concerns(last));
        if !notes.has_stores() && !has_it(path.to_bytes()) {
            return Ok(None);
        }
        if let Some(found) = noted(notes, from, path.to_bytes())? {
            return Ok(Some(found));
        }
        if !through_links || !has_it(path.to_bytes()) {
            return Ok(None);
        }
        let mut failed = None;
        let target = follow(from, path, &mut |path| match noted(notes, from, path) {
            Ok(found) => found.map_or(Target::Other, Target::Pending),
            Err(error) => {
                failed = Some(error);
                Target::Other
            }
        });
        match (target, failed) {
            (Target::Pending(found), _) => Ok(Some(found)),
            (_, Some(error)) => Err(error),
            _ => Ok(None),
        }
    }

    /// That of the file that the path leads to.
    pub(crate) fn identity(&self, follows: bool) -> Option<Identity> {
        let (from, path) = self.parts()?;
        let flags = if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        Identity::of(&statat(from, path, flags).ok()?)
    }

    /// The same of a file that this process may read, as the system says when it is opened.
    pub(crate) fn identity_opened(&self, follows: bool) -> Option<Identity> {
        let (from, path) = self.parts()?;
        let link = if follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | link;
        Identity::of(&fstat(openat(from, path, flags, Mode::empty()).ok()?).ok()?)
    }

    /// The directory that the path counts from, and the path.
    fn parts(&self) -> Option<(BorrowedFd<'_>, &CStr)> {
        let path = self.path()?;
        let from = self.from().or_else(|| path.to_bytes().starts_with(b"/").then_some(CWD))?;
        Some((from, path))
    }

    /// Waits for what is under way below the directory that the path leads to, if it leads to one.
    ///
    /// # Errors
    /// Why a directory cannot be removed.
    pub(crate) fn settle_below(&self, names: &Names, does: Does) -> Result<(), c_int> {
        let (Some(path), Some(from)) = (self.path(), self.from()) else { return Ok(()) };
        let is_directory = || {
            let found = statat(from, path, AtFlags::SYMLINK_NOFOLLOW);
            found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
        };
        match does {
            // The directory itself.
            Does::RemovesAny if !is_directory() => {}
            Does::Lists | Does::Scans | Does::RemovesAny | Does::RemovesDirectory => {
                let Some(directory) = Directory::at(from, path) else { return Ok(()) };
                if does == Does::Scans {
                    names.await_close(Some(directory), SHORT);
                }
                // What the program itself writes in a tier is listed by the streams of entries.
                names.settle_in(Some(directory), does != Does::Lists);
                let removes = matches!(does, Does::RemovesAny | Does::RemovesDirectory);
                if removes && names.is_written_in(directory) {
                    return Err(libc::ENOTEMPTY);
                }
            }
            Does::MovesFrom if !is_directory() => {}
            // Everything below, however deep. Nobody knows which directories those are.
            Does::Walks | Does::MovesFrom => {
                if does == Does::Walks {
                    names.await_close(None, SHORT);
                }
                names.settle_in(None, true);
            }
            _ => {}
        }
        Ok(())
    }
}

/// What a path leads to without links in its last component.
fn look(names: &Names, from: BorrowedFd<'_>, path: &[u8]) -> Target {
    if names.any_is_directory() {
        // Files in a directory that is pending are as pending.
        for above in above(path) {
            if let Some(found) = pending(names, from, above) {
                return Target::Pending(found);
            }
        }
    }
    if last_of(path).is_none() {
        return Target::Directory;
    }
    pending(names, from, path).map_or(Target::Other, Target::Pending)
}

fn pending(names: &Names, from: BorrowedFd<'_>, path: &[u8]) -> Option<Named> {
    let (last, directory) = last_of(path)?;
    if !names.may_have(last) {
        return None;
    }
    let directory = Directory::of(from, directory)?;
    names.find(&Key::new(last, directory), u64::MAX)?;
    Named::new((last, directory))
}

/// The directories that a path leads through.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0).map(|(at, _)| at);
    ends.filter_map(|end| path.get(..end))
}

/// The name on the way to what a path leads to, without links, about which another node has left a note.
fn noted(notes: &Notes, from: BorrowedFd<'_>, path: &[u8]) -> Result<Option<Named>, Errno> {
    let through = notes.has_stores().then(|| above(path)).into_iter().flatten();
    for path in through.chain([path]) {
        let Some((last, directory)) = last_of(path).filter(|(last, _)| notes.concerns(last)) else { continue };
        let Some(directory) = Directory::of(from, directory) else { continue };
        if notes.find(&Key::new(last, directory))?.is_some() {
            return Ok(Named::new((last, directory)));
        }
    }
    Ok(None)
}

/// What the symbolic link at a path leads to, if it is one, as `look` says of each path.
fn follow(from: BorrowedFd<'_>, path: &CStr, look: &mut dyn FnMut(&[u8]) -> Target) -> Target {
    let mut room = [0; ROOM];
    let mut length = 0;
    for _ in 0..MOST_LINKS {
        let mut led = [MaybeUninit::uninit(); ROOM];
        let here = if length == 0 { Some(path) } else { CStr::from_bytes_until_nul(&room).ok() };
        let Some(here) = here else { return Target::Other };
        let Ok((led, _)) = readlinkat_raw(from, here, &mut led) else { return Target::Other };
        // A relative one counts from the directory that the link is in.
        let keep = if led.starts_with(b"/") { 0 } else { last_of(here.to_bytes()).map_or(0, |(_, above)| above.len()) };
        if length == 0 {
            let above = path.to_bytes().get(..keep).unwrap_or_default();
            let Some(place) = room.get_mut(..keep) else { return Target::Other };
            place.copy_from_slice(above);
        }
        length = keep + led.len();
        // One byte stays for the zero. What was cut is no path.
        let Some(place) = room.get_mut(keep..length).filter(|_| length < ROOM - 1) else { return Target::Other };
        place.copy_from_slice(led);
        if let Some(end) = room.get_mut(length) {
            *end = 0;
        }
        match look(room.get(..length).unwrap_or_default()) {
            Target::Other => {}
            target => return target,
        }
    }
    Target::Other
}
