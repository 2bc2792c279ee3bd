//! Inputs: files and patterns.

use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::Engine;
use knarr_flow::store::Source;
use knarr_flow::urls::{in_words, is_read, read_schemes, url_of};

use crate::arguments::args::Inputs;

/// Inputs as named, with the errors of those that are not there.
pub(crate) type Found = Vec<(PathBuf, Option<Error>)>;

/// Expands patterns that the shell did not, and checks that everything named exists.
///
/// # Errors
/// `NotFound` for the first that does not; as for [`find`].
pub(crate) fn expand(names: &[String]) -> Result<Vec<PathBuf>> {
    find(names)?.into_iter().map(|(path, missing)| missing.map_or(Ok(path), Err)).collect()
}

/// As [`expand`], for commands that go on with the inputs that are there.
///
/// # Errors
/// `Usage` for names and patterns that cannot be any input's.
pub(crate) fn find(names: &[String]) -> Result<Found> {
    let mut paths = Vec::new();
    for name in names {
        if name.is_empty() {
            return Err(
                Error::usage("the name of an input is empty").hint("look for a variable of the shell without a value")
            );
        }
        let path = PathBuf::from(name);
        if path.exists() {
            paths.push((path, None));
            continue;
        }
        let missing = |what: &str, hint: &str| Some(Error::new(ErrorKind::NotFound, what).hint(hint).at(name.clone()));
        let url = url_of(&path);
        if url.is_some_and(is_read) {
            // Whether something is there, opening it tells.
            paths.push((path, None));
            continue;
        }
        if url.is_some() || name == "-" {
            let what = format!("only files and directories of this machine, {} are read", in_words(read_schemes()));
            paths.push((path, missing(&what, "copy it here, or mount it")));
            continue;
        }
        if !name.contains(['*', '?', '[']) {
            paths.push((path, missing("no such file or directory", "check the name")));
            continue;
        }
        let found = glob::glob(name).map_err(|error| Error::usage(format!("pattern '{name}': {error}")))?;
        let before = paths.len();
        paths.extend(found.flatten().map(|path| (path, None)));
        if paths.len() == before {
            paths.push((path, missing("no file matches the pattern", "check it")));
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
        let stores = Some(knarr_s3::stores());
        Ok(Self { codecs, inputs: knarr_formats::Inputs { raw, stores, ..knarr_formats::Inputs::default() } })
    }

    /// Opens `path`, whatever format it has.
    ///
    /// # Errors
    /// Those of the format.
    pub(crate) fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        knarr_formats::open_with(path, &self.codecs, &self.inputs)
    }

    /// As [`Opener::open`], for a command that writes what it reads.
    ///
    /// # Errors
    /// Those of the format.
    pub(crate) fn open_watched(&self, path: &Path) -> Result<Box<dyn Source>> {
        knarr_formats::open_watched(path, &self.codecs, &self.inputs)
    }
}

/// Refuses a layout of raw files where every input says itself what it holds.
///
/// # Errors
/// `Usage`.
pub(crate) fn refuse_raw<'p>(said: &Inputs, paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
    if said.raw.is_none() {
        return Ok(());
    }
    let mut described = None;
    for path in paths {
        match knarr_formats::self_described(path) {
            Ok(Some(format)) => described = described.or(Some((path, format))),
            // One that cannot be read says so when it is opened.
            Ok(None) | Err(_) => return Ok(()),
        }
    }
    described.map_or(Ok(()), |(path, format)| {
        Err(Error::usage(format!("'{}' is {format} and says itself what it holds", path.display()))
            .hint("leave it out")
            .at("--raw"))
    })
}
