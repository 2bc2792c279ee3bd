//! Inputs: files and patterns.

use std::path::{Path, PathBuf};

use knarr_core::codec::CodecList;
use knarr_core::engine::Engine;
use knarr_core::error::{Error, ErrorKind, Result};
use knarr_core::store::Source;

use crate::args::Inputs;

/// Expands patterns that the shell did not, and checks that everything named exists.
pub(crate) fn expand(names: &[String]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for name in names {
        if name.is_empty() {
            return Err(
                Error::usage("the name of an input is empty").mend("look for a variable of the shell without a value")
            );
        }
        let path = PathBuf::from(name);
        if path.exists() {
            paths.push(path);
            continue;
        }
        if !name.contains(['*', '?', '[']) {
            return Err(Error::new(ErrorKind::NotFound, "no such file or directory")
                .mend("check the name")
                .at(name.clone()));
        }
        let found = glob::glob(name).map_err(|error| Error::usage(format!("pattern '{name}': {error}")))?;
        let before = paths.len();
        paths.extend(found.flatten());
        if paths.len() == before {
            return Err(Error::new(ErrorKind::NotFound, "no file matches the pattern")
                .mend("check it")
                .at(name.clone()));
        }
    }
    Ok(paths)
}

/// Opens inputs, with what the command line says of them.
pub(crate) struct Opener {
    codecs: CodecList,
    inputs: knarr_formats::Inputs,
}

impl Opener {
    /// For a command that works on values.
    ///
    /// # Errors
    /// `Usage` if the layout of raw files makes no sense.
    pub(crate) fn new(engine: &Engine, said: &Inputs) -> Result<Self> {
        let mut opener = Self::with_codecs(engine.codecs.clone(), said)?;
        // The other half is for what is done with the values.
        opener.inputs.max_mem = engine.max_mem / 2;
        Ok(opener)
    }

    /// For a command that looks at metadata only.
    ///
    /// # Errors
    /// As for [`Opener::new`].
    pub(crate) fn with_codecs(codecs: CodecList, said: &Inputs) -> Result<Self> {
        let raw = said.raw.as_ref().map(|text| text.parse()).transpose();
        let raw = raw.map_err(|error: Error| error.at("--raw"))?;
        Ok(Self { codecs, inputs: knarr_formats::Inputs { raw, ..knarr_formats::Inputs::default() } })
    }

    /// Opens `path`, whatever format it has.
    ///
    /// # Errors
    /// Those of the format.
    pub(crate) fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        knarr_formats::open_with(path, &self.codecs, &self.inputs)
    }
}
