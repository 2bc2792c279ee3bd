//! Checkpoints: a session and what restarts from it.

use knarr_array::array::ArrayView;
use knarr_array::error::Error;
use knarr_array::region::Region;
use knarr_array::request::Share;
use knarr_checkpoint::library::{Options, Restart, Session};
use knarr_flow::engine::Engine;
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use std::path::PathBuf;

use crate::arrays::native_spec;
use crate::errors::raise;
use crate::ranks::Ranks;
use crate::session::{OneOrMore, Shared};

/// What `knarr.Checkpoint` is made of.
#[pyclass(module = "knarr._knarr", frozen)]
pub(crate) struct CheckpointSession(Shared<Session<OneOrMore>>);

/// Step, path, bytes handed over, bytes written and seconds.
type Report = (u64, PathBuf, u64, u64, f64);

#[pymethods]
impl CheckpointSession {
    #[new]
    fn new(py: Python<'_>, directory: PathBuf, options: Vec<(String, String)>, ranks: Option<Ranks>) -> PyResult<Self> {
        let made = || {
            let mut made = Options { find: knarr_formats::layout::read, ..Options::default() };
            options.iter().try_for_each(|(key, value)| made.set(key, value))?;
            Ok((Engine::new(knarr_native::codecs()?), made))
        };
        Shared::open(py, "checkpoint", ranks, |ranks| Session::open(ranks, &directory, made())).map(Self)
    }

    fn begin(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        self.0.with(py, |session| session.begin(step))
    }

    /// `bytes` are row-major and in native byte order; without `whole`, the shape of the global array, the rank has the
    /// array of its own.
    #[allow(clippy::too_many_arguments, reason = "one call of the Python half")]
    fn put(
        &self,
        py: Python<'_>,
        name: &str,
        bytes: PyReadonlyArray1<'_, u8>,
        dtype: &str,
        count: Vec<u64>,
        whole: Option<Vec<u64>>,
        start: Vec<u64>,
    ) -> PyResult<()> {
        let bytes = bytes.as_slice()?;
        self.0.with(py, |session| {
            let spec = native_spec(dtype, &count)?;
            let share = match whole {
                None => Share::Own(count),
                Some(shape) => Share::Global { shape, region: Region { start, count } },
            };
            session.put(name, &ArrayView::new(&spec, bytes)?, share)
        })
    }

    fn add_file(&self, py: Python<'_>, path: PathBuf, name: &str) -> PyResult<()> {
        self.0.with(py, |session| session.add_file(&path, name))
    }

    /// Notes that something could not be handed over, so that the step is not committed without it.
    fn fail(&self, py: Python<'_>, why: &str) {
        self.0.if_open(py, |session| session.fail(&Error::usage(why)));
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.0.with(py, Session::commit)
    }

    fn test(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.with(py, Session::test)
    }

    fn need(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.with(py, Session::need)
    }

    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.0.with(py, Session::wait)
    }

    /// The set that was completed last.
    fn last(&self, py: Python<'_>) -> PyResult<Option<Report>> {
        self.0.with(py, |session| {
            let report = session.last().cloned();
            Ok(report.map(|set| (set.step, set.path, set.raw_bytes, set.packed_bytes, set.seconds)))
        })
    }

    fn warnings(&self, py: Python<'_>) -> Vec<String> {
        let taken = self.0.if_open(py, Session::take_warnings);
        taken.iter().map(ToString::to_string).collect()
    }

    fn restart(&self, py: Python<'_>, step: Option<u64>, verify: bool) -> PyResult<Option<CheckpointRestart>> {
        self.0.with(py, |session| {
            let ranks = session.ranks();
            Ok(session.restart(step, verify)?.map(|restart| CheckpointRestart { restart, ranks }))
        })
    }

    /// Completes the step that is under way, or with `abandon` gives it up without a word to other ranks. Does nothing the
    /// second time.
    fn close(&self, py: Python<'_>, abandon: bool) -> PyResult<()> {
        self.0.close(py, abandon, Session::close)
    }
}

/// What `knarr.Restart` is made of.
#[pyclass(module = "knarr._knarr", frozen)]
pub(crate) struct CheckpointRestart {
    restart: Restart,
    ranks: (u64, u64),
}

#[pymethods]
impl CheckpointRestart {
    /// Step, number of ranks that made it, path.
    fn about(&self) -> (u64, u64, PathBuf) {
        (self.restart.step(), self.restart.ranks(), self.restart.path().to_owned())
    }

    /// Name, type and global shape of each array.
    fn arrays(&self) -> Vec<(String, String, Option<Vec<u64>>)> {
        let arrays = self.restart.arrays().into_iter();
        arrays.map(|array| (array.name, array.dtype.to_string(), array.shape)).collect()
    }

    /// Type and global shape of an array.
    fn describe(&self, name: &str) -> PyResult<(String, Option<Vec<u64>>)> {
        let array = self.restart.describe(name).map_err(raise)?;
        Ok((array.dtype.to_string(), array.shape))
    }

    /// Shape of the array that `rank`, by default this one, had of its own.
    fn own_shape(&self, name: &str, rank: Option<u64>) -> PyResult<Vec<u64>> {
        self.restart.own_shape(name, rank.unwrap_or(self.ranks.0)).map_err(raise)
    }

    fn read(
        &self,
        py: Python<'_>,
        name: &str,
        start: Vec<u64>,
        count: Vec<u64>,
        mut out: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<()> {
        let out = out.as_slice_mut()?;
        py.detach(|| self.restart.read(name, &Region { start, count }, out)).map_err(raise)
    }

    fn read_own(
        &self,
        py: Python<'_>,
        name: &str,
        rank: Option<u64>,
        mut out: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<()> {
        let out = out.as_slice_mut()?;
        py.detach(|| self.restart.read_own(name, rank.unwrap_or(self.ranks.0), out)).map_err(raise)
    }

    fn restore_files(&self, py: Python<'_>, directory: PathBuf, force: bool) -> PyResult<Vec<PathBuf>> {
        py.detach(|| self.restart.restore_files(&directory, self.ranks, force)).map_err(raise)
    }
}
