//! What a codec is: a static description, [`Codec`], that prepares a [`Step`] for chunks of one type and shape.

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::Result;
use knarr_array::filter::{FilterId, Hdf5Filter};

use super::{Hdf5Form, OptionDoc, Options, ZarrCodec};

/// What goes in and out of a codec, as in the Zarr v3 specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Array to array of the same type and shape: a *filter*.
    Filter,
    /// Array to bytes.
    ArrayToBytes,
    /// Bytes to bytes: a *compressor*, or a byte rearrangement such as shuffle.
    Compressor,
}

/// What a codec may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Decoding returns the bytes that went in.
    Lossless,
    /// With the given options, decoded values differ from the input. The pipeline checks them
    /// against the promised quality and falls back to lossless where they fail.
    Lossy,
}

/// What flows from one step to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Type and shape of the chunk. After an array-to-bytes step it is what the bytes came from;
    /// compressors use its element size.
    pub spec: ArraySpec,
    /// True while the bytes are still the elements of `spec`.
    pub is_array: bool,
}

/// Static description of a codec: everything that the rest of Knarr knows of it. One implementation a file, one line in
/// the list.
pub trait Codec: Send + Sync {
    /// Name in chains: lower case, stable.
    fn name(&self) -> &'static str;

    /// Number in frames. Pinned: never reused, never changed. Codecs of this crate have numbers below 100, those that wrap
    /// a C library 100 to 255, and installed plugins from 256 on that of their HDF5 filter.
    fn wire_id(&self) -> u16;

    /// What goes in and out.
    fn kind(&self) -> Kind;

    /// One line for `docs/chains.md`: what it does, with its source (paper, specification, library).
    fn summary(&self) -> &'static str;

    /// Chains that exercise it. The conformance suite runs all of them; golden files hold what they write: the first one
    /// of a codec of this crate, all of one that wraps a C library.
    fn examples(&self) -> &'static [&'static str];

    /// True if equal input gives equal bytes in every build: golden tests then require that of the codec's examples. False
    /// if a library or a search decides the bytes. Later versions may then write others, which decode to the same values.
    fn has_fixed_output(&self) -> bool {
        true
    }

    /// Options in order; a bare value in a chain (`zstd:3`) is the first one.
    fn options(&self) -> &'static [OptionDoc] {
        &[]
    }

    /// Whether decoding returns the input bytes, given these options.
    fn loss(&self, _options: &Options) -> Loss {
        Loss::Lossless
    }

    /// Whether elements of this type are served. What works on bytes serves all.
    fn supports(&self, _dtype: DType) -> bool {
        true
    }

    /// True if the encoded form is about as long as the input: filters, shuffles, checksums. Later steps of a
    /// chain then work on the full number of bytes, which their cost follows.
    fn keeps_size(&self, _options: &Options) -> bool {
        self.kind() == Kind::Filter
    }

    /// True if bytes behind it may still have an order that a shuffle finds. Users are told of a shuffle behind a step that
    /// leaves none.
    fn leaves_order(&self, options: &Options) -> bool {
        self.kind() != Kind::Compressor || self.keeps_size(options)
    }

    /// True if the step computes with values. The chain then hands it little-endian elements
    /// whatever the stored byte order is.
    fn needs_values(&self) -> bool {
        false
    }

    /// A live step for chunks that arrive as `input`. Options are complete and checked
    /// against [`Codec::options`]; `input.is_array` holds for filters and array-to-bytes codecs.
    ///
    /// # Errors
    /// `Unsupported` or `Usage` if this type, shape or combination of options cannot be served.
    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>>;

    /// How this step is written in a standard HDF5 filter pipeline.
    fn hdf5(&self, _options: &Options, _input: &Stage) -> Hdf5Form {
        Hdf5Form::None
    }

    /// Filter ids (HDF5) that [`Codec::from_hdf5`] understands.
    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[]
    }

    /// Options that decode what the HDF5 filter `filter` wrote; `None` if this setting is not understood,
    /// in which case the chunk is read through the HDF5 library.
    #[expect(clippy::wrong_self_convention, reason = "reads as the counterpart of `hdf5`")]
    fn from_hdf5(&self, _filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        None
    }

    /// How this step is written as Zarr v3 codec metadata.
    fn zarr(&self, _options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        None
    }
}

/// A codec made ready for one type and shape. Shared by worker threads.
pub trait Step: Send + Sync {
    /// Upper bound of the encoded length for an input of `input_len` bytes. Used to reserve memory.
    fn max_encoded_len(&self, input_len: usize) -> usize;

    /// Replaces the contents of `out` by the encoded form of `input`.
    ///
    /// # Errors
    /// If the library underneath fails or the values cannot be represented.
    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// Replaces the contents of `out` by the decoded form of `input`. The input is hostile: lengths in it
    /// are checked before allocation, and no more than `limit` bytes are produced.
    ///
    /// # Errors
    /// `Corrupt` if `input` is not a valid stream or decodes to more than `limit` bytes.
    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()>;
}
