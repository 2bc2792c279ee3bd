//! A source and a sink in memory: the pipeline is tested without any file format.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::array::DType;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::{Attribute, Model, Variable};
use knarr_array::region::Region;
use knarr_flow::store::{EncodedChunk, Sink, Source, Strings};

/// Name, type, shape, fill values and bytes of an array.
pub type NamedArray<'a> = (&'a str, DType, Vec<u64>, Vec<u64>, Vec<u8>);

/// Arrays in memory, as a source.
pub struct MemorySource {
    /// What it holds.
    pub model: Model,
    /// Values of each variable, row-major, in stored byte order.
    pub values: Vec<Vec<u8>>,
    /// Reading a region that holds this element of this variable fails, as a damaged file would.
    pub damaged: Option<(usize, u64)>,
}

impl MemorySource {
    /// A source of named little-endian arrays with their fill values.
    pub fn new(arrays: Vec<NamedArray<'_>>) -> Self {
        let mut source = Self { model: Model::default(), values: Vec::new(), damaged: None };
        for (name, dtype, shape, fills, bytes) in arrays {
            source.model.variables.push(Variable {
                fills,
                stored_bytes: Some(bytes.len() as u64),
                ..Variable::plain(format!("/{name}"), dtype, shape)
            });
            source.values.push(bytes);
        }
        source
    }
}

impl Source for MemorySource {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn format(&self) -> &str {
        "memory"
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let Region { start, count } = region;
        let shape = &self.model.variables[variable].shape;
        let size = self.model.variables[variable].dtype.size();
        out.clear();
        let total: u64 = count.iter().product();
        for index in 0..total {
            let (mut rest, mut offset, mut stride) = (index, 0, 1);
            for axis in (0..shape.len()).rev() {
                offset += (start[axis] + rest % count[axis]) * stride;
                rest /= count[axis];
                stride *= shape[axis];
            }
            if self.damaged == Some((variable, offset)) {
                return Err(Error::new(ErrorKind::Corrupt, "damaged on purpose"));
            }
            let offset = usize::try_from(offset).expect("a test array") * size;
            out.extend_from_slice(&self.values[variable][offset..offset + size]);
        }
        Ok(())
    }

    fn is_written(&self, _variable: usize, _region: &Region) -> bool {
        true
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        (self.model.variables[variable].dtype == DType::Opaque(1)).then_some(Strings::Fixed)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One chunk as it arrived: variable, position, bytes, filter mask.
pub type Arrived = (usize, Vec<u64>, Vec<u8>, u32);

/// Keeps chunks in the order in which they came.
#[derive(Clone, Default)]
pub struct MemorySink {
    chunks: Arc<Mutex<Vec<Arrived>>>,
    /// Fail after this many chunks, as a full disk would.
    pub full_after: Option<usize>,
}

impl MemorySink {
    /// What arrived.
    pub fn chunks(&self) -> Vec<Arrived> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What arrived, by variable and position.
    pub fn by_place(&self) -> BTreeMap<(usize, Vec<u64>), (Vec<u8>, u32)> {
        self.chunks()
            .into_iter()
            .map(|(variable, position, bytes, mask)| ((variable, position), (bytes, mask)))
            .collect()
    }
}

impl Sink for MemorySink {
    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.full_after == Some(chunks.len()) {
            return Err(Error::new(ErrorKind::Write, "no space left on device"));
        }
        chunks.push((chunk.variable, chunk.position.to_vec(), chunk.bytes.to_vec(), chunk.filter_mask));
        Ok(())
    }

    fn remove_attributes(&mut self, _variable: usize, _names: &[String]) -> Result<()> {
        Ok(())
    }

    fn annotate(&mut self, _variable: Option<usize>, _attributes: &[Attribute]) -> Result<()> {
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        Ok(self.chunks().iter().map(|(_, _, bytes, _)| bytes.len() as u64).sum())
    }
}
