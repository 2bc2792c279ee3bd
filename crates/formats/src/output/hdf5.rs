//! HDF5, and netCDF-4, which is HDF5 for other readers.

use std::path::Path;

use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::libver::LibverBounds;
use knarr_array::model::{StorageLayout, Variable};
use knarr_choose::form::FormatLimits;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::output::is_common_beside;
use knarr_flow::store::{Encoding, Source, Storage};
use knarr_hdf5::{AsMade, Hdf5Sink, Hdf5Source, SinkOptions, StoredAs, netcdf_limits, other_files};

use super::kind::{ChunkedOutput, Content, NewOutput, NewSink, OutputKind};
use super::losses::{Losses, fixed_dimensions, names_lost};

/// netCDF-4.
pub const NETCDF4: &dyn ChunkedOutput = &Hdf5 { is_netcdf: true };
/// HDF5.
pub(super) const HDF5: &dyn ChunkedOutput = &Hdf5 { is_netcdf: false };

#[derive(Debug)]
struct Hdf5 {
    is_netcdf: bool,
}

fn hdf5_source(source: &dyn Source) -> Option<&Hdf5Source> {
    source.as_any().downcast_ref()
}

/// True if `source` is a file that netCDF-4 wrote.
pub(super) fn is_netcdf(source: &dyn Source) -> bool {
    hdf5_source(source).is_some_and(Hdf5Source::is_netcdf)
}

/// Names in the root group of `source` that its model may lack: a new variable needs another.
///
/// # Errors
/// `Corrupt` if the root group is damaged.
pub fn taken_names(source: &dyn Source) -> Result<Vec<String>> {
    hdf5_source(source).map_or_else(|| Ok(Vec::new()), Hdf5Source::root_names)
}

impl OutputKind for Hdf5 {
    fn noun(&self) -> &'static str {
        if self.is_netcdf { "netCDF-4" } else { "HDF5" }
    }

    fn suffixes(&self) -> &'static [&'static str] {
        if self.is_netcdf { &["nc", "nc4", "cdf", "netcdf"] } else { &["h5", "hdf5", "hdf", "he5"] }
    }

    fn limits(&self, portable: Option<ReaderLevel>) -> Result<FormatLimits> {
        Ok(FormatLimits::hdf5(match portable {
            // Plugins of netCDF-C are fewer than those of hdf5plugin.
            Some(ReaderLevel::Standard) if self.is_netcdf => ReaderLevel::NetCdf,
            Some(reader) => reader,
            None if self.is_netcdf => ReaderLevel::Core,
            None => ReaderLevel::Standard,
        }))
    }

    fn content(&self) -> Content<'_> {
        Content::Chunks(self)
    }

    fn view(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        source
    }

    fn names_lost(&self, source: &dyn Source) -> Vec<String> {
        names_lost(source)
    }

    fn bytes_besides(&self, input: u64, values: u64) -> u64 {
        input.saturating_sub(values)
    }

    fn index_bytes(&self, variable: &Variable, chunk: &[u64], libver: LibverBounds) -> u64 {
        if matches!(variable.layout, StorageLayout::Chunked(_)) {
            return 0;
        }
        let chunks = variable.shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil((*chunk).max(1)));
        libver.low.chunk_index_bytes(chunks.product(), variable.shape.len() as u64)
    }
}

impl ChunkedOutput for Hdf5 {
    fn label_type(&self) -> DType {
        DType::Opaque(1)
    }

    fn supports_external_writes(&self, path: &Path) -> bool {
        is_common_beside(path)
    }

    fn create(&self, output: NewOutput<'_>) -> Result<NewSink> {
        let NewOutput { path, model, storages, settings, replaces, in_place, annotated, source, .. } = output;
        let options = SinkOptions { replaces, in_place, libver: settings.libver, as_made: AsMade::new(), annotated };
        let mut sink = Hdf5Sink::create(path, model, storages, options)?;
        sink.copy_from(source)?;
        Ok(NewSink { references_lost: sink.references_lost(), sink: Box::new(sink) })
    }

    fn losses(&self, source: &dyn Source) -> Result<Losses> {
        let mut losses =
            Losses { names_lost: names_lost(source), not_kept: fixed_dimensions(source), ..Losses::default() };
        if let Some(file) = hdf5_source(source) {
            losses.other_files = other_files(file)?;
            if self.is_netcdf {
                losses.netcdf = netcdf_limits(file)?;
            }
        }
        Ok(losses)
    }

    fn keeps_filters(&self, source: &dyn Source) -> bool {
        hdf5_source(source).is_some()
    }

    fn is_file(&self, source: &dyn Source) -> bool {
        hdf5_source(source).is_some_and(|file| !file.is_header())
    }

    fn as_made(&self, source: &dyn Source, storages: &[Storage]) -> AsMade {
        let changed = storages.iter().filter_map(|storage| {
            let variable = source.model().variables.get(storage.variable)?;
            let (mut before, Encoding::Hdf5(filters)) = (StoredAs::of(variable), &storage.encoding) else {
                return None;
            };
            let grows = || variable.max_shape.iter().zip(&variable.shape).any(|(most, now)| *most != Some(*now));
            if before.chunk.is_none() && grows() {
                // That of another format, which needs no chunks to grow.
                before.chunk = Some(storage.chunk.clone());
            }
            let has_filters = !filters.is_empty() || !before.filters.is_empty();
            has_filters.then(|| (variable.path.clone(), before))
        });
        changed.collect()
    }
}
