//! Temporary files that killed programs left: a batch system kills what runs out of time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// What the name of a temporary file of this process ends with.
pub(super) fn mark(number: u32) -> String {
    format!(".knarr-{:x}-{:x}-{number:x}.tmp", home().unwrap_or(0), std::process::id())
}

/// Stands for where process numbers mean the same: this boot of this machine, and in a container this one. `None` where
/// the system does not say.
fn home() -> Option<u32> {
    static HOME: OnceLock<Option<u32>> = OnceLock::new();
    *HOME.get_or_init(|| {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&boot).update(space.as_os_str().as_encoded_bytes());
        hasher.finalize().as_bytes().first_chunk().map(|first| u32::from_le_bytes(*first).max(1))
    })
}

/// Removes the temporary files in a directory whose programs are gone, once for each directory. What other machines
/// write there is left alone, and what cannot be removed.
pub fn remove_abandoned(directory: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let is_first = SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned());
    let Some(home) = home().filter(|_| is_first) else { return };
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if writer(&entry.file_name(), home).is_some_and(is_gone) && is_file() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The process that gave a temporary file this name.
fn writer(name: &OsStr, home: u32) -> Option<Pid> {
    let name = name.as_encoded_bytes();
    let marked = name.strip_prefix(b".")?.strip_suffix(b".tmp")?;
    let at = marked.windows(KNARR.len()).rposition(|part| part == KNARR)?;
    let mut numbers = std::str::from_utf8(marked.get(at + KNARR.len()..)?).ok()?.split('-');
    let mut number = || u32::from_str_radix(numbers.next()?, 16).ok();
    let (found, process, _) = (number()?, number()?, number()?);
    (found == home && numbers.next().is_none()).then(|| Pid::from_raw(process.cast_signed())).flatten()
}

const KNARR: &[u8] = b".knarr-";

fn is_gone(process: Pid) -> bool {
    test_kill_process(process) == Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn files_of_dead_processes_are_removed_and_no_others() {
        let directory = std::env::temp_dir().join(format!("knarr-abandoned-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let home = home().unwrap();
        let gone = [format!(".a.nc.knarr-{home:x}-{dead:x}-0.tmp"), format!(".knarr-1.knarr-{home:x}-{dead:x}-1f.tmp")];
        let kept = [
            format!(".a.nc{}", mark(0)),
            format!(".a.nc.knarr-{:x}-{dead:x}-0.tmp", home ^ 1),
            format!(".a.nc.knarr-{home:x}-{dead:x}-0-0.tmp"),
            format!(".a.nc.knarr-{home:x}-{dead:x}.tmp"),
            format!("a.nc.knarr-{home:x}-{dead:x}-0.tmp"),
            format!(".a.nc.knarr-{home:x}-{dead:x}-0"),
            format!(".a.nc.knarr-{home:x}-0-0.tmp"),
            ".tmp".to_owned(),
        ];
        for name in gone.iter().chain(&kept) {
            std::fs::write(directory.join(name), b"x").unwrap();
        }
        let folder = directory.join(format!(".b.knarr-{home:x}-{dead:x}-0.tmp"));
        std::fs::create_dir(&folder).unwrap();
        remove_abandoned(&directory);
        assert!(gone.iter().all(|name| !directory.join(name).exists()));
        assert!(kept.iter().all(|name| directory.join(name).exists()) && folder.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
