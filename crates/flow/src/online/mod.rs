//! Choice chunk by chunk, for writers that never show the whole variable: what the HDF5 filter encodes with.
//!
//! Every chunk becomes a frame whose chain was chosen from chunks of its own dataset. Chunks of a dataset are known by
//! their client data; datasets with equal client data share a memory, which tells kinds of chunks apart by a cheap
//! look ([`sketch`]), remembers a chain for each, and says when a choice is made again ([`memory`]). Where size does not
//! count, a dataset begins with the chain of an earlier one whose chunks look alike: trials would cost more than they
//! save. Speeds come from the profile, never from the clock: the same chunks in the same order give the same bytes.

mod memory;
mod sketch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::pipeline::{Buffers, ChunkEncoder, ChunkOutcome, Container};
use crate::threads::engine::Engine;
use knarr_array::array::{ArraySpec, DType, is_constant};
use knarr_array::error::{Error, Result};
use knarr_array::goal::Merits;
use knarr_array::quality::Bound;
use knarr_choose::choose::{
    Budget, CHUNK_SAMPLE, Question, all_chains, chunk_trials, cut, holdable, trial, with_bound,
};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::Candidate;
use knarr_choose::predictor::Beliefs;
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::client_data::{Chunks, ClientData, FilterOptions};
use knarr_codec::codec::ReaderLevel;
use memory::{Chosen, Decision, Memory, Met};
use sketch::Sketch;

/// Frames may use every codec.
const TARGET: FormatLimits = FormatLimits::hdf5(ReaderLevel::Knarr);
/// Datasets that are remembered.
const MOST_DATASETS: usize = 64;
/// Buffers of chunks up to this size are kept for the next chunk, so many of them.
const LARGEST_KEPT: usize = 32 << 20;
const MOST_KEPT: usize = 4;
/// Seconds of one core that a choice takes beside its trials: features and predictions.
const OVERHEAD: f64 = 0.002;
/// Chains for chunks of one value, the first that the codecs serve.
const CONSTANT: [&str; 2] = ["zstd:1", "snappy"];
/// What is used where size counts for nothing and no other chain is expected to cost less or leaves less, and the ratio
/// from which on it may be.
const UNSEARCHED: &str = "runs";
const LEAST_UNSEARCHED: f64 = 1.5;
/// A ratio that is not worth a decoder.
const INCOMPRESSIBLE: f64 = 1.01;

/// Encodes chunks of any number of datasets. Shared by threads.
pub struct Online {
    engine: Engine,
    /// The one used last is first.
    datasets: Mutex<Vec<Arc<Dataset>>>,
    buffers: Mutex<Vec<Buffers>>,
}

/// One dataset, or several with the same client data.
struct Dataset {
    words: Vec<u32>,
    options: FilterOptions,
    chunks: Chunks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: Memory,
    /// The encoder of each kind in `memory`, as it was last needed.
    encoders: Vec<Option<Ready>>,
    /// Datasets of the same type and options that were there before this one, until its first choice. None if size
    /// counts: then a choice of its own pays.
    similar: Vec<Weak<Dataset>>,
}

impl Dataset {
    /// What a chunk of `bytes` is.
    fn spec(&self, bytes: usize) -> ArraySpec {
        match &self.chunks {
            Chunks::Array(spec) => spec.clone(),
            Chunks::Bytes => ArraySpec::new(DType::U8, [bytes]),
        }
    }

    /// Whether a chain that was chosen for this dataset may serve one of `chunks` with `options`.
    fn is_like(&self, options: &FilterOptions, chunks: &Chunks) -> bool {
        let same_type = match (&self.chunks, chunks) {
            (Chunks::Array(own), Chunks::Array(other)) => (own.dtype, own.endian) == (other.dtype, other.endian),
            (own, other) => own == other,
        };
        same_type && self.options == *options
    }

    /// Keeps what became of a chunk.
    fn learn(&self, step: &Step, raw: usize, encoded: usize) {
        if let Some(met) = step.met {
            lock(&self.state).memory.encoded(met, raw, encoded);
        }
    }
}

/// How one chunk is encoded.
struct Step {
    /// Its kind; none if there is nothing to choose.
    met: Option<Met>,
    encoder: Arc<ChunkEncoder>,
}

/// An encoder and the bound it was made for; a lossless chain has none although one is asked for.
struct Ready {
    bound: Option<Bound>,
    encoder: Arc<ChunkEncoder>,
}

