//! Files that the program writes in a tier, whole: those of formats that Knarr does not capture, for which a rule has route `stage`.
//! The program gets another path when it makes the file, and writes it there by itself.

use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use knarr_array::error::Result;
use knarr_capture::{
    Event, HandedOver, SpoolInTier, SpoolPlace, accounts_of, key_of, place_of, tier_holding, written_in,
};
use knarr_names::{Call, Hold, Lock, Names, STAGED, here};
use knarr_tier::{Room, Space};
use rustix::fs::{Access, access};

use crate::pending::notify;
use crate::wanted::{Wanted, may_be_wanted, wanted};

/// What the names of files have in them that are Knarr's own.
const OWN: &[u8] = b".knarr-";
/// A file of unknown length gets so many bytes, or this part of the room that a tier has left.
const UNKNOWN: u64 = 1 << 28;
const PART_OF_ROOM: u64 = 4;
/// Others get their length, and this part of it more; and so many bytes.
const PART_OF_LENGTH: u64 = 4;
const MORE: u64 = 1 << 20;

/// Files in a directory with this bit in its mode belong to its group.
const SETGID: u32 = 0o2000;

/// How a call makes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    /// There must be none.
    New,
    /// One that is there is emptied.
    Anew,
    /// One that is there is opened as it is.
    IfNone,
}

/// A file that the program makes in a tier, with the lock under which it does.
pub struct WholeFile {
    wanted: Wanted,
    directory: PathBuf,
    file: PathBuf,
    replaced: Option<Metadata>,
    _lock: Lock,
}

/// What a call that makes a file is to do.
pub enum Begins {
    /// As without Knarr.
    Itself,
    /// It makes this one.
    Whole(Box<WholeFile>),
    /// Another process has begun the file: names are to be looked at again.
    Again,
}

impl WholeFile {
    /// False if no rule can match a file of this name. It asks for no memory.
    pub fn may_be(named: &[u8]) -> bool {
        may_be_wanted(named)
    }

    /// Begins a file of this name in a tier.
    pub fn begin(names: &Names, named: &[u8], makes: Makes) -> Begins {
        let Some(wanted) = wanted(named).filter(may_be_whole) else { return Begins::Itself };
        let (goes_away, target) = (wanted.rule.place.is_some(), wanted.target.clone());
        // Of a file that is in a bucket by now nothing is here that could be added to.
        let is_whole = !goes_away || makes != Makes::IfNone;
        let begins = if is_whole { Self::begin_wanted(names, wanted, makes) } else { Begins::Itself };
        if goes_away && matches!(begins, Begins::Itself) && (makes == Makes::Anew || !target.exists()) {
            Self::stays(
                named,
                if is_whole { "no tier has room for it" } else { "the program may add to one that is there" },
            );
        }
        begins
    }

    /// Tells that a file which was to go to a bucket stays where the program writes it.
    pub fn stays(named: &[u8], why: &str) {
        if let Some(wanted) = wanted(named).filter(|wanted| may_be_whole(wanted) && wanted.rule.place.is_some()) {
            wanted.passed(format!("it stays in its directory, and does not go to the bucket: {why}"));
        }
    }

    fn begin_wanted(names: &Names, wanted: Wanted, makes: Makes) -> Begins {
        let replaced = match (fs::symlink_metadata(&wanted.target), makes) {
            (Err(error), _) if error.kind() == std::io::ErrorKind::NotFound => None,
            (Ok(found), Makes::Anew) if found.is_file() && found.nlink() == 1 => Some(found),
            _ => return Begins::Itself,
        };
        let may = |path: &Path, do_this: Access| access(path, do_this).is_ok();
        let parent = wanted.target.parent().unwrap_or(Path::new("/"));
        let is_allowed = may(parent, Access::WRITE_OK | Access::EXEC_OK)
            && (replaced.is_none() || may(&wanted.target, Access::WRITE_OK));
        if !is_allowed || !wanted.run.is_alive() {
            return Begins::Itself;
        }
        if !names.may_enter_written() {
            return Begins::Itself;
        }
        let (Some(key), Ok(lock)) = (key_of(&wanted.target), names.lock_written()) else { return Begins::Itself };
        if names.find(&key, u64::MAX).is_some() {
            return Begins::Again;
        }
        let (spool, longest) = (wanted.spool, names.longest_written());
        let made = spools(spool).iter().find_map(|place| make(&wanted, place, longest, makes == Makes::New));
        let Some((directory, file)) = made else { return Begins::Itself };
        let whole = Box::new(Self { wanted, directory, file, replaced, _lock: lock });
        if whole.enter(names).is_none() {
            whole.forget();
            return Begins::Itself;
        }
        Begins::Whole(whole)
    }

    /// Where the program makes it.
    pub fn path(&self) -> &Path {
        &self.file
    }

    fn link(&self) -> PathBuf {
        let staged = self.wanted.spool.directory.join(STAGED);
        staged.join(self.directory.file_name().unwrap_or_default())
    }

