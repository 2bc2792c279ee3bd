//! HDF5 and netCDF-4 files as a [`Sink`].

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::read::source::Hdf5Source;
use crate::sys::{self, Address, Object, Plist};
use crate::write::allocation::note_early;
use crate::write::build::{add_label, build};
use crate::write::copy::Copier;
use crate::write::metadata;
use crate::write::sink_options::SinkOptions;
use crate::write::targets::Targets;
use crate::write::write_attribute::{put_attribute, remove_attribute};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::libver::{LibverBounds, Release};
use knarr_array::model::{Attribute, Model};
use knarr_flow::output::{AtomicFile, is_common};
use knarr_flow::reserved::ReservedOffset;
use knarr_flow::store::{ChunkToReserve, EncodedChunk, Sink, Source, Storage};
use knarr_input::described;

/// An HDF5 or netCDF-4 file being written.
pub struct Hdf5Sink {
    /// Closed before the temporary file is removed: fields are dropped in this order.
    targets: Targets,
    file: Option<sys::File>,
    temporary: Option<AtomicFile>,
    path: PathBuf,
    /// What the file is made of, until it is made.
    design: Option<Design>,
    /// Bytes in front of the file proper.
    user_block: Vec<u8>,
    is_netcdf: bool,
    references_lost: usize,
    /// Datasets that are to take their space early once the file is complete.
    early: Vec<Address>,
}

struct Design {
    model: Model,
    storages: Vec<Storage>,
    options: SinkOptions,
}

impl Hdf5Sink {
    /// Starts the output at `path`: a netCDF-4 file with the groups, dimensions, attributes and variables of `model`.
    /// Chunks of the variables in `storages` come through [`Sink::put`]. All other variables stay unwritten, unless
    /// [`Hdf5Sink::copy_from`] copies their values.
    ///
    /// The file is made by `copy_from`, or by [`Sink::begin`] or the first chunk if nothing is copied. The properties of
    /// an HDF5 file are fixed when it is made, and some of them come from the file that is copied.
    ///
    /// HDF5 stores no single values in chunks, so the values of scalars can only be copied.
    ///
    /// # Errors
    /// `Exists` if the output exists and may not be replaced, `Write` if it cannot be written. [`Sink::begin`] gives
    /// `Unsupported` for what netCDF-4 cannot express, such as elements that are neither numbers nor characters, and
    /// `Usage` for chunks that do not fit their variable.
    pub fn create(path: &Path, model: &Model, storages: &[Storage], options: SinkOptions) -> Result<Self> {
        let temporary = AtomicFile::create(path, options.replaces.clone())?;
        Ok(Self {
            targets: Targets::default(),
            file: None,
            temporary: Some(temporary),
            path: path.to_owned(),
            design: Some(Design { model: model.clone(), storages: storages.to_vec(), options }),
            user_block: Vec::new(),
            is_netcdf: true,
            references_lost: 0,
            early: Vec::new(),
        })
    }

    /// Copies from `source` what gets no chunks. The variables of the model begin with those of `source`; further ones stay
    /// unwritten. This comes before [`Sink::begin`] and before any chunk.
    ///
    /// From another format, the values of variables are copied that are not encoded. From an HDF5 or netCDF-4 file the
    /// whole structure is copied, and the model only adds variables behind those of the file. A [`Model`] has no place
    /// for most of that structure: file properties and the user block, compound, named and other types beyond numbers,
    /// references, links, the filters of datasets that are not encoded, attributes of several dimensions.
    ///
    /// # Errors
    /// `Corrupt` or `MissingFilter` if the source cannot be read, and what [`Hdf5Sink::create`] says of
    /// [`Sink::begin`]. The output is given up then.
    pub fn copy_from(&mut self, source: &dyn Source) -> Result<()> {
        match &self.design {
            Some(design) => described::check(&design.model, source).and_then(|()| self.make(Some(source))),
            None => Err(Error::internal("copying comes before chunks")),
        }
    }

    /// References of the source whose objects are gone: in the output they are null.
    pub fn references_lost(&self) -> usize {
        self.references_lost
    }

    /// Makes the file, if it is not made yet.
    fn make(&mut self, source: Option<&dyn Source>) -> Result<()> {
        let Some(design) = self.design.take() else { return Ok(()) };
        let outcome = self.make_structure(&design, source);
        if outcome.is_err() {
            self.targets = Targets::default();
            self.file = None;
            self.temporary = None;
        }
        // All else is about what is copied.
        let is_own = |error: &Error| matches!(error.kind(), ErrorKind::Write | ErrorKind::Exists);
        outcome.map_err(|error| if is_own(&error) { error.at(self.path.display().to_string()) } else { error })
    }

    fn make_structure(&mut self, design: &Design, source: Option<&dyn Source>) -> Result<()> {
        let indices = metadata::of_chunks(&design.model, source, &design.storages, &design.options)?;
        sys::locked(|| match source.and_then(|source| source.as_any().downcast_ref::<Hdf5Source>()) {
            Some(hdf5) => self.copy_structure(design, hdf5, indices),
            None => self.build_structure(design, source, indices),
        })
    }

