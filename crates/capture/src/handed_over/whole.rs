//! A file that the program itself writes, whole, in a tier. Its directory lies there, too, beside it: see [`HandedOver::reserved`].

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::HandedOver;
use super::image::path_of;
use super::removal::BLOCK;
use crate::processes::Identity;
use crate::tiers::{account_of_spool, accounts_of};
use knarr_array::error::{Error, Result};
use knarr_flow::output::FileIdentity;
use knarr_tier::Space;

/// In place of the number of a process in the name of a directory: none has it, so that the names of others are others.
const NOBODY: u32 = 0;
/// Name of an empty file, which is there as long as the tier counts what was taken for the file, and not what it takes.
const UNCOUNTED: &str = "uncounted";
/// Name of a link to a packed file that is being made of the one that the program has written.
const PACKED: &str = "packed";
/// What the names of such files end in.
const SUFFIXES: [&str; 2] = [".image", ".packed"];

impl HandedOver {
    /// Makes the directory in `spool`, which lies in a tier, for a file that the program begins to write there: the version
    /// `generation`. Returns it, and where the file is to be.
    ///
    /// # Errors
    /// `Write`: nothing is left.
    pub fn begin_whole(self, spool: &Path, generation: u64) -> Result<(PathBuf, PathBuf)> {
        let name = format!("{NOBODY}-{generation}");
        let (directory, file) = (spool.join(&name), spool.join(format!("{name}.image")));
        let write_error = |error: std::io::Error| Error::write(&directory, &error);
        DirBuilder::new().mode(0o700).create(&directory).map_err(write_error)?;
        let made = symlink(&file, directory.join(Self::IMAGE))
            .and_then(|()| std::fs::write(directory.join(UNCOUNTED), b""))
            .map_err(write_error);
        match made.and_then(|()| self.begin_anew(&directory, generation)) {
            Ok(_) => Ok((directory, file)),
            Err(error) => {
                // Whoever has taken room for it gives that back.
                let _ = std::fs::remove_file(directory.join(UNCOUNTED));
                Self::discard(&directory);
                Err(error)
            }
        }
    }

    /// The directory of the file that the program writes at `file`.
    pub fn directory_of_whole(file: &Path) -> Option<PathBuf> {
        let name = file.file_name()?.to_str()?;
        let name = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix))?;
        Self::is_name_of_whole(name.as_bytes()).then(|| file.with_file_name(name))
    }

    /// True if the directory of such a file has this name.
    pub fn is_name_of_whole(name: &[u8]) -> bool {
        name.starts_with(format!("{NOBODY}-").as_bytes())
    }

    /// Where the file lies; `None` if nobody knows.
    pub fn whole_path(directory: &Path) -> Option<PathBuf> {
        path_of(directory)
    }

    /// The file in the tier; `None` if it is gone.
    pub fn whole_file(directory: &Path) -> Option<Identity> {
        std::fs::metadata(path_of(directory)?).ok().map(|found| Identity::of(&found))
    }

    /// True if the process that was about to make the file was killed before it had.
    pub fn was_not_made(&self, directory: &Path) -> bool {
        let is_absent = |path: PathBuf| {
            std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        // Without the link nobody knows.
        self.reserved.is_some() && path_of(directory).is_some_and(is_absent)
    }

    /// Notes that the program has closed the file, as far as anybody knows, when it had so many bytes.
    ///
    /// # Errors
    /// `Write`.
    pub fn close_whole(self, directory: &Path, bytes: u64) -> Result<()> {
        Self { bytes, ..self }.save(directory)
    }

    /// True if the program has closed the file, as far as is noted.
    pub fn is_closed_in(&self, directory: &Path) -> bool {
        directory.join(Self::NAME).exists()
    }

    /// Where a packed file is to be made of the one that the program has written, beside that. It goes with the directory. `None` if that
    /// cannot be noted.
    pub fn begin_packed(directory: &Path) -> Option<PathBuf> {
        Self::drop_packed(directory);
        // Whoever was to exchange the links was killed before it had: both lead to the same file.
        let _ = std::fs::remove_file(directory.join(Self::PLAIN));
        let mut name = directory.file_name()?.to_owned();
        name.push(".packed");
        let path = directory.with_file_name(name);
        symlink(&path, directory.join(PACKED)).ok().map(|()| path)
    }

    /// Removes what was made of it. False if nothing was begun.
    pub fn drop_packed(directory: &Path) -> bool {
        remove_linked(&directory.join(PACKED))
    }

    /// From now on the packed file at `path`, which is whole and synced, waits in place of that which the program has written. That
    /// stays until [`HandedOver::drop_plain`].
    ///
    /// # Errors
    /// `Write`: all is as it was.
    pub fn pack_whole(directory: &Path, path: &Path) -> Result<()> {
        let (image, plain) = (directory.join(Self::IMAGE), directory.join(Self::PLAIN));
        let keep = || {
            symlink(std::fs::read_link(&image)?, &plain)?;
            std::fs::rename(directory.join(PACKED), &image)
        };
        keep().map_err(|error| {
            let _ = std::fs::remove_file(&plain);
            Error::write(path, &error)
        })
    }

    /// True if a packed file waits in place of that which the program has written.
    pub fn is_packed(directory: &Path) -> bool {
        let leads_to = |name: &str| std::fs::read_link(directory.join(name)).ok();
        leads_to(Self::PLAIN).zip(leads_to(Self::IMAGE)).is_some_and(|(plain, image)| plain != image)
    }

    /// Removes the file as the program has written it, if a packed one waits in its place.
    pub fn drop_plain(directory: &Path) {
        let plain = directory.join(Self::PLAIN);
        let Some(found) = std::fs::metadata(&plain).ok().filter(|_| Self::is_packed(directory)) else { return };
        if remove_linked(&plain)
            && let Some(account) = account_of_spool(directory.parent().unwrap_or(directory))
        {
            account.give_back(Space { bytes: found.blocks() * BLOCK, inodes: 1 });
        }
    }

    /// Notes that the program writes it again.
    pub fn reopen_whole(directory: &Path) {
        // Otherwise it is closed, with what it holds.
        let _ = std::fs::rename(directory.join(Self::NAME), directory.join(Self::OPEN));
    }

    /// The file is to have the name `to`, and is written yet.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Write`: it has the name that it had.
    pub fn rename_whole(directory: &Path, to: &Path) -> Result<()> {
        Self::reopen_whole(directory);
        let begun = Self::begun(directory)?;
        let accounts = directory.parent().and_then(accounts_of);
        let generation = accounts.ok_or_else(|| Error::internal("the accounts are gone"))?.next_generation(0);
        let renamed = Self { target: to.to_owned(), is_new: false, ..begun.clone() };
        renamed.begin_anew(directory, generation).map(drop).inspect_err(|_| drop(begun.begin(directory)))
    }

    /// True if an older file has the name `path` that this one would have replaced.
    pub fn replaces_at(directory: &Path, path: &Path) -> bool {
        let older = Self::find(directory).ok().flatten().and_then(|handed| handed.replaced);
        older.is_some_and(|older| FileIdentity::at(path) == Some(older))
    }

    /// True if the program writes the file, which lies at `file`, below a directory.
    pub fn is_whole_below(file: &Path, parent: &Path) -> bool {
        let open = Self::directory_of_whole(file).and_then(|directory| Self::find(&directory).ok().flatten());
        open.is_some_and(|open| open.target.starts_with(parent))
    }

    /// The directory `from` above the file has the name `to` now.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Write`.
    pub fn move_whole(directory: &Path, from: &Path, to: &Path) -> Result<()> {
        Self::reopen_whole(directory);
        let begun = Self::begun(directory)?;
        match begun.target.strip_prefix(from) {
            Ok(below) => Self { target: to.join(below), ..begun }.begin(directory),
            Err(_) => Ok(()),
        }
    }

    /// Bytes that the file takes in its tier.
    pub fn whole_takes(&self, directory: &Path) -> u64 {
        path_of(directory).and_then(|path| std::fs::metadata(path).ok()).map_or(0, |found| found.blocks() * BLOCK)
    }

    /// Has the tier of a file count `now` bytes in place of `before`.
    pub fn charge_whole(directory: &Path, now: u64, before: u64) {
        if let Some(account) = account_of_spool(directory.parent().unwrap_or(directory)) {
            account.charge(Space::bytes(now.saturating_sub(before)));
            account.give_back(Space::bytes(before.saturating_sub(now)));
        }
    }

    /// From now on the tier counts what the file takes there in place of what was taken for it.
    pub fn count_whole(&self, directory: &Path) {
        // Of several that do so at the same time one counts.
        let is_first = || std::fs::remove_file(directory.join(UNCOUNTED)).is_ok();
        if let Some(reserved) = self.reserved
            && is_first()
        {
            Self::charge_whole(directory, self.whole_takes(directory), reserved);
        }
    }

    /// The same before the directory is removed.
    pub(super) fn count_removed(directory: &Path) {
        if directory.join(UNCOUNTED).exists()
            && let Some(handed) = Self::given_up(directory).or_else(|| Self::left_in(directory).ok().flatten())
        {
            handed.count_whole(directory);
        }
    }
}

