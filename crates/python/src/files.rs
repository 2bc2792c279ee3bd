//! Files: advise, repack, hash, verify. The GIL is released while they run.

use knarr_array::error::Result;
use knarr_flow::content;
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_flow::store::Source;
use knarr_formats::Inputs;
use knarr_routes::compress::{OutputFormat, RepackOptions};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::errors::raise;
use crate::request::Request;

/// The plan for `path` as JSON. `suffix` says for which format.
#[pyfunction]
pub(crate) fn advise_file(py: Python<'_>, path: PathBuf, suffix: &str, request: &str) -> PyResult<String> {
    let (request, suffix) = (request.to_owned(), suffix.to_owned());
    py.detach(move || advise(&path, &suffix, &request)).map_err(raise)
}

fn advise(path: &Path, suffix: &str, request: &str) -> Result<String> {
    let request = Request::parse(request)?;
    let (engine, settings) = (request.engine()?, request.settings()?);
    let source = open(&engine, path)?;
    let target = OutputFormat::of_suffix(suffix)?.target(settings.portable)?;
    let plan = knarr_flow::pipeline::advise(&engine, source.as_ref(), &settings, target, &Silent)?;
    json(&plan)
}

/// Opens a file, a directory or a URL.
fn open(engine: &Engine, path: &Path) -> Result<Box<dyn Source>> {
    let inputs = Inputs { network: engine.network.clone(), ..Inputs::default() };
    knarr_formats::open_with(path, &engine.codecs, &inputs)
}

/// Repacks `input` into `output`; returns what was done as JSON. `progress(phase, done, total)` is called now and
/// then; an exception it raises, and Ctrl-C, stop the work and leave nothing behind.
#[pyfunction]
pub(crate) fn repack(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    request: &str,
    command: String,
    when: String,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let request = Request::parse(request).map_err(raise)?;
    let engine = request.engine().map_err(raise)?;
    let settings = request.settings().map_err(raise)?;
    let options = RepackOptions { force: request.force, command, when, save_plan: true };
    let relay = Relay::new(&engine, progress);
    let result = py.detach(|| {
        let done = knarr_routes::compress::repack(&engine, &input, &output, &settings, &options, &relay)?;
        json(&serde_json::json!({ "result": done, "plan": done.plan, "notes": knarr_routes::compress::notes::all(&done) }))
    });
    match relay.raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => result.map_err(raise),
    }
}

/// Content hash of `path` as JSON.
#[pyfunction]
pub(crate) fn content_hash(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(move || {
        let engine = Request::default().engine()?;
        let source = knarr_formats::whole_records(open(&engine, &path)?);
        json(&content::hash(&engine, source.as_ref(), &Silent)?)
    })
    .map_err(raise)
}

/// Comparison of two files as JSON.
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, original: PathBuf, copy: PathBuf, values_only: bool) -> PyResult<String> {
    py.detach(move || {
        let engine = Request::default().engine()?;
        let open = |path: &Path| open(&engine, path).map(knarr_formats::whole_records);
        let (a, b) = (open(&original)?, open(&copy)?);
        json(&content::verify(&engine, a.as_ref(), b.as_ref(), values_only, &Silent)?)
    })
    .map_err(raise)
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| knarr_array::Error::internal(error.to_string()))
}

/// Hands progress to Python at most ten times a second, and looks for Ctrl-C as often.
struct Relay {
    callback: Option<Py<PyAny>>,
    cancel: std::sync::Arc<AtomicBool>,
    phase: Mutex<(String, u64)>,
    done: AtomicU64,
    last: Mutex<std::time::Instant>,
    raised: Mutex<Option<PyErr>>,
}

impl Relay {
    fn new(engine: &Engine, callback: Option<Py<PyAny>>) -> Self {
        Self {
            callback,
            cancel: engine.cancel.clone(),
            phase: Mutex::new((String::new(), 0)),
            done: AtomicU64::new(0),
            last: Mutex::new(std::time::Instant::now()),
            raised: Mutex::new(None),
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
            self.cancel.store(true, Ordering::Relaxed);
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
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
