//! Which processes have a file open for writing, from `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use knarr_flow::output::is_temporary_name;
use rustix::io::Errno;

/// A file, whatever its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of what was looked at.
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl From<(u64, u64)> for Identity {
    fn from((device, inode): (u64, u64)) -> Self {
        Self { device, inode }
    }
}

/// What is known of processes; the ledger's tests have their own.
pub trait Processes {
    /// True if the process runs.
    fn alive(&self, process: u32) -> bool;
    /// True if the process has the file at `path` open for writing.
    fn writes(&self, process: u32, path: &Path) -> bool;
}

/// The processes of this machine.
pub struct System;

impl Processes for System {
    fn alive(&self, process: u32) -> bool {
        stage(process) != Stage::Ended
    }

    fn writes(&self, process: u32, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|metadata| writes(process, &HashSet::from([Identity::of(&metadata)])))
    }
}

/// True if a process of this user, other than this one and its own, belongs to the run in `directory`.
pub fn any_of_run(directory: &Path) -> bool {
    let wanted = [crate::RUN_DIRECTORY.as_bytes(), b"=", directory.as_os_str().as_bytes()].concat();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of_run = |process: u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    processes
        .filter(|process| *process != std::process::id())
        .any(|process| is_of_run(process) && System.alive(process))
}

/// A process that has the file open for writing, among those of the same user; root sees all.
pub fn writer(file: Identity) -> Option<u32> {
    writer_of_any(&HashSet::from([file]))
}

/// As [`writer`], for any of several files.
pub fn writer_of_any(files: &HashSet<Identity>) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?;
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(|&process| writes(process, files))
}

/// True if a process has one of these files open for writing.
pub fn writes(process: u32, files: &HashSet<Identity>) -> bool {
    written_by(process, files).flatten().next().is_some()
}

/// Those of `files` that processes of the same user have open for writing, each with the process, as they are found: looking at
/// all processes takes a while, in which one may end.
pub fn writers_of(files: &HashSet<Identity>) -> impl Iterator<Item = (u32, Identity)> {
    let entries = if files.is_empty() { None } else { std::fs::read_dir("/proc").ok() };
    let processes = entries.into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .flat_map(|process| written_by(process, files).flatten().map(move |file| (process, file)))
}

/// Those of `files` that processes of the same user have open for writing, or have mapped into their memory to write them, each with
/// one of the processes.
///
/// # Errors
/// Those of the system: then nobody knows.
pub fn written_or_mapped(files: &HashSet<Identity>) -> std::io::Result<HashMap<Identity, u32>> {
    let mut found = HashMap::new();
    if files.is_empty() {
        return Ok(found);
    }
    for entry in std::fs::read_dir("/proc")? {
        let Some(process) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        for file in written_by(process, files) {
            found.insert(file?, process);
        }
        let maps = known(std::fs::read(format!("/proc/{process}/maps")))?.unwrap_or_default();
        let mapped = maps.split(|byte| *byte == b'\n').filter_map(|line| mapped(&String::from_utf8_lossy(line)));
        found.extend(mapped.filter(|file| files.contains(file)).map(|file| (file, process)));
    }
    Ok(found)
}

/// Errors about processes that have ended, and about those of other users.
const GONE_OR_FOREIGN: [Errno; 4] = [Errno::NOENT, Errno::SRCH, Errno::ACCESS, Errno::PERM];

/// What the system says of a process; `None` if that has ended, or is another user's.
fn known<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error() {
            Some(number) if GONE_OR_FOREIGN.map(Errno::raw_os_error).contains(&number) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The file that is mapped by what a line of `/proc/PROCESS/maps` says, if it is shared and written: proc(5).
fn mapped(line: &str) -> Option<Identity> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (access, _offset, device, inode) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let (major, minor) = device.split_once(':')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let device = rustix::fs::makedev(number(major)?, number(minor)?);
    let inode = inode.parse().ok()?;
    (access.contains('w') && access.ends_with('s')).then_some(Identity { device, inode })
}

/// Those of `files` that a process has open for writing.
///
/// # Errors
/// Those of the system, of single descriptors or of all.
fn written_by(process: u32, files: &HashSet<Identity>) -> impl Iterator<Item = std::io::Result<Identity>> {
    let (entries, failed) = match known(std::fs::read_dir(format!("/proc/{process}/fd"))) {
        Ok(entries) => (entries, None),
        Err(error) => (None, Some(Err(error))),
    };
    let look = move |entry: std::io::Result<std::fs::DirEntry>| {
        let Some(entry) = known(entry)? else { return Ok(None) };
        // What is open keeps its identity when its name goes away.
        let Some(metadata) = known(std::fs::metadata(entry.path()))? else { return Ok(None) };
        let file = Identity::of(&metadata);
        let is_one = files.contains(&file) && is_open_for_writing(process, &entry.file_name().to_string_lossy())?;
        Ok(is_one.then_some(file))
    };
    entries.into_iter().flatten().filter_map(move |entry| look(entry).transpose()).chain(failed)
}

/// How far a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It runs.
    Alive,
    /// It closes its files.
    Ending,
    /// It is gone.
    Ended,
}

/// The numbers of `/proc/PROCESS/stat` from the state on. They stand behind the name, which may hold anything, in
/// parentheses.
fn stat(process: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(text.rsplit(')').next()?.split_whitespace().map(ToOwned::to_owned).collect())
}

