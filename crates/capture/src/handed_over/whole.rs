//! A file that the program itself writes, whole, in a tier. Its directory lies there, too, beside it: see [`HandedOver::reserved`].

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use super::HandedOver;
use super::image::{PACKED_SUFFIX, path_of};
use crate::processes::Identity;
use crate::tiers::{accounts_of, tier_of_spool};
use knarr_array::error::{Error, Result};
use knarr_flow::output::FileIdentity;
use knarr_tier::Purpose;

/// In place of the number of a process in the name of a directory: none has it, so that the names of others are others.
const NOBODY: u32 = 0;
/// Name of an empty file, which is there as long as the tier counts what was taken for the file, and not what it takes.
const UNCOUNTED: &str = "uncounted";
/// What the names of such files end in.
const SUFFIXES: [&str; 2] = [".image", PACKED_SUFFIX];

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
        let found = path_of(directory).and_then(|path| std::fs::metadata(path).ok());
        found.map_or(0, |found| tier_of_spool(directory.parent().unwrap_or(directory)).counts(&found, Purpose::Values))
    }

    /// Has the tier of a file count `now` bytes in place of `before`.
    pub fn recount_whole(directory: &Path, before: u64, now: u64) {
        tier_of_spool(directory.parent().unwrap_or(directory)).account().recount(before, now);
    }

    /// From now on the tier counts what the file takes there in place of what was taken for it.
    pub fn count_whole(&self, directory: &Path) {
        // Of several that do so at the same time one counts.
        let is_first = || std::fs::remove_file(directory.join(UNCOUNTED)).is_ok();
        if let Some(reserved) = self.reserved
            && is_first()
        {
            Self::recount_whole(directory, reserved, self.whole_takes(directory));
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
