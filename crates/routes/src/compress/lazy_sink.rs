//! A sink that is made when it begins: creating all groups, variables and attributes of a file takes a while, during which chunks
//! can already be encoded.

use knarr_array::error::{Error, Result};
use knarr_array::model::Attribute;
use knarr_flow::reserved::ReservedOffset;
use knarr_flow::store::{ChunkToReserve, EncodedChunk, Sink};

/// A sink that `F` makes.
pub(crate) struct LazySink<F> {
    make: Option<F>,
    made: Option<Box<dyn Sink>>,
    supports_external_writes: bool,
}

impl<F: FnOnce() -> Result<Box<dyn Sink>> + Send> LazySink<F> {
    /// `supports_external_writes` is what the sink will say of itself.
    pub(crate) fn new(make: F, supports_external_writes: bool) -> Self {
        Self { make: Some(make), made: None, supports_external_writes }
    }

    fn made(&mut self) -> Result<&mut Box<dyn Sink>> {
        self.made.as_mut().ok_or_else(not_begun)
    }
}

fn not_begun() -> Error {
    Error::internal("the output was not begun")
}

impl<F: FnOnce() -> Result<Box<dyn Sink>> + Send> Sink for LazySink<F> {
    fn begin(&mut self) -> Result<()> {
        if let Some(make) = self.make.take() {
            self.made = Some(make()?);
        }
        Ok(())
    }

    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        self.made()?.put(chunk)
    }

    fn supports_external_writes(&self) -> bool {
        self.supports_external_writes
    }

    fn reserve(&mut self, chunk: ChunkToReserve<'_>) -> Result<ReservedOffset> {
        self.made()?.reserve(chunk)
    }

    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()> {
        self.made()?.remove_attributes(variable, names)
    }

    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()> {
        self.made()?.annotate(variable, attributes)
    }

    fn close(&mut self) -> Result<Option<u64>> {
        self.made()?.close()
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        self.made.ok_or_else(not_begun)?.commit()
    }
}
