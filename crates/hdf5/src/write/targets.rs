//! Datasets that take chunks. HDF5 holds tens of kilobytes for each open one, and files may have tens of thousands, so
//! only the latest are open.

use std::collections::VecDeque;

use crate::sys::{Dataset, File, Object};
use knarr_array::error::{Error, Result};
use knarr_array::model::Model;
use knarr_flow::store::{ChunkToReserve, EncodedChunk, Storage};

/// Datasets that are open at once.
const OPEN: usize = 64;

/// The datasets of an output, by the numbers of their variables.
#[derive(Default)]
pub(crate) struct Targets {
    targets: Vec<Option<Target>>,
    /// Numbers of those that are open, the latest last.
    open: VecDeque<usize>,
}

struct Target {
    path: Vec<u8>,
    dataset: Option<Dataset>,
    chunk: Vec<u64>,
    shape: Vec<u64>,
    name: String,
}

impl Target {
    /// The element at which the chunk at `position` begins.
    fn offset(&self, position: &[u64]) -> Result<Vec<u64>> {
        let inside = position.len() == self.chunk.len()
            && position
                .iter()
                .zip(&self.chunk)
                .zip(&self.shape)
                .all(|((p, c), n)| p.checked_mul(*c).is_some_and(|start| start < *n));
        if !inside {
            return Err(Error::internal(format!("there is no chunk at {position:?}")));
        }
        Ok(position.iter().zip(&self.chunk).map(|(p, c)| p * c).collect())
    }
}

impl Targets {
    /// Those of `storages`, which lie at `path` in the output.
    pub(crate) fn new(model: &Model, storages: &[Storage], path: impl Fn(usize) -> Result<Vec<u8>>) -> Result<Self> {
        let mut targets: Vec<Option<Target>> = model.variables.iter().map(|_| None).collect();
        for storage in storages {
            let variable = model.variable(storage.variable)?;
            let target = Target {
                path: path(storage.variable)?,
                dataset: None,
                chunk: storage.chunk.clone(),
                shape: variable.shape.clone(),
                name: variable.name().to_owned(),
            };
            if let Some(place) = targets.get_mut(storage.variable) {
                *place = Some(target);
            }
        }
        Ok(Self { targets, open: VecDeque::new() })
    }

    pub(crate) fn put(&mut self, file: &File, chunk: &EncodedChunk<'_>) -> Result<()> {
        self.with(file, chunk.variable, |target, dataset| {
            dataset.write_chunk(&target.offset(chunk.position)?, chunk.filter_mask, chunk.bytes)
        })
    }

    /// Gives a chunk its place. Returns the byte of the file at which it belongs.
    pub(crate) fn reserve(&mut self, file: &File, chunk: &ChunkToReserve<'_>) -> Result<u64> {
        self.with(file, chunk.variable, |target, dataset| {
            dataset.allot_chunk(&target.offset(chunk.position)?, chunk.filter_mask, chunk.length)
        })
    }

    /// Applies `f` to the dataset of a variable.
    pub(crate) fn change(&mut self, file: &File, variable: usize, f: impl Fn(&Object) -> Result<()>) -> Result<()> {
        self.with(file, variable, |_, dataset| f(&dataset.0))
    }

    /// Closes those that are open.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.open.clear();
        let mut outcome = Ok(());
        for dataset in self.targets.drain(..).flatten().filter_map(|target| target.dataset) {
            outcome = outcome.and(dataset.close());
        }
        outcome
    }

    fn with<T>(&mut self, file: &File, variable: usize, f: impl FnOnce(&Target, &Dataset) -> Result<T>) -> Result<T> {
        if self.open.back() != Some(&variable) {
            self.reach(file, variable)?;
        }
        let target = self.targets.get(variable).and_then(Option::as_ref);
        let dataset = target.and_then(|target| Some((target, target.dataset.as_ref()?)));
        let (target, dataset) = dataset.ok_or_else(|| not_here(variable))?;
        f(target, dataset).map_err(|error| error.at_variable(&target.name))
    }

    /// Opens the dataset of a variable, and closes the one that was not needed for longest where too many are open.
    fn reach(&mut self, file: &File, variable: usize) -> Result<()> {
        let target = self.targets.get_mut(variable).and_then(Option::as_mut).ok_or_else(|| not_here(variable))?;
        match self.open.iter().position(|&open| open == variable) {
            Some(at) => drop(self.open.remove(at)),
            None => target.dataset = Some(file.object_at_path(&target.path)?.into_dataset()?),
        }
        self.open.push_back(variable);
        if self.open.len() > OPEN
            && let Some(oldest) = self.open.pop_front()
            && let Some(dataset) = self.targets[oldest].as_mut().and_then(|target| target.dataset.take())
        {
            dataset.close()?;
        }
        Ok(())
    }
}

fn not_here(variable: usize) -> Error {
    Error::internal(format!("variable number {variable} is not written here"))
}
