//! A sink that is made when it begins: to create all groups, variables and attributes of a file takes a while, in which
//! chunks can be encoded already.

use knarr_array::error::{Error, Result};
use knarr_array::model::Attribute;
use knarr_flow::allotted::Allotted;
use knarr_flow::store::{ChunkToAllot, EncodedChunk, Sink};

/// A sink that `F` makes.
pub(crate) struct LateSink<F> {
    make: Option<F>,
    made: Option<Box<dyn Sink>>,
    allots: bool,
}

impl<F: FnOnce() -> Result<Box<dyn Sink>> + Send> LateSink<F> {
    /// `allots` is what the sink will say of itself.
    pub(crate) fn new(make: F, allots: bool) -> Self {
        Self { make: Some(make), made: None, allots }
    }

    fn made(&mut self) -> Result<&mut Box<dyn Sink>> {
        self.made.as_mut().ok_or_else(not_begun)
    }
}

fn not_begun() -> Error {
    Error::internal("the output was not begun")
}

impl<F: FnOnce() -> Result<Box<dyn Sink>> + Send> Sink for LateSink<F> {
    fn begin(&mut self) -> Result<()> {
        if let Some(make) = self.make.take() {
            self.made = Some(make()?);
        }
        Ok(())
    }

    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        self.made()?.put(chunk)
    }

    fn allots(&self) -> bool {
        self.allots
    }

    fn allot(&mut self, chunk: ChunkToAllot<'_>) -> Result<Allotted> {
        self.made()?.allot(chunk)
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
