//! Datasets that were given filters in this process, and how many.
//!
//! A program that writes whole chunks itself believes that they need no encoding; its chunks must be stored as skipping
//! the filters that it does not know of.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::host::Hid;
use crate::run::patient;

static GIVEN: Mutex<Option<HashMap<u64, u32>>> = Mutex::new(None);
/// True once there is one.
static ANY: AtomicBool = AtomicBool::new(false);

/// How a dataset is known again.
#[derive(Hash)]
pub(crate) enum Dataset<'a> {
    /// As long as it is open.
    Open(Hid),
    /// By its file and its path there, when it is opened again.
    Named(&'a Path, &'a str),
}

impl Dataset<'_> {
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Notes that a dataset has so many filters that the program does not know of.
pub(crate) fn note(dataset: &Dataset<'_>, filters: usize) {
    if let Some(mut given) = patient(&GIVEN) {
        given.get_or_insert_default().insert(dataset.key(), u32::try_from(filters).unwrap_or(u32::MAX));
        ANY.store(true, Ordering::Relaxed);
    }
}

/// True if some dataset was given filters.
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// The filter mask that skips the filters a dataset was given; `None` if it was given none.
pub(crate) fn skipping(dataset: &Dataset<'_>) -> Option<u32> {
    let filters = *patient(&GIVEN)?.as_ref()?.get(&dataset.key())?;
    Some(1u32.checked_shl(filters).map_or(u32::MAX, |bit| bit - 1))
}
