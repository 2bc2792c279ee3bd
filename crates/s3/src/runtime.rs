//! The asynchronous runtime, which waits for the network while callers block.

use std::future::Future;
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Threads that move bytes between sockets and memory.
const THREADS: usize = 2;

/// A runtime that is shared by what uses it. Its threads end with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Blocking(Arc<Runtime>);

impl Blocking {
    /// # Errors
    /// `Internal` if there can be no more threads.
    pub(crate) fn new() -> Result<Self> {
        let built = Builder::new_multi_thread().worker_threads(THREADS).thread_name("knarr-net").enable_all().build();
        built.map(|runtime| Self(Arc::new(runtime))).map_err(|error| Error::internal(format!("no runtime: {error}")))
    }

    /// Waits for `future` in the calling thread.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    /// Lets `future` go on beside the caller.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.0.spawn(future)
    }
}
