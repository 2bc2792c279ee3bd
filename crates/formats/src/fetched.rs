//! A source over a file that lies elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;

use knarr_input::partial::Partial;

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
    crate::delegate::delegate!(model, format, places, reading, unchanged, variables, as_any);

    fn path(&self) -> &Path {
        &self.path
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        self.source.read_region(variable, region, out).map_err(|error| self.names.tell(error))
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        self.source.is_written(variable, region)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        self.source.read_strings(variable, region).map_err(|error| self.names.tell(error))
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        self.source.frame_chains(variable, codecs, most).map_err(|error| self.names.tell(error))
    }
}
