//! HDF5 and netCDF-4 files as a [`Source`]. Workers read and decode chunks themselves, without the library's lock.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::model::scan::{Stored, ValueLocation, scan};
use crate::read::chunks::{ChunkTable, StoredChunk};
use crate::read::external_files::with_external_files;
use crate::sys::{self, Address, Dataset};
use crate::text::explain::{explain_open, explain_read, explain_scan, not_hdf5};
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::{ElementType, Model, Variable};
use knarr_array::region::{
    Placed, Region, chunk_region, copy_region, each_chunk, fill, fill_region, in_chunk, one_run, volume,
};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::{CodecList, KNARR_FILTER};
use knarr_codec::frame;
use knarr_flow::ahead::Ahead;
use knarr_flow::cache::ChunkCache;
use knarr_flow::energy::Stopwatch;
use knarr_flow::remote_encoder::RemoteEncoder;
use knarr_flow::store::{Source, Strings, Values};
use knarr_flow::strided::ReadAt;
use knarr_handover::AssembledPuts;
use knarr_input::partial::Input;

/// Finds the chain that decodes chunks of `input` written through an HDF5 pipeline. `None` sends the chunks
/// through the HDF5 library. Usually `|filters, input| Chain::from_hdf5(&codecs, filters, input)`.
pub trait FilterResolver: Send + Sync {
    /// A chain with one step per filter, in the same order.
    fn resolve(&self, filters: &[Hdf5Filter], input: &ArraySpec) -> Option<Chain>;
}

impl<F: Fn(&[Hdf5Filter], &ArraySpec) -> Option<Chain> + Send + Sync> FilterResolver for F {
    fn resolve(&self, filters: &[Hdf5Filter], input: &ArraySpec) -> Option<Chain> {
        self(filters, input)
    }
}

/// Bytes of decoded chunks kept when nothing else is asked for.
const DEFAULT_CACHE: usize = 64 << 20;

/// Bytes that the header of a frame takes at most, options of chains as long as they come.
const FRAME_HEAD: usize = 16 << 10;

/// Chunks of more than this are refused: a damaged header must not exhaust memory.
const LARGEST_CHUNK: u64 = 8 << 30;

/// An open HDF5 or netCDF-4 file.
pub struct Hdf5Source {
    pub(crate) path: PathBuf,
    file: sys::File,
    raw: Input,
    raw_len: u64,
    pub(crate) model: Model,
    pub(crate) stored: Vec<Stored>,
    /// What does not lie in the file.
    pub(crate) external: Box<dyn Values>,
    /// Numbers of the variables whose values are there, by the addresses of their datasets.
    pub(crate) variables_apart: HashMap<Address, usize>,
    /// It describes what comes beside it, and is not what was asked for.
    pub(crate) is_header: bool,
    /// Parallel HDF5 would have made its datasets.
    pub(crate) is_parallel: bool,
    /// One process has written it without MPI, and its values come beside it.
    pub(crate) is_serial: bool,
    tables: Vec<OnceLock<Result<ChunkTable>>>,
    chains: Vec<OnceLock<Option<Chain>>>,
    resolver: Box<dyn FilterResolver>,
    cache: ChunkCache,
    decoding: Stopwatch,
    is_netcdf: bool,
    attribute_tables: Vec<String>,
    odd_types: Vec<String>,
}

/// A chunk to decode.
struct Wanted<'a> {
    /// Its whole shape, and that in bytes.
    chunk: &'a [u64],
    bytes: usize,
    /// The part of it that lies inside the dataset.
    region: &'a Region,
    entry: StoredChunk,
    /// It is stored without filters whatever the pipeline says.
    skip_filters: bool,
}

impl Wanted<'_> {
    /// A chunk that no filter changed has as many bytes as its values.
    fn check_plain(&self) -> Result<()> {
        if self.entry.size == self.bytes as u64 {
            return Ok(());
        }
        Err(Error::corrupt(format!("it is stored in {} bytes, {} expected", self.entry.size, self.bytes)))
    }
}

thread_local! {
    /// Encoded bytes of one chunk, and the buffers of its chain.
    static BUFFERS: RefCell<(Vec<u8>, Scratch)> = RefCell::default();
}

impl Hdf5Source {
    /// Opens `path` and reads everything but the values.
    ///
    /// # Errors
    /// `NotFound` or `Read` if there is no such readable file, `Corrupt` if it is not an HDF5 file, truncated or
    /// damaged.
    pub fn open(path: &Path, resolver: Box<dyn FilterResolver>) -> Result<Self> {
        Self::open_with(path, resolver, true)
    }

