//! One chunk: round, encode, prove, fall back, never larger than stored.

use crate::energy::thread_seconds;
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::quality::{Bound, Observed};
use knarr_choose::choose::with_bound;
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::{CodecList, Loss};
use serde::{Deserialize, Serialize};

/// The step that rounds. A bound takes the place of this one.
const ROUNDING: &str = "round:abs=1";

/// What happened to one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ChunkOutcome {
    /// Steps left out, as an HDF5 filter mask.
    pub filter_mask: u32,
    /// The chunk was stored because encoding did not make it smaller.
    pub stored: bool,
    /// The bound would have failed: the chunk is lossless.
    pub fell_back: bool,
    /// The lossless chain did not return the bits, which is a defect of a codec: the chunk is stored.
    pub refuted: bool,
    /// Errors observed, for lossy chunks.
    pub observed: Option<Observed>,
    /// Seconds of encoding.
    pub encode_seconds: f64,
    /// Seconds of decoding for the proof; 0 without it.
    pub decode_seconds: f64,
}

/// Encodes chunks of one variable. Shared by worker threads.
pub struct ChunkEncoder {
    chain: Chain,
    fallback: Option<Chain>,
    /// What stores chunks where they cannot lie in the output without a frame.
    stored: Option<Chain>,
    spec: ArraySpec,
    bound: Option<Bound>,
    verify: bool,
    container: Container,
}

/// How encoded chunks lie in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Container {
    /// An HDF5 filter pipeline of this many filters: a chunk can leave all of them out.
    Pipeline(usize),
    /// Knarr's frame in one HDF5 filter, which a chunk can leave out.
    Frame,
    /// Knarr's frame as what the HDF5 filter itself returns: every chunk has one.
    Filter,
    /// Zarr: every chunk goes through all codecs.
    Codecs,
}

/// What an encoder is made from, for another thread or another process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The chain.
    pub chain: ChainSpec,
    /// For a lossy one: what chunks fall back to where the bound would fail.
    pub fallback: Option<ChainSpec>,
    /// Type and shape of the chunks.
    pub spec: ArraySpec,
    /// What a lossy chain promises.
    pub bound: Option<Bound>,
    /// What is lossless is proven, too.
    pub verify: bool,
    /// How chunks lie in the output.
    pub container: Container,
}

impl Recipe {
    /// The encoder.
    ///
    /// # Errors
    /// As for [`ChunkEncoder::new`].
    pub fn encoder(&self, codecs: &CodecList) -> Result<ChunkEncoder> {
        let Self { chain, fallback, spec, bound, verify, container } = self;
        ChunkEncoder::new(codecs, chain, fallback.as_ref(), spec.clone(), *bound, *verify, *container)
    }
}

/// What an encoder can return, to tell what it cannot have returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a chunk.
    raw: usize,
    longest: usize,
    /// That of chunks which leave all filters out; 0 where none can.
    mask: u32,
    is_lossy: bool,
    has_fallback: bool,
}

impl Limits {
    /// Checks that the encoder can have returned so many bytes with this outcome.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn check(&self, len: usize, outcome: &ChunkOutcome) -> Result<()> {
        let Self { raw, longest, mask, is_lossy, has_fallback } = *self;
        let fits = len <= longest
            && (outcome.filter_mask == 0 || outcome.filter_mask == mask && len == raw)
            && outcome.observed.is_some() == is_lossy
            && (has_fallback || !outcome.fell_back);
        if fits { Ok(()) } else { Err(Error::corrupt("a chunk that this chain cannot have encoded")) }
    }
}

/// Buffers of one worker.
#[derive(Default)]
pub struct Buffers {
    scratch: Scratch,
    decoded: Vec<u8>,
    frame: Vec<u8>,
}

