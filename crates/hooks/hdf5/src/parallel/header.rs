//! The header of a captured file on this rank: an HDF5 file without values, which the program's HDF5 writes.
//!
//! That of the first rank is what the launcher gets. HDF5 keeps much of it in memory until it is closed, so it is written out
//! and copied while the program runs: a program that is killed leaves a whole one. The first rank does so. Where another one
//! puts something into a dataset that the copy does not have yet, that one does: the headers of all ranks are alike.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::{Datasets, HandedOver};
use knarr_captured::sibling_files::SiblingFiles;
use knarr_flow::output::{take_access, temporary_name};

use crate::host::{CallerHdf5, Hid};

/// Copies without new datasets are at least so far apart.
const COPY_EVERY: Duration = Duration::from_secs(1);
/// `H5F_SCOPE_LOCAL`.
const THIS_FILE: i32 = 0;

/// The header of one rank.
pub(super) struct Header {
    directory: PathBuf,
    /// The file that HDF5 has open.
    path: PathBuf,
    /// The directory of the file, if it lies there and may become the file. It may get another name.
    beside: Option<File>,
    /// This rank's is the one that the launcher gets.
    is_first: bool,
    /// Copies of it may be what the launcher gets.
    is_own: bool,
    /// It has the values of its datasets.
    has_values: bool,
    /// Numbers of the datasets that exist, by their addresses here.
    numbers: HashMap<u64, u32>,
    datasets: Datasets,
    /// What they are called.
    names: DefaultHasher,
    /// What external links lead to is beside the file that the program knows.
    _beside: SiblingFiles,
    /// There are datasets that the last copy has not.
    has_new: bool,
    copied: Option<Instant>,
}