    /// Enters its name. `None` if that finds no room.
    fn enter(&self, names: &Names) -> Option<()> {
        let link = self.link();
        fs::create_dir_all(link.parent()?).ok()?;
        symlink(&self.file, link).ok()?;
        let (key, place) = (key_of(&self.wanted.target)?, place_of(&self.directory)?);
        names.enter_written(&key, place, self.replaced.is_some()).map(|_| ())
    }

    /// The program has made it.
    pub fn made(&self) {
        match (&self.replaced, self.wanted.target.parent().map(fs::metadata)) {
            // Whoever may read the older one may read this one, and nobody else.
            (Some(replaced), _) => {
                let _ = chown(&self.file, Some(replaced.uid()), Some(replaced.gid()));
                let _ = fs::set_permissions(&self.file, Permissions::from_mode(replaced.mode() & 0o7777));
            }
            (None, Some(Ok(parent))) if parent.mode() & SETGID != 0 => {
                let _ = chown(&self.file, None, Some(parent.gid()));
            }
            _ => {}
        }
    }

    /// The program has not made it there.
    pub fn not_made(&self, names: &Names) {
        place_of(&self.directory).iter().for_each(|place| names.withdraw(*place));
        self.forget();
    }

    fn forget(&self) {
        let _ = fs::remove_file(self.link());
        discard(self.wanted.spool, &self.directory, &self.file);
    }
}

/// Removes a file that the program may not have made, and gives back what was taken for it.
fn discard(spool: &SpoolPlace, directory: &Path, file: &Path) {
    let is_there = file.exists();
    HandedOver::discard(directory);
    // Of a file that was not there nothing is given back but its bytes.
    if !is_there {
        tier_holding(&spool.directory, file).account().give_back(Space::file());
    }
}

/// True if the rule wants such a file staged, and it is one of the program's that is not in a tier already.
fn may_be_whole(wanted: &Wanted) -> bool {
    let target = wanted.target.as_os_str().as_bytes();
    let own = || target.windows(OWN.len()).any(|part| part == OWN);
    let place = wanted.spool;
    let waiting = place.places.split_last().map_or(&[][..], |(_, waiting)| waiting);
    let is_in_tier = |tier: &Path| wanted.target.starts_with(tier);
    let lies_in_tier = || waiting.iter().any(|tier| is_in_tier(&tier.path)) || is_in_tier(&place.directory);
    // No object can have such a name.
    let cannot_be_named = wanted.rule.place.is_some() && target.iter().any(u8::is_ascii_control);
    wanted.rule.stage().is_some() && !own() && !lies_in_tier() && !is_in_tier(&place.disk) && !cannot_be_named
}

/// Directories in tiers in which this program may write files, the fastest first.
fn spools(place: &SpoolPlace) -> &'static [SpoolInTier] {
    static SPOOLS: OnceLock<Vec<SpoolInTier>> = OnceLock::new();
    SPOOLS.get_or_init(|| written_in(&place.directory))
}

/// Makes a directory for the file in a tier if that has room for a file like the longest one. Returns it, and the place of the file.
fn make(wanted: &Wanted, place: &SpoolInTier, longest: Option<u64>, is_new: bool) -> Option<(PathBuf, PathBuf)> {
    let (tier, _) = wanted.spool.tier(place.tier)?;
    let (left, account) = (tier.left(), tier.account());
    let room = left.bytes.min(account.limit().bytes.saturating_sub(account.taken().bytes));
    let unknown = || UNKNOWN.min(room / PART_OF_ROOM);
    let known = |longest: u64| longest.saturating_add(longest / PART_OF_LENGTH).saturating_add(MORE);
    let bytes = longest.map_or_else(unknown, known);
    if bytes < MORE || bytes > room || left.inodes < 2 {
        return None;
    }
    let taken = Room::take(&tier, bytes, 0)?;
    let begin = || -> Result<(PathBuf, PathBuf)> {
        let accounts = accounts_of(&wanted.spool.directory);
        let accounts = accounts.ok_or_else(|| knarr_array::error::Error::internal("the accounts are gone"))?;
        let begun = HandedOver::new(wanted.target.clone(), wanted.rule.clone(), 0);
        let begun = HandedOver { is_new, reserved: Some(bytes), ..begun };
        begun.begin_whole(&place.path, accounts.next_generation(0))
    };
    let begun = begin().ok()?;
    // Whoever removes the directory gives it back.
    taken.leave();
    Some(begun)
}

/// The file at `target` that the program writes in a tier, or has written if it is not begun to be moved.
fn find<'n>(names: &'n Names, target: &Path) -> Option<Hold<'n>> {
    let found = key_of(target).and_then(|key| names.find(&key, u64::MAX))?;
    if names.is_whole(found) { names.hold_whole(found, false) } else { None }
}

/// True if there is such a file.
pub(crate) fn is_there(target: &Path) -> bool {
    here().and_then(|names| find(names, target)).map(Hold::keep).is_some()
}

