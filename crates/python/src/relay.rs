//! What Python hears of a call while it runs, and how an exception stops it.

use knarr_array::error::{Error, ErrorKind};
use knarr_flow::engine::{Engine, Progress};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first exception that was raised in a call, which stops it.
pub(crate) struct Raised {
    cancel: Arc<AtomicBool>,
    first: Mutex<Option<PyErr>>,
}

impl Raised {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self { cancel: engine.cancel.clone(), first: Mutex::new(None) })
    }

    /// Keeps an exception for the caller. What is returned ends the work meanwhile.
    pub(crate) fn raise(&self, error: PyErr) -> Error {
        self.cancel.store(true, Ordering::Relaxed);
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        Error::new(ErrorKind::Interrupted, "an exception was raised in Python")
    }

    /// The exception, if there was one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Hands progress to Python at most ten times a second, and looks for Ctrl-C as often.
pub(crate) struct Relay {
    callback: Option<Py<PyAny>>,
    phase: Mutex<(String, u64)>,
    done: AtomicU64,
    last: Mutex<std::time::Instant>,
    raised: Arc<Raised>,
}

impl Relay {
    pub(crate) fn new(raised: &Arc<Raised>, callback: Option<Py<PyAny>>) -> Self {
        Self {
            callback,
            phase: Mutex::new((String::new(), 0)),
            done: AtomicU64::new(0),
            last: Mutex::new(std::time::Instant::now()),
            raised: raised.clone(),
        }
    }

    fn call(&self, done: u64) {
        let (phase, total) = self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            match &self.callback {
                Some(callback) => callback.call1(py, (phase, done, total)).map(|_| ()),
                None => Ok(()),
            }
        });
        if let Err(error) = outcome {
            self.raised.raise(error);
        }
    }
}

impl Progress for Relay {
    fn begin(&self, phase: &str, bytes: u64) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = (phase.to_owned(), bytes);
        self.done.store(0, Ordering::Relaxed);
        self.call(0);
    }

    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.phase.lock().unwrap_or_else(PoisonError::into_inner).1;
        // A worker that finds another one reporting goes on working.
        let Ok(mut last) = self.last.try_lock() else { return };
        if done >= total || last.elapsed().as_millis() >= 100 {
            *last = std::time::Instant::now();
            self.call(done);
        }
    }
}
