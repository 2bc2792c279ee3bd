//! Files that a program writes from all its ranks.

use knarr_array::array::{ArrayView, DType};
use knarr_array::error::{Error, Result};
use knarr_routes::output::{Options, Output, Value, Written};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use std::path::PathBuf;

use crate::arrays::native_spec;
use crate::ranks::Ranks;
use crate::request::Request;
use crate::session::{OneOrMore, Shared};

/// What `knarr.Output` is made of.
#[pyclass(module = "knarr._knarr", frozen)]
pub(crate) struct OutputSession(Shared<Output<OneOrMore>>);

/// Path, bytes of values, bytes of the file, seconds, longest time in calls, and notes.
type Report = (PathBuf, u64, u64, f64, f64, Vec<String>);

fn report(written: Written) -> Report {
    let Written { path, raw_bytes, output_bytes, seconds, blocked_seconds, notes } = written;
    (path, raw_bytes, output_bytes, seconds, blocked_seconds, notes)
}

#[pymethods]
impl OutputSession {
    /// `request` is empty where `wrong` says why there is none: the other ranks are told.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        request: &str,
        wrong: Option<String>,
        spool: Option<PathBuf>,
        command: String,
        ranks: Option<Ranks>,
    ) -> PyResult<Self> {
        let made = || {
            if let Some(wrong) = wrong {
                return Err(Error::usage(wrong));
            }
            let request = Request::parse(request)?;
            let (settings, engine) = (request.settings()?, request.engine()?);
            let mut options = Options { settings, replace: request.force, command, ..Options::default() };
            let resources = &mut options.resources;
            (resources.spool, resources.max_mem) = (spool, engine.max_mem);
            resources.jobs = request.jobs.unwrap_or(resources.jobs);
            Ok((engine, options))
        };
        Shared::open(py, "output", ranks, |ranks| Output::create(ranks, &path, made())).map(Self)
    }

    fn def_dim(&self, py: Python<'_>, name: &str, length: Option<u64>) -> PyResult<()> {
        self.0.with(py, |output| output.define_dimension(name, length))
    }

    fn def_var(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        dimensions: Vec<String>,
        wishes: Vec<(String, String)>,
    ) -> PyResult<()> {
        self.0.with(py, |output| {
            let dimensions: Vec<&str> = dimensions.iter().map(String::as_str).collect();
            output.define_variable(name, element(dtype)?, &dimensions, &wishes)
        })
    }

    fn set_text(&self, py: Python<'_>, variable: Option<&str>, name: &str, text: String) -> PyResult<()> {
        self.0.with(py, |output| output.set_attribute(variable, name, Value::Text(text)))
    }

    /// `bytes` are little-endian numbers.
    fn set_numbers(
        &self,
        py: Python<'_>,
        variable: Option<&str>,
        name: &str,
        dtype: &str,
        bytes: Vec<u8>,
    ) -> PyResult<()> {
        self.0.with(py, |output| output.set_attribute(variable, name, Value::Numbers { dtype: element(dtype)?, bytes }))
    }

    /// `bytes` are row-major and in native byte order.
    fn put(
        &self,
        py: Python<'_>,
        name: &str,
        bytes: PyReadonlyArray1<'_, u8>,
        dtype: &str,
        count: Vec<u64>,
        start: Option<Vec<u64>>,
    ) -> PyResult<()> {
        let bytes = bytes.as_slice()?;
        self.0.with(py, |output| {
            let spec = native_spec(dtype, &count)?;
            output.put(name, &ArrayView::new(&spec, bytes)?, start)
        })
    }

    /// Notes that something could not be handed over, so that no file is written without it.
    fn fail(&self, py: Python<'_>, why: &str) {
        self.0.if_open(py, |output| output.fail(&Error::usage(why)));
    }

    fn end_step(&self, py: Python<'_>) -> PyResult<()> {
        self.0.with(py, Output::end_step)
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.0.with(py, Output::commit)
    }

    fn test(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.with(py, Output::test)
    }

    fn wait(&self, py: Python<'_>) -> PyResult<Report> {
        self.0.with(py, |output| {
            output.wait()?;
            output.written().cloned().map(report).ok_or_else(|| Error::internal("no file was made"))
        })
    }

    /// Completes the file, or with `abandon` gives it up without a word to other ranks. Does nothing the second time.
    fn close(&self, py: Python<'_>, abandon: bool) -> PyResult<Option<Report>> {
        self.0.close(py, abandon, |output| Ok(output.close()?.map(report)))
    }
}

fn element(dtype: &str) -> Result<DType> {
    native_spec(dtype, &[]).map(|spec| spec.dtype)
}
