//! Takes files out of the spool.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::HandedOver;
use crate::parts::NodePart;
use crate::tiers::{is_in_tier, tier_holding, tier_of_spool};
use crate::transcoded::Transcoded;
use knarr_handover::CHUNKS;
use knarr_tier::{Purpose, SharedMemory, Space};

impl HandedOver {
    /// Takes out of the spool what was delivered. Values leave their memory to files that come; what cannot be removed goes
    /// with the spool.
    pub fn remove(&self, directory: &Path) {
        self.count_whole(directory);
        self.reuse_values(directory);
        Self::discard(directory);
    }

    /// The same of what lies elsewhere, too: what was noted of other versions meanwhile goes there.
    pub(super) fn remove_noting(&self, directory: &Path, elsewhere: &Path) {
        self.reuse_values(directory);
        Self::take_away(directory, true, |gone| Self::bring_versions(gone, elsewhere));
    }

    fn reuse_values(&self, directory: &Path) {
        for name in Self::RECORDS.into_iter().chain([Self::GIVEN_UP]) {
            let _ = fs::remove_file(directory.join(name));
        }
        let spool = directory.parent().unwrap_or(directory);
        // Values go to memory, and to nothing else.
        let ranks = if is_in_tier(spool) { 0 } else { self.ranks };
        for rank in 0..ranks {
            let values = directory.join(Self::values(rank));
            let mut name = directory.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{rank}"));
            let _ = SharedMemory::reuse(spool, &values, Path::new(&name));
        }
    }

    /// Removes the directory of a file that was copied to another one, which counts from now on. What links in it lead to belongs to
    /// the copy. What was noted of other versions meanwhile goes along.
    pub fn moved(directory: &Path, copy: &Path) {
        Self::take_away(directory, false, |gone| Self::bring_versions(gone, copy));
    }

    /// Removes a copy of a directory. What links in it lead to belongs to that.
    pub fn drop_copy(copy: &Path) {
        Self::take_away(copy, false, |_| {});
    }

    /// Removes the directory of a file, with what lies on a disk because memory was short. Nobody takes it for
    /// [unread](HandedOver::is_unread) meanwhile. Of several that do so at the same time one gives the memory back.
    pub fn discard(directory: &Path) {
        Self::take_away(directory, true, |_| {});
    }

    /// `last` sees what goes, where nobody else finds it any more.
    fn take_away(directory: &Path, with_links: bool, last: impl FnOnce(&Path)) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let _ = fs::remove_file(directory.join(Self::PUBLISHED));
        Self::count_removed(directory);
        let name = directory.file_name().unwrap_or_default();
        // What was not all removed before has such a name.
        let gone = if NodePart::is_name(&name.to_string_lossy()) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let hidden = if with_links { GONE } else { MOVED };
            let mut hidden = OsString::from(format!("{hidden}{}-{number}-", std::process::id()));
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
        // Whoever goes on with what another process has begun to remove knows by its name what the links in it lead to.
        let with_links = with_links && !name.as_encoded_bytes().starts_with(MOVED.as_bytes());
        last(&gone);
        // What is left of it if this process is killed says nothing.
        for name in Self::RECORDS.into_iter().chain([Self::GIVEN_UP]) {
            let _ = fs::remove_file(gone.join(name));
        }
        let (here, below) = taken_by(&gone);
        if with_links && !remove_targets(&gone) {
            // Only links lead to the others: whoever removes the spool tries again.
            let files = fs::read_dir(&gone).into_iter().flatten().flatten();
            let files = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            files.for_each(|file| drop(fs::remove_file(file.path())));
        } else if fs::remove_dir_all(&gone).is_err() {
            return;
        }
        let below = if with_links { below } else { Vec::new() };
        give_back(directory.parent().unwrap_or(directory), here, &below);
    }

    /// True for what is counted of a directory: values, logs, files that are shown in another format.
    pub fn is_counted(name: &str) -> bool {
        name.starts_with("values.") || name.starts_with("log.") || Transcoded::is_copy(name)
    }

    /// Removes the values of a file that waits in a tier, which are of no use any more, from the directory in which it is known.
    pub fn free_values(directory: &Path) {
        let is_one = |name: &str| Self::is_in_image(name);
        let (here, below) = taken_by_those(directory, is_one);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if is_one(&entry.file_name().to_string_lossy()) {
                let _ = match entry.file_type() {
                    Ok(kind) if kind.is_symlink() => remove_link(&entry.path()),
                    _ => fs::remove_file(entry.path()),
                };
            }
        }
        give_back(directory.parent().unwrap_or(directory), here, &below);
    }
}

