//! Execution: workers read, encode and prove chunks; the calling thread writes them in order.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::bands::Bands;
use crate::energy::{Phases, thread_seconds};
use crate::offload::remote_encoder::{ChunkToEncode, PendingChunk};
use crate::offload::reserved::ReservedOffset;
use crate::pipeline::execution::encode::{Buffers, ChunkOutcome};
use crate::pipeline::execution::encoding_nodes::{Content, Encoded, EncodingNodes, Pool};
use crate::pipeline::execution::form::planned;
use crate::pipeline::execution::recipes::{CachedEncoders, Recipes};
use crate::pipeline::execution::remote_writes::{RemoteWrite, RemoteWrites};
use crate::pipeline::execution::spare::Spare;
use crate::store::{ChunkToReserve, EncodedChunk, Sink, Source};
use crate::threads::engine::{Engine, Progress};
use crate::threads::ordered::{Piece, Schedule, in_order};
use crate::threads::thread_limit::ThreadLimit;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::Variable;
use knarr_array::quality::Observed;
use knarr_array::region::{Region, in_chunk};
use knarr_array::region::{chunk_count, chunk_position, chunk_region, grouped_position, pad_chunk};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Action, Plan};
use knarr_codec::codec::ReaderLevel;

/// What execution measured.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Execution {
    /// Wall time in seconds, reading to last write, without commit.
    pub seconds: f64,
    /// Processor time of the phases; choosing is none of them.
    pub phases: Phases,
    /// Per variable that was encoded, by its index in the model.
    pub variables: BTreeMap<usize, VariableReport>,
}

/// What execution measured on one variable.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct VariableReport {
    /// Bytes of values.
    pub raw_bytes: u64,
    /// Bytes written.
    pub encoded_bytes: u64,
    /// Chunks written.
    pub chunks: u64,
    /// Chunks that were encoded on other nodes, which have their values.
    #[serde(default)]
    pub elsewhere_chunks: u64,
    /// How many of these their nodes have written into the output themselves.
    #[serde(default)]
    pub placed_chunks: u64,
    /// Chunks that were encoded before, while the program had the file open.
    #[serde(default)]
    pub ahead_chunks: u64,
    /// Chunks stored because encoding did not make them smaller.
    pub stored_chunks: u64,
    /// Chunks that are lossless because the bound would have failed.
    pub fallback_chunks: u64,
    /// Chunks stored because a codec did not return the bits: a defect to report.
    pub refuted_chunks: u64,
    /// Errors observed, for lossy variables; `worst` is the row-major index in its chunk.
    pub observed: Option<Observed>,
    /// Core-seconds of encoding.
    pub encode_seconds: f64,
    /// Core-seconds of decoding for the proof.
    pub decode_seconds: f64,
}

/// More chunks than this are refused: no variable has them, but a damaged header can claim them.
const MOST_CHUNKS: u64 = 1 << 28;

/// One variable under way.
struct VariableWork<'a> {
    index: usize,
    variable: &'a Variable,
    chunk: &'a [u64],
    /// How many chunks there are along each axis, and how many of them make up a block of the source.
    grid: Vec<u64>,
    block: Vec<u64>,
    /// What encodes its chunks, as an index into recipes.
    recipe: usize,
    /// Number of the first chunk of this variable among all chunks.
    first: u64,
    chunks: u64,
    chunk_bytes: u64,
}

/// Where a chunk was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Here,
    /// While the program had the file open.
    Ahead,
    Remote,
}

/// A chunk that a worker finished.
struct Done {
    work: usize,
    position: Vec<u64>,
    /// `None` if it was never written in the source.
    content: Option<(Content, ChunkOutcome)>,
    /// Among those of all variables.
    number: u64,
    raw: u64,
    encoded: Where,
    /// Processor time of reading, decoding included.
    read_seconds: f64,
}

