//! A source with variables that carry attributes but no data, for the sink to write beside the others.

use std::any::Any;
use std::path::Path;

use knarr_core::error::Result;
use knarr_core::model::{Model, Variable};
use knarr_core::store::Source;

/// Another source and more variables behind its own. Sinks of the same format still find the source itself.
pub(crate) struct Labelled<'a> {
    source: &'a dyn Source,
    model: Model,
}

impl<'a> Labelled<'a> {
    /// `labels` are scalars; nothing of them is ever written.
    pub(crate) fn new(source: &'a dyn Source, labels: Vec<Variable>) -> Self {
        let mut model = source.model().clone();
        model.variables.extend(labels);
        Self { source, model }
    }

    fn is_label(&self, variable: usize) -> bool {
        variable >= self.source.model().variables.len()
    }
}

impl Source for Labelled<'_> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        self.source.path()
    }

    fn format(&self) -> &str {
        self.source.format()
    }

    fn read_region(&self, variable: usize, start: &[u64], count: &[u64], out: &mut Vec<u8>) -> Result<()> {
        if !self.is_label(variable) {
            return self.source.read_region(variable, start, count, out);
        }
        out.clear();
        out.extend(self.model.variables.get(variable).map(Variable::padding_bytes).unwrap_or_default());
        Ok(())
    }

    fn is_written(&self, variable: usize, start: &[u64], count: &[u64]) -> bool {
        !self.is_label(variable) && self.source.is_written(variable, start, count)
    }

    fn as_any(&self) -> &dyn Any {
        self.source.as_any()
    }
}