    /// As [`Hdf5Source::open`], without HDF5's lock on the file: a program may open it for writing meanwhile. Who reads
    /// this way checks afterwards that the file has not changed.
    ///
    /// # Errors
    /// As for [`Hdf5Source::open`].
    pub fn open_unlocked(path: &Path, resolver: Box<dyn FilterResolver>) -> Result<Self> {
        Self::open_with(path, resolver, false)
    }

    fn open_with(path: &Path, resolver: Box<dyn FilterResolver>, lock: bool) -> Result<Self> {
        let place = |error: Error| error.at(path.display().to_string());
        let raw = Input::open(path).map_err(|error| Error::read(path, &error))?;
        let metadata = raw.metadata().map_err(|error| Error::read(path, &error))?;
        if metadata.is_dir() {
            return Err(place(Error::new(ErrorKind::Read, "it is a directory")));
        }
        let raw_len = metadata.len();
        if find_signature(&raw, raw_len).is_none() {
            return Err(place(not_hdf5(&raw, raw_len)));
        }
        sys::locked(|| {
            let file = sys::File::open(path, lock).map_err(|error| explain_open(error, &raw)).map_err(place)?;
            let found = scan(&file).map_err(explain_scan).map_err(place)?;
            let count = found.stored.len();
            Ok(Self {
                path: path.to_owned(),
                file,
                raw,
                raw_len,
                model: found.model,
                stored: found.stored,
                external: Box::new(AssembledPuts::default()),
                variables_apart: HashMap::new(),
                is_header: false,
                is_parallel: false,
                is_serial: false,
                tables: (0..count).map(|_| OnceLock::new()).collect(),
                chains: (0..count).map(|_| OnceLock::new()).collect(),
                resolver,
                cache: ChunkCache::new(DEFAULT_CACHE),
                decoding: Stopwatch::default(),
                is_netcdf: found.is_netcdf,
                attribute_tables: found.tables,
                odd_types: found.odd_types,
            })
        })
    }

    /// True if netCDF-4 wrote it.
    pub fn is_netcdf(&self) -> bool {
        self.is_netcdf
    }

    /// Number of stored chunks of a variable; 0 if it is not chunked.
    ///
    /// # Errors
    /// `Corrupt` if the chunk index is damaged.
    pub fn stored_chunks(&self, variable: usize) -> Result<usize> {
        match &self.stored(variable)?.place {
            ValueLocation::Chunks { shape, .. } => Ok(self.table(variable, shape)?.len()),
            _ => Ok(0),
        }
    }

    /// Names of everything in the root group, links and named types included: a new object needs another.
    ///
    /// # Errors
    /// `Corrupt` if the root group is damaged.
    pub fn root_names(&self) -> Result<Vec<String>> {
        sys::locked(|| {
            Ok(self.file.root()?.links()?.iter().map(|link| crate::text::element::text(&link.name)).collect())
        })
    }

    pub(crate) fn file(&self) -> &sys::File {
        &self.file
    }

    /// Attributes of several dimensions, in words: `'matrix' of 'T'`.
    pub fn attribute_tables(&self) -> &[String] {
        &self.attribute_tables
    }

    /// Paths of types with a name that netCDF does not have.
    pub(crate) fn odd_types(&self) -> &[String] {
        &self.odd_types
    }

    pub(crate) fn raw_len(&self) -> u64 {
        self.raw_len
    }

    pub(crate) fn stored(&self, variable: usize) -> Result<&Stored> {
        self.model.variable_with(variable, &self.stored).map(|(_, stored)| stored)
    }

    pub(crate) fn dataset(&self, stored: &Stored) -> Result<Dataset> {
        let dataset = self.file.object_at(stored.address)?.into_dataset()?;
        match stored.place {
            ValueLocation::Library => with_external_files(&self.file, &self.path, dataset, &stored.path),
            _ => Ok(dataset),
        }
    }

    fn table(&self, variable: usize, chunk: &[u64]) -> Result<&ChunkTable> {
        let cell = self.tables.get(variable).ok_or_else(|| Error::internal("no such variable"))?;
        cell.get_or_init(|| {
            let dataset = self.dataset(self.stored(variable)?)?;
            ChunkTable::read(&dataset, &self.model.variable(variable)?.shape, chunk, 0, self.raw_len)
        })
        .as_ref()
        .map_err(Clone::clone)
    }

