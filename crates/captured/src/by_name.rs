//! Names of captured files that may be handed back. Such a file has no name as long as it is captured, so it is handed back when the
//! program uses its name. Calls that take names see that, and the hooks of the library that writes the file do it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files that may be handed back.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static HAND_BACK: OnceLock<fn(&[u8])> = OnceLock::new();

/// To be called once, by the hooks of a library: `hand_back` hands the file back that a path leads to, if there is one.
pub fn begin(hand_back: fn(&[u8])) {
    let _ = HAND_BACK.set(hand_back);
}

/// So many files may be handed back now.
pub fn count(files: usize) {
    COUNT.store(files, Ordering::Relaxed);
}

/// True if some file may be handed back. Quick, for calls that are frequent.
pub fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// To be called before the program uses a name.
pub fn used(path: &[u8]) {
    if let Some(hand_back) = HAND_BACK.get() {
        hand_back(path);
    }
}
