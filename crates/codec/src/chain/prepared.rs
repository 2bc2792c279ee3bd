//! Chains made ready for chunks of one type and shape.

use super::{ChainSpec, StepSpec};
use crate::codec::{Codec, CodecList, Hdf5Form, Kind, Loss, Options, ReaderLevel, Stage, Step, ZarrCodec, ZarrKind};
use knarr_array::array::{ArraySpec, Endian, swap_bytes};
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use std::sync::Arc;

/// A chain prepared for chunks of one type and shape. Immutable; shared by worker threads.
pub struct Chain {
    spec: ChainSpec,
    input: ArraySpec,
    steps: Vec<Prepared>,
}

struct Prepared {
    codec: Arc<dyn Codec>,
    options: Options,
    step: Box<dyn Step>,
    stage: Stage,
    /// Element size to swap before encoding values that are stored big-endian; 0 for none.
    swap: usize,
    /// Most bytes that this step may decode to.
    limit: usize,
}

/// Bytes by which headers of others may make a small stream longer.
const SLACK: usize = 64 << 10;

/// Prepares steps one after the other.
struct Builder {
    steps: Vec<Prepared>,
    /// What the next step is given.
    stage: Stage,
    /// Upper bound of its length.
    bound: usize,
    /// True behind a compressor.
    is_compressed: bool,
}

impl Builder {
    fn new(input: &ArraySpec) -> Result<Self> {
        let bound = input.checked_len()? * input.dtype.size();
        Ok(Self {
            steps: Vec::new(),
            stage: Stage { spec: input.clone(), is_array: true },
            bound,
            is_compressed: false,
        })
    }

    fn push(&mut self, codec: Arc<dyn Codec>, options: Options) -> Result<()> {
        let refuse = |why: String| Error::unsupported(format!("'{}' {why}", codec.name()));
        let input = &self.stage.spec;
        if !codec.supports(input.dtype) {
            return Err(refuse(format!("does not take elements of type {}", input.dtype))
                .hint("choose another chain for this variable"));
        }
        if codec.kind() != Kind::Compressor && !self.stage.is_array {
            return Err(refuse("works on arrays and must come before compressors".to_owned())
                .hint("change the order of the steps"));
        }
        let swap = if codec.needs_values() && input.endian == Endian::Big { input.dtype.size() } else { 0 };
        let step = codec.prepare(&options, &self.stage)?;
        let next = Stage { spec: input.clone(), is_array: codec.kind() == Kind::Filter };
        let next_bound = step.max_encoded_len(self.bound);
        let stage = std::mem::replace(&mut self.stage, next);
        // Other encoders of the same format may need more bytes than ours for what they cannot compress.
        let limit = if self.is_compressed { self.bound.saturating_mul(2).saturating_add(SLACK) } else { self.bound };
        self.is_compressed |= codec.kind() != Kind::Filter && !codec.keeps_size(&options);
        self.steps.push(Prepared { codec, options, step, stage, swap, limit });
        self.bound = next_bound;
        Ok(())
    }
}

/// Buffers of one worker, reused from chunk to chunk.
#[derive(Default)]
pub struct Scratch {
    a: Vec<u8>,
    b: Vec<u8>,
    swapped: Vec<u8>,
}

impl Chain {
    /// Prepares `spec` for chunks of type and shape `input`.
    ///
    /// # Errors
    /// `Usage` for unknown names or options, `Unsupported` where the type or the order of steps cannot be served.
    pub fn prepare(codecs: &CodecList, spec: &ChainSpec, input: &ArraySpec) -> Result<Self> {
        let place = |error: Error| error.at(format!("chain '{spec}'"));
        let mut builder = Builder::new(input)?;
        for (name, options) in spec.complete(codecs).map_err(place)? {
            builder.push(Arc::clone(codecs.named(&name)?), options).map_err(place)?;
        }
        Ok(Self { spec: spec.clone(), input: input.clone(), steps: builder.steps })
    }