impl Online {
    /// An encoder with the codecs and the profile of `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine, datasets: Mutex::default(), buffers: Mutex::default() }
    }

    /// Encodes `raw`, one chunk of the dataset with the client data `words`, into a frame that replaces `out`.
    ///
    /// # Errors
    /// As for [`ClientData::parse`]; `Usage` if the words do not say what the chunks are, or if `raw` is not one;
    /// `Quality` if the quality cannot be served for the type.
    pub fn encode(&self, words: &[u32], raw: &[u8], out: &mut Vec<u8>) -> Result<ChunkOutcome> {
        let dataset = self.dataset(words)?;
        let spec = dataset.spec(raw.len());
        if spec.byte_len() != raw.len() {
            return Err(Error::usage(format!(
                "a chunk of {} bytes came, {} {:?} needs {}",
                raw.len(),
                spec.dtype,
                spec.shape,
                spec.byte_len()
            )));
        }
        let step = ChunkJob { engine: &self.engine, options: &dataset.options, spec: &spec, raw }.step(&dataset)?;
        let outcome = self.run(&step.encoder, raw, out)?;
        dataset.learn(&step, raw.len(), out.len());
        Ok(outcome)
    }

    /// Encodes a chunk with buffers that are kept for the next one.
    fn run(&self, encoder: &ChunkEncoder, raw: &[u8], out: &mut Vec<u8>) -> Result<ChunkOutcome> {
        let mut buffers = lock(&self.buffers).pop().unwrap_or_default();
        let outcome = encoder.encode(raw, &mut buffers, out);
        let mut kept = lock(&self.buffers);
        if raw.len() <= LARGEST_KEPT && kept.len() < MOST_KEPT {
            kept.push(buffers);
        }
        outcome
    }

    fn dataset(&self, words: &[u32]) -> Result<Arc<Dataset>> {
        let mut datasets = lock(&self.datasets);
        let at = match datasets.iter().position(|known| known.words == words) {
            Some(at) => at,
            None => {
                let ClientData { options, chunks } = ClientData::parse(words)?;
                let chunks = chunks.ok_or_else(|| {
                    Error::usage("the client data does not say what the chunks are")
                        .hint("the filter adds that when the dataset is created while the plugin is there")
                })?;
                if let Chunks::Array(spec) = &chunks {
                    options.quality.validate(spec.dtype)?;
                }
                datasets.truncate(MOST_DATASETS - 1);
                let is_similar =
                    |known: &&Arc<Dataset>| !options.goal.weighs_size() && known.is_like(&options, &chunks);
                let similar = datasets.iter().filter(is_similar).map(Arc::downgrade).collect();
                let state = Mutex::new(State { similar, ..State::default() });
                datasets.push(Arc::new(Dataset { words: words.to_vec(), options, chunks, state }));
                datasets.len() - 1
            }
        };
        datasets[..=at].rotate_right(1);
        datasets.first().cloned().ok_or_else(|| Error::internal("no dataset is remembered"))
    }
}

/// What was chosen in a dataset of `similar` for chunks most like `sketch`, if they are of the same kind.
fn borrowed_choice(similar: &[Weak<Dataset>], sketch: &Sketch) -> Option<Chosen> {
    let mut nearest: Option<(f64, Chosen)> = None;
    for known in similar.iter().filter_map(Weak::upgrade) {
        let state = lock(&known.state);
        if let Some((distance, chosen)) = state.memory.nearest(sketch)
            && distance < nearest.as_ref().map_or(1.0, |(least, _)| *least)
        {
            nearest = Some((distance, chosen.clone()));
        }
    }
    nearest.map(|(_, chosen)| chosen)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One chunk, and what decides about it.
struct ChunkJob<'a> {
    engine: &'a Engine,
    options: &'a FilterOptions,
    spec: &'a ArraySpec,
    raw: &'a [u8],
}

