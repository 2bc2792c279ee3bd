//! Writing a part of a Zarr store that is there. Python reads and writes objects that are not arrays of Knarr's chains.

use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_flow::engine::Engine;
use knarr_flow::mutable_store::{MutableStore, StoreLock};
use knarr_flow::output::InPlace;
use knarr_flow::read_store::{Part as PartOf, ReadStore};
use knarr_flow::urls::url_of;
use knarr_routes::part::{Part, Sharing, Target, write_part};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::computed::{Computed, ComputedValues};
use crate::errors::raise;
use crate::relay::{Raised, Relay};
use crate::request::Request;
use crate::write::beside;

/// The file that describes a store, by whose lock it is held.
const DESCRIPTION: &str = "zarr.json";

/// Values of a variable: path, type, shape, blocks as for `write`, first element in the array, and the shape of the array.
type Described = (String, String, Vec<u64>, Option<(Vec<Vec<u64>>, Vec<u64>)>, Vec<u64>, Vec<u64>);

/// A Zarr store, version 3, that is there.
#[pyclass(frozen)]
pub(crate) struct StoredZarr {
    request: Request,
    engine: Engine,
    store: Arc<dyn MutableStore>,
    objects: Arc<dyn ReadStore>,
    target: Mutex<Option<Arc<Target>>>,
    held: Mutex<Option<StoreLock>>,
}

impl StoredZarr {
    /// The arrays as they are when they are asked for first: later than the store is held.
    fn target(&self) -> Result<Arc<Target>> {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = target.as_ref() {
            return Ok(target.clone());
        }
        let opened = Arc::new(Target::open(&self.engine, self.store.clone())?);
        Ok(target.insert(opened).clone())
    }
}

#[pymethods]
impl StoredZarr {
    /// `output` is a directory or a URL.
    #[new]
    fn new(py: Python<'_>, output: PathBuf, request: &str) -> PyResult<Self> {
        let open = || -> Result<Self> {
            let request = Request::parse(request)?;
            let engine = request.engine()?;
            let store: Arc<dyn MutableStore> = match (url_of(&output), &engine.stores) {
                (Some(url), Some(stores)) => stores.change(url)?,
                _ => Arc::new(InPlace::new(&output, DESCRIPTION)),
            };
            let objects = store.objects();
            if !objects.has(DESCRIPTION)? {
                let what = "there is no Zarr store, version 3, that a part could be written of";
                return Err(Error::new(knarr_array::ErrorKind::NotFound, what)
                    .hint("write the whole dataset first, or what describes it (compute=False)")
                    .at(store.place()));
            }
            Ok(Self { request, engine, store, objects, target: Mutex::default(), held: Mutex::default() })
        };
        py.detach(open).map_err(raise)
    }

    /// Bytes of an object from `start`, or of its end if that is negative, to `stop`; `None` if it is not there.
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        start: Option<i64>,
        stop: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let read = || -> Result<Option<Vec<u8>>> {
            let mut bytes = Vec::new();
            let (start, whole) = (start.unwrap_or(0), PartOf::Whole { most: u64::MAX });
            let part = match stop {
                _ if start < 0 => PartOf::Last { length: start.unsigned_abs() },
                Some(stop) => {
                    PartOf::At { offset: start.unsigned_abs(), length: stop.saturating_sub(start.unsigned_abs()) }
                }
                None => whole,
            };
            let Some(held) = self.objects.get(key, part, &mut bytes)? else { return Ok(None) };
            if part.within(held).is_none() {
                // As a slice of fewer bytes than are asked for.
                self.objects.get(key, whole, &mut bytes)?;
                if let PartOf::At { offset, .. } = part {
                    bytes.drain(..usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len()));
                }
            } else if part == whole && start > 0 {
                bytes.drain(..usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len()));
            }
            Ok(Some(bytes))
        };
        let read = py.detach(read).map_err(raise)?;
        Ok(read.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// True if there is such an object.
    fn has(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        py.detach(|| self.objects.has(key)).map_err(raise)
    }

    /// Names in a folder, and whether they are folders.
    fn list(&self, py: Python<'_>, folder: &str) -> PyResult<Vec<(String, bool)>> {
        let entries = py.detach(|| self.objects.list(folder)).map_err(raise)?.unwrap_or_default();
        Ok(entries.into_iter().map(|entry| (entry.name, entry.is_folder)).collect())
    }

    /// Makes or replaces an object.
    fn put(&self, py: Python<'_>, key: &str, bytes: &[u8]) -> PyResult<()> {
        py.detach(|| self.store.put(key, bytes)).map_err(raise)
    }

    /// Makes or replaces objects that belong together, one after the other.
    fn put_all(&self, py: Python<'_>, objects: Vec<(String, Vec<u8>)>) -> PyResult<()> {
        py.detach(|| self.store.put_all(&objects)).map_err(raise)
    }

    /// Waits until nobody else holds the store, and holds it until `release`. False if it cannot be held.
    fn hold(&self, py: Python<'_>) -> PyResult<bool> {
        let raised = Raised::new(&self.engine);
        let may_wait = || Python::attach(|py| py.check_signals()).map_err(|error| raised.raise(error));
        let held = py.detach(|| self.store.hold(&may_wait));
        if let Some(error) = raised.take() {
            return Err(error);
        }
        let held = held.map_err(raise)?;
        let is_held = held.is_some();
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(is_held)
    }

    fn release(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// True if Knarr has a chain for the codecs of an array.
    fn is_own(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        let recode = || self.target()?.recode(&self.engine, path);
        Ok(py.detach(recode).map_err(raise)?.is_some())
    }

    /// All values of an array that Knarr decodes, in the byte order of the machine.
    fn values<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let values = py.detach(|| self.target()?.values(path)).map_err(raise)?;
        Ok(PyBytes::new(py, &values))
    }

    /// Writes values of arrays of which `is_own` is true; `compute` is as for `write`. With `sharing` others may write the
    /// objects that are touched in part. Returns what was written as JSON.
    fn write(
        &self,
        py: Python<'_>,
        variables: Vec<Described>,
        compute: Py<PyAny>,
        sharing: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let raised = Raised::new(&self.engine);
        let relay = Relay::new(&raised, progress);
        let (mut computed, mut parts) = (Vec::new(), Vec::new());
        for (path, dtype, count, blocks, start, shape) in variables {
            computed.push(Computed::new(path.clone(), &dtype, count.clone(), blocks).map_err(raise)?);
            parts.push(Part { path, region: Region::new(start, count), shape });
        }
        let values = ComputedValues::new(computed, compute, raised.clone());
        let sharing = if sharing { Sharing::StoreLock } else { Sharing::Alone };
        let job = || -> Result<String> {
            let settings = self.request.settings()?;
            let target = self.target()?;
            let written = write_part(&self.engine, &target, &parts, &values, &settings, sharing, &relay)?;
            serde_json::to_string(&written).map_err(|error| Error::internal(error.to_string()))
        };
        let result = py.detach(|| beside(&raised, job));
        match raised.take() {
            Some(error) => Err(error),
            None => result.map_err(raise),
        }
    }
}
