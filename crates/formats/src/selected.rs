//! Some of the variables of a source.

use std::any::Any;

use knarr_array::error::{Error, Result};
use knarr_array::model::{ElementType, Model};
use knarr_array::region::Region;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::settings::no_variable;
use knarr_flow::store::{Source, Strings};

/// `source` with only the variables called `names`, in that order.
///
/// # Errors
/// `Usage` with the nearest names for one that is not there.
pub fn select(source: Box<dyn Source>, names: &[String]) -> Result<Box<dyn Source>> {
    let all = &source.model().variables;
    let mut indices = Vec::new();
    for name in names {
        let found = all.iter().position(|variable| variable.name() == name || variable.path == *name);
        indices.push(found.ok_or_else(|| no_variable(source.model(), name))?);
    }
    let variables = indices.iter().filter_map(|index| all.get(*index).cloned()).collect();
    let model = Model { groups: source.model().groups.clone(), variables };
    Ok(Box::new(Selected { source, model, indices }))
}

/// A source with some of the variables of another.
pub struct Selected {
    source: Box<dyn Source>,
    model: Model,
    /// Number in the source of each variable.
    indices: Vec<usize>,
}

impl Selected {
    fn index(&self, variable: usize) -> Result<usize> {
        self.indices
            .get(variable)
            .copied()
            .ok_or_else(|| Error::internal(format!("there is no variable number {variable}")))
    }
}

// A method with a default that is not handed on would answer for the wrong source.
#[deny(clippy::missing_trait_methods)]
impl Source for Selected {
    crate::delegate::delegate!(own_model, path, format, no_places, reading, is_remote, unchanged);

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        self.source.read_region(self.index(variable)?, region, out)
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.index(variable).map_or(true, |index| self.source.is_written(index, region))
    }

    fn block(&self, variable: usize) -> Option<&[u64]> {
        self.source.block(self.index(variable).ok()?)
    }

    fn axis_names(&self, variable: usize) -> Vec<Option<String>> {
        self.index(variable).map_or_else(|_| Vec::new(), |index| self.source.axis_names(index))
    }

    fn element_type(&self, variable: usize) -> Option<&ElementType> {
        self.source.element_type(self.index(variable).ok()?)
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        self.source.strings(self.index(variable).ok()?)
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        self.source.read_strings(self.index(variable)?, region)
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        self.source.frame_chains(self.index(variable)?, codecs, most)
    }

    fn as_any(&self) -> &dyn Any {
        // Not the source's: what it holds is more than this.
        self
    }
}
