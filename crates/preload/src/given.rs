//! Datasets that were given filters in this process, and what they got.
//!
//! The program does not know of it: what it asks of such a dataset is answered as if it were as it made it, and chunks
//! that it writes itself need encoding.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::host::{CallerHdf5, Hid};
use crate::{files, lists};
use knarr_capture::program::patient;

static GIVEN: Mutex<Option<HashMap<Dataset, Gift>>> = Mutex::new(None);
/// True once there is one.
static ANY: AtomicBool = AtomicBool::new(false);

/// What a dataset was given that the program does not know of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gift {
    /// Number of filters.
    pub(crate) filters: u32,
    /// Its chunks, too, are not the program's.
    pub(crate) chunks: bool,
    /// Bytes of its chunk cache.
    pub(crate) cache: u64,
    /// Writes that were looked at, to tell whether they suit the chunks.
    looks: u8,
    /// Of these, those in thin slices across the chunks.
    across: u8,
}

/// The first writes of a dataset tell how it is written.
const LOOKS: u8 = 8;
const ACROSS: u8 = 2;

impl Gift {
    pub(crate) fn new(filters: usize, chunks: bool, cache: u64) -> Self {
        Self { filters: u32::try_from(filters).unwrap_or(u32::MAX), chunks, cache, looks: 0, across: 0 }
    }

    /// The filter mask that skips the filters.
    pub(crate) fn mask(self) -> u32 {
        1u32.checked_shl(self.filters).map_or(u32::MAX, |bit| bit - 1)
    }
}

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
    pub(crate) fn open(host: &CallerHdf5, id: Hid) -> Self {
        Self::Open(std::ptr::from_ref(host) as usize, id)
    }

    /// `None` if HDF5 does not tell. To be asked quietly.
    pub(crate) fn stored(host: &CallerHdf5, id: Hid) -> Option<Self> {
        let file = files::identity(&lists::file_name(host, id)?)?;
        Some(Self::Stored(file, lists::address(host, id)?))
    }
}

/// Notes what a dataset was created with; with nothing, that what was known of an earlier one by the same name or
/// number is no longer so.
pub(crate) fn note(dataset: Dataset, gift: Option<Gift>) {
    if gift.is_none() && !any() {
        return;
    }
    let Some(mut given) = patient(&GIVEN) else { return };
    let given = given.get_or_insert_default();
    if let Some(gift) = gift {
        given.insert(dataset, gift);
        ANY.store(true, Ordering::Relaxed);
    } else {
        given.remove(&dataset);
    }
}

/// What an open dataset was given, for its first writes only.
pub(crate) fn first_writes(host: &CallerHdf5, dataset: Hid) -> Option<Gift> {
    let mut given = patient(&GIVEN)?;
    let gift = given.as_mut()?.get_mut(&Dataset::open(host, dataset)).filter(|gift| gift.looks < LOOKS)?;
    gift.looks += 1;
    Some(*gift)
}

/// True if some dataset was given filters.
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Counts a write in a thin slice across the chunks. True for the one that tells that the dataset is written so.
pub(crate) fn is_across(host: &CallerHdf5, dataset: Hid) -> bool {
    let Some(mut given) = patient(&GIVEN) else { return false };
    let found = given.as_mut().and_then(|given| given.get_mut(&Dataset::open(host, dataset)));
    found.is_some_and(|gift| {
        gift.across += 1;
        gift.across == ACROSS
    })
}

/// Forgets which datasets are open: the HDF5 `host` was closed and begins to count anew.
pub(crate) fn library_closed(host: &CallerHdf5) {
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

/// What an open dataset was given; `None` if it was given nothing. To be asked quietly.
pub(crate) fn of(host: &CallerHdf5, dataset: Hid) -> Option<Gift> {
    find(&Dataset::open(host, dataset)).or_else(|| find(&Dataset::stored(host, dataset)?))
}

fn find(dataset: &Dataset) -> Option<Gift> {
    patient(&GIVEN)?.as_ref()?.get(dataset).copied()
}
