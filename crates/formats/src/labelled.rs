//! A source with more attributes, and with variables that carry nothing else, for the sink to write.

use std::any::Any;

use knarr_array::error::Result;
use knarr_array::model::{Attribute, ElementType, Model, Variable};
use knarr_array::region::Region;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::store::{Source, Strings};

/// Another source and more variables behind its own. Sinks of the same format still find the source itself.
pub struct Labelled<'a> {
    source: &'a dyn Source,
    model: Model,
}

impl<'a> Labelled<'a> {
    /// `labels` are scalars without data. `attributes` are added to the variables with these indices; a sink that
    /// copies its own format does not see them.
    pub fn new(source: &'a dyn Source, labels: Vec<Variable>, attributes: Vec<(usize, Attribute)>) -> Self {
        let mut model = source.model().clone();
        for (index, attribute) in attributes {
            if let Some(variable) = model.variables.get_mut(index) {
                variable.attributes.push(attribute);
            }
        }
        model.variables.extend(labels);
        Self { source, model }
    }

    fn is_label(&self, variable: usize) -> bool {
        variable >= self.source.model().variables.len()
    }
}

// A method with a default that is not handed on would answer for the wrong source.
#[deny(clippy::missing_trait_methods)]
impl Source for Labelled<'_> {
    crate::shown::pass_on!();

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        if !self.is_label(variable) {
            return self.source.read_region(variable, region, out);
        }
        out.clear();
        out.extend(self.model.variables.get(variable).map(Variable::padding_bytes).unwrap_or_default());
        Ok(())
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        !self.is_label(variable) && self.source.is_written(variable, region)
    }

    fn axis_names(&self, variable: usize) -> Vec<Option<String>> {
        self.source.axis_names(variable)
    }

    fn element_type(&self, variable: usize) -> Option<&ElementType> {
        self.source.element_type(variable)
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        self.source.strings(variable)
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        self.source.read_strings(variable, region)
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        if self.is_label(variable) { Ok(Vec::new()) } else { self.source.frame_chains(variable, codecs, most) }
    }

    fn as_any(&self) -> &dyn Any {
        self.source.as_any()
    }
}
