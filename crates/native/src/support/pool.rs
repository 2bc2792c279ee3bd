//! Contexts of C libraries, kept for reuse.

use knarr_array::Result;
use std::sync::{Mutex, PoisonError};

/// Contexts that are not in use. A step holds one pool, so there are at most as many contexts as threads that
/// use the step at the same time, and they are freed with it.
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T> Pool<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Runs `work` with a context of its own, made by `make` if none is free.
    pub(crate) fn with<R>(&self, make: impl FnOnce() -> Result<T>, work: impl FnOnce(&mut T) -> R) -> Result<R> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = match free {
            Some(context) => context,
            None => make()?,
        };
        let result = work(&mut context);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(context);
        Ok(result)
    }
}