/// How long the launcher may take to see that a file is closed.
const MOMENT: Duration = Duration::from_secs(1);

/// Waits until the file at `target` is in its place, if the program has written that in a tier and has closed it.
pub(crate) fn await_place(target: &Path) {
    if let Some((names, key)) = here().filter(|names| names.writes_in_tiers()).zip(key_of(target)) {
        names.await_place(&key, Call::Create, MOMENT);
    }
}

/// The program makes a file anew whose values are handed over: one that it has written in a tier before is of no use any more.
pub(crate) fn make_anew(target: &Path) {
    if let Some(hold) = here().and_then(|names| find(names, target)) {
        hold.give_up([HandedOver::NAME, HandedOver::OPEN], HandedOver::GIVEN_UP);
    }
}

/// Gives a file that the program writes in a tier the name `named` in place of `old`. If it has got that, `last` is called, while no
/// process sees it.
///
/// # Errors
/// The number of the system's error: it has the name that it had.
pub fn rename(mut hold: Hold<'_>, (old, named): (&[u8], &[u8]), last: impl FnOnce()) -> std::result::Result<(), i32> {
    let number = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let absolute = |path: &[u8]| -> std::result::Result<PathBuf, i32> {
        let path = std::path::absolute(OsStr::from_bytes(path)).map_err(number)?;
        let (parent, last) = path.parent().zip(path.file_name()).ok_or(libc::EBUSY)?;
        let parent = fs::canonicalize(parent).map_err(number)?;
        access(&parent, Access::WRITE_OK | Access::EXEC_OK).map_err(rustix::io::Errno::raw_os_error)?;
        Ok(parent.join(last))
    };
    let (from, to) = (absolute(old)?, absolute(named)?);
    let device = |path: &Path| fs::metadata(path.parent().unwrap_or(path)).map(|found| found.dev()).map_err(number);
    if device(&from)? != device(&to)? {
        return Err(libc::EXDEV);
    }
    let found = fs::symlink_metadata(&to).ok();
    if found.as_ref().is_some_and(Metadata::is_dir) {
        return Err(libc::EISDIR);
    }
    let directory = directory_of(&hold).ok_or(libc::ENOENT)?;
    let key = key_of(&to).ok_or(libc::ENOENT)?;
    let has_older = HandedOver::replaces_at(&directory, &from);
    // The record may be that of a closed file: from now on it is open.
    hold.written();
    hold.enter(&key, found.is_some()).ok_or(libc::ENOSPC)?;
    if HandedOver::rename_whole(&directory, &to).is_err() {
        hold.withdraw();
        return Err(libc::EIO);
    }
    last();
    hold.leave();
    if has_older {
        // It would come to light.
        let _ = fs::remove_file(&from);
    }
    Ok(())
}

/// What is known of a file that the program writes lies there.
fn directory_of(hold: &Hold<'_>) -> Option<PathBuf> {
    let file = hold.staged()?;
    HandedOver::directory_of_whole(Path::new(OsStr::from_bytes(file.as_c_str().to_bytes())))
}

/// Files that the program writes in tiers below a directory that is about to get another name.
pub struct Below<'n> {
    holds: Vec<Hold<'n>>,
    from: PathBuf,
    _lock: Lock,
}

/// A file below a directory is begun to be moved, or another process is about to give it another name: it is to be tried again.
pub struct Busy;

impl<'n> Below<'n> {
    /// Those below the directory at `path`; `None` if it is no directory, or if there are none. None is made there, opened to write, or
    /// taken for closed as long as this lives.
    ///
    /// # Errors
    /// See [`Busy`].
    pub fn of(names: &'n Names, path: &[u8]) -> std::result::Result<Option<Self>, Busy> {
        let path = Path::new(OsStr::from_bytes(path));
        let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let Some(from) = fs::canonicalize(path).ok().filter(|_| is_directory) else { return Ok(None) };
        let is_below = |file: &knarr_names::Path| {
            HandedOver::is_whole_below(Path::new(OsStr::from_bytes(file.as_c_str().to_bytes())), &from)
        };
        if !names.any_whole() {
            return Ok(None);
        }
        let lock = match names.lock_written() {
            Err(_) if names.is_launcher_gone() => return Ok(None),
            lock => lock.map_err(|_| Busy)?,
        };
        let holds = names.hold_all(&lock, is_below).ok_or(Busy)?;
        Ok((!holds.is_empty()).then_some(Self { holds, from, _lock: lock }))
    }

    /// The directory is at `path` now; `None` if it has not got another name.
    pub fn end(self, path: Option<&[u8]>) {
        let Some(to) = path.and_then(|path| fs::canonicalize(OsStr::from_bytes(path)).ok()) else { return };
        for mut hold in self.holds {
            let Some(directory) = directory_of(&hold) else { continue };
            hold.written();
            if HandedOver::move_whole(&directory, &self.from, &to).is_err() {
                // It must not get to another directory that has the old name.
                let _ = HandedOver::set_aside(&directory);
                notify(Event::SetAside { directory });
            }
        }
    }
}