    /// Prepares the chain that decodes what the HDF5 pipeline `filters` wrote, one step a filter, so that the
    /// bits of a filter mask are those of [`Chain::decode_masked`]. `None` if no codec understands one of the
    /// filters with its settings: the chunks are then read through the HDF5 library.
    pub fn from_hdf5(codecs: &CodecList, filters: &[Hdf5Filter], input: &ArraySpec) -> Option<Self> {
        let mut builder = Builder::new(input).ok()?;
        let mut spec = ChainSpec::raw();
        for filter in filters {
            let (codec, options) = codecs.for_hdf5(filter.id).find_map(|codec| {
                let options = codec.from_hdf5(filter, &builder.stage)?;
                Some((Arc::clone(codec), options.complete(codec.name(), codec.options()).ok()?))
            })?;
            let mut step = StepSpec::new(codec.name());
            step.options = options.clone();
            spec.0.push(step);
            builder.push(codec, options).ok()?;
        }
        Some(Self { spec, input: input.clone(), steps: builder.steps })
    }

    /// The text form this chain was prepared from.
    pub fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// Type and shape of the chunks.
    pub fn input(&self) -> &ArraySpec {
        &self.input
    }

    /// Each codec with its options, all spelled out.
    pub fn steps(&self) -> impl Iterator<Item = (&dyn Codec, &Options)> {
        self.steps.iter().map(|prepared| (prepared.codec.as_ref(), &prepared.options))
    }

    /// `Lossy` if any step may change values.
    pub fn loss(&self) -> Loss {
        let lossy = self.steps.iter().any(|prepared| prepared.codec.loss(&prepared.options) == Loss::Lossy);
        if lossy { Loss::Lossy } else { Loss::Lossless }
    }

    /// Encodes one chunk into `out`, replacing its contents.
    ///
    /// # Errors
    /// `Usage` if `bytes` is not exactly one chunk; otherwise what the failing step reports.
    pub fn encode(&self, bytes: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        if bytes.len() != self.input.byte_len() {
            return Err(Error::usage(format!(
                "chunk of {} bytes given, {} {:?} needs {}",
                bytes.len(),
                self.input.dtype,
                self.input.shape,
                self.input.byte_len()
            )));
        }
        let Scratch { a: current, b: next, swapped } = scratch;
        let Some(last) = self.steps.len().checked_sub(1) else {
            out.clear();
            out.extend_from_slice(bytes);
            return Ok(());
        };
        for (index, prepared) in self.steps.iter().enumerate() {
            let input: &[u8] = if index == 0 { bytes } else { current };
            // Buffers keep their places, so that those of equal sizes are used again without being cleared.
            let target = if index == last { &mut *out } else { &mut *next };
            let input = if prepared.swap > 1 {
                swapped.clear();
                swapped.extend_from_slice(input);
                swap_bytes(swapped, prepared.swap);
                swapped.as_slice()
            } else {
                input
            };
            prepared
                .step
                .encode(input, target)
                .map_err(|error| error.at(format!("encoding with '{}'", prepared.codec.name())))?;
            if prepared.swap > 1 && prepared.codec.kind() == Kind::Filter {
                swap_bytes(target, prepared.swap);
            }
            std::mem::swap(current, next);
        }
        Ok(())
    }

    /// Decodes one chunk into `out`, replacing its contents with exactly the bytes of the chunk.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not what the chain writes or the length is not that of the chunk.
    pub fn decode(&self, bytes: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        self.decode_masked(bytes, 0, scratch, out)
    }

