//! The questions that routes, the launcher and commands put to a kind of output. None of them needs to know which kind it is.

use std::fmt::Debug;
use std::fs::File;
use std::path::Path;

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::libver::LibverBounds;
use knarr_array::model::{Attribute, Model, Variable};
use knarr_choose::form::FormatLimits;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::settings::Settings;
use knarr_flow::store::{Sink, Source, Storage};
use knarr_hdf5::AsMade;

use super::losses::Losses;
use crate::Clocks;
use crate::records::whole_records;

/// A kind of output.
pub trait OutputKind: Debug + Send + Sync {
    /// What it is called in messages: `netCDF-4`, `a raw file`.
    fn noun(&self) -> &'static str;

    /// Suffixes of names that ask for it, in small letters; none if no name does.
    fn suffixes(&self) -> &'static [&'static str];

    /// How it holds values.
    fn content(&self) -> Content<'_>;

    /// The source as this kind of output shows it. By default a dimension has one length for all variables.
    fn view(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        whole_records(source)
    }

    /// Why it cannot be written to a URL, in words; `None` if it can. A file cannot be written piece by piece there.
    fn not_at_urls(&self) -> Option<&'static str> {
        Some("only Zarr stores are written to a URL")
    }

    /// True for stores. They may be directories, so a slash at the end of a name has no meaning.
    fn is_store(&self) -> bool {
        false
    }

    /// What chunks may be, for readers that have at most `portable`. If that is not said, an output is for the tools that open
    /// such: most builds of netCDF-C bring no filters beyond those of HDF5, and Zarr libraries no codecs beyond those of the
    /// specification and zstd.
    ///
    /// # Errors
    /// `Unsupported` for kinds that hold nothing but values.
    fn limits(&self, portable: Option<ReaderLevel>) -> Result<FormatLimits>;

    /// True if it holds values as they are, without chunks and chains.
    fn is_plain(&self) -> bool {
        matches!(self.content(), Content::Values(_))
    }

    /// What opens an output that needs `reader`, in words.
    fn opened_by(&self, reader: ReaderLevel) -> &'static str {
        reader.in_words()
    }

    /// Axes of `source` whose names the output does not keep, in words.
    fn names_lost(&self, _source: &dyn Source) -> Vec<String> {
        Vec::new()
    }

    /// Bytes that the output takes over besides values, from an input of `input` bytes that stores `values` bytes of values.
    fn bytes_besides(&self, _input: u64, _values: u64) -> u64 {
        0
    }

    /// Bytes of the chunk index of a variable that was not chunked before.
    fn index_bytes(&self, _variable: &Variable, _chunk: &[u64], _libver: LibverBounds) -> u64 {
        0
    }
}

/// How a kind of output holds values.
#[derive(Debug)]
pub enum Content<'k> {
    /// In chunks, each encoded by a chain.
    Chunks(&'k dyn ChunkedOutput),
    /// As they are.
    Values(&'k PlainOutput),
}

/// A kind of output with chunks.
pub trait ChunkedOutput: OutputKind {
    /// Checks that it has a type for every variable, before anything is written.
    ///
    /// # Errors
    /// `Unsupported` with all variables that have none.
    fn check(&self, _source: &dyn Source) -> Result<()> {
        Ok(())
    }

    /// Attributes for what the types of this kind cannot express, each with the index of its variable.
    fn added_attributes(&self, _source: &dyn Source) -> Vec<(usize, Attribute)> {
        Vec::new()
    }

    /// Type of variables that exist only for their attributes.
    fn label_type(&self) -> DType;

    /// What [`Sink::supports_external_writes`] of the sink for `path` returns.
    fn supports_external_writes(&self, path: &Path) -> bool;

    /// Starts an output, and copies what gets no chunks.
    ///
    /// # Errors
    /// `Exists`, `Write`; what reading the source reports; `Unsupported` for what it cannot hold.
    fn create(&self, output: NewOutput<'_>) -> Result<NewSink>;

    /// What an output made from `source` does not keep, and what some readers cannot find in it.
    ///
    /// # Errors
    /// `Corrupt` if the source is damaged.
    fn losses(&self, source: &dyn Source) -> Result<Losses>;

    /// True if variables of `source` that get no chunks keep their chunks and filters.
    fn keeps_filters(&self, _source: &dyn Source) -> bool {
        false
    }

    /// True if the file behind `source` is an output of this kind byte for byte.
    fn is_file(&self, _source: &dyn Source) -> bool {
        false
    }

    /// How `source` stores the variables that get other chunks or filters, so that they can be written back. Variables without
    /// filters in both are left out.
    fn as_made(&self, _source: &dyn Source, _storages: &[Storage]) -> AsMade {
        AsMade::new()
    }

    /// Name of the libraries that read it, if they find codecs by name: `Zarr v3`.
    fn names_codecs(&self) -> Option<&'static str> {
        None
    }
}

/// What an output is made of.
pub struct NewOutput<'a> {
    /// Its name or URL.
    pub path: &'a Path,
    /// Groups, attributes and variables. The variables begin with those of `source`.
    pub model: &'a Model,
    /// How the variables that get chunks are stored.
    pub storages: &'a [Storage],
    /// Codecs, and the network for URLs.
    pub engine: &'a Engine,
    /// What was asked for.
    pub settings: &'a Settings,
    /// What it may take the place of.
    pub replaces: Replaces,
    /// It will take the place of its input.
    pub in_place: bool,
    /// Variables that get attributes once they are encoded.
    pub annotated: usize,
    /// Where the rest is copied from.
    pub source: &'a dyn Source,
}

/// An output that was started.
pub struct NewSink {
    /// What takes its chunks.
    pub sink: Box<dyn Sink>,
    /// References of the source whose objects are gone: in the output they are null.
    pub references_lost: usize,
}

/// What writes all of a source to an empty file, which will be called by the name beside it.
type Write = fn(&Engine, &dyn Source, (&File, &Path), &Clocks, &dyn Progress) -> Result<()>;

/// A kind of output that holds nothing but values.
#[derive(Debug)]
pub struct PlainOutput {
    pub(super) noun: &'static str,
    pub(super) suffixes: &'static [&'static str],
    /// `Unsupported` if it cannot hold what a source holds.
    pub check: fn(&dyn Source) -> Result<()>,
    /// Errors of `check`, and of reading and writing.
    pub write: Write,
    /// What a reader needs, of an output that holds this variable alone or several; `None` if its name says all.
    pub needs: fn(Option<&Variable>) -> Option<String>,
}

impl OutputKind for PlainOutput {
    fn noun(&self) -> &'static str {
        self.noun
    }

    fn suffixes(&self) -> &'static [&'static str] {
        self.suffixes
    }

    fn content(&self) -> Content<'_> {
        Content::Values(self)
    }

    fn limits(&self, _: Option<ReaderLevel>) -> Result<FormatLimits> {
        Err(Error::unsupported("the format holds plain values: there is no chain to choose")
            .hint("ask for nc, h5 or zarr"))
    }
}
