//! The asynchronous runtime, which waits for the network while callers block.

use std::future::Future;
use std::sync::Arc;
use std::thread::{self, JoinHandle as Thread};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::guard::guarded;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than any process lives.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// A runtime that is shared by what uses it. Its threads end with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Blocking(Arc<Driven>);

/// A thread that moves bytes between sockets and memory. It is this crate's own, because the runtime panics if it gets none.
#[derive(Debug)]
struct Driven {
    handle: Handle,
    /// The thread ends when this is gone.
    until: Option<oneshot::Sender<()>>,
    thread: Option<Thread<()>>,
}

impl Blocking {
    /// # Errors
    /// `Write` if there can be no more threads, or no more open files.
    pub(crate) fn new() -> Result<Self> {
        let no_threads = |why: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Write, format!("nothing can wait for the network: {why}"))
                .hint("raise the limit on processes (ulimit -u) or open files (ulimit -n)")
        };
        let built =
            Builder::new_current_thread().thread_name("knarr-name").thread_keep_alive(FOR_EVER).enable_all().build();
        let runtime = built.map_err(|error| no_threads(&error))?;
        let handle = runtime.handle().clone();
        let (until, ends) = oneshot::channel::<()>();
        let drive = move || drop(runtime.block_on(ends));
        let started = thread::Builder::new().name("knarr-net".to_owned()).spawn(drive);
        let thread = started.map_err(|error| no_threads(&error))?;
        let driven = Driven { handle, until: Some(until), thread: Some(thread) };
        // Names of servers are looked up in another thread. Where there is one already, the runtime does without more of them.
        let looks_up = || {
            drop(driven.handle.spawn_blocking(|| ()));
            Ok(())
        };
        guarded(looks_up).map_err(|_| no_threads(&"no thread looks up names of servers"))?;
        Ok(Self(Arc::new(driven)))
    }

    /// Waits for `future` in the calling thread.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.0.handle.block_on(future)
    }

    /// Lets `future` go on beside the caller.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.0.handle.spawn(future)
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(driver) = self.thread.take().filter(|driver| driver.thread().id() != thread::current().id()) {
            // What it ran was told of its own failures.
            let _ = driver.join();
        }
    }
}