    fn copy_structure(&mut self, design: &Design, source: &Hdf5Source, indices: u64) -> Result<()> {
        let Design { model, storages, options } = design;
        // What the model has beyond the file are labels to write beside it.
        let labels = model.variables.get(source.model().variables.len()..).unwrap_or_default();
        self.is_netcdf = source.format() == "netCDF-4";
        let fcpl = source.file().creation()?;
        fcpl.copy_group_settings(&source.file().root()?.0.creation()?)?;
        let user_block = fcpl.user_block()?;
        if user_block > 0 {
            self.user_block = vec![0; usize::try_from(user_block).unwrap_or(usize::MAX)];
            source.read_raw(0, &mut self.user_block)?;
        }
        // Superblocks and headers of HDF5 1.8 take less room; whoever reads the source reads them.
        let least = if source.file().superblock_version()? >= 2 { Release::V18 } else { Release::Earliest };
        let metadata = metadata::of_copy(source, labels, storages, indices)?;
        let file = self.create_file(&fcpl, options.libver, least, metadata)?;
        let file = self.file.insert(file);
        let copied = Copier::run(source, file, storages, options)?;
        (self.references_lost, self.early) = (copied.references_lost, copied.early);
        for label in labels {
            add_label(file, label).map_err(|error| error.at_variable(label.name()))?;
        }
        self.targets = Targets::new(source.model(), storages, |variable| Ok(source.stored(variable)?.path.clone()))?;
        Ok(())
    }

    fn build_structure(&mut self, design: &Design, source: Option<&dyn Source>, indices: u64) -> Result<()> {
        let Design { model, storages, options } = design;
        let fcpl = Plist::for_file()?;
        fcpl.track_orders(true)?;
        let metadata = metadata::of_model(model, indices);
        // The order in which netCDF keeps names is new in HDF5 1.8.
        let file = self.create_file(&fcpl, options.libver, Release::V18, metadata)?;
        let file = self.file.insert(file);
        let paths = build(model, source, file, storages)?;
        let path = |variable: usize| Ok(paths.get(variable).cloned().unwrap_or_default());
        self.targets = Targets::new(model, storages, path)?;
        Ok(())
    }

    fn create_file(&self, fcpl: &Plist, asked: LibverBounds, least: Release, metadata: u64) -> Result<sys::File> {
        let bounds = LibverBounds { low: asked.low.max(least), ..asked };
        let temporary = self.temporary.as_ref().ok_or_else(closed)?;
        sys::File::create(temporary.path(), fcpl, bounds, metadata)
    }

    /// Applies `f` to a variable, or to the root group for `None`.
    fn change(&mut self, variable: Option<usize>, f: impl Fn(&Object) -> Result<()>) -> Result<()> {
        self.make(None)?;
        let file = self.file.as_ref().ok_or_else(closed);
        let outcome = file.and_then(|file| match variable {
            None => f(&file.root()?.0),
            Some(index) => self.targets.change(file, index, f),
        });
        outcome.map_err(|error| error.at(self.path.display().to_string()))
    }

    /// Closes the file, if it is not. It keeps its temporary name.
    fn finish(&mut self) -> Result<()> {
        self.make(None)?;
        self.targets.close()?;
        let Some(file) = self.file.take() else { return Ok(()) };
        file.flush()?;
        file.close()?;
        let file = self.temporary.as_ref().ok_or_else(closed)?.file();
        let noted = note_early(file, self.user_block.len() as u64, &self.early);
        noted.and_then(|()| file.write_all_at(&self.user_block, 0)).map_err(|error| Error::write(&self.path, &error))
    }

    /// Errors of `outcome` name the output.
    fn placed<T>(&self, outcome: Result<T>) -> Result<T> {
        let place = self.path.display().to_string();
        outcome.map_err(|error| if error.to_string().starts_with(&place) { error } else { error.at(place) })
    }
}

fn closed() -> Error {
    Error::internal("the output is closed")
}

impl Sink for Hdf5Sink {
    fn begin(&mut self) -> Result<()> {
        self.make(None)
    }

    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        self.make(None)?;
        let bytes = chunk.bytes.len() as u64;
        let file = self.file.as_ref().ok_or_else(closed);
        let put = file.and_then(|file| self.targets.put(file, &chunk));
        put.map_err(|error| error.at(self.path.display().to_string()))?;
        self.temporary.as_mut().map_or(Ok(()), |temporary| temporary.written(bytes))
    }

    fn supports_external_writes(&self) -> bool {
        self.temporary.as_ref().is_some_and(|temporary| is_common(temporary.file()))
    }

    fn reserve(&mut self, chunk: ChunkToReserve<'_>) -> Result<ReservedOffset> {
        self.make(None)?;
        let file = self.file.as_ref().ok_or_else(closed);
        let offset = file.and_then(|file| self.targets.reserve(file, &chunk));
        let offset = offset.map_err(|error| error.at(self.path.display().to_string()))?;
        let temporary = self.temporary.as_ref().ok_or_else(closed)?;
        temporary.reach(offset.saturating_add(chunk.length))?;
        Ok(ReservedOffset { path: temporary.path().to_owned(), offset })
    }

    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()> {
        self.change(Some(variable), |object| names.iter().try_for_each(|name| remove_attribute(object, name)))
    }

    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()> {
        let is_netcdf = self.is_netcdf;
        self.change(variable, |object| {
            attributes.iter().try_for_each(|attribute| put_attribute(object, attribute, is_netcdf))
        })
    }

    fn close(&mut self) -> Result<Option<u64>> {
        let closed = self.finish().and_then(|()| {
            let written = self.temporary.as_ref().ok_or_else(closed)?.path().metadata();
            written.map_err(|error| Error::write(&self.path, &error))
        });
        self.placed(closed).map(|written| Some(written.len()))
    }

    fn commit(mut self: Box<Self>) -> Result<u64> {
        let published = self.finish().and_then(|()| self.temporary.take().ok_or_else(closed)?.publish());
        self.placed(published)
    }
}
