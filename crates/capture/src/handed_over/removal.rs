//! Takes files out of the spool.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::HandedOver;
use crate::parts::NodePart;
use crate::shown::Shown;
use crate::snapshot::{account_of, free_of};
use knarr_handover::Account;

impl HandedOver {
    /// Takes out of the spool what was delivered. Values leave their memory to files that come; what cannot be removed goes
    /// with the spool.
    pub fn remove(&self, directory: &Path) {
        for name in Self::RECORDS.into_iter().chain([Self::GIVEN_UP]) {
            let _ = fs::remove_file(directory.join(name));
        }
        let free = directory.parent().map(free_of).unwrap_or_default();
        for rank in 0..self.ranks {
            let values = directory.join(Self::values(rank));
            let mut name = directory.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{rank}"));
            if fs::metadata(&values).is_ok_and(|found| found.len() > 0) {
                let _ = fs::rename(values, free.join(name));
            }
        }
        Self::discard(directory);
    }

    /// Removes the directory of a file that was copied elsewhere. What links in it lead to belongs to the copy.
    pub fn moved(directory: &Path) {
        Self::take_away(directory, false);
    }

    /// Removes the directory of a file, with what lies on a disk because memory was short. Nobody takes it for
    /// [unread](HandedOver::is_unread) meanwhile. Of several that do so at the same time one gives the memory back.
    pub fn discard(directory: &Path) {
        Self::take_away(directory, true);
    }

    fn take_away(directory: &Path, with_links: bool) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let _ = fs::remove_file(directory.join(Self::PUBLISHED));
        let name = directory.file_name().unwrap_or_default();
        // What was not all removed before has such a name.
        let gone = if NodePart::is_name(&name.to_string_lossy()) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let mut hidden = OsString::from(format!(".gone-{}-{number}-", std::process::id()));
            hidden.push(name);
            let gone = directory.with_file_name(hidden);
            match fs::rename(directory, &gone) {
                Ok(()) => gone,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(_) => directory.to_owned(),
            }
        } else {
            directory.to_owned()
        };
        // What is left of it if this process is killed says nothing.
        for name in Self::RECORDS.into_iter().chain([Self::GIVEN_UP]) {
            let _ = fs::remove_file(gone.join(name));
        }
        let (memory, disk) = taken_by(&gone);
        if with_links && !remove_targets(&gone) {
            // Only links lead to the others: whoever removes the spool tries again.
            let files = fs::read_dir(&gone).into_iter().flatten().flatten();
            let files = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            files.for_each(|file| drop(fs::remove_file(file.path())));
        } else if fs::remove_dir_all(&gone).is_err() {
            return;
        }
        if let Some(account) = directory.parent().and_then(account_of) {
            account.give_back(memory);
            account.off_disk(if with_links { disk } else { 0 });
        }
    }
}

/// Removes the files to which links in a directory lead, and the links. False if one of them stays.
fn remove_targets(directory: &Path) -> bool {
    let remove = |link: &Path| {
        let removed = fs::read_link(link).and_then(fs::remove_file);
        let is_gone = removed.is_ok() || removed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_gone && fs::remove_file(link).is_ok()
    };
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let is_link = |entry: &fs::DirEntry| entry.file_type().map_or(true, |kind| kind.is_symlink());
    entries.is_ok_and(|entries| entries.iter().filter(|entry| is_link(entry)).all(|entry| remove(&entry.path())))
}

/// Unit of the blocks that the system says a file has.
const BLOCK: u64 = 512;

/// Bytes that the files in the directory of a file take of the node's memory by its account, and of the disk.
pub(super) fn taken_by(directory: &Path) -> (u64, u64) {
    let (mut memory, mut disk) = (0, 0);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (name, Ok(kind), Ok(found)) = (entry.file_name(), entry.file_type(), fs::metadata(entry.path())) else {
            continue;
        };
        let name = name.to_string_lossy();
        let (is_log, is_values) = (name.starts_with("log."), name.starts_with("values.") && !name.ends_with(".parts"));
        if kind.is_symlink() {
            disk += if is_log || is_values { found.blocks() * BLOCK } else { 0 };
        } else if is_log {
            memory += found.blocks() * BLOCK;
        } else if is_values || Shown::is_copy(&name) {
            memory += found.len();
        }
    }
    (memory, disk)
}
