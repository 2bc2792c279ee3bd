//! Which session of each file this process has opened last, whichever library it reads with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A session, and when its writer has closed it: in milliseconds since 1970, if that is known.
pub(crate) type Opened = (u64, Option<u64>);

static OPENED: Mutex<BTreeMap<PathBuf, Opened>> = Mutex::new(BTreeMap::new());

/// This process has opened a session of the file `target`.
pub(crate) fn note_opened(target: &Path, session: u64, closed_ms: Option<u64>) {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned(), (session, closed_ms));
}

/// The session of the file `target` that this process has opened last.
pub fn opened(target: &Path) -> Option<Opened> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).get(target).copied()
}