/// How far a process of this machine is.
pub fn stage(process: u32) -> Stage {
    const EXITING: u64 = 4;
    let Some(stat) = stat(process) else { return Stage::Ended };
    let flags: u64 = stat.get(6).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    match stat.first().map(String::as_str) {
        Some("Z" | "X") | None => Stage::Ended,
        Some(_) if flags & EXITING != 0 => Stage::Ending,
        Some(_) => Stage::Alive,
    }
}

/// The wait status of a process that has ended and whose parent has not asked for it.
pub fn end_of(process: u32) -> Option<i32> {
    const EXIT_CODE: usize = 49;
    let stat = stat(process)?;
    if stat.first().is_none_or(|state| state != "Z") { None } else { stat.get(EXIT_CODE)?.parse().ok() }
}

/// # Errors
/// Those of the system.
fn is_open_for_writing(process: u32, descriptor: &str) -> std::io::Result<bool> {
    const ACCESS_MODE: u32 = 3;
    let text = known(std::fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")))?.unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    Ok(flags.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).is_some_and(|flags| flags & ACCESS_MODE != 0))
}

/// Mask of the signals that this process was told to ignore.
pub fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The name a file that is open here has now; `None` if it was removed.
pub fn name_of(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let named = std::fs::symlink_metadata(&path).ok()?;
    (Identity::of(&named) == Identity::of(&file.metadata().ok()?)).then_some(path)
}

/// The name beside `path` that a file with this device and inode has, where nothing has the name `path` any more: many
/// programs write under a temporary name. One that another `knarr run` gave it for a moment does not count.
pub fn renamed(path: &Path, (device, inode): (u64, u64)) -> Option<PathBuf> {
    if std::fs::symlink_metadata(path).is_ok() {
        return None;
    }
    let wanted = Identity { device, inode };
    let entries = std::fs::read_dir(path.parent()?).ok()?;
    entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|found| found.is_file() && Identity::of(&found) == wanted))
        .map(|entry| entry.path())
        .find(|path| !path.file_name().is_some_and(is_temporary_name))
}

/// Names in directories, by the inodes of their files; each directory is read once.
#[derive(Default)]
pub struct Listings(HashMap<PathBuf, HashMap<u64, Vec<PathBuf>>>);

impl Listings {
    /// The name beside `path` that a file has which had this one, and of which `known` is known, if it was renamed. Another one may
    /// have got its inode since: that was written at another time.
    pub fn named_beside(&mut self, path: &Path, known: &Metadata) -> Option<PathBuf> {
        let what = |found: &Metadata| (Identity::of(found), found.len(), found.mtime(), found.mtime_nsec());
        let is_it = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| what(&found) == what(known));
        if is_it(path) {
            return None;
        }
        let directory = path.parent()?;
        let names = self.0.entry(directory.to_owned()).or_insert_with(|| names_in(directory));
        let mut names = names.get(&known.ino())?.iter();
        names.find(|name| is_it(name) && !name.file_name().is_some_and(is_temporary_name)).cloned()
    }
}

fn names_in(directory: &Path) -> HashMap<u64, Vec<PathBuf>> {
    let mut names: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        names.entry(entry.ino()).or_default().push(entry.path());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_flow::output::exchange_name;

    #[test]
    fn writers_are_found_and_readers_are_not() {
        let path = std::env::temp_dir().join(format!("knarr-processes-{}", std::process::id()));
        std::fs::write(&path, b"x").unwrap();
        let me = std::process::id();
        let identity = Identity::of(&std::fs::metadata(&path).unwrap());
        let reading = File::open(&path).unwrap();
        assert!(!System.writes(me, &path) && writer(identity).is_none());
        let writing = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        assert!(System.writes(me, &path));
        assert_eq!(writer(identity), Some(me));
        drop(writing);
        assert!(!System.writes(me, &path));
        let renamed = path.with_extension("renamed");
        std::fs::rename(&path, &renamed).unwrap();
        assert_eq!(name_of(&reading), Some(renamed.clone()));
        let metadata = reading.metadata().unwrap();
        assert_eq!(super::renamed(&path, (metadata.dev(), metadata.ino())), Some(renamed.clone()));
        assert_eq!(super::renamed(&renamed, (metadata.dev(), metadata.ino())), None);
        let hidden = path.with_file_name(exchange_name("a.h5".as_ref(), &metadata));
        assert_eq!(Listings::default().named_beside(&path, &metadata), Some(renamed.clone()));
        assert_eq!(Listings::default().named_beside(&renamed, &metadata), None, "it has that name");
        // The next file that the system gives this inode is another one.
        let later = metadata.modified().unwrap() + std::time::Duration::from_secs(1);
        File::options().write(true).open(&renamed).unwrap().set_modified(later).unwrap();
        assert_eq!(Listings::default().named_beside(&path, &metadata), None);
        std::fs::rename(&renamed, &hidden).unwrap();
        assert_eq!(super::renamed(&path, (metadata.dev(), metadata.ino())), None, "another launcher's");
        std::fs::remove_file(&hidden).unwrap();
        assert_eq!(name_of(&reading), None);
        assert!(System.alive(me) && !System.alive(u32::MAX));
    }
}
