//! Files: advise, repack, hash, verify. The GIL is released while they run.

use knarr_array::error::Result;
use knarr_flow::content;
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::store::Source;
use knarr_formats::Inputs;
use knarr_formats::output;
use knarr_routes::compress::{RepackOptions, Repacked};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

use crate::errors::raise;
use crate::relay::{Raised, Relay};
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
    let target = output::of_suffix(suffix)?.limits(settings.portable)?;
    let plan = knarr_flow::pipeline::advise(&engine, source.as_ref(), &settings, target, &Silent)?;
    json(&plan)
}

/// Opens a file, a directory or a URL.
fn open(engine: &Engine, path: &Path) -> Result<Box<dyn Source>> {
    let inputs = Inputs { stores: engine.stores.clone(), ..Inputs::default() };
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
    let options =
        RepackOptions { replaces: request.force.into(), command, when, save_plan: true, ..RepackOptions::default() };
    let raised = Raised::new(&engine);
    let relay = Relay::new(&raised, progress);
    let result = py.detach(|| {
        let done = knarr_routes::compress::repack(&engine, &input, &output, &settings, &options, &relay)?;
        report(&done)
    });
    match raised.take() {
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

/// What was done, as JSON.
pub(crate) fn report(done: &Repacked) -> Result<String> {
    json(&serde_json::json!({ "result": done, "plan": done.plan, "notes": knarr_routes::compress::notes::all(done) }))
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| knarr_array::Error::internal(error.to_string()))
}