/// What the names of directories begin with that are being removed.
const GONE: &str = ".gone-";
/// The same of those whose links lead to what belongs to others.
const MOVED: &str = ".moved-";

/// Gives back what files took that lay in a spool, and those that links there have led to.
fn give_back(spool: &Path, here: Space, below: &[(PathBuf, Space)]) {
    tier_of_spool(spool).account().give_back(here);
    for (file, taken) in below {
        tier_holding(spool, file).account().give_back(*taken);
    }
}

/// Removes the links in a directory, and the files to which those of Knarr lead. False if one of them stays.
fn remove_targets(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let is_link = |entry: &fs::DirEntry| entry.file_type().map_or(true, |kind| kind.is_symlink());
    entries.is_ok_and(|entries| {
        entries.iter().filter(|entry| is_link(entry)).all(|entry| remove_link(&entry.path()).is_ok())
    })
}

/// Removes a link, and the file to which it leads if that is Knarr's.
fn remove_link(link: &Path) -> io::Result<()> {
    let removed = match fs::read_link(link) {
        // HDF5 looks for files of the user beside the header: links to those have their names, and no other one has.
        Ok(target) if target.file_name() == link.file_name() => Ok(()),
        Ok(target) => fs::remove_file(target),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_file(link),
    }
}

/// What the files in the directory of a file take by the account of the spool, and the files in tiers below it with what they take.
pub(super) fn taken_by(directory: &Path) -> (Space, Vec<(PathBuf, Space)>) {
    taken_by_those(directory, |_| true)
}

/// The same of files with some names.
fn taken_by_those(directory: &Path, is_one: impl Fn(&str) -> bool) -> (Space, Vec<(PathBuf, Space)>) {
    let (mut here, mut below) = (Space::default(), Vec::new());
    let spool = directory.parent().unwrap_or(directory);
    let tier = tier_of_spool(spool);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (name, Ok(kind), Ok(found)) = (entry.file_name(), entry.file_type(), fs::metadata(entry.path())) else {
            continue;
        };
        let name = name.to_string_lossy();
        if !is_one(&name) {
            continue;
        }
        // The list of packed parts of a spill is a log, too.
        let is_log = name.starts_with("log.") || name.ends_with(".parts");
        let is_values = name.starts_with("values.") && !is_log;
        let purpose = if is_log { Purpose::Log } else { Purpose::Values };
        if kind.is_symlink() {
            let is_file = name == HandedOver::IMAGE || name == HandedOver::PLAIN;
            let is_counted = is_log || is_values || name == CHUNKS || is_file;
            if let Ok(target) = fs::read_link(entry.path())
                && is_counted
            {
                let bytes = tier_holding(spool, &target).counts(&found, purpose);
                below.push((target, Space { bytes, inodes: 1 }));
            }
        } else if is_log || HandedOver::is_counted(&name) {
            here = Space { bytes: here.bytes + tier.counts(&found, purpose), inodes: here.inodes + 1 };
        }
    }
    (here, below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_of_the_user_stay_that_links_in_a_directory_lead_to() {
        let top = std::env::temp_dir().join(format!("knarr-removal-{}", std::process::id()));
        let (directory, work) = (top.join("spool/77-0"), top.join("work"));
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir_all(work.join("sub")).unwrap();
        for (link, target) in [
            ("log.0", "knarr-spool-1-0-77-0.0.log"),
            ("header.0.h5", ".a.h5.knarr-1"),
            ("b.h5", "b.h5"),
            ("log.1", "log.1"),
        ] {
            fs::write(work.join(target), b"1").unwrap();
            symlink(work.join(target), directory.join(link)).unwrap();
        }
        symlink(work.join("sub"), directory.join("sub")).unwrap();
        HandedOver::discard(&directory);
        assert!(!directory.exists());
        let mut left: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["b.h5", "log.1", "sub"]);
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn what_links_lead_to_stays_if_a_process_is_killed_that_removes_what_was_moved() {
        let top = std::env::temp_dir().join(format!("knarr-removal-moved-{}", std::process::id()));
        let (directory, image) = (top.join("spool").join(format!("{MOVED}77-0-88-0")), top.join("image"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(&image, "the file").unwrap();
        symlink(&image, directory.join(HandedOver::IMAGE)).unwrap();
        HandedOver::discard(&directory);
        assert!(!directory.exists() && image.exists());
        fs::remove_dir_all(top).unwrap();
    }
}
