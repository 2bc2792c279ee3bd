//! Names of what is on the way to its place, and what killed programs left under such names: a batch system kills what
//! runs out of time.
//!
//! A name tells who made it: the boot of the machine and the container, the process, and when that started, for numbers
//! of processes are given again. Only what a process of this boot and container made is judged here, for nobody can tell
//! from elsewhere whether a process lives.
//!
//! A file that exchanges names with the one it replaces gives that one its hidden name for a moment. Such a name says which
//! file that was and how old: should somebody have written to it in that moment, it is the only copy, and stays.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, TryLockError};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// What ends the name that people find of a file which lost its own, with the number of who renamed it.
const KEPT: &str = ".kept-by-knarr-";
/// Bytes of a file name that file systems take (`NAME_MAX`).
const LONGEST_NAME: usize = 255;
const KNARR: &[u8] = b".knarr-";

/// A hidden name for what will be called `name`, or serves for it, until this process has finished it; another one at each
/// call. What has such a name when its process is gone, [`remove_abandoned`] removes.
pub fn temporary_name(name: &OsStr) -> OsString {
    name_by(name, &Maker::this(), None)
}

/// As [`temporary_name`], for what will exchange names with `replaced`.
pub fn exchange_name(name: &OsStr, replaced: &Metadata) -> OsString {
    name_by(name, &Maker::this(), Some(Replaced::of(replaced)))
}

/// True for the names that [`temporary_name`] and [`exchange_name`] give, in this process or another.
pub fn is_temporary_name(name: &OsStr) -> bool {
    parts(name).is_some()
}

/// True for such a name from another process that goes on. Of those of other machines and containers that is not known.
pub fn is_of_running(name: &OsStr) -> bool {
    let is_other = parts(name).is_some_and(|parts| parts.maker.process != rustix::process::getpid());
    is_other && maker_lives(name) == Some(true)
}

/// Whether the process goes on that has given such a name. `None` for other names, and for those from other machines and
/// containers.
pub fn maker_lives(name: &OsStr) -> Option<bool> {
    let maker = parts(name)?.maker;
    (Some(maker.home) == home()).then(|| !maker.is_gone())
}

/// The path by which people know what is still under way at `path`: errors speak of that. Names that were too long for a mark
/// behind them end early.
pub fn path_to_be(path: &Path) -> PathBuf {
    path.iter().map(|part| parts(part).map_or(part, |parts| parts.name)).collect()
}

/// The name by which people find a file that had `name`.
pub fn kept_name(name: &OsStr) -> OsString {
    let mut kept = name.to_owned();
    kept.push(format!("{KEPT}{:x}", std::process::id()));
    kept
}

fn name_by(name: &OsStr, Maker { home, process, start }: &Maker, replaced: Option<Replaced>) -> OsString {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut mark = format!(".knarr-{home:x}-{:x}-{start:x}-{number:x}", process.as_raw_nonzero());
    if let Some(Replaced { inode, length, modified }) = replaced {
        mark += &format!("-{inode:x}-{length:x}-{modified:x}");
    }
    // Of a long name the beginning must do.
    let most = LONGEST_NAME - 1 - mark.len();
    let most = name.to_str().map_or(most, |name| name.floor_char_boundary(most));
    let bytes = name.as_bytes();
    let begin = bytes.get(..most).unwrap_or(bytes);
    OsString::from_vec([b".", begin, mark.as_bytes()].concat())
}

/// Removes files and directories in `directory` with a name of [`temporary_name`] whose process is gone, unless somebody
/// has them locked. What cannot be removed stays, and so does what another machine or container made: it may be working
/// on it.
///
/// Returns the names that people find now of files that were replaced and are newer than what replaced them.
pub fn remove_abandoned(directory: &Path) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    let Some(home) = home() else { return kept };
    let Ok(entries) = std::fs::read_dir(directory) else { return kept };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(parts) = parts(&name).filter(|parts| parts.maker.home == home && parts.maker.is_gone()) else {
            continue;
        };
        let Ok(kind) = entry.file_type() else { continue };
        if !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let Some(lock) = unlocked(&path) else { continue };
        if parts.replaced.is_some_and(|replaced| lock.metadata().is_ok_and(|now| replaced.was_written(&now))) {
            let place = path.with_file_name(kept_name(parts.name));
            let moved = renameat_with(CWD, &path, CWD, &place, RenameFlags::NOREPLACE);
            kept.push(if moved.is_ok() { place } else { path });
            continue;
        }
        // Nobody waits for the room.
        let _ = if kind.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
    kept
}

/// As [`remove_abandoned`], once for each directory: for who makes many files there.
pub(super) fn remove_abandoned_once(directory: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned()) {
        remove_abandoned(directory);
    }
}

/// Stands for where numbers of processes and their times mean the same: this boot of this machine, and in a container this
/// one. `None` where the system does not say.
fn home() -> Option<u64> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
    // Older systems have one time for all.
    let times = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&boot);
    for space in [processes, times] {
        hasher.update(space.as_os_str().as_bytes()).update(&[0]);
    }
    hasher.finalize().as_bytes().first_chunk().map(|first| u64::from_le_bytes(*first).max(1))
}