    fn chain(&self, variable: usize, chunk: &[u64]) -> Option<&Chain> {
        self.chains
            .get(variable)?
            .get_or_init(|| {
                let described = self.model.variables.get(variable)?;
                self.resolver.resolve(&described.filters, &described.chunk_spec(chunk))
            })
            .as_ref()
    }

    /// The chain that decodes chunks written through these filters, and encodes such.
    pub(crate) fn resolve(&self, filters: &[Hdf5Filter], input: &ArraySpec) -> Option<Chain> {
        self.resolver.resolve(filters, input)
    }

    fn place(&self, error: Error, variable: usize) -> Error {
        let name = self.model.variables.get(variable).map_or("", |variable| variable.name());
        error.hint_damage("file").at_variable(name).at(self.path.display().to_string())
    }

    /// Bytes at `offset` of the file.
    pub(crate) fn read_raw(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.raw.read_exact_at(out, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::corrupt(format!("the file ends before byte {offset}"))
                .hint("the file is truncated: restore it from a copy"),
            _ => Error::new(ErrorKind::Read, error.to_string()),
        })
    }

    fn read(&self, index: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let (variable, stored) = (self.model.variable(index)?, self.stored(index)?);
        region.check_inside(&variable.shape)?;
        let size = variable.dtype.size();
        let bytes = region
            .volume()
            .and_then(|len| usize::try_from(len).ok()?.checked_mul(size))
            .ok_or_else(|| Error::unsupported("the region is too large for memory"))?;
        resize(out, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        match &stored.place {
            ValueLocation::Run(None) => {
                fill(out, &stored.padding);
                Ok(())
            }
            ValueLocation::Run(Some(offset)) => self.read_run(*offset, variable, region, out),
            ValueLocation::Chunks { shape, edges_unfiltered } => {
                self.read_chunks(index, shape, *edges_unfiltered, region, out)
            }
            ValueLocation::External(number) => self.external.read(*number, region, &stored.padding, out),
            ValueLocation::Library => self.read_through_library(stored, variable, region, out),
            ValueLocation::Pointers(what) => {
                Err(Error::unsupported(format!("its values ({what}) have no fixed bytes; they can only be copied")))
            }
        }
    }

    /// Reads a region of a contiguous dataset: whole trailing axes at once, or rows where the region is thin.
    fn read_run(&self, offset: u64, variable: &Variable, region: &Region, out: &mut [u8]) -> Result<()> {
        let Region { start, count } = region;
        let (shape, size) = (&variable.shape, variable.dtype.size());
        if offset.checked_add(variable.raw_bytes()).is_none_or(|end| end > self.raw_len) {
            return Err(Error::corrupt(format!(
                "its {} bytes at byte {offset} reach beyond the end of the file at {}",
                variable.raw_bytes(),
                self.raw_len
            ))
            .hint("the file is truncated: restore it from a copy"));
        }
        let rank = shape.len();
        let mut strides = vec![1u64; rank];
        for axis in (0..rank.saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * shape[axis + 1];
        }
        // From this axis on, the region is read in one piece, gaps included, while that wastes little.
        let mut split = rank;
        let (mut span, mut useful) = (1u64, 1u64);
        while split > 0 {
            let wider = (count[split - 1] - 1) * strides[split - 1] + span;
            let more = useful * count[split - 1];
            let small = wider.saturating_mul(size as u64) <= 4 << 20;
            if wider != more && !(small && wider <= more.saturating_mul(4)) {
                break;
            }
            (span, useful) = (wider, more);
            split -= 1;
        }
        let piece = usize::try_from(useful).unwrap_or(usize::MAX).saturating_mul(size);
        let mut buffer = Vec::new();
        let tail_start = vec![0u64; rank - split];
        for (number, target) in out.chunks_exact_mut(piece).enumerate() {
            let mut rest = number as u64;
            let mut first: u64 = start.iter().zip(&strides).map(|(s, t)| s * t).sum();
            for axis in (0..split).rev() {
                first += (rest % count[axis]) * strides[axis];
                rest /= count[axis];
            }
            let at = offset + first * size as u64;
            if span == useful {
                self.read_raw(at, target)?;
                continue;
            }
            resize(&mut buffer, usize::try_from(span).unwrap_or(usize::MAX).saturating_mul(size))?;
            self.read_raw(at, &mut buffer)?;
            let from = Placed { shape: &shape[split..], start: &tail_start };
            let to = Placed { shape: &count[split..], start: &tail_start };
            copy_region(&buffer, from, target, to, &count[split..], size);
        }
        Ok(())
    }

    fn read_chunks(
        &self,
        index: usize,
        chunk: &[u64],
        edges_unfiltered: bool,
        region: &Region,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (variable, stored) = (self.model.variable(index)?, self.stored(index)?);
        let size = variable.dtype.size();
        let chunk_bytes = volume(chunk)
            .and_then(|len| len.checked_mul(size as u64))
            .filter(|&bytes| bytes <= LARGEST_CHUNK)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or_else(|| Error::unsupported(format!("chunks of shape {chunk:?} are too large")))?;
        let table = self.table(index, chunk)?;
        each_chunk(region, chunk, |position| {
            let inside = chunk_region(&variable.shape, chunk, position);
            let place = |error: Error| in_chunk(error, position, &inside.start);
            // What the region has of this chunk, seen from both sides.
            let Some(part) = region.intersection(&inside) else { return Ok(()) };
            let from = Placed { shape: chunk, start: &part.start_in(&inside) };
            let to = Placed { shape: &region.count, start: &part.start_in(region) };
            let linear = table.linear(position);
            let Some(entry) = table.get(linear) else {
                fill_region(out, to, &part.count, &stored.padding);
                return Ok(());
            };
            let clipped = inside.count != chunk;
            let wanted =
                Wanted { chunk, bytes: chunk_bytes, region: &inside, entry, skip_filters: edges_unfiltered && clipped };
            // The region is this chunk and nothing else: decode where it is wanted.
            if part == inside && part == *region {
                if !clipped {
                    return self.decode(index, &wanted, out).map_err(place);
                }
                let mut bytes = Vec::new();
                self.decode(index, &wanted, &mut bytes).map_err(place)?;
                copy_region(&bytes, from, out, to, &part.count, size);
                return Ok(());
            }
            if let Some(first) = one_run(from, &region.count)
                && part == *region
                && variable.filters.is_empty()
            {
                let at = entry.address.saturating_add(first * size as u64);
                return wanted.check_plain().and_then(|()| self.read_raw(at, out)).map_err(place);
            }
            let decode = || {
                let mut bytes = Vec::new();
                self.decode(index, &wanted, &mut bytes).map(|()| bytes)
            };
            self.cache
                .get((index, linear), chunk_bytes, decode, |bytes| {
                    copy_region(bytes, from, out, to, &part.count, size);
                })
                .map_err(place)
        })
    }

    /// Decodes one stored chunk into `out`, replacing its contents.
    fn decode(&self, index: usize, wanted: &Wanted<'_>, out: &mut Vec<u8>) -> Result<()> {
        let variable = self.model.variable(index)?;
        let (filters, entry) = (&variable.filters, wanted.entry);
        let all = u32::MAX.checked_shr(32u32.saturating_sub(u32::try_from(filters.len()).unwrap_or(32))).unwrap_or(0);
        if filters.is_empty() || wanted.skip_filters || entry.filter_mask & all == all {
            wanted.check_plain()?;
            resize(out, wanted.bytes)?;
            return self.read_raw(entry.address, out);
        }
        let Some(chain) = self.chain(index, wanted.chunk) else {
            let mut bytes = Vec::new();
            let count = &wanted.region.count;
            let part = volume(count).and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
            resize(&mut bytes, part.saturating_mul(variable.dtype.size()))?;
            self.read_through_library(self.stored(index)?, variable, wanted.region, &mut bytes)?;
            resize(out, wanted.bytes)?;
            let origin = vec![0u64; count.len()];
            let from = Placed { shape: count, start: &origin };
            let to = Placed { shape: wanted.chunk, start: &origin };
            copy_region(&bytes, from, out, to, count, variable.dtype.size());
            return Ok(());
        };
        BUFFERS.with_borrow_mut(|(encoded, scratch)| {
            let size = usize::try_from(entry.size).map_err(|_| Error::unsupported("it is too large for memory"))?;
            resize(encoded, size)?;
            self.read_raw(entry.address, encoded)?;
            self.decoding.time(|| chain.decode_masked(encoded, entry.filter_mask, scratch, out))
        })
    }

    fn count_frame_chains(&self, index: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        let variable = self.model.variable(index)?;
        let ValueLocation::Chunks { shape, edges_unfiltered } = &self.stored(index)?.place else {
            return Ok(Vec::new());
        };
        let Some(last) = variable.filters.iter().rposition(|filter| filter.id == KNARR_FILTER) else {
            return Ok(Vec::new());
        };
        if last + 1 < variable.filters.len() {
            return Ok(Vec::new());
        }
        let bit = u32::try_from(last).unwrap_or(u32::MAX);
        let table = self.table(index, shape)?;
        let mut counts: Vec<(ChainSpec, usize)> = Vec::new();
        let mut head = Vec::new();
        for (position, entry) in table.stored().step_by(table.len().div_ceil(most.max(1)).max(1)) {
            let is_bare = *edges_unfiltered && chunk_region(&variable.shape, shape, &position).count != *shape;
            let chain = if is_bare || entry.filter_mask.checked_shr(bit).unwrap_or(0) & 1 == 1 {
                ChainSpec::raw()
            } else {
                resize(&mut head, usize::try_from(entry.size).unwrap_or(FRAME_HEAD).min(FRAME_HEAD))?;
                let read = self.read_raw(entry.address, &mut head).and_then(|()| frame::head_chain(&head, codecs));
                read.map_err(|error| error.at(format!("chunk {position:?}")))?
            };
            match counts.iter_mut().find(|(known, _)| *known == chain) {
                Some((_, count)) => *count += 1,
                None => counts.push((chain, 1)),
            }
        }
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok(counts)
    }

    fn read_through_library(
        &self,
        stored: &Stored,
        variable: &Variable,
        region: &Region,
        out: &mut [u8],
    ) -> Result<()> {
        sys::locked(|| {
            crate::create::stop_pretending(&variable.filters);
            self.dataset(stored)?.read_bytes(region, out).map_err(|error| explain_read(error, &variable.filters))
        })
    }
}