impl ChunkEncoder {
    /// For chunks of `spec` that lie in a `container`. A lossy chain needs a bound, and one to fall back to; with `verify`
    /// what is lossless is proven, too.
    ///
    /// # Errors
    /// What preparing the chains reports.
    pub fn new(
        codecs: &CodecList,
        chain: &ChainSpec,
        fallback: Option<&ChainSpec>,
        spec: ArraySpec,
        bound: Option<Bound>,
        verify: bool,
        container: Container,
    ) -> Result<Self> {
        let chain = Chain::prepare(codecs, chain, &spec)?;
        let fallback = fallback.map(|fallback| Chain::prepare(codecs, fallback, &spec)).transpose()?;
        if chain.loss() == Loss::Lossy && (fallback.is_none() || bound.is_none()) {
            return Err(Error::internal("a lossy chain without a bound or a chain to fall back to"));
        }
        let is_filter = container == Container::Filter;
        let stored = is_filter.then(|| Chain::prepare(codecs, &ChainSpec::raw(), &spec)).transpose()?;
        Ok(Self { chain, fallback, stored, spec, bound, verify, container })
    }

    /// For values of which no file is made: they are rounded within `bound`, and then encoded as `lossless` says. What would
    /// miss the bound is not rounded.
    ///
    /// # Errors
    /// What preparing the chains reports.
    pub fn within(codecs: &CodecList, lossless: &ChainSpec, spec: ArraySpec, bound: Bound) -> Result<Self> {
        let mut chain = with_bound(&ROUNDING.parse()?, &bound);
        chain.0.extend(lossless.0.iter().cloned());
        Self::new(codecs, &chain, Some(lossless), spec, Some(bound), false, Container::Frame)
    }

    /// Type and shape of the chunks.
    pub fn spec(&self) -> &ArraySpec {
        &self.spec
    }

