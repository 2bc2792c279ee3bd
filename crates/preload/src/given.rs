//! Datasets that were given filters in this process, and how many.
//!
//! A program that writes whole chunks itself believes that they need no encoding; its chunks must be stored as skipping
//! the filters that it does not know of.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::host::{Hid, Host};
use crate::run::patient;
use crate::{files, lists};

static GIVEN: Mutex<Option<HashMap<Dataset, u32>>> = Mutex::new(None);
/// True once there is one.
static ANY: AtomicBool = AtomicBool::new(false);

/// How a dataset is known again.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum Dataset {
    /// As long as it is open, in the HDF5 at this address: each counts its identifiers by itself.
    Open(usize, Hid),
    /// By its file (device and inode) and its address there, when it is opened again: names change, and there may be
    /// several.
    Stored((u64, u64), [u64; 2]),
}

impl Dataset {
    pub(crate) fn open(host: &Host, id: Hid) -> Self {
        Self::Open(std::ptr::from_ref(host) as usize, id)
    }

    /// `None` if HDF5 does not tell. To be asked quietly.
    pub(crate) fn stored(host: &Host, id: Hid) -> Option<Self> {
        let file = files::identity(&lists::file_name(host, id)?)?;
        Some(Self::Stored(file, lists::address(host, id)?))
    }
}

/// Notes that a dataset was created with so many filters that the program does not know of; with none, that what was
/// known of an earlier one by the same name or number is no longer so.
pub(crate) fn note(dataset: Dataset, filters: usize) {
    if filters == 0 && !any() {
        return;
    }
    let Some(mut given) = patient(&GIVEN) else { return };
    let given = given.get_or_insert_default();
    if filters == 0 {
        given.remove(&dataset);
    } else {
        given.insert(dataset, u32::try_from(filters).unwrap_or(u32::MAX));
        ANY.store(true, Ordering::Relaxed);
    }
}

/// True if some dataset was given filters.
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Forgets which datasets are open: the HDF5 `host` was closed and begins to count anew.
pub(crate) fn library_closed(host: &Host) {
    let here = std::ptr::from_ref(host) as usize;
    forget(|dataset| matches!(dataset, Dataset::Open(place, _) if *place == here));
}

/// Forgets the datasets of a file that was just created: it may have the inode of one that was removed or emptied.
pub(crate) fn file_created(named: &[u8]) {
    if let Some(new) = any().then(|| files::identity(named)).flatten() {
        forget(|dataset| matches!(dataset, Dataset::Stored(file, _) if *file == new));
    }
}

fn forget(is_gone: impl Fn(&Dataset) -> bool) {
    if let Some(mut given) = any().then(|| patient(&GIVEN)).flatten()
        && let Some(given) = given.as_mut()
    {
        given.retain(|dataset, _| !is_gone(dataset));
    }
}

/// The number of filters that an open dataset was given; `None` if it was given none. To be asked quietly.
pub(crate) fn of(host: &Host, dataset: Hid) -> Option<u32> {
    find(&Dataset::open(host, dataset)).or_else(|| find(&Dataset::stored(host, dataset)?))
}

fn find(dataset: &Dataset) -> Option<u32> {
    patient(&GIVEN)?.as_ref()?.get(dataset).copied()
}
