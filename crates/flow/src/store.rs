//! Where values come from and go to: [`Source`] and [`Sink`], implemented once per format.

use std::any::Any;
use std::path::Path;

use crate::offload::ahead::Ahead;
use crate::offload::remote_encoder::RemoteEncoder;
use crate::offload::reserved::ReservedOffset;
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::{Attribute, ElementType, Model};
use knarr_array::region::Region;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::CodecList;

/// What the strings of a variable are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strings {
    /// Of any length: read by [`Source::read_strings`].
    Variable,
    /// Of one length in bytes, padded: read as bytes.
    Fixed,
}

/// An open input. Regions are read from many threads at once.
pub trait Source: Send + Sync {
    /// What the file holds.
    fn model(&self) -> &Model;

    /// Path the source was opened from.
    fn path(&self) -> &Path;

    /// Name of the format for people: `netCDF-4`, `HDF5`, `netCDF-3 (CDF-2)`, `Zarr v3`.
    fn format(&self) -> &str;

    /// Replaces the contents of `out` with the elements of a region, row-major, in stored byte order.
    /// The region has the rank of the variable and lies within its shape. One that is exactly one stored chunk is the
    /// fast case.
    ///
    /// # Errors
    /// `Corrupt`, `MissingFilter` or `Read`, with the chunk's place.
    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()>;

    /// False if no element of the region was ever written, so that reading it gives the variable's padding.
    fn is_written(&self, variable: usize, region: &Region) -> bool;

    /// Shape of the blocks in which the values of a variable come, if they are better asked for block by block, each to its
    /// end, than in the order of the elements: a block is dear to make, and memory may hold few.
    fn block(&self, _variable: usize) -> Option<&[u64]> {
        None
    }

    /// Who keeps values at other places and encodes them there. Regions can be read all the same.
    fn remote_encoder(&self) -> Option<&dyn RemoteEncoder> {
        None
    }

    /// Who keeps chunks that were encoded before.
    fn ahead(&self) -> Option<&dyn Ahead> {
        None
    }

    /// True if reading waits for a network: more threads read at once than there are processors.
    fn is_remote(&self) -> bool {
        false
    }

    /// Says that all values will be read, in about the order of their chunks: what lies beside a part may come with it.
    fn will_read_all(&self) {}

    /// Keeps at most so many bytes of decoded chunks for regions that do not follow the grid of chunks, or one chunk if
    /// that is larger.
    fn limit_cache(&self, _bytes: usize) {}

    /// Processor time that reading has spent on decoding chunks so far, in seconds, of all threads together.
    fn decode_seconds(&self) -> f64 {
        0.0
    }

    /// Names of the axes of a variable. There may be more than those of its dimensions: a name that stands for another
    /// length elsewhere in the group is no dimension of the model.
    fn axis_names(&self, variable: usize) -> Vec<Option<String>> {
        self.model().variables.get(variable).map_or_else(Vec::new, |variable| variable.dimensions.clone())
    }

    /// The type of the elements where it is more than [`DType`](knarr_array::array::DType) says. `None` for plain numbers,
    /// and for formats that know no others.
    fn element_type(&self, _variable: usize) -> Option<&ElementType> {
        None
    }

    /// What strings a variable holds; `None` if its elements are no strings, or the format does not say.
    fn strings(&self, _variable: usize) -> Option<Strings> {
        None
    }

    /// The elements of a region of a variable whose [`Source::strings`] are variable, row-major.
    ///
    /// # Errors
    /// `Unsupported` for all other variables and for strings that are not UTF-8; otherwise as for
    /// [`Source::read_region`].
    fn read_strings(&self, _variable: usize, _region: &Region) -> Result<Vec<String>> {
        Err(Error::unsupported("it holds no strings of variable length"))
    }

    /// Chains of the stored chunks of a variable whose chunks are frames, with how often each was met, the most frequent
    /// first. No more than `most` chunks are looked at, spread over the variable. Empty where chunks are no frames.
    ///
    /// # Errors
    /// `Corrupt`, `MissingFilter` or `Read`, with the chunk's place.
    fn frame_chains(&self, _variable: usize, _codecs: &CodecList, _most: usize) -> Result<Vec<(ChainSpec, usize)>> {
        Ok(Vec::new())
    }

    /// That what was read is of one moment, where somebody looks after that.
    ///
    /// # Errors
    /// `Read` if the file was written to since it was opened.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// For sinks of the same format, which copy what only that format can carry.
    fn as_any(&self) -> &dyn Any;
}

