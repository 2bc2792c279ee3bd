//! A program hands its values over and goes on; a thread delivers them meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::background::{Background, Delivery};
use crate::blocked::{Blocked, Inside};
use crate::calls::{Call, Calls};
use crate::folder::Folder;
use crate::index::{Index, check_alike};
use crate::spool::ArrayFile;
use knarr_array::array::ArrayView;
use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, Result};
use knarr_array::request::Share;

/// One rank of a program that hands over steps. At most one step is under way: its values lie in the spool, and the next
/// step waits for it. All functions but those for values are collective, and only the thread that calls them calls the
/// [`Comm`].
pub struct Handover<C: Comm, D: Delivery, L = ArrayFile> {
    calls: Calls<C>,
    /// The step that is delivered. Its thread ends before the spool does, from which it reads.
    pending: Background<D>,
    spool: Folder<L>,
    open: Option<Open>,
    blocked: Blocked,
}

/// A step that is handed over.
struct Open {
    step: u64,
    /// Why it cannot be delivered.
    failed: Option<Error>,
}

fn no_step() -> Error {
    Error::usage("no step was begun").hint("call begin first")
}

impl<C: Comm, D: Delivery, L> Handover<C, D, L> {
    /// Hands over by way of `spool`. What is delivered stops soon when `cancel` is set.
    pub fn new(comm: C, spool: Folder<L>, cancel: Arc<AtomicBool>) -> Self {
        Self {
            calls: Calls::new(comm),
            pending: Background::new(cancel),
            spool,
            open: None,
            blocked: Blocked::default(),
        }
    }

    /// The ranks of the program.
    pub fn comm(&self) -> &C {
        &self.calls.comm
    }

    /// The values of this rank.
    pub fn spool(&self) -> &Folder<L> {
        &self.spool
    }

    /// As [`Handover::spool`], for who puts values there.
    pub fn spool_mut(&mut self) -> &mut Folder<L> {
        &mut self.spool
    }

    /// True in the process that opened the spool.
    pub fn is_own(&self) -> bool {
        self.spool.is_own()
    }

    /// Counts the time that the program spends in calls: a call is one as long as the result is kept.
    pub fn enter(&self) -> Inside {
        self.blocked.enter()
    }

    /// The time that the program has spent in calls since this was asked last.
    pub fn take_blocked(&self) -> std::time::Duration {
        self.blocked.take()
    }

    /// Tells the other ranks which call this one makes, and whether it can go on. Returns what all of them say.
    ///
    /// # Errors
    /// That of the lowest rank that has one; `Usage` if ranks make different calls, and from then on always; `Usage` in a
    /// process that was forked.
    pub fn exchange<T: Serialize + DeserializeOwned>(
        &mut self,
        call: &str,
        step: Option<u64>,
        mine: Result<T>,
    ) -> Result<Vec<T>> {
        self.check_process()?;
        self.calls.exchange(&Call::new(call, step), mine)
    }

    /// Opens a step whose values are to come. The step before must be settled. Not collective.
    pub fn expect(&mut self, step: u64) {
        self.open = Some(Open { step, failed: None });
    }

    /// Forgets the step that is open. Not collective.
    pub fn forget(&mut self) {
        self.open = None;
    }

