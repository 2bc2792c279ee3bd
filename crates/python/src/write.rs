//! Writing a dataset of Python: a header that describes it, and values that are computed block by block.

use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_formats::output;
use knarr_formats::{ExternalValues, open_header};
use knarr_routes::compress::{RepackOptions, Repacked, vacant_kind, write_source};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::computed::{Computed, ComputedValues};
use crate::errors::raise;
use crate::files::report;
use crate::later;
use crate::relay::{Raised, Relay};
use crate::request::Request;

/// How the dataset is called in messages.
const NAME: &str = "xarray.Dataset";

/// How long the calling thread sleeps between looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// What kind of header an output of this name takes, `netcdf` or `zarr`, if nothing is there that is not to be replaced.
#[pyfunction]
pub(crate) fn output_kind(output: PathBuf, force: bool) -> PyResult<&'static str> {
    let options = RepackOptions { replaces: force.into(), save_plan: true, ..RepackOptions::default() };
    let kind = vacant_kind(&output, &options).map_err(raise)?;
    if kind.is_plain() {
        return Err(raise(
            Error::usage(format!("'{}' is of a format that holds no dataset", output.display()))
                .hint("end the name in .nc (netCDF-4), .h5 (HDF5) or .zarr (Zarr v3)"),
        ));
    }
    Ok(if kind.is_store() { "zarr" } else { "netcdf" })
}

/// Writes what `header` describes to `output`; returns what was done as JSON. `variables` are those whose values are not in
/// the header: path, type, shape, of Dask's blocks the lengths and the shape of chunks that they are made of, and whether they
/// are written later, by others.
/// `compute(number, start, stop)` gives the little-endian bytes of a region. It is called from several threads at once. An
/// exception that it raises, and Ctrl-C, stop the work and leave nothing behind.
#[pyfunction]
#[expect(clippy::too_many_arguments, clippy::type_complexity, reason = "each is one of the call in Python")]
pub(crate) fn write(
    py: Python<'_>,
    header: PathBuf,
    output: PathBuf,
    variables: Vec<(String, String, Vec<u64>, Option<(Vec<Vec<u64>>, Vec<u64>)>, bool)>,
    compute: Py<PyAny>,
    request: &str,
    command: String,
    when: String,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let request = Request::parse(request).map_err(raise)?;
    let engine = request.engine().map_err(raise)?;
    let raised = Raised::new(&engine);
    let relay = Relay::new(&raised, progress);
    let computed = variables.into_iter().map(|(path, dtype, shape, blocks, is_later)| {
        let computed = Computed::new(path, &dtype, shape, blocks)?;
        Ok(if is_later { computed.later() } else { computed })
    });
    let computed = computed.collect::<Result<Vec<_>>>().map_err(raise)?;
    let options =
        RepackOptions { replaces: request.force.into(), command, when, save_plan: true, ..RepackOptions::default() };
    let values = ComputedValues::new(computed.clone(), compute, raised.clone());
    let job = || -> Result<String> {
        let mut settings = request.settings()?;
        let external: Vec<ExternalValues> = computed.iter().map(Computed::external).collect();
        let source = open_header(&header, Path::new(NAME), (&external, Box::new(values)), &engine.codecs)?;
        computed.iter().try_for_each(|computed| computed.check(source.model()))?;
        later::settle(&mut settings, &computed, source.model())?;
        let input_bytes = source.model().variables.iter().map(Variable::raw_bytes).sum();
        let kind = output::of(&output)?;
        let done = write_source(&engine, source, (&output, kind), &settings, &options, &relay)?;
        report(&Repacked { input_bytes, ..done })
    };
    let result = py.detach(|| beside(&raised, job));
    match raised.take() {
        Some(error) => Err(error),
        None => result.map_err(raise),
    }
}

/// Does a job in another thread. This one looks for signals meanwhile, which Python handles in the main thread only: a block
/// may take minutes.
pub(crate) fn beside<T: Send>(raised: &Arc<Raised>, job: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _ended = ended;
            job()
        });
        while matches!(end.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                raised.raise(error);
            }
        }
        worker.join().unwrap_or_else(|_| Err(Error::internal("the thread that writes broke off")))
    })
}