    /// Encodes `raw`, one full chunk, into `out`.
    ///
    /// # Errors
    /// What the codecs report; `Quality` where a bound does not hold and the chunk cannot be stored.
    pub fn encode(&self, raw: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<ChunkOutcome> {
        let mut outcome = ChunkOutcome::default();
        match (self.chain.loss(), &self.fallback, &self.bound) {
            (Loss::Lossy, Some(fallback), Some(bound)) => {
                self.encode_lossy(raw, fallback, bound, buffers, out, &mut outcome)?;
            }
            _ => self.encode_lossless(&self.chain, raw, buffers, out, &mut outcome)?,
        }
        if !outcome.stored && !outcome.refuted && out.len() >= raw.len() && self.can_store() {
            self.store(raw, out, &mut outcome)?;
            outcome.stored = true;
        }
        Ok(outcome)
    }

    /// What readers get of the chunk `raw` that was just encoded with these buffers.
    pub fn read_back<'a>(&self, raw: &'a [u8], outcome: &ChunkOutcome, buffers: &'a Buffers) -> &'a [u8] {
        let is_lossy = outcome.observed.is_some() && !outcome.fell_back && !outcome.stored;
        if is_lossy { &buffers.decoded } else { raw }
    }

    /// Decodes what was encoded elsewhere, with the outcome that is said of it, which is not trusted.
    ///
    /// # Errors
    /// `Corrupt` for what no encoder like this one returns; what the codecs report.
    pub fn decode_other<'a>(
        &self,
        encoded: &'a [u8],
        outcome: &ChunkOutcome,
        buffers: &'a mut Buffers,
    ) -> Result<&'a [u8]> {
        self.limits().check(encoded.len(), outcome)?;
        if outcome.filter_mask != 0 {
            return Ok(encoded);
        }
        let chain = self.fallback.as_ref().filter(|_| outcome.fell_back).unwrap_or(&self.chain);
        self.decode(chain, encoded, buffers)?;
        Ok(&buffers.decoded)
    }

    /// What it can return.
    pub fn limits(&self) -> Limits {
        let raw = self.spec.byte_len();
        let chains = std::iter::once(&self.chain).chain(&self.fallback);
        let longest = if self.can_store() { raw } else { chains.map(Chain::max_encoded_len).max().unwrap_or(raw) };
        let (mask, is_lossy) = (self.store_mask(), self.chain.loss() == Loss::Lossy);
        Limits { raw, longest, mask, is_lossy, has_fallback: self.fallback.is_some() }
    }

    fn encode_lossy(
        &self,
        raw: &[u8],
        fallback: &Chain,
        bound: &Bound,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
        outcome: &mut ChunkOutcome,
    ) -> Result<()> {
        let begin = thread_seconds();
        let encoded = self.run(&self.chain, raw, buffers, out);
        outcome.encode_seconds += thread_seconds() - begin;
        let begin = thread_seconds();
        // A bound is a promise: it is checked whatever `verify` says.
        let proof = encoded.and_then(|()| {
            self.decode(&self.chain, out, buffers)?;
            bound.check(&self.spec, raw, &buffers.decoded)
        });
        outcome.decode_seconds += thread_seconds() - begin;
        match proof {
            Ok(observed) => {
                outcome.observed = Some(observed);
                Ok(())
            }
            Err(_) => {
                outcome.fell_back = true;
                outcome.observed = Some(Observed::default());
                let same_pipeline = match self.container {
                    Container::Pipeline(_) => fallback.hdf5_pipeline() == self.chain.hdf5_pipeline(),
                    Container::Codecs => fallback.zarr_codecs() == self.chain.zarr_codecs(),
                    Container::Frame | Container::Filter => true,
                };
                if same_pipeline {
                    return self.encode_lossless(fallback, raw, buffers, out, outcome);
                }
                if !self.can_store() {
                    return Err(Error::new(ErrorKind::Quality, format!("'{}' misses the bound", self.chain.spec()))
                        .hint("choose a chain that rounds before a lossless codec, or lossless"));
                }
                self.store(raw, out, outcome)?;
                outcome.stored = true;
                Ok(())
            }
        }
    }

    fn encode_lossless(
        &self,
        chain: &Chain,
        raw: &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
        outcome: &mut ChunkOutcome,
    ) -> Result<()> {
        let begin = thread_seconds();
        self.run(chain, raw, buffers, out)?;
        outcome.encode_seconds += thread_seconds() - begin;
        if !self.verify {
            return Ok(());
        }
        let begin = thread_seconds();
        let proof = self.decode(chain, out, buffers);
        let holds = proof.is_ok() && buffers.decoded == raw;
        outcome.decode_seconds += thread_seconds() - begin;
        if holds {
            return Ok(());
        }
        outcome.refuted = true;
        if !self.can_store() {
            return Err(Error::internal(format!("chain '{}' did not return the bits that went in", chain.spec()))
                .hint("choose another chain with --chain and report this"));
        }
        self.store(raw, out, outcome)
    }

    fn run(&self, chain: &Chain, raw: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<()> {
        if self.is_framed() {
            chain.encode(raw, &mut buffers.scratch, &mut buffers.frame)?;
            return knarr_codec::frame::write(chain, &buffers.frame, out);
        }
        chain.encode(raw, &mut buffers.scratch, out)
    }

    fn decode(&self, chain: &Chain, encoded: &[u8], buffers: &mut Buffers) -> Result<()> {
        let payload = if self.is_framed() { knarr_codec::frame::read(encoded)?.payload } else { encoded };
        chain.decode(payload, &mut buffers.scratch, &mut buffers.decoded)
    }

    fn can_store(&self) -> bool {
        self.container != Container::Codecs
    }

    fn is_framed(&self) -> bool {
        matches!(self.container, Container::Frame | Container::Filter)
    }

    fn store(&self, raw: &[u8], out: &mut Vec<u8>, outcome: &mut ChunkOutcome) -> Result<()> {
        if let Some(stored) = &self.stored {
            return knarr_codec::frame::write(stored, raw, out);
        }
        out.clear();
        out.extend_from_slice(raw);
        outcome.filter_mask = self.store_mask();
        Ok(())
    }

    /// The filter mask of chunks that leave all filters out.
    fn store_mask(&self) -> u32 {
        match self.container {
            Container::Pipeline(filters) => u32::try_from((1u64 << filters.min(32)) - 1).unwrap_or(u32::MAX),
            Container::Frame => 1,
            Container::Filter | Container::Codecs => 0,
        }
    }
}