impl Source for Hdf5Source {
    fn block(&self, variable: usize) -> Option<&[u64]> {
        match self.stored.get(variable)?.place {
            ValueLocation::External(number) => self.external.block(number),
            _ => None,
        }
    }

    fn remote_encoder(&self) -> Option<&dyn RemoteEncoder> {
        self.external.remote_encoder().map(|_| self as &dyn RemoteEncoder)
    }

    fn ahead(&self) -> Option<&dyn Ahead> {
        self.external.ahead().map(|_| self as &dyn Ahead)
    }

    fn limit_cache(&self, bytes: usize) {
        self.cache.set_limit(bytes);
        self.external.limit_cache(bytes);
    }

    fn decode_seconds(&self) -> f64 {
        self.decoding.seconds()
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        if self.is_netcdf { "netCDF-4" } else { "HDF5" }
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        self.read(variable, region, out).map_err(|error| self.place(error, variable))
    }

    fn is_written(&self, variable: usize, region: &Region) -> bool {
        let Ok(stored) = self.stored(variable) else { return true };
        // The model has no place for fill values of more than 8 bytes.
        if stored.padding.len() > 8 && stored.padding.iter().any(|&byte| byte != 0) {
            return true;
        }
        match &stored.place {
            ValueLocation::Run(offset) => offset.is_some(),
            ValueLocation::External(number) => self.external.is_written(*number, region),
            ValueLocation::Library | ValueLocation::Pointers(_) => true,
            // A damaged index is reported by reading.
            ValueLocation::Chunks { shape, .. } => match self.table(variable, shape) {
                Err(_) => true,
                Ok(table) => each_chunk(region, shape, |position| {
                    if table.get(table.linear(position)).is_some() { Err(()) } else { Ok(()) }
                })
                .is_err(),
            },
        }
    }