/// Removes a link and the file to which it leads. False if that stays.
fn remove_linked(link: &Path) -> bool {
    let removed = std::fs::read_link(link).and_then(std::fs::remove_file);
    let is_gone = removed.is_ok() || removed.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    is_gone && std::fs::remove_file(link).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn whoever_is_killed_while_links_are_exchanged_leaves_one_file_or_both() {
        let top = std::env::temp_dir().join(format!("knarr-whole-{}", std::process::id()));
        let (directory, image) = (top.join("0-5"), top.join("0-5.image"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(&image, b"plain").unwrap();
        symlink(&image, directory.join(HandedOver::IMAGE)).unwrap();
        assert_eq!(HandedOver::directory_of_whole(&image), Some(directory.clone()));
        let begun = HandedOver::begin_packed(&directory).unwrap();
        fs::write(&begun, b"pack").unwrap();
        assert_eq!(HandedOver::directory_of_whole(&begun), Some(directory.clone()));
        // Both links lead to the plain file yet: it is the only one that is whole for certain.
        symlink(&image, directory.join(HandedOver::PLAIN)).unwrap();
        assert!(!HandedOver::is_packed(&directory));
        HandedOver::drop_plain(&directory);
        assert_eq!(fs::read(HandedOver::whole_path(&directory).unwrap()).unwrap(), b"plain");
        // Once more, to the end.
        let begun = HandedOver::begin_packed(&directory).unwrap();
        assert!(!begun.exists() && directory.join(HandedOver::PLAIN).symlink_metadata().is_err());
        fs::write(&begun, b"pack").unwrap();
        HandedOver::pack_whole(&directory, &begun).unwrap();
        assert!(HandedOver::is_packed(&directory) && image.exists());
        assert_eq!(fs::read(HandedOver::whole_path(&directory).unwrap()).unwrap(), b"pack");
        HandedOver::drop_plain(&directory);
        assert!(!image.exists() && !HandedOver::is_packed(&directory) && begun.exists());
        HandedOver::drop_plain(&directory);
        assert!(begun.exists());
        HandedOver::discard(&directory);
        assert_eq!(fs::read_dir(&top).unwrap().count(), 0);
        fs::remove_dir_all(top).unwrap();
    }
}
