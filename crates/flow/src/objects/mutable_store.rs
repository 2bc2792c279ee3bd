//! An existing store of objects that is changed, object by object, while others read it.

use std::fmt::Debug;
use std::fs::File;
use std::sync::Arc;

use knarr_array::error::Result;

use crate::objects::read_store::ReadStore;

/// Objects under names, each of which is replaced at once: who reads one finds the old bytes or the new ones.
///
/// Keys are as those of [`ReadStore`]. Objects are replaced from many threads and processes at once.
pub trait MutableStore: Send + Sync + Debug {
    /// Where the store is, for messages.
    fn place(&self) -> String;

    /// The objects, to be read. What another process has replaced meanwhile is read as it is then.
    fn objects(&self) -> Arc<dyn ReadStore>;

    /// Makes an object or replaces it. It is on the disk, or acknowledged by the server, when this returns.
    ///
    /// # Errors
    /// `Write`: the object is as it was before, unless the error says that it is in its place.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()>;

    /// Makes or replaces several objects, in this order: all are ready before the first is replaced, so that there is next to
    /// no time in which only some are new. They are durable when this returns.
    ///
    /// # Errors
    /// `Write`: the first ones may have been replaced.
    fn put_all(&self, objects: &[(String, Vec<u8>)]) -> Result<()>;

    /// How many objects are better put together than one by one.
    fn at_once(&self) -> usize;

    /// Waits until nobody else holds the store, and holds it until what is returned is dropped. `may_wait` is asked now and
    /// then whether to go on waiting. `None` where a store cannot be held.
    ///
    /// # Errors
    /// `Write` if the store cannot be looked at; what `may_wait` returns.
    fn hold(&self, may_wait: &dyn Fn() -> Result<()>) -> Result<Option<StoreLock>>;
}

/// A store that is held by this process: a lock on one of its files, which ends with the process.
#[derive(Debug)]
pub struct StoreLock {
    _locked: File,
}

impl StoreLock {
    /// Holds by a file that is locked.
    pub(crate) fn by(locked: File) -> Self {
        Self { _locked: locked }
    }
}
