//! Work that goes on in a thread of its own while the program computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use knarr_array::comm::{Comm, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::guard::guarded;

/// What is done with a step while the program computes.
///
/// It begins in a collective call of the program. Its middle sends no messages, so that a thread can do it which may not
/// call MPI (MPI_THREAD_FUNNELED). It ends in a later collective call.
pub trait Delivery: Send + 'static {
    /// What the middle leaves for the end.
    type Delivered: Send;
    /// What became of the step.
    type Outcome;

    /// The middle. Not collective. What it reads, as the spools of the ranks, stays as it is until it returns.
    ///
    /// # Errors
    /// What became of the step instead.
    fn deliver(&self) -> Result<Self::Delivered>;

    /// The end. Collective; `delivered` is what [`Delivery::deliver`] returned on this rank.
    ///
    /// # Errors
    /// On all ranks that of one of them.
    fn finish(self, comm: &dyn Comm, delivered: Result<Self::Delivered>) -> Result<Self::Outcome>;
}

/// A place for one delivery at a time. All ranks have one there, or none.
pub struct Background<D: Delivery> {
    running: Option<Running<D>>,
    /// Stops what is delivered.
    cancel: Arc<AtomicBool>,
}

struct Running<D: Delivery> {
    step: u64,
    thread: JoinHandle<(D, Result<D::Delivered>)>,
}

impl<D: Delivery> Background<D> {
    /// Nothing yet. What is delivered stops soon when `cancel` is set.
    pub fn new(cancel: Arc<AtomicBool>) -> Self {
        Self { running: None, cancel }
    }

    /// The step that is delivered.
    pub fn step(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.step)
    }

    /// True if nothing is being delivered by this rank any more. Does not wait. Not collective.
    pub fn is_done(&self) -> bool {
        self.running.as_ref().is_none_or(|running| running.thread.is_finished())
    }

    /// Begins to deliver a step in a thread of its own; the one before was settled. Collective.
    ///
    /// # Errors
    /// On all ranks: `Write` if one of them has no thread.
    pub fn start(&mut self, comm: &dyn Comm, step: u64, delivery: D) -> Result<()> {
        let work = move || {
            let delivered = guarded(|| delivery.deliver());
            (delivery, delivered)
        };
        let thread = std::thread::Builder::new().name("knarr-deliver".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::new(ErrorKind::Write, format!("no thread to work in: {error}")));
        let thread = agree(comm, thread)?;
        self.running = Some(Running { step, thread });
        Ok(())
    }

    /// Waits for the step that is delivered, if there is one, and finishes it. Collective.
    ///
    /// # Errors
    /// On all ranks that of one of them.
    pub fn settle(&mut self, comm: &dyn Comm) -> Result<Option<D::Outcome>> {
        let Some(Running { thread, .. }) = self.running.take() else { return Ok(None) };
        let joined = thread.join().map_err(|_| Error::internal("the thread that delivers a step stopped"));
        let (delivery, delivered) = agree(comm, joined)?;
        delivery.finish(comm, delivered).map(Some)
    }

    /// Forgets a thread that is that of the parent process.
    pub fn forget(&mut self) {
        std::mem::forget(self.running.take());
    }
}

impl<D: Delivery> Drop for Background<D> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Nobody waits for it any more; what it reads from must outlive it.
            self.cancel.store(true, Ordering::Relaxed);
            let _ = running.thread.join();
        }
    }
}