/// Values that do not lie in the file that describes their variables: a program has handed them over, or computes them
/// when it is asked. They are read from many threads at once.
pub trait Values: Send + Sync {
    /// Replaces the contents of `out` with the elements of a region of variable `number`, row-major, in the byte order in
    /// which the file would store them. Elements that have no value are `padding`.
    ///
    /// # Errors
    /// What reading or computing them reports.
    fn read(&self, number: usize, region: &Region, padding: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// False if no element of the region has a value.
    fn is_written(&self, number: usize, region: &Region) -> bool;

    /// As [`Source::block`], of variable `number`.
    fn block(&self, _number: usize) -> Option<&[u64]> {
        None
    }

    /// As [`Source::remote_encoder`], with numbers as they are here.
    fn remote_encoder(&self) -> Option<&dyn RemoteEncoder> {
        None
    }

    /// As [`Source::ahead`], with numbers as they are here.
    fn ahead(&self) -> Option<&dyn Ahead> {
        None
    }

    /// As [`Source::limit_cache`], of what was read or computed.
    fn limit_cache(&self, _bytes: usize) {}
}

/// How the values of one variable are to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Index into [`Model::variables`].
    pub variable: usize,
    /// Chunk shape; every extent at least 1.
    pub chunk: Vec<u64>,
    /// The codecs in the sink's own language.
    pub encoding: Encoding,
}

/// A chain in the language of a format.
#[derive(Debug, Clone, PartialEq)]
pub enum Encoding {
    /// HDF5 filter pipeline.
    Hdf5(Vec<Hdf5Filter>),
    /// `codecs` of Zarr v3 array metadata.
    Zarr(Vec<serde_json::Value>),
}

impl Encoding {
    /// Filters of HDF5 that chunks go through.
    pub fn filters(&self) -> &[Hdf5Filter] {
        match self {
            Self::Hdf5(filters) => filters,
            Self::Zarr(_) => &[],
        }
    }
}

/// One finished chunk.
#[derive(Debug, Clone, Copy)]
pub struct EncodedChunk<'a> {
    /// Index into [`Model::variables`].
    pub variable: usize,
    /// Position in the grid of chunks: element offset divided by chunk extent.
    pub position: &'a [u64],
    /// Encoded bytes.
    pub bytes: &'a [u8],
    /// HDF5 filter mask: bit *i* set means filter *i* was left out for this chunk.
    pub filter_mask: u32,
}

/// A chunk that was encoded on another node, which writes it.
#[derive(Debug, Clone, Copy)]
pub struct ChunkToReserve<'a> {
    /// As [`EncodedChunk::variable`].
    pub variable: usize,
    /// As [`EncodedChunk::position`].
    pub position: &'a [u64],
    /// Encoded bytes.
    pub length: u64,
    /// As [`EncodedChunk::filter_mask`].
    pub filter_mask: u32,
}

/// An output being written beside its final place.
///
/// A format makes its sink from a [`Model`] and the [`Storage`] of each variable that gets chunks. What is copied from a
/// [`Source`] comes in a step of its own, `copy_from` of the format's sink; who writes all values as chunks needs no source.
///
/// Nothing appears under the final name before [`Sink::commit`] has synced and renamed; dropping a sink
/// without commit removes what was written. Any thread may write to it, one at a time.
pub trait Sink: Send {
    /// Makes ready for chunks, if it is not so from the start. Called before anything but copying, while chunks are
    /// encoded already; more calls do nothing.
    ///
    /// # Errors
    /// `Write`, or what is wrong with what is copied.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Writes one chunk. Chunks may come in any order; a chunk that never comes is left unwritten.
    ///
    /// # Errors
    /// `Write`.
    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()>;

    /// True if [`Sink::reserve`] can be called: the output lies where other nodes write, too, and see each other's bytes. It is
    /// the same before [`Sink::begin`] and after.
    fn supports_external_writes(&self) -> bool {
        false
    }

    /// Gives a chunk its place, as [`Sink::put`] does, and leaves it to somebody else to write it there and to make it
    /// durable before [`Sink::close`]. Whoever does so does not change the length of the file.
    ///
    /// # Errors
    /// `Write`.
    fn reserve(&mut self, _chunk: ChunkToReserve<'_>) -> Result<ReservedOffset> {
        Err(Error::internal("this output gives no places"))
    }

    /// Removes attributes that a variable was made with and the written one must not have, where they are there.
    ///
    /// # Errors
    /// `Write`.
    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()>;

    /// Adds or replaces attributes that are known only after encoding: those of a variable, or of the
    /// file for `None`.
    ///
    /// # Errors
    /// `Write`.
    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()>;

    /// Finishes what is to be written, after which nothing can be put, and returns the size in bytes of what will take
    /// the final place; `None` where only [`Sink::commit`] can tell.
    ///
    /// # Errors
    /// `Write`.
    fn close(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Finishes, syncs, and puts the output in its final place. Returns its size in bytes.
    ///
    /// # Errors
    /// `Write`; the output is removed then.
    fn commit(self: Box<Self>) -> Result<u64>;
}