/// When a process started, in ticks since the machine did. `None` if it is gone or `/proc` is that of another container.
fn start_of(process: Pid) -> Option<u64> {
    state_of(process).map(|(_, start)| start)
}

/// The state of a process as a letter, and when it started.
fn state_of(process: Pid) -> Option<(u8, u64)> {
    let own = std::fs::read_link("/proc/self").ok()?;
    if own.as_os_str().to_str()? != std::process::id().to_string() {
        return None;
    }
    let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The second field is the name of the program in parentheses, which may hold both; the third is the state, and the
    // 22nd the start (proc(5)).
    let behind = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(stat.get(behind + 1..)?).ok()?.split_ascii_whitespace();
    Some((*fields.next()?.as_bytes().first()?, fields.nth(18)?.parse().ok()?))
}

/// Who made a temporary.
struct Maker {
    home: u64,
    process: Pid,
    /// 0 where the system did not say.
    start: u64,
}

impl Maker {
    fn this() -> Self {
        let process = rustix::process::getpid();
        Self { home: home().unwrap_or(0), process, start: start_of(process).unwrap_or(0) }
    }

    /// True if the process has ended: its number is nobody's, or that of one that has ended and was not waited for, or of
    /// one that started at another time. Another user's process may be hidden in `/proc`, and counts as alive.
    fn is_gone(&self) -> bool {
        let ended = |(state, start)| matches!(state, b'Z' | b'X') || self.start > 0 && start != self.start;
        test_kill_process(self.process) == Err(Errno::SRCH) || state_of(self.process).is_some_and(ended)
    }
}

/// A file that another one exchanges names with, as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Replaced {
    inode: u64,
    length: u64,
    /// Nanoseconds since 1970, modulo 2^64: only whether they are the same counts.
    modified: u64,
}

impl Replaced {
    fn of(file: &Metadata) -> Self {
        let modified = file.mtime().wrapping_mul(1_000_000_000).wrapping_add(file.mtime_nsec());
        Self { inode: file.ino(), length: file.len(), modified: modified.cast_unsigned() }
    }

    /// True if `now` is that file, and somebody has written to it since.
    fn was_written(&self, now: &Metadata) -> bool {
        let now = Self::of(now);
        now.inode == self.inode && now != *self
    }
}

/// What a name of [`temporary_name`] or [`exchange_name`] says.
struct Parts<'a> {
    /// What it was made for.
    name: &'a OsStr,
    maker: Maker,
    replaced: Option<Replaced>,
}

/// `None` for other names.
fn parts(name: &OsStr) -> Option<Parts<'_>> {
    let name = name.as_bytes().strip_prefix(b".")?;
    let at = name.windows(KNARR.len()).rposition(|part| part == KNARR)?;
    let numbers = std::str::from_utf8(name.get(at + KNARR.len()..)?).ok()?.split('-');
    let numbers: Vec<u64> = numbers.map(|number| u64::from_str_radix(number, 16)).collect::<Result<_, _>>().ok()?;
    let (home, process, start, replaced) = match *numbers {
        [home, process, start, _] => (home, process, start, None),
        [home, process, start, _, inode, length, modified] => {
            (home, process, start, Some(Replaced { inode, length, modified }))
        }
        _ => return None,
    };
    let process = i32::try_from(process).ok().filter(|&process| process > 0).and_then(Pid::from_raw)?;
    Some(Parts { name: OsStr::from_bytes(name.get(..at)?), maker: Maker { home, process, start }, replaced })
}

