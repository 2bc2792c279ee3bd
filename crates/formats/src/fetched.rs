//! A source over a file that lies elsewhere.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_array::model::{ElementType, Model};
use knarr_array::region::Region;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::ahead::Ahead;
use knarr_flow::elsewhere::Elsewhere;
use knarr_flow::store::{Source, Strings};

use crate::partial::Partial;

/// What `open` makes of the copy, under the name `path`.
///
/// # Errors
/// Those of `open`.
pub(crate) fn open(
    copy: Arc<Partial>,
    path: &Path,
    open: impl FnOnce(&Path) -> Result<Box<dyn Source>>,
) -> Result<Box<dyn Source>> {
    let names = Names { here: copy.path().display().to_string(), name: path.display().to_string(), copy };
    let source = open(names.copy.path()).map_err(|error| names.tell(error))?;
    names.copy.unname();
    Ok(Box::new(Fetched { source, path: path.to_owned(), names }))
}

/// What the source calls the file, and what the user does.
struct Names {
    here: String,
    name: String,
    copy: Arc<Partial>,
}

impl Names {
    fn tell(&self, error: Error) -> Error {
        // What the network says is why.
        match self.copy.failure() {
            Some(failure) => failure.at(self.name.clone()),
            None => error.renamed(&self.here, &self.name),
        }
    }
}

/// A source over such a copy.
struct Fetched {
    source: Box<dyn Source>,
    path: PathBuf,
    names: Names,
}

// A method with a default that is not handed on would answer for the wrong source.
#[deny(clippy::missing_trait_methods)]
impl Source for Fetched {
    fn model(&self) -> &Model {
        self.source.model()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        self.source.format()
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        self.source.read_region(variable, region, out).map_err(|error| self.names.tell(error))
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.source.is_written(variable, region)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn will_read_all(&self) {
        self.source.will_read_all();
    }

    fn limit_cache(&self, bytes: usize) {
        self.source.limit_cache(bytes);
    }

    fn decode_seconds(&self) -> f64 {
        self.source.decode_seconds()
    }

    fn axis_names(&self, variable: usize) -> Vec<Option<String>> {
        self.source.axis_names(variable)
    }

    fn element_type(&self, variable: usize) -> Option<&ElementType> {
        self.source.element_type(variable)
    }

    fn block(&self, variable: usize) -> Option<&[u64]> {
        self.source.block(variable)
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        self.source.strings(variable)
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        self.source.read_strings(variable, region).map_err(|error| self.names.tell(error))
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        self.source.frame_chains(variable, codecs, most).map_err(|error| self.names.tell(error))
    }

    fn unchanged(&self) -> Result<()> {
        self.source.unchanged()
    }

    fn elsewhere(&self) -> Option<&dyn Elsewhere> {
        self.source.elsewhere()
    }

    fn ahead(&self) -> Option<&dyn Ahead> {
        self.source.ahead()
    }

    fn as_any(&self) -> &dyn Any {
        self.source.as_any()
    }
}