    /// As [`Chain::decode`], for a chunk from which the steps with set bits in `skipped` (HDF5 filter mask;
    /// bit 0 is the first step) were left out when it was written.
    ///
    /// # Errors
    /// As for [`Chain::decode`].
    pub fn decode_masked(&self, bytes: &[u8], skipped: u32, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<()> {
        let expected = self.input.byte_len();
        let Scratch { a: current, b: next, swapped } = scratch;
        let was_done = |index: &usize| {
            u32::try_from(*index).ok().and_then(|index| skipped.checked_shr(index)).is_none_or(|bits| bits & 1 == 0)
        };
        let last = (0..self.steps.len()).find(was_done);
        let mut first = true;
        for (index, prepared) in self.steps.iter().enumerate().rev().filter(|(index, _)| was_done(index)) {
            let mut input: &[u8] = if first { bytes } else { current };
            let target = if Some(index) == last { &mut *out } else { &mut *next };
            if prepared.swap > 1 && prepared.codec.kind() == Kind::Filter {
                swapped.clear();
                swapped.extend_from_slice(input);
                swap_bytes(swapped, prepared.swap);
                input = swapped;
            }
            // Bits of the mask may have left out an earlier, size-changing step.
            let limit = prepared.limit.max(expected);
            prepared
                .step
                .decode(input, limit, target)
                .map_err(|error| error.at(format!("decoding with '{}'", prepared.codec.name())))?;
            if target.len() > limit {
                return Err(Error::internal(format!("'{}' exceeded its limit", prepared.codec.name())));
            }
            if prepared.swap > 1 {
                swap_bytes(target, prepared.swap);
            }
            std::mem::swap(current, next);
            first = false;
        }
        let length = if first { bytes.len() } else { out.len() };
        if length != expected {
            return Err(Error::corrupt(format!("chunk decodes to {length} bytes, {expected} expected")));
        }
        if first {
            out.clear();
            out.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Upper bound of the encoded size of a chunk in bytes.
    pub fn max_encoded_len(&self) -> usize {
        self.steps.iter().fold(self.input.byte_len(), |len, prepared| prepared.step.max_encoded_len(len))
    }

    /// The standard HDF5 filter pipeline that decodes this chain, if there is one.
    pub fn hdf5_pipeline(&self) -> Option<Vec<Hdf5Filter>> {
        let mut pipeline = Vec::new();
        for prepared in &self.steps {
            match prepared.codec.hdf5(&prepared.options, &prepared.stage) {
                Hdf5Form::None => return None,
                Hdf5Form::Invisible => {}
                Hdf5Form::Filter(filter) => pipeline.push(filter),
            }
        }
        Some(pipeline)
    }

    /// `codecs` of Zarr v3 array metadata, if every step can be written so. A `bytes` codec is put in
    /// where the array becomes bytes unless a step does that itself.
    pub fn zarr_codecs(&self) -> Option<Vec<serde_json::Value>> {
        let forms: Vec<ZarrCodec> = self
            .steps
            .iter()
            .filter(|prepared| prepared.codec.hdf5(&prepared.options, &prepared.stage) != Hdf5Form::Invisible)
            .map(|prepared| prepared.codec.zarr(&prepared.options, &prepared.stage))
            .collect::<Option<_>>()?;
        let mut codecs: Vec<_> = forms.iter().map(|form| form.metadata.clone()).collect();
        if !forms.iter().any(|form| form.kind == ZarrKind::ArrayToBytes) {
            let position = forms.iter().take_while(|form| form.kind == ZarrKind::ArrayToArray).count();
            let endian = match self.input.endian {
                Endian::Little => "little",
                Endian::Big => "big",
            };
            let bytes = if self.input.dtype.size() == 1 {
                serde_json::json!({"name": "bytes"})
            } else {
                serde_json::json!({"name": "bytes", "configuration": {"endian": endian}})
            };
            codecs.insert(position, bytes);
        }
        Some(codecs)
    }

    /// What an HDF5 reader needs.
    pub fn reader(&self) -> ReaderLevel {
        match self.hdf5_pipeline() {
            None => ReaderLevel::Knarr,
            Some(filters) => ReaderLevel::of_filters(filters.iter().map(|filter| filter.id)),
        }
    }
}