impl Header {
    /// That of a rank in the directory of the file `target`.
    pub(super) fn new(directory: &Path, target: &Path, rank: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            path: directory.join(HandedOver::header_of(rank)),
            beside: None,
            is_first: rank == 0,
            is_own: true,
            has_values: false,
            numbers: HashMap::new(),
            datasets: Datasets::default(),
            names: DefaultHasher::new(),
            _beside: SiblingFiles::of(directory, target),
            has_new: false,
            copied: None,
        }
    }

    /// That of a file which HDF5 may have to write itself: it lies beside `target`, under a hidden name. In the spool a link leads
    /// to it, by which it is found if this process is killed.
    ///
    /// # Errors
    /// `Write` if there can be no such link; `Read` if the directory cannot be opened.
    pub(super) fn beside(directory: &Path, target: &Path) -> Result<Self> {
        let path = target.with_file_name(temporary_name(target.file_name().unwrap_or_default()));
        symlink(&path, directory.join(HandedOver::header_of(0))).map_err(|error| Error::write(directory, &error))?;
        let parent = target.parent().unwrap_or(Path::new("/"));
        let opened = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(parent);
        let beside = Some(opened.map_err(|error| Error::read(parent, &error))?);
        Ok(Self { path, beside, ..Self::new(directory, target, 0) })
    }

    /// That of a session of `target` in `directory`, which another component has written. This program opens it at `path`.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub(super) fn arrived(directory: &Path, target: &Path, path: PathBuf) -> Result<Self> {
        let missing = || Error::corrupt("nothing says which datasets it has").at(directory.display().to_string());
        let datasets = Datasets::read(directory)?.ok_or_else(missing)?;
        let numbers = (0..).zip(&datasets.addresses).filter_map(|(number, address)| Some(((*address)?, number)));
        let numbers = numbers.collect();
        Ok(Self { path, is_first: false, is_own: false, numbers, datasets, ..Self::new(directory, target, 0) })
    }

    /// That of the file `target`, which is shown at `path`, with its values. It goes with `directory`.
    pub(super) fn with_values(directory: &Path, target: &Path, path: PathBuf) -> Self {
        Self { path, is_first: false, is_own: false, has_values: true, ..Self::new(directory, target, 0) }
    }

    /// True if it has the values of its datasets.
    pub(super) fn has_values(&self) -> bool {
        self.has_values
    }

    /// The file that HDF5 has open.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of this name is now that was beside the header, or `path` if that is elsewhere.
    pub(super) fn now(&self, path: &Path) -> PathBuf {
        match (&self.beside, path.file_name()) {
            (Some(directory), Some(name)) => Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name),
            _ => path.to_owned(),
        }
    }

    /// Notes a dataset that was created. All ranks do so in the same order.
    pub(super) fn created(&mut self, address: u64, name: Option<&str>) {
        name.hash(&mut self.names);
        let addresses = &mut self.datasets.addresses;
        let number = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        addresses.push(Some(address));
        if let Some(gone) = self.numbers.insert(address, number)
            && let Some(place) = addresses.get_mut(gone as usize)
        {
            *place = None;
        }
        self.has_new = true;
    }

    /// The number of the dataset at an address.
    pub(super) fn number(&self, address: u64) -> Option<u32> {
        self.numbers.get(&address).copied()
    }

    /// A number that is the same on ranks that have created the same datasets in the same order.
    pub(super) fn digest(&self) -> u64 {
        self.names.finish()
    }

    /// Has what a killed program would leave include what is there now, if that is due. `object` is one of the file.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn keep(&mut self, host: &CallerHdf5, object: Hid) -> Result<()> {
        let is_old = || self.is_first && self.copied.is_none_or(|copied| copied.elapsed() > COPY_EVERY);
        if !self.is_own || !(self.has_new || is_old()) {
            return Ok(());
        }
        // Most ranks find that it was done.
        let is_done = self.is_kept();
        let _lock = if is_done { None } else { self.lock() };
        if is_done || self.is_kept() {
            self.has_new = false;
            self.copied = Some(Instant::now());
            return Ok(());
        }
        // SAFETY: the object is the program's own, of a file that only this process has.
        let flushed = host.quietly(|host| host.flush.is_some_and(|flush| unsafe { flush(object, THIS_FILE) } >= 0));
        if flushed != Some(true) {
            return Err(Error::internal("HDF5 does not write its header").at(self.path.display().to_string()));
        }
        let copied = self.copy();
        // Without the list nobody could tell to which dataset a value belongs that is put now.
        self.datasets.save(&self.directory)?;
        // The header itself is what the file is made of. Without a copy a program that is killed leaves an older one, and the
        // next put tries again.
        if copied.is_err() {
            return Ok(());
        }
        self.has_new = false;
        self.copied = Some(Instant::now());
        Ok(())
    }

    /// The program has had HDF5 write the header: if it is killed, that is what it leaves.
    pub(super) fn flushed(&mut self) {
        if !self.is_own || !self.is_first {
            return;
        }
        let _lock = self.lock();
        // Without a copy it leaves an older one, and the next put tries again.
        let kept = self.copy().is_ok() && self.datasets.save(&self.directory).is_ok();
        self.copied = kept.then(Instant::now);
    }

    /// Puts a copy where the launcher finds it.
    fn copy(&self) -> io::Result<()> {
        let copy = self.directory.join("header.new");
        std::fs::copy(self.now(&self.path), &copy)?;
        std::fs::rename(&copy, self.directory.join(HandedOver::HEADER))
    }

    /// True if the copy has all datasets that this rank knows of: the first one replaces its own copies.
    fn is_kept(&self) -> bool {
        let is_there = self.directory.join(HandedOver::HEADER).exists();
        let kept = Datasets::read(&self.directory).ok().flatten().filter(|_| is_there);
        let own = self.datasets.addresses.len() + usize::from(self.is_first);
        kept.is_some_and(|kept| kept.addresses.len() >= own)
    }

    /// Keeps other ranks from replacing the copy.
    fn lock(&self) -> Option<File> {
        // Without it two may do so at the same time: the copy is that of one of them, whole.
        let directory = File::open(&self.directory).ok()?;
        directory.lock().is_ok().then_some(directory)
    }

    /// HDF5 has closed it: the first rank's gets its place.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn closed(&self) -> Result<()> {
        if self.is_first {
            let _lock = self.lock();
            if self.beside.is_some() {
                return self.copied_to_its_place();
            }
            let place = || std::fs::rename(&self.path, self.directory.join(HandedOver::HEADER));
            place().or_else(|_| place()).map_err(|error| Error::write(&self.directory, &error))?;
            return self.datasets.save(&self.directory);
        }
        // It goes with the directory, if it cannot be removed.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }

    /// The launcher gets a copy of one that lies beside the file. If there is no room for that, a link leads to it.
    fn copied_to_its_place(&self) -> Result<()> {
        if self.copy().is_ok() {
            let _ = std::fs::remove_file(self.now(&self.path));
        } else {
            let place = self.directory.join(HandedOver::HEADER);
            // A name that nobody takes for what a killed process has left.
            let kept =
                std::fs::canonicalize(self.now(&self.path)).map(|path| path.with_extension(HandedOver::KEPT_HEADER));
            let _ = std::fs::remove_file(&place);
            let linked = kept.and_then(|kept| {
                std::fs::rename(self.now(&self.path), &kept)?;
                symlink(&kept, &place)
            });
            linked.map_err(|error| Error::write(&self.directory, &error))?;
        }
        self.datasets.save(&self.directory)
    }

    /// Becomes the file `target`, with the permissions of one that is there. Returns its device and its inode.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn becomes(&self, target: &Path) -> io::Result<(u64, u64)> {
        let (from, to) = (self.now(&self.path), self.now(target));
        if let Ok(there) = std::fs::metadata(&to) {
            take_access(&File::open(&from)?, &there)?;
        }
        let found = std::fs::metadata(&from)?;
        std::fs::rename(from, to)?;
        Ok((found.dev(), found.ino()))
    }

    /// True if it was removed with the directory of the file.
    pub(super) fn is_removed(&self) -> bool {
        let is_empty = |directory: &File| directory.metadata().is_ok_and(|found| found.nlink() == 0);
        self.beside.as_ref().is_some_and(is_empty)
    }
}