impl ChunkJob<'_> {
    /// How the chunk is encoded, after a choice if it is time for one.
    fn step(&self, dataset: &Dataset) -> Result<Step> {
        if is_constant(self.spec.dtype.size(), self.raw) {
            return Ok(Step { met: None, encoder: Arc::new(self.constant()?) });
        }
        let state = &mut *lock(&dataset.state);
        let bound = self.bound();
        let sketch = Sketch::of(self.spec, self.raw);
        let kind = match state.memory.decide(&sketch, OVERHEAD, chunk_trials(&self.options.goal, self.raw.len())) {
            Decision::Use(kind) => kind,
            Decision::Choose { kind, seconds } => {
                let learnt = state.memory.beliefs(kind);
                let serves = |chosen: &Chosen| Chain::prepare(&self.engine.codecs, &chosen.chain, self.spec).is_ok();
                let heard = borrowed_choice(&std::mem::take(&mut state.similar), &sketch).filter(serves);
                let trials = seconds.map(|seconds| seconds - OVERHEAD);
                let chosen = heard.unwrap_or_else(|| self.choose(bound.as_ref(), trials, learnt));
                let kind = state.memory.chosen(kind, sketch, chosen);
                state.encoders.resize_with(state.encoders.len().max(kind + 1), || None);
                state.encoders[kind] = None;
                kind
            }
        };
        let missing = || Error::internal("a kind of chunks is not remembered");
        let met = state.memory.met(kind);
        let chain = state.memory.chain(kind).ok_or_else(missing)?;
        let slot = state.encoders.get_mut(kind).ok_or_else(missing)?;
        if let Some(ready) = slot
            && ready.bound == bound
            && ready.encoder.spec() == self.spec
        {
            return Ok(Step { met, encoder: Arc::clone(&ready.encoder) });
        }
        let encoder = Arc::new(self.encoder(chain, bound.as_ref())?);
        *slot = Some(Ready { bound, encoder: Arc::clone(&encoder) });
        Ok(Step { met, encoder })
    }

    /// The quality resolved for this chunk. A fraction of the range is one of the chunk's own range, which keeps that
    /// of the variable's, too; `None` if nothing may change.
    fn bound(&self) -> Option<Bound> {
        let mut valid = self.spec.clone();
        // Zeros are no part of it: HDF5 puts them where a chunk is beyond the edge or was not written yet.
        valid.fills.push(0);
        self.options.quality.bound_of(&valid, self.raw).filter(|bound| bound.abs > 0.0)
    }

    /// The best chain for this chunk, found in about `seconds` of trials, given what earlier chunks taught.
    fn choose(&self, bound: Option<&Bound>, seconds: Option<f64>, learnt: Option<&Beliefs>) -> Chosen {
        let (codecs, profile, goal) = (&self.engine.codecs, &self.engine.profile, &self.options.goal);
        let chooser = self.engine.chooser(goal, bound);
        let budget = match seconds {
            Some(seconds) => Budget::Earned { seconds },
            None => Budget::FirstChunk { bytes: self.raw.len() },
        };
        let samples = [cut(self.spec, self.raw, CHUNK_SAMPLE)];
        let subject = chooser.look(&samples, budget);
        let mut chains = all_chains(bound);
        chains.retain(|chain| self.may_win(chain));
        let chains = holdable(chains, codecs, self.spec, TARGET);
        let question = Question { chains: &chains, beyond: &[], subject: &subject, learnt, budget };
        let ranked = chooser.choose(question, &samples);
        let usable = |best: &&Candidate| best.is_usable() && best.merits.ratio >= INCOMPRESSIBLE;
        let best = ranked.candidates.first().filter(usable);
        let plain = || (ChainSpec::raw(), profile.merits(codecs, &ChainSpec::raw(), 1.0));
        let (chain, merits) = self
            .unsearched(best, bound, &samples)
            .or_else(|| best.map(|best| (best.chain.clone(), best.merits)))
            .unwrap_or_else(plain);
        Chosen { chain, speed: merits.encode * 1e6, seconds: ranked.seconds + OVERHEAD, beliefs: ranked.beliefs }
    }

    /// False for a chain that would be worse than none even if it left nothing, where size counts for nothing.
    fn may_win(&self, chain: &ChainSpec) -> bool {
        let (codecs, profile, goal) = (&self.engine.codecs, &self.engine.profile, &self.options.goal);
        let score = |chain: &ChainSpec, ratio: f64| goal.score(&profile.merits(codecs, chain, ratio));
        goal.weighs_size() || score(chain, f64::INFINITY) >= score(&ChainSpec::raw(), 1.0)
    }

    /// The chain [`UNSEARCHED`] and its merits, if size counts for nothing and it scores no less on `samples` than
    /// `best`, or leaves no more: nothing that searches for matches is as quick, whatever times are expected of it.
    fn unsearched(
        &self,
        best: Option<&Candidate>,
        bound: Option<&Bound>,
        samples: &[(ArraySpec, Vec<u8>)],
    ) -> Option<(ChainSpec, Merits)> {
        let Engine { codecs, profile, .. } = self.engine;
        let ratio = |chain: &ChainSpec| trial(codecs, chain, samples, bound).ratio;
        let chain: ChainSpec = UNSEARCHED.parse().ok().filter(|_| !self.options.goal.weighs_size())?;
        let own = ratio(&chain);
        let merits = profile.merits(codecs, &chain, own);
        let beats = |best: &Candidate| best.score <= self.options.goal.score(&merits) || ratio(&best.chain) <= own;
        (own >= LEAST_UNSEARCHED && best.is_none_or(beats)).then_some((chain, merits))
    }

    /// An encoder for this chunk with a chain that was chosen for one of its kind.
    fn encoder(&self, chain: &ChainSpec, bound: Option<&Bound>) -> Result<ChunkEncoder> {
        let codecs = &self.engine.codecs;
        let make = |chain: &ChainSpec, fallback: Option<&ChainSpec>, bound: Option<Bound>| {
            ChunkEncoder::new(codecs, chain, fallback, self.spec.clone(), bound, false, Container::Filter)
        };
        let lossless = TARGET.fallback(codecs, &Chain::prepare(codecs, chain, self.spec)?);
        match (&lossless, bound) {
            (None, _) => make(chain, None, None),
            (Some(lossless), None) => make(lossless, None, None),
            (Some(lossless), Some(bound)) => make(&with_bound(chain, bound), Some(lossless), Some(*bound)),
        }
    }

    /// An encoder for a chunk of one value: there is nothing to choose.
    fn constant(&self) -> Result<ChunkEncoder> {
        let chain = CONSTANT.iter().filter_map(|text| text.parse().ok());
        let serves = |chain: &ChainSpec| Chain::prepare(&self.engine.codecs, chain, self.spec).is_ok();
        self.encoder(&chain.into_iter().find(serves).unwrap_or_default(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_codec::codec::CodecList;
    use knarr_codec::frame;
    use knarr_testing::data::{Pattern, sample};

    /// The chain that a chunk of a new dataset gets.
    fn chain(online: &Online, goal: &str, dtype: DType, shape: &[usize], pattern: Pattern) -> String {
        let sample = sample(dtype, shape, pattern, 5);
        let options = FilterOptions { goal: goal.parse().unwrap(), ..FilterOptions::default() };
        let words = ClientData { options, chunks: Some(Chunks::Array(sample.spec)) }.words().unwrap();
        let mut out = Vec::new();
        online.encode(&words, &sample.bytes, &mut out).unwrap();
        frame::read(&out).unwrap().chain(&online.engine.codecs).unwrap().to_string()
    }

    /// An encoder that remembers one dataset, with a chain that nothing would choose by itself.
    fn used(goal: &str) -> Online {
        let online = Online::new(Engine { jobs: 1, ..Engine::new(CodecList::pure()) });
        chain(&online, goal, DType::F32, &[40, 50], Pattern::Smooth);
        {
            let smooth = sample(DType::F32, &[40, 50], Pattern::Smooth, 5);
            let sketch = Sketch::of(&smooth.spec, &smooth.bytes);
            let dataset = lock(&online.datasets)[0].clone();
            let memory = &mut lock(&dataset.state).memory;
            let chosen = Chosen { chain: ODD.parse().unwrap(), ..memory.nearest(&sketch).unwrap().1.clone() };
            memory.chosen(Some(0), sketch, chosen);
        }
        online
    }

    const ODD: &str = "lorenzo:2 | brotli:7";

    #[test]
    fn where_only_cost_counts_a_choice_serves_datasets_that_look_alike() {
        let alike = |goal, shape: &[usize]| chain(&used(goal), goal, DType::F32, shape, Pattern::Smooth);
        let odd = alike("energy", &[44, 50]);
        assert!(odd.starts_with("lorenzo") && odd.ends_with("brotli:quality=7"), "{odd}");
        assert_ne!(alike("balanced", &[44, 50]), odd, "size counts");
        let differs = |dtype, pattern| chain(&used("energy"), "energy", dtype, &[44, 50], pattern) != odd;
        assert!(differs(DType::F64, Pattern::Smooth) && differs(DType::F32, Pattern::Noise));
    }
}
