//! Zarr v3: a directory, objects at a URL, or a ZIP file.

use std::path::Path;

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::model::Attribute;
use knarr_choose::form::FormatLimits;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::output::is_common_beside;
use knarr_flow::store::Source;
use knarr_flow::urls::url_of;
use knarr_zip::ZipStore;

use super::kind::{ChunkedOutput, Content, NewOutput, NewSink, OutputKind};
use super::losses::{Losses, unknown_to_zarr};
use super::zarr_types;
use crate::zarr::{CONTENTS, Sharding, ZarrOptions, ZarrSink};

/// A directory, or objects at a URL.
pub const ZARR: &dyn ChunkedOutput = &Zarr { is_zipped: false };
/// A store that is one ZIP file.
pub(super) const ZIPPED: &dyn ChunkedOutput = &Zarr { is_zipped: true };

#[derive(Debug)]
struct Zarr {
    is_zipped: bool,
}

impl OutputKind for Zarr {
    fn noun(&self) -> &'static str {
        "Zarr v3"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        if self.is_zipped { &["zarr.zip"] } else { &["zarr"] }
    }

    fn limits(&self, portable: Option<ReaderLevel>) -> Result<FormatLimits> {
        Ok(FormatLimits::zarr(portable.unwrap_or(ReaderLevel::Core)))
    }

    fn content(&self) -> Content<'_> {
        Content::Chunks(self)
    }

    fn not_at_urls(&self) -> Option<&'static str> {
        self.is_zipped.then_some("ZIP files are not written to a URL")
    }

    fn is_store(&self) -> bool {
        true
    }

    fn opened_by(&self, reader: ReaderLevel) -> &'static str {
        match reader {
            ReaderLevel::Core => "every Zarr v3 library",
            ReaderLevel::NetCdf | ReaderLevel::Standard => "Zarr v3 libraries with the codecs of numcodecs",
            ReaderLevel::Knarr => "Knarr",
        }
    }
}

impl ChunkedOutput for Zarr {
    fn check(&self, source: &dyn Source) -> Result<()> {
        zarr_types::check(source)
    }

    fn added_attributes(&self, source: &dyn Source) -> Vec<(usize, Attribute)> {
        zarr_types::flags(source)
    }

    /// CF leaves the type open, and Zarr knows no characters.
    fn label_type(&self) -> DType {
        DType::I8
    }

    fn supports_external_writes(&self, path: &Path) -> bool {
        !self.is_zipped && url_of(path).is_none() && is_common_beside(path)
    }

    fn create(&self, output: NewOutput<'_>) -> Result<NewSink> {
        let NewOutput { path, model, storages, engine, settings, replaces, source, .. } = output;
        let url = url_of(path);
        let sharding = match url {
            _ if settings.chunks_apart => Sharding::Never,
            Some(_) => Sharding::Requests,
            None => Sharding::Auto,
        };
        let options = ZarrOptions { replaces: replaces.clone(), sharding, codecs: engine.codecs.clone() };
        let mut sink = match url {
            Some(url) => {
                let stores = engine.stores.as_deref().ok_or_else(|| unreached(url))?;
                let store = stores.create(url, CONTENTS, replaces.may())?;
                ZarrSink::over(store, model, storages, options)
            }
            None if self.is_zipped => {
                ZarrSink::over(Box::new(ZipStore::create(path, replaces)?), model, storages, options)
            }
            None => ZarrSink::create(path, model, storages, options)?,
        };
        sink.copy_from(source)?;
        Ok(NewSink { sink: Box::new(sink), references_lost: 0 })
    }

    fn losses(&self, source: &dyn Source) -> Result<Losses> {
        let left_out = source.model().links().cloned().collect();
        Ok(Losses { left_out, not_kept: unknown_to_zarr(source), ..Losses::default() })
    }

    fn names_codecs(&self) -> Option<&'static str> {
        Some("Zarr v3")
    }
}

fn unreached(url: &str) -> Error {
    Error::unsupported("only files and directories of this machine are written here")
        .hint("write here and copy it")
        .at(url)
}