    /// The step that is open.
    pub fn opened(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.step)
    }

    /// The step that is delivered.
    pub fn pending(&self) -> Option<u64> {
        self.pending.step()
    }

    /// # Errors
    /// `Usage` if no step is open, or in a process that was forked. Not collective.
    pub fn check_open(&self) -> Result<()> {
        self.check_process()?;
        self.open.as_ref().map(|_| ()).ok_or_else(no_step)
    }

    /// Forked processes share the memory that values are copied to, and have no thread that delivers.
    fn check_process(&self) -> Result<()> {
        match self.is_own() {
            true => Ok(()),
            false => Err(Error::usage("a process that was forked cannot go on with what its parent hands over")
                .hint("hand over and read in the process that opened it, or open it in the forked one")),
        }
    }

    /// Notes that something which belongs to the step could not be handed over: [`Handover::end`] returns the first such
    /// error. Not collective.
    pub fn fail(&mut self, error: &Error) {
        if let Some(open) = &mut self.open {
            open.failed.get_or_insert_with(|| error.clone());
        }
    }

    /// Ends the step that is open: nothing can be put. Returns it. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step is open; what was noted by [`Handover::fail`].
    pub fn end(&mut self) -> Result<u64> {
        let Open { step, failed } = self.open.take().ok_or_else(no_step)?;
        failed.map_or(Ok(step), Err)
    }

    /// What the step that is open cannot be delivered for. Not collective.
    pub fn failed(&self) -> Option<&Error> {
        self.open.as_ref()?.failed.as_ref()
    }

    /// Begins to deliver a step in a thread of its own. Collective.
    ///
    /// # Errors
    /// On all ranks: `Write` if one of them has no thread.
    pub fn start(&mut self, step: u64, delivery: D) -> Result<()> {
        self.pending.start(&self.calls.comm, step, delivery)
    }

    /// True if no rank is delivering any more. `mine` says whether this rank may ask. Does not wait. Collective.
    ///
    /// # Errors
    /// As for [`Handover::exchange`].
    pub fn test(&mut self, mine: Result<()>) -> Result<bool> {
        let mine = mine.map(|()| self.is_delivered());
        Ok(self.exchange("test", None, mine)?.iter().all(|&is_done| is_done))
    }

    /// True if nothing is being delivered by this rank any more. Does not wait. Not collective.
    pub fn is_delivered(&self) -> bool {
        self.pending.is_done()
    }

    /// Waits for the step that is delivered, if there is one, and finishes it. All ranks have one, or none. Collective.
    ///
    /// # Errors
    /// On all ranks that of one of them.
    pub fn settle(&mut self) -> Result<Option<D::Outcome>> {
        self.pending.settle(&self.calls.comm)
    }
}

impl<C: Comm, D: Delivery> Handover<C, D> {
    /// Opens a step. What was handed over since a step was opened and not closed is forgotten. The step before must be
    /// settled. Not collective.
    pub fn open(&mut self, step: u64) {
        self.spool.begin();
        self.expect(step);
    }

    /// Copies an array of this rank; the program may change it at once. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step is open; as for [`crate::Spool::put`]. After an error the step cannot be closed: [`Handover::close`]
    /// then returns it.
    pub fn put(&mut self, name: &str, array: &ArrayView<'_>, share: Share) -> Result<()> {
        self.check_open()?;
        self.spool.put(name, array, share).inspect_err(|error| self.fail(error))
    }

    /// Closes the step that is open: the spool is complete, and nothing can be put. Returns the step, with what this rank
    /// handed over. Not collective.
    ///
    /// # Errors
    /// `Usage` if no step is open; what was noted by [`Handover::fail`]; `Write`.
    pub fn close(&mut self) -> Result<(u64, Index)> {
        let step = self.end()?;
        let (rank, ranks) = (self.calls.comm.rank() as u64, self.calls.comm.size() as u64);
        Ok((step, self.spool.finish(step, rank, ranks)?))
    }

    /// Compares what the ranks say of their arrays. Collective.
    ///
    /// # Errors
    /// On all ranks: `Usage` if ranks mean different things by one name.
    pub fn check_alike(&self, index: &Index) -> Result<()> {
        let gathered = comm::gather(&self.calls.comm, ROOT, &index.to_message())?;
        let compared = gathered.map_or(Ok(()), |all| {
            let all = all.iter().map(|bytes| Index::from_message(bytes)).collect::<Result<Vec<_>>>()?;
            check_alike(all.iter())
        });
        agree(&self.calls.comm, compared)
    }
}

impl<C: Comm, D: Delivery, L> Drop for Handover<C, D, L> {
    fn drop(&mut self) {
        if !self.is_own() {
            // The thread is the parent's.
            self.pending.forget();
        }
    }
}