/// Encodes every planned variable into `sink`. Chunks arrive at the sink in one order whatever the number of threads.
///
/// # Errors
/// The first error of reading, encoding or writing, with variable and chunk.
pub fn execute(
    engine: &Engine,
    source: &dyn Source,
    plan: &Plan,
    target: FormatLimits,
    verify: bool,
    sink: &mut dyn Sink,
    progress: &dyn Progress,
) -> Result<Execution> {
    let begin = Instant::now();
    let decoded_before = source.decode_seconds();
    let mut works = Vec::new();
    let mut recipes = Recipes::new(verify);
    let mut first = 0;
    for (index, variable, choice) in planned(source, plan) {
        let spec = variable.chunk_spec(&choice.chunk);
        let chunk_bytes = spec.byte_len() as u64;
        let recipe = recipes.add(engine, choice, spec, target).map_err(|error| error.at_variable(variable.name()))?;
        let chunks = chunk_count(&variable.shape, &choice.chunk);
        if chunks > MOST_CHUNKS {
            return Err(Error::unsupported(format!("{chunks} chunks are more than {MOST_CHUNKS}"))
                .hint("choose larger chunks with --chunks, if the shape is not a sign of damage")
                .at_variable(variable.name()));
        }
        let chunk = &choice.chunk;
        let grid = variable.shape.iter().zip(chunk).map(|(extent, chunk)| extent.div_ceil((*chunk).max(1))).collect();
        // Blocks of one chunk each give the order of the elements.
        let block = source.block(index).map_or_else(
            || vec![1; chunk.len()],
            |block| block.iter().zip(chunk).map(|(block, chunk)| (block / (*chunk).max(1)).max(1)).collect(),
        );
        works.push(VariableWork { index, variable, chunk, grid, block, recipe, first, chunks, chunk_bytes });
        first += chunks;
    }
    let total: u64 = works.iter().map(|work| work.variable.raw_bytes()).sum();
    progress.begin("repacking", total);
    let budget = Budget::of(engine, &works, source.is_remote())?;
    let wanted: Vec<_> = works.iter().map(|work| (work.index, work.chunk)).collect();
    let bands = Bands::of_several(engine, source, &wanted, budget.bands)?;
    let mut execution = Execution::default();
    // The bytes of a chunk may stay on its node if the output reserves an offset for it.
    let supports_external_writes = sink.supports_external_writes();
    let made_again = run(
        engine,
        (&works, &recipes),
        &bands,
        first,
        &budget,
        (
            &mut |done| {
                let begin = thread_seconds();
                sink.begin()?;
                execution.phases.read += done.read_seconds;
                let written = write(sink, &works, &mut execution, done)?;
                execution.phases.write += thread_seconds() - begin;
                Ok(written)
            },
            supports_external_writes,
        ),
        progress,
    )?;
    for number in made_again {
        let work = works.get(works.partition_point(|work| work.first + work.chunks <= number));
        if let Some(report) = work.and_then(|work| execution.variables.get_mut(&work.index)) {
            report.placed_chunks -= 1;
        }
    }
    // There may have been no chunk.
    sink.begin()?;
    execution.seconds = begin.elapsed().as_secs_f64();
    let phases = &mut execution.phases;
    phases.decode = (source.decode_seconds() - decoded_before).min(phases.read);
    phases.read -= phases.decode;
    for report in execution.variables.values() {
        phases.encode += report.encode_seconds;
        phases.prove += report.decode_seconds;
    }
    Ok(execution)
}

/// Threads, bytes and buffers for a set of variables.
struct Budget {
    jobs: usize,
    window: u64,
    /// For chunks that are read together.
    bands: u64,
    /// For encoded chunks.
    spare: Spare,
}

/// Bytes of the largest chunk that the memory suffices for.
pub(in crate::pipeline) fn largest_chunk(engine: &Engine) -> u64 {
    engine.max_mem_alone.unwrap_or(engine.max_mem) / 2 / Budget::COPIES
}

impl Budget {
    /// Each worker holds about this many copies of a chunk: read, decoded source, two of the chain, proof, result.
    const COPIES: u64 = 6;
    /// Threads where most of them wait for a network.
    const WAITING: usize = 32;

