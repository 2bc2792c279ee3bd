//! Files that a program writes from all its ranks. The GIL is released while they work.

use knarr_array::array::{ArrayView, DType};
use knarr_array::comm::{Comm, Solo};
use knarr_array::error::{Error, Result};
use knarr_routes::output::{Options, Output, Value, Written};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arrays::native_spec;
use crate::errors::raise;
use crate::ranks::{PythonComm, Ranks};
use crate::request::Request;

/// The ranks of a program: one, or those of a communicator.
type OneOrMore = Box<dyn Comm + Send + Sync>;

/// What `knarr.Output` is made of.
#[pyclass(module = "knarr._knarr", frozen)]
pub(crate) struct OutputSession {
    /// `None` once it is closed.
    output: Mutex<Option<Output<OneOrMore>>>,
}

/// Path, bytes of values, bytes of the file, seconds, longest time in calls, and notes.
type Told = (PathBuf, u64, u64, f64, f64, Vec<String>);

fn told(written: Written) -> Told {
    let Written { path, raw_bytes, output_bytes, seconds, blocked_seconds, notes } = written;
    (path, raw_bytes, output_bytes, seconds, blocked_seconds, notes)
}

impl OutputSession {
    fn output(&self) -> MutexGuard<'_, Option<Output<OneOrMore>>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Output<OneOrMore>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let closed = || Error::usage("the output is closed").hint("use it inside its 'with' block");
        // The lock is waited for without the GIL, which who holds it may need.
        py.detach(|| self.output().as_mut().ok_or_else(closed).and_then(work)).map_err(raise)
    }
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
        let ranks: OneOrMore = match ranks {
            None => Box::new(Solo),
            Some(ranks) => Box::new(PythonComm::new(ranks)),
        };
        let made = || {
            if let Some(wrong) = wrong {
                return Err(Error::usage(wrong));
            }
            let request = Request::parse(request)?;
            let (settings, engine, own) = (request.settings()?, request.engine()?, Options::default());
            let jobs = request.jobs.unwrap_or(own.jobs);
            let (replace, max_mem, memory) = (request.force, engine.max_mem, knarr_mapped::map_file);
            Ok((engine, Options { settings, replace, spool, jobs, max_mem, command, memory }))
        };
        let create = || Output::create(ranks, &path, made());
        py.detach(create).map(|output| Self { output: Mutex::new(Some(output)) }).map_err(raise)
    }

    fn def_dim(&self, py: Python<'_>, name: &str, length: Option<u64>) -> PyResult<()> {
        self.with(py, |output| output.define_dimension(name, length))
    }

    fn def_var(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        dimensions: Vec<String>,
        wishes: Vec<(String, String)>,
    ) -> PyResult<()> {
        self.with(py, |output| {
            let dimensions: Vec<&str> = dimensions.iter().map(String::as_str).collect();
            output.define_variable(name, element(dtype)?, &dimensions, &wishes)
        })
    }

    fn set_text(&self, py: Python<'_>, variable: Option<&str>, name: &str, text: String) -> PyResult<()> {
        self.with(py, |output| output.set_attribute(variable, name, Value::Text(text)))
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
        self.with(py, |output| output.set_attribute(variable, name, Value::Numbers { dtype: element(dtype)?, bytes }))
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
        self.with(py, |output| {
            let spec = native_spec(dtype, &count)?;
            output.put(name, &ArrayView::new(&spec, bytes)?, start)
        })
    }

    /// Notes that something could not be handed over, so that no file is written without it.
    fn fail(&self, py: Python<'_>, why: &str) {
        py.detach(|| {
            if let Some(output) = self.output().as_mut() {
                output.fail(&Error::usage(why));
            }
        });
    }

    fn end_step(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Output::end_step)
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Output::commit)
    }

    fn test(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, Output::test)
    }

    fn wait(&self, py: Python<'_>) -> PyResult<Told> {
        self.with(py, |output| {
            output.wait()?;
            output.written().cloned().map(told).ok_or_else(|| Error::internal("no file was made"))
        })
    }

    /// Completes the file, or with `abandon` gives it up without a word to other ranks. Does nothing the second time.
    fn close(&self, py: Python<'_>, abandon: bool) -> PyResult<Option<Told>> {
        py.detach(|| match self.output().take() {
            Some(output) if !abandon => output.close(),
            _ => Ok(None),
        })
        .map(|written| written.map(told))
        .map_err(raise)
    }
}

fn element(dtype: &str) -> Result<DType> {
    native_spec(dtype, &[]).map(|spec| spec.dtype)
}