    fn element_type(&self, variable: usize) -> Option<&ElementType> {
        self.stored.get(variable)?.element.as_ref()
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        self.stored.get(variable)?.strings
    }

    fn read_strings(&self, variable: usize, region: &Region) -> Result<Vec<String>> {
        self.variable_strings(variable, region).map_err(|error| self.place(error, variable))
    }

    fn frame_chains(&self, variable: usize, codecs: &CodecList, most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        self.count_frame_chains(variable, codecs, most).map_err(|error| self.place(error, variable))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Makes `out` exactly `bytes` long; refuses what the machine cannot hold instead of aborting.
fn resize(out: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if bytes > out.len() {
        out.try_reserve_exact(bytes - out.len())
            .map_err(|_| Error::unsupported(format!("there is no memory for {bytes} bytes")))?;
    }
    out.resize(bytes, 0);
    Ok(())
}

/// The signature is at byte 0, or after a user block of 512 bytes or a larger power of two.
fn find_signature(file: &Input, len: u64) -> Option<u64> {
    const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
    let mut at = 0;
    while at < len {
        let mut found = [0; 8];
        if file.read_exact_at(&mut found, at).is_ok() && found == SIGNATURE {
            return Some(at);
        }
        at = if at == 0 { 512 } else { at.checked_mul(2)? };
    }
    None
}