    fn of(engine: &Engine, works: &[VariableWork<'_>], is_remote: bool) -> Result<Self> {
        let largest = works.iter().max_by_key(|work| work.chunk_bytes);
        let worker = largest.map_or(0, |work| work.chunk_bytes) * Self::COPIES;
        // Half of the memory is for workers, half for chunks that wait to be written and the source's cache.
        let half = engine.max_mem / 2;
        let fitting = usize::try_from(half / worker.max(1)).unwrap_or(usize::MAX);
        if fitting == 0 && worker > engine.max_mem {
            let work = largest.map_or("", |work| work.variable.name());
            return Err(Error::new(
                ErrorKind::Usage,
                format!("one chunk takes {} MiB while it is encoded", worker.div_ceil(1 << 20)),
            )
            .hint(format!(
                "raise --max-mem to {}M or choose smaller chunks with --chunks",
                (2 * worker).saturating_mul(engine.mem_asked).div_ceil(1 << 20)
            ))
            .at_variable(work));
        }
        let window = half / 2;
        let jobs = if is_remote { engine.jobs.max(Self::WAITING) } else { engine.jobs };
        let jobs = jobs.clamp(1, fitting.max(1));
        let bands = half.saturating_sub(worker.saturating_mul(jobs as u64)) / 4 * 3;
        Ok(Self { jobs, window, bands, spare: Spare::new(window / 4) })
    }
}

/// Reads every variable that is copied as it is and could be decoded: what is damaged must not pass for proven.
///
/// # Errors
/// What reading reports, with variable and chunk.
pub fn prove_copies(engine: &Engine, source: &dyn Source, plan: &Plan) -> Result<()> {
    let plans = plan.by_path();
    for (index, variable) in source.model().variables.iter().enumerate() {
        let planned = plans.get(variable.path.as_str()).map(|planned| &planned.action);
        let copied = matches!(planned, Some(Action::Copy(_)));
        if !copied || variable.copied_because.is_some() || variable.is_empty() {
            continue;
        }
        let block = crate::settings::chunk_shape(&crate::settings::ChunkRule::Keep, variable)?;
        let count = usize::try_from(chunk_count(&variable.shape, &block)).unwrap_or(usize::MAX);
        engine.parallel(count, |number| {
            let position = chunk_position(&variable.shape, &block, number as u64);
            let region = chunk_region(&variable.shape, &block, &position);
            if source.is_written(index, &region) {
                source.read_region(index, &region, &mut Vec::new())?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns the numbers of chunks that were to be written by their nodes, and were written here.
fn run(
    engine: &Engine,
    (works, recipes): (&[VariableWork<'_>], &Recipes),
    bands: &[Bands<'_>],
    total: u64,
    budget: &Budget,
    (write, supports_external_writes): (&mut dyn FnMut(Done) -> Result<Written>, bool),
    progress: &dyn Progress,
) -> Result<Vec<u64>> {
    let work_of = |number| {
        let at = works.partition_point(|work| work.first + work.chunks <= number);
        works.get(at).zip(bands.get(at)).map(|(work, bands)| (at, work, bands))
    };
    let source = bands.first().map(Bands::source);
    let ahead = source.and_then(|source| source.ahead());
    let nodes = match source.and_then(|source| source.remote_encoder()) {
        None => EncodingNodes::here(ahead),
        Some(others) => EncodingNodes::new((others, ahead), total, |number| {
            let (_, work, bands) = work_of(number)?;
            // What is read together is read here.
            if bands.is_banded() {
                None
            } else {
                others.node_of(work.index, &work.locate(bands, number - work.first).region)
            }
        }),
    };
    let extra_lanes = nodes.threads(engine.jobs);
    // Those that wait for a network are more, and take no time of a program.
    let reading = if budget.jobs > engine.jobs { ThreadLimit::default() } else { engine.allowed.clone() };
    let lanes = Pool::<Lane>::new(budget.jobs, reading);
    let workers = Pool::<Worker>::new(budget.jobs.min(engine.jobs), engine.allowed.clone());
    let make = |number: u64, may_keep: bool| {
        let (at, work, bands) = work_of(number).ok_or_else(|| Error::internal("a chunk of no variable"))?;
        let (recipe, limits) =
            recipes.recipe(work.recipe).ok_or_else(|| Error::internal("a chunk without a recipe"))?;
        let located = work.locate(bands, number - work.first);
        let (region, padding) = (&located.region, &work.variable.padding_bytes());
        let chunk = ChunkToEncode { variable: work.index, region, padding, recipe };
        // What is read together is read here, all of it.
        let found = if bands.is_banded() { Ok(None) } else { nodes.find(number, &chunk, limits) };
        let asked = found.and_then(|found| match found {
            Some(found) => Ok(Some(found)),
            None => nodes.ask(number, &chunk, limits, may_keep),
        });
        let asked = asked.map_err(|error| located.tell(error, work, bands.source()))?;
        match asked {
            Some(asked) if !asked.is_looked_at => Ok(located.done_before(asked, (at, number))),
            Some(asked) => workers.with(|worker| {
                let encoder = recipes.encoder(engine, work.recipe, &mut worker.encoders)?;
                let checked = asked.check(encoder, &mut worker.buffers);
                checked.map_err(|error| located.tell(error, work, bands.source()))?;
                Ok(located.done_before(asked, (at, number)))
            }),
            None => lanes.with(|lane| {
                let Some((chunk, read_seconds)) = lane.read(bands, work, &located)? else {
                    return Ok(located.done((at, number), None));
                };
                let mut encoded = budget.spare.take();
                let outcome = workers.with(|worker| {
                    let encoder = recipes.encoder(engine, work.recipe, &mut worker.encoders)?;
                    let outcome = encoder.encode(chunk, &mut worker.buffers, &mut encoded);
                    outcome.map_err(|error| located.tell(error, work, bands.source()))
                })?;
                let content = Some((Content::Bytes(encoded), outcome));
                Ok(Done { read_seconds, ..located.done((at, number), content) })
            }),
        }
    };
    let again = |number| match engine.check_cancelled().and_then(|()| make(number, false))?.content {
        Some((Content::Bytes(bytes), _)) => Ok(bytes),
        _ => Err(Error::internal("a chunk that was there is gone")),
    };
    std::thread::scope(|scope| {
        let mut remote_writes = nodes.others().map(|others| RemoteWrites::new(scope, others, &again));
        in_order(
            Schedule { engine, jobs: budget.jobs, extra_lanes: &extra_lanes, window: budget.window, total },
            |number| {
                let size = work_of(number).map_or(0, |(_, work, _)| work.chunk_bytes);
                Piece { size, lane: nodes.lane(number) }
            },
            |(): &mut (), number| make(number, supports_external_writes),
            |done| {
                let (raw, number) = (done.raw, done.number);
                match (write(done)?, &mut remote_writes) {
                    (Written::Here(buffer), _) => budget.spare.give_back(buffer),
                    (Written::At(node, kept, reserved), Some(remote_writes)) => {
                        remote_writes.send(node, RemoteWrite { number, kept, reserved })?;
                    }
                    (Written::At(..), None) => return Err(Error::internal("a place that there is not")),
                    (Written::Nothing, _) => {}
                }
                progress.advance(raw);
                Ok(())
            },
        )?;
        remote_writes.map_or(Ok(Vec::new()), RemoteWrites::finish)
    })
}

/// What became of a chunk at the sink.
enum Written {
    /// It was left out.
    Nothing,
    /// It was written from this buffer.
    Here(Vec<u8>),
    /// Its offset is reserved, at which the node of this number writes it.
    At(usize, PendingChunk, ReservedOffset),
}

/// What encoding takes.
#[derive(Default)]
struct Worker {
    encoders: CachedEncoders,
    buffers: Buffers,
}

/// What reading takes.
#[derive(Default)]
struct Lane {
    region: Vec<u8>,
    padded: Vec<u8>,
}

/// Where a chunk is.
struct Located {
    position: Vec<u64>,
    /// Its number in the variable, row-major.
    number: u64,
    /// Its elements, clipped to the variable.
    region: Region,
    /// Bytes of those.
    raw: u64,
}

impl VariableWork<'_> {
    /// The chunk whose turn in the variable this is.
    fn locate(&self, bands: &Bands<'_>, turn: u64) -> Located {
        let shape = &self.variable.shape;
        let position = if bands.is_banded() {
            chunk_position(shape, self.chunk, turn)
        } else {
            grouped_position(&self.grid, &self.block, turn)
        };
        let number = position.iter().zip(&self.grid).fold(0, |at, (position, chunks)| at * chunks + position);
        let region = chunk_region(shape, self.chunk, &position);
        let raw = region.count.iter().product::<u64>() * self.variable.dtype.size() as u64;
        Located { position, number, region, raw }
    }
}

impl Located {
    /// What cannot be read is named by its own place; chunks of the output may be others.
    fn tell(&self, error: Error, work: &VariableWork<'_>, source: &dyn Source) -> Error {
        let is_named = error.to_string().contains("chunk (");
        let error = if is_named { error } else { in_chunk(error, &self.position, &self.region.start) };
        error.at_variable_once(work.variable.name()).at_once(&source.path().display().to_string())
    }

    /// The chunk as it was encoded here, if it was written. It has its variable's place among the works, and its number.
    fn done(self, (at, number): (usize, u64), content: Option<(Content, ChunkOutcome)>) -> Done {
        Done {
            work: at,
            position: self.position,
            content,
            number,
            raw: self.raw,
            encoded: Where::Here,
            read_seconds: 0.0,
        }
    }

    /// The chunk as another node has encoded it, or this one before.
    fn done_before(self, chunk: Encoded, place: (usize, u64)) -> Done {
        let encoded = if chunk.is_ahead() { Where::Ahead } else { Where::Remote };
        Done { encoded, ..self.done(place, Some((chunk.content, chunk.outcome))) }
    }
}

impl Lane {
    /// Reads a chunk of `work`; `None` if it was never written. Returns how long that took, too, in seconds of processor time.
    fn read(&mut self, bands: &Bands<'_>, work: &VariableWork<'_>, located: &Located) -> Result<Option<(&[u8], f64)>> {
        let source = bands.source();
        if !source.is_written(work.index, &located.region) {
            bands.pass(located.number);
            return Ok(None);
        }
        let begin = thread_seconds();
        bands.read(located.number, &mut self.region).map_err(|error| located.tell(error, work, source))?;
        let read_seconds = thread_seconds() - begin;
        let count = &located.region.count;
        if count == work.chunk {
            return Ok(Some((&self.region, read_seconds)));
        }
        pad_chunk(&self.region, count, work.chunk, &work.variable.padding_bytes(), &mut self.padded);
        Ok(Some((&self.padded, read_seconds)))
    }
}

/// Writes a chunk, or reserves an offset for it.
fn write(sink: &mut dyn Sink, works: &[VariableWork<'_>], execution: &mut Execution, done: Done) -> Result<Written> {
    let work = &works[done.work];
    let report = execution.variables.entry(work.index).or_default();
    report.raw_bytes += done.raw;
    let Some((content, outcome)) = done.content else { return Ok(Written::Nothing) };
    report.encoded_bytes += content.length();
    report.chunks += 1;
    report.elsewhere_chunks += u64::from(done.encoded == Where::Remote);
    report.placed_chunks += u64::from(matches!(content, Content::At(..)));
    report.ahead_chunks += u64::from(done.encoded == Where::Ahead);
    report.stored_chunks += u64::from(outcome.stored);
    report.fallback_chunks += u64::from(outcome.fell_back);
    report.refuted_chunks += u64::from(outcome.refuted);
    report.encode_seconds += outcome.encode_seconds;
    report.decode_seconds += outcome.decode_seconds;
    report.observed = match (report.observed, outcome.observed) {
        (Some(a), Some(b)) => Some(a.merge(b)),
        (a, b) => a.or(b),
    };
    let (variable, position, filter_mask) = (work.index, done.position.as_slice(), outcome.filter_mask);
    let written = match content {
        Content::Bytes(bytes) => {
            sink.put(EncodedChunk { variable, position, bytes: &bytes, filter_mask }).map(|()| Written::Here(bytes))
        }
        Content::At(node, kept) => {
            let chunk = ChunkToReserve { variable, position, length: kept.length, filter_mask };
            sink.reserve(chunk).map(|reserved| Written::At(node, kept, reserved))
        }
    };
    written.map_err(|error| error.at_variable(work.variable.name()))
}

/// What readers of the whole output need: the most demanding of its variables.
pub fn most_demanding(plan: &Plan) -> ReaderLevel {
    plan.choices().map(|choice| choice.reader).max().unwrap_or(ReaderLevel::Core)
}
