//! What checkpoints and outputs have in common: a session that the threads of a program in Python share. The GIL is released
//! while it works.

use knarr_array::comm::{Comm, Solo};
use knarr_array::error::{Error, Result};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errors::raise;
use crate::ranks::{PythonComm, Ranks};

/// The ranks of a program: one, or those of a communicator.
pub(crate) type OneOrMore = Box<dyn Comm + Send + Sync>;

/// A session.
pub(crate) struct Shared<S> {
    /// What messages call it.
    name: &'static str,
    /// `None` once it is closed.
    session: Mutex<Option<S>>,
}

impl<S: Send> Shared<S> {
    pub(crate) fn open(
        py: Python<'_>,
        name: &'static str,
        ranks: Option<Ranks>,
        open: impl FnOnce(OneOrMore) -> Result<S> + Send,
    ) -> PyResult<Self> {
        let ranks: OneOrMore = match ranks {
            None => Box::new(Solo),
            Some(ranks) => Box::new(PythonComm::new(ranks)),
        };
        py.detach(|| open(ranks)).map(|session| Self { name, session: Mutex::new(Some(session)) }).map_err(raise)
    }

    /// Waited for without the GIL, which who holds it may need.
    fn locked(&self) -> MutexGuard<'_, Option<S>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut S) -> Result<T> + Send) -> PyResult<T> {
        let closed = || Error::usage(format!("the {} is closed", self.name)).hint("use it inside its 'with' block");
        py.detach(|| self.locked().as_mut().ok_or_else(closed).and_then(work)).map_err(raise)
    }

    /// As [`Shared::with`], for what is of no account once the session is closed.
    pub(crate) fn if_open<T: Send + Default>(&self, py: Python<'_>, work: impl FnOnce(&mut S) -> T + Send) -> T {
        py.detach(|| self.locked().as_mut().map(work).unwrap_or_default())
    }

    /// Ends the session with `close`, or with `abandon` gives it up without a word to other ranks. Does nothing the second
    /// time.
    pub(crate) fn close<T: Send + Default>(
        &self,
        py: Python<'_>,
        abandon: bool,
        close: impl FnOnce(S) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| match self.locked().take() {
            Some(session) if !abandon => close(session),
            _ => Ok(T::default()),
        })
        .map_err(raise)
    }
}
