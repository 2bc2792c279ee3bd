//! The header of a captured file on this rank: an HDF5 file without values, which the program's HDF5 writes.
//!
//! That of the first rank is what the launcher gets. HDF5 keeps much of it in memory until it is closed, so it is written out
//! and copied while the program runs: a program that is killed leaves a whole one. The first rank does so. Where another one
//! puts something into a dataset that the copy does not have yet, that one does: the headers of all ranks are alike.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::{Datasets, HandedOver};

use crate::host::{CallerHdf5, Hid};
use crate::names::Beside;

/// Copies without new datasets are at least so far apart.
const COPY_EVERY: Duration = Duration::from_secs(1);
/// `H5F_SCOPE_LOCAL`.
const THIS_FILE: i32 = 0;

/// The header of one rank.
pub(super) struct Header {
    directory: PathBuf,
    /// The file that HDF5 has open.
    path: PathBuf,
    /// This rank's is the one that the launcher gets.
    is_first: bool,
    /// Copies of it may be what the launcher gets.
    is_own: bool,
    /// Numbers of the datasets that exist, by their addresses here.
    numbers: HashMap<u64, u32>,
    datasets: Datasets,
    /// What they are called.
    names: DefaultHasher,
    /// What external links lead to is beside the file that the program knows.
    _beside: Beside,
    /// There are datasets that the last copy has not.
    has_new: bool,
    copied: Option<Instant>,
}

impl Header {
    /// That of a rank in the directory of the file `target`.
    pub(super) fn new(directory: &Path, target: &Path, rank: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            path: directory.join(format!("header.{rank}.h5")),
            is_first: rank == 0,
            is_own: true,
            numbers: HashMap::new(),
            datasets: Datasets::default(),
            names: DefaultHasher::new(),
            _beside: Beside::of(directory, target),
            has_new: false,
            copied: None,
        }
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
        Self { path, is_first: false, is_own: false, ..Self::new(directory, target, 0) }
    }

    /// The file that HDF5 has open.
    pub(super) fn path(&self) -> &Path {
        &self.path
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
        let beside = self.path.with_extension("new");
        let copied = std::fs::copy(&self.path, &beside).map(drop);
        let copied = copied.and_then(|()| std::fs::rename(&beside, self.directory.join(HandedOver::HEADER)));
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
            let place = || std::fs::rename(&self.path, self.directory.join(HandedOver::HEADER));
            place().or_else(|_| place()).map_err(|error| Error::write(&self.directory, &error))?;
            return self.datasets.save(&self.directory);
        }
        // It goes with the directory, if it cannot be removed.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}