/// A file or directory that nobody has locked, locked where that can be; `None` for others, and for what this user may not
/// open. It may be in the hands of a process that the maker forked.
fn unlocked(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Ok(()) | Err(TryLockError::Error(_)) => Some(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::abandoned::abandoned_name;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("knarr-abandoned-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_dead_processes_left_is_removed_and_nothing_else() {
        let directory = folder("dead");
        let (home, own) = (home().unwrap(), std::process::id());
        let dead = parts(&abandoned_name("a")).unwrap().maker.process.as_raw_nonzero();
        let start = start_of(rustix::process::getpid()).unwrap();
        let gone = [
            format!(".a.nc.knarr-{home:x}-{dead:x}-5-0"),
            format!(".knarr-1.knarr-{home:x}-{dead:x}-0-1f"),
            // The number of a process that lives, which started later.
            format!(".a.nc.knarr-{home:x}-{own:x}-{:x}-0", start - 1),
        ];
        let kept = [
            temporary_name(OsStr::new("a.nc")).into_string().unwrap(),
            format!(".a.nc.knarr-{home:x}-{own:x}-0-7"),
            format!(".a.nc.knarr-{:x}-{dead:x}-5-0", home ^ 1),
            format!(".a.nc.knarr-{home:x}-{dead:x}-5-0-0"),
            format!(".a.nc.knarr-{home:x}-{dead:x}-5"),
            format!("a.nc.knarr-{home:x}-{dead:x}-5-0"),
            format!(".a.nc.knarr-{home:x}-{dead:x}-5-0.old"),
            format!(".a.nc.knarr-{home:x}-0-5-0"),
            format!(".a.nc.knarr-{home:x}-ffffffff-5-0"),
            ".tmp".to_owned(),
        ];
        for name in gone.iter().chain(&kept) {
            std::fs::write(directory.join(name), b"x").unwrap();
            let folder = directory.join("folders").join(name);
            std::fs::create_dir_all(folder.join("below")).unwrap();
        }
        let link = directory.join(format!(".l.knarr-{home:x}-{dead:x}-5-0"));
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        for place in [directory.clone(), directory.join("folders")] {
            remove_abandoned(&place);
            for name in &gone {
                assert!(!place.join(name).exists(), "{name}");
            }
            for name in &kept {
                assert!(place.join(name).exists(), "{name}");
            }
        }
        assert!(link.symlink_metadata().is_ok());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_process_that_nobody_waited_for_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Pid::from_raw(child.id().cast_signed()).unwrap();
        let begin = std::time::Instant::now();
        let maker = Maker { process, start: start_of(process).unwrap(), ..Maker::this() };
        while !maker.is_gone() {
            assert!(begin.elapsed().as_secs() < 60);
        }
        child.wait().unwrap();
    }

    #[test]
    fn what_somebody_has_locked_stays() {
        let directory = folder("locked");
        let path = directory.join(abandoned_name("a"));
        std::fs::create_dir(&path).unwrap();
        let lock = File::open(&path).unwrap();
        lock.lock().unwrap();
        remove_abandoned(&directory);
        assert!(path.exists());
        drop(lock);
        remove_abandoned(&directory);
        assert!(!path.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_was_replaced_stays_if_it_was_written_since() {
        let directory = folder("replaced");
        let dead = parts(&abandoned_name("a")).unwrap().maker;
        // What a kill leaves before the exchange, after it, and after it with a writer in between.
        let (packed, same, newer) = (directory.join("packed"), directory.join("same"), directory.join("newer.h5"));
        let hidden = [&packed, &same, &newer].map(|path| {
            std::fs::write(path, "original").unwrap();
            let replaced = Replaced::of(&std::fs::metadata(path).unwrap());
            let hidden = directory.join(name_by(path.file_name().unwrap(), &dead, Some(replaced)));
            std::fs::write(&hidden, "packed").unwrap();
            assert!(is_temporary_name(hidden.file_name().unwrap()));
            hidden
        });
        for (hidden, path) in hidden.iter().zip([&packed, &same, &newer]).skip(1) {
            renameat_with(CWD, hidden, CWD, path, RenameFlags::EXCHANGE).unwrap();
        }
        std::fs::write(&hidden[2], "written since").unwrap();
        let kept = remove_abandoned(&directory);
        assert!(hidden.iter().all(|path| !path.exists()));
        let [kept] = kept.as_slice() else { panic!("{kept:?}") };
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "written since");
        assert!(kept.to_str().unwrap().contains("/newer.h5.kept-by-knarr-"));
        assert_eq!(std::fs::read_to_string(packed).unwrap(), "original");
        assert_eq!(std::fs::read_to_string(same).unwrap(), "packed");
        assert!(remove_abandoned(&directory).is_empty() && kept.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn people_know_what_is_under_way_by_its_name_to_be() {
        let hidden = temporary_name(OsStr::new("a.zarr"));
        assert_eq!(path_to_be(&Path::new("/.out").join(&hidden).join("T/c/0")), Path::new("/.out/a.zarr/T/c/0"));
        assert_eq!(path_to_be(Path::new(&hidden)), Path::new("a.zarr"));
        assert_eq!(path_to_be(Path::new("/a/.knarr/b-1")), Path::new("/a/.knarr/b-1"));
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Pid::from_raw(other.id().cast_signed()).unwrap();
        let start = start_of(process).unwrap();
        let of = |start| name_by(OsStr::new("a"), &Maker { home: home().unwrap(), process, start }, None);
        assert!(is_of_running(&of(start)) && !is_of_running(&of(start - 1)) && !is_of_running(&hidden));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!is_of_running(&of(start)) && !is_of_running(OsStr::new("a")));
    }

    #[test]
    fn names_fit_and_are_those_of_this_process() {
        let long = "ä".repeat(127);
        for name in ["a", &long] {
            let hidden = temporary_name(OsStr::new(name));
            assert!(hidden.len() <= LONGEST_NAME && hidden.to_str().is_some());
            let found = parts(&hidden).unwrap().maker;
            assert!(found.home == home().unwrap() && found.start > 0 && !found.is_gone());
            assert_eq!(found.process, rustix::process::getpid());
            assert_ne!(hidden, temporary_name(OsStr::new(name)));
            let replaced = std::fs::metadata("/").unwrap();
            let hidden = exchange_name(OsStr::new(name), &replaced);
            assert!(hidden.len() <= LONGEST_NAME);
            assert_eq!(parts(&hidden).unwrap().replaced, Some(Replaced::of(&replaced)));
        }
    }
}
