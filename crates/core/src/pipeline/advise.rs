//! Planning: what happens to each variable of a source.

use super::{chunk_count, chunk_position, chunk_region};
use crate::array::{ArraySpec, is_constant};
use crate::chain::{Chain, ChainSpec, StepSpec};
use crate::choose::{
    Target, Trials, all_chains, cut, cut_samples, expected_speed, look, middle, predict, readable, reason, run_rounds,
    sample_regions, trial, trial_share,
};
use crate::codec::{FilterId, FilterSet, Loss, Options, Provider, Reader, filter_name, registered};
use crate::coordinates::Coordinates;
use crate::energy::thread_seconds;
use crate::engine::{Engine, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::features::Features;
use crate::model::Variable;
use crate::plan::{Action, Candidate, Choice, FileState, Plan, VariablePlan, Wider};
use crate::predictor::Beliefs;
use crate::quality::Bound;
use crate::settings::{ChunkRule, Settings, VariableSettings, chunk_shape, within_limits};
use crate::store::Source;

/// Variables smaller than this are copied: a filter saves less than its header costs.
const WORTH_ENCODING: u64 = 2048;
/// A ratio that is not worth a decoder.
const INCOMPRESSIBLE: f64 = 1.01;
/// Seconds of one core that trials may take however small a variable is.
const LEAST_TRIALS: f64 = 0.0005;
/// Trials of data that shrink very much, or repeat themselves far away, may take so many times as long as others, and so
/// many seconds of one core, by a profile that knows little of data that fast.
const PATIENCE: f64 = 4.0;
const MOST_TRIALS: f64 = 0.03;
/// Full chunks looked at per variable, at most.
const SAMPLES: usize = 3;
/// Variables from this size on have as many samples as that.
const SEVERAL: u64 = 2 << 20;
/// Bytes of the samples that features are computed from.
const FEATURES: usize = 768 << 10;
/// Fewer do where nothing is tried: they only tell what a given chain will meet.
const FEATURES_BELIEVED: usize = 8 << 10;
/// Bytes of an array in memory that trials see at most.
const LARGEST_SAMPLE: usize = 64 << 20;
/// Variables from this size on are looked at for readers that need more, too: that takes at most such a share of the time
/// of encoding, for trials on so many bytes. Smaller ones say little of a file.
const WORTH_COMPARING: u64 = 4 << 20;
const COMPARING: f64 = 0.01;
const COMPARED: usize = 64 << 10;
/// HDF5's filter of that name.
const FLETCHER32: FilterId = 3;
/// Why a chain was taken that the user gave.
const AS_ASKED: &str = "as asked";

/// Plans every variable of `source` for an output of kind `target`, with what to expect of each chain.
///
/// # Errors
/// `Usage` for settings that name unknown variables; `Quality` or `Unsupported` for requests that cannot be
/// served; what reading the samples reports.
pub fn advise(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: Target,
    progress: &dyn Progress,
) -> Result<Plan> {
    plan_each(engine, source, settings, target, Given::Tried, progress)
}

/// As [`advise`], for what is carried out at once: chains that were given are not tried, since writing will tell what
/// they reach.
///
/// # Errors
/// As for [`advise`].
pub fn plan(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: Target,
    progress: &dyn Progress,
) -> Result<Plan> {
    plan_each(engine, source, settings, target, Given::Believed, progress)
}

/// What becomes of chains that leave no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// They are tried on samples like others.
    Tried,
    /// The model says what to expect.
    Believed,
}

fn plan_each(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: Target,
    given: Given,
    progress: &dyn Progress,
) -> Result<Plan> {
    engine.bound(source);
    let model = source.model();
    settings.check_names(model)?;
    let total = model.variables.iter().map(Variable::raw_bytes).sum();
    progress.begin("choosing", total);
    let coordinates = Coordinates::of(model);
    let variables = engine.parallel(model.variables.len(), |index| {
        let (variable, coordinates) = (&model.variables[index], &coordinates);
        let planner = Planner { engine, source, settings, coordinates, target, given, index, variable };
        let plan = planner.plan().map_err(|error| error.at_variable_once(model.variables[index].name()))?;
        progress.advance(model.variables[index].raw_bytes());
        Ok(plan)
    })?;
    Ok(plan_of(engine, source, settings, target.allowed(), variables))
}

/// The plan of a file from those of its variables, whose readers need at most `portable`.
pub fn plan_of(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    portable: Reader,
    variables: Vec<VariablePlan>,
) -> Plan {
    Plan {
        version: crate::plan::VERSION,
        program: concat!("knarr ", env!("CARGO_PKG_VERSION")).to_owned(),
        input: source.path().display().to_string(),
        input_file: FileState::of(source.path()),
        goal: settings.goal.clone(),
        portable,
        profile: engine.profile.machine.clone(),
        energy_source: engine.profile.power.source.clone(),
        variables,
    }
}

/// Chooses a chain for one array in memory: what bindings use. `among` are the chains that whoever writes it can write,
/// if that is less than `target` can hold.
///
/// # Errors
/// As for [`advise`].
pub fn plan_array(
    engine: &Engine,
    spec: &ArraySpec,
    bytes: &[u8],
    settings: &VariableSettings,
    goal: &crate::goal::Goal,
    target: Target,
    among: Option<&[ChainSpec]>,
) -> Result<Choice> {
    let begin = thread_seconds();
    settings.quality.validate(spec.dtype)?;
    let bound = settings.quality.bound_of(spec, bytes);
    let samples = vec![cut(spec, bytes, LARGEST_SAMPLE)];
    let chunk: Vec<u64> = spec.shape.iter().map(|&n| n as u64).collect();
    let (given, raw_bytes) = (Given::Believed, bytes.len() as u64);
    let named = target;
    let filters = None;
    let job = ChoiceJob { engine, goal, target, named, filters, among, bound, settings, given, spec, raw_bytes, chunk };
    let choice = job.choose(&samples)?;
    Ok(Choice { seconds: thread_seconds() - begin, ..choice })
}

struct Planner<'a> {
    engine: &'a Engine,
    source: &'a dyn Source,
    settings: &'a Settings,
    coordinates: &'a Coordinates,
    target: Target,
    given: Given,
    index: usize,
    variable: &'a Variable,
}

impl Planner<'_> {
    fn plan(&self) -> Result<VariablePlan> {
        let variable = self.variable;
        Ok(VariablePlan {
            path: variable.path.clone(),
            dtype: variable.dtype,
            shape: variable.shape.clone(),
            raw_bytes: variable.raw_bytes(),
            action: self.action()?,
        })
    }

    fn action(&self) -> Result<Action> {
        let variable = self.variable;
        let mine = self.settings.of(self.coordinates, variable)?;
        if let Some(why) = &variable.copied_because {
            return Ok(Action::Copy(why.clone()));
        }
        if variable.is_empty() {
            return Ok(Action::Copy("no values".to_owned()));
        }
        if variable.shape.is_empty() {
            return Ok(Action::Copy("scalar".to_owned()));
        }
        let begin = thread_seconds();
        let mut chunk = chunk_shape(&mine.chunks, variable)?;
        if matches!(self.target, Target::Hdf5(_)) {
            chunk = within_limits(chunk, variable);
        }
        let forced = mine.chain.as_ref();
        let stored = match &variable.layout {
            crate::model::Layout::Chunked(stored) => Some(stored),
            _ => None,
        };
        let same_chunks = stored == Some(&chunk);
        let asked = forced.is_some() || !mine.quality.is_lossless();
        let small = variable.raw_bytes() < WORTH_ENCODING && !asked && matches!(self.target, Target::Hdf5(_));
        let shaped = matches!(mine.chunks, ChunkRule::Shape(_));
        let keeps = self.may_keep_filters();
        if small && keeps && (same_chunks || (stored.is_none() && !shaped)) {
            return Ok(Action::Copy("under 2 KiB".to_owned()));
        }
        let bound = self.bound(&mine)?;
        let spec = variable.chunk_spec(&chunk);
        let job = ChoiceJob {
            engine: self.engine,
            goal: &self.settings.goal,
            target: self.target,
            named: self.named(),
            filters: self.settings.filters,
            among: None,
            bound,
            settings: &mine,
            given: self.given,
            spec: &spec,
            raw_bytes: variable.raw_bytes(),
            chunk,
        };
        let mut choice = if job.is_settled() {
            job.settled()?
        } else if small {
            // A filter saves less than its header costs; chunks of one element cost more than the values.
            let why = match (shaped, keeps) {
                (true, _) => "under 2 KiB: chunks as asked",
                (false, true) => "under 2 KiB: one chunk of small ones",
                (false, false) => "under 2 KiB: without its filters, which readers need not have",
            };
            job.raw(Features::default(), Vec::new(), 0, why)
        } else {
            // A part of a chunk that is compressed takes as long as the chunk, and the source would keep the rest.
            let is_plain = variable.chain == "raw";
            let samples = match job.is_believed() {
                true if is_plain => self.samples(&job.chunk, SAMPLES, FEATURES_BELIEVED as u64)?,
                false if variable.raw_bytes() >= SEVERAL => self.samples(&job.chunk, SAMPLES, u64::MAX)?,
                _ => self.samples(&job.chunk, 1, u64::MAX)?,
            };
            job.choose(&samples)?
        };
        if !asked && same_chunks && self.is_kept(&choice) {
            return Ok(Action::Copy(format!("already as small: {}", variable.chain)));
        }
        if let Some(why) = mine.kept_lossless {
            choice.reason = format!("{why}; {}", choice.reason);
        }
        if mine.chain.is_none() {
            self.keep_checksum(&mut choice);
        }
        choice.seconds = thread_seconds() - begin;
        Ok(Action::Encode(Box::new(choice)))
    }

    /// Resolves the quality; the valid range takes a pass over all values.
    fn bound(&self, mine: &VariableSettings) -> Result<Option<Bound>> {
        if !mine.quality.needs_range() {
            return Ok(mine.quality.bound(None));
        }
        let variable = self.variable;
        let whole = chunk_shape(&ChunkRule::Keep, variable)?;
        let mut range: Option<(f64, f64)> = None;
        let mut bytes = Vec::new();
        for index in 0..chunk_count(&variable.shape, &whole) {
            self.engine.check_cancelled()?;
            let (start, count) = chunk_region(&variable.shape, &whole, &chunk_position(&variable.shape, &whole, index));
            self.source.read_region(self.index, &start, &count, &mut bytes)?;
            let found = mine.quality.valid_range(&variable.chunk_spec(&count), &bytes);
            range = match (range, found) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (a, b) => a.or(b),
            };
        }
        Ok(mine.quality.bound(range))
    }

    /// Up to `most` whole chunks, or about `bytes` from the middle of each.
    fn samples(&self, chunk: &[u64], most: usize, bytes: u64) -> Result<Vec<(ArraySpec, Vec<u8>)>> {
        let variable = self.variable;
        let element = variable.dtype.size() as u64;
        let mut samples: Vec<(ArraySpec, Vec<u8>)> = Vec::new();
        let mut constant = None;
        for region in sample_regions(&variable.shape, chunk, element, SAMPLES) {
            let (start, count) = middle(region, element, bytes);
            let mut values = Vec::new();
            self.source.read_region(self.index, &start, &count, &mut values)?;
            let sample = (variable.chunk_spec(&count), values);
            // A chunk of nothing but fill says nothing about the others.
            if is_constant(variable.dtype.size(), &sample.1) {
                constant = Some(sample);
            } else {
                samples.push(sample);
            }
            if samples.len() >= most {
                break;
            }
        }
        if samples.is_empty() {
            samples.extend(constant);
        }
        Ok(samples)
    }

    /// What chains that the user names may need: every registered filter or codec, unless it was said that readers have
    /// less, or have more.
    fn named(&self) -> Target {
        let reader = match self.settings.portable {
            None => self.target.allowed().max(Reader::Standard),
            Some(Reader::NetCdf) => Reader::Standard,
            Some(reader) => reader,
        };
        self.target.for_reader(reader)
    }

    /// Appends Fletcher's checksum where the variable has one and filters of HDF5 hold its chunks. Frames of Knarr's
    /// filter have checksums of their own.
    fn keep_checksum(&self, choice: &mut Choice) {
        let has_checksum = self.variable.filters.iter().any(|filter| filter.id == FLETCHER32);
        let is_standard = matches!(self.target, Target::Hdf5(_)) && choice.reader < Reader::Knarr;
        let is_had = self.settings.filters.is_none_or(|had| had.has(FLETCHER32));
        if has_checksum && is_standard && is_had && !choice.chain.is_raw() {
            let step = StepSpec { name: "fletcher32".to_owned(), bare: None, options: Options::default() };
            choice.chain.0.push(step.clone());
            choice.fallback.iter_mut().for_each(|chain| chain.0.push(step.clone()));
        }
    }

    /// True if readers that are allowed have the filters of what is stored, and every HDF5 can make a dataset with them:
    /// szip is a part of it that builds leave out.
    fn may_keep_filters(&self) -> bool {
        let ids = || self.variable.filters.iter().map(|filter| filter.id);
        let is_optional = |id| registered(id).is_some_and(|filter| filter.provider == Provider::Hdf5WithSzip);
        let needs = Reader::of_filters(ids());
        matches!(self.target, Target::Hdf5(allowed) if needs <= allowed) && !ids().any(is_optional)
    }

    /// True if what is stored already serves the goal better than the choice, for readers that are allowed.
    fn is_kept(&self, choice: &Choice) -> bool {
        let variable = self.variable;
        let Some(stored) = variable.stored_bytes else { return false };
        if variable.filters.is_empty() || stored == 0 || !self.may_keep_filters() {
            return false;
        }
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let ratio = variable.raw_bytes() as f64 / stored as f64;
        // Writing costs nothing then, which must not count: the question is what the result is worth.
        let merits = crate::goal::Merits { ratio, ..choice.expected };
        self.settings.goal.score(&merits) >= self.settings.goal.score(&choice.expected)
    }
}

/// One choice, with everything it depends on.
struct ChoiceJob<'a> {
    engine: &'a Engine,
    goal: &'a crate::goal::Goal,
    target: Target,
    /// What a chain that the user gave must fit into.
    named: Target,
    /// HDF5 filters that the reader has, where that is known.
    filters: Option<FilterSet>,
    /// Chains that may be chosen, if not all that the target can hold.
    among: Option<&'a [ChainSpec]>,
    bound: Option<Bound>,
    settings: &'a VariableSettings,
    given: Given,
    spec: &'a ArraySpec,
    raw_bytes: u64,
    chunk: Vec<u64>,
}

impl ChoiceJob<'_> {
    /// True if values are to be stored as they are: nothing that could be found in them would matter.
    fn is_settled(&self) -> bool {
        self.bound.is_none() && self.settings.chain.as_ref().is_some_and(ChainSpec::is_raw)
    }

    /// True if nothing is tried: there is nothing to choose, and nothing that could miss a bound.
    fn is_believed(&self) -> bool {
        self.given == Given::Believed && self.bound.is_none() && self.settings.chain.is_some()
    }

    /// The choice of what was asked for, where nothing else would matter.
    fn settled(self) -> Result<Choice> {
        self.checked(&ChainSpec::raw())?;
        Ok(self.raw(Features::default(), Vec::new(), 0, AS_ASKED))
    }

    fn choose(self, samples: &[(ArraySpec, Vec<u8>)]) -> Result<Choice> {
        let goal = self.goal;
        let (codecs, profile) = (&self.engine.codecs, &self.engine.profile);
        let looked_at = if self.is_believed() { FEATURES_BELIEVED } else { FEATURES };
        let subject = look(codecs, &cut_samples(samples, looked_at, looked_at / SAMPLES), self.bound.as_ref());
        let held = match &self.settings.chain {
            Some(forced) => vec![(self.checked(forced)?, self.target.allowed())],
            None => self.chains(),
        };
        let chains: Vec<ChainSpec> = held.iter().map(|(chain, _)| chain.clone()).collect();
        let mut outlook = self.engine.predictor.outlook(&chains, &subject);
        let features = subject.features;
        let reader_of =
            |candidate: &Candidate| held.iter().find(|(chain, _)| *chain == candidate.chain).map(|held| held.1);
        let (predicted, beyond): (Vec<_>, Vec<_>) = predict(&chains, &outlook, self.goal, profile, codecs)
            .into_iter()
            .partition(|candidate| reader_of(candidate).is_some_and(|reader| reader <= self.target.allowed()));
        let speed = expected_speed(&predicted, self.goal);
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let encoding = self.raw_bytes as f64 / 1e6 / speed;
        let budget = (trial_share(self.raw_bytes, self.engine.patience) * encoding).max(LEAST_TRIALS);
        let most = (PATIENCE * self.engine.patience * encoding).min(MOST_TRIALS).max(budget);
        let (ranked, sample_bytes) = if self.is_believed() {
            (predicted, 0)
        } else {
            let trials = Trials { codecs, profile, goal: self.goal, bound: self.bound.as_ref(), budget, most };
            run_rounds(trials, predicted, &mut outlook.beliefs, samples)
        };
        let Some(best) = ranked.first().cloned() else {
            if self.filters.is_some() {
                return Ok(self.raw(
                    features,
                    ranked,
                    sample_bytes,
                    "the reader has no filter that compresses: stored",
                ));
            }
            return Err(Error::unsupported(format!("no chain serves type {} here", self.spec.dtype))
                .mend("force one with --chain, or allow more with --portable"));
        };
        let beyond: Vec<_> =
            beyond.into_iter().filter_map(|candidate| Some((reader_of(&candidate)?, candidate))).collect();
        let wider = self.wider(&best, &beyond, &outlook.beliefs, samples);
        if let Some(why) = &best.dropped {
            let kind = if self.bound.is_some() { ErrorKind::Quality } else { ErrorKind::Unsupported };
            return Err(Error::new(kind, format!("chain '{}' cannot be used: {why}", best.chain))
                .mend("choose another chain or bound"));
        }
        if self.settings.chain.is_none() && best.merits.ratio < INCOMPRESSIBLE {
            let reason = "nothing tried makes the samples smaller: stored";
            let choice = Choice { wider, ..self.raw(features, ranked, sample_bytes, reason) };
            let missed = goal.missed(&choice.expected);
            return Ok(choice.missing(missed));
        }
        let chain = Chain::prepare(codecs, &best.chain, self.spec)?;
        let missed = goal.missed(&best.merits).filter(|_| self.settings.chain.is_none());
        let choice = Choice {
            chunk: self.chunk,
            fallback: self.target.fallback(codecs, &chain),
            bound: self.bound.filter(|_| chain.loss() == Loss::Lossy),
            reader: self.target.reader(&chain),
            chain: best.chain.clone(),
            quality: self.settings.quality,
            expected: best.merits,
            reason: match &self.settings.chain {
                Some(_) => as_asked(&best.chain),
                None => reason(&ranked, &features, self.goal),
            },
            missed: None,
            wider,
            features,
            candidates: ranked,
            sample_bytes,
            seconds: 0.0,
        };
        Ok(choice.missing(missed))
    }

    /// Candidates with what their readers need: those that are allowed, and others to compare with.
    fn chains(&self) -> Vec<(ChainSpec, Reader)> {
        // Where the reader is known, nobody asks for another.
        let compared = self.raw_bytes >= WORTH_COMPARING && self.among.is_none() && self.filters.is_none();
        let target = if compared { self.target.for_reader(Reader::Knarr) } else { self.target };
        let chains = self.among.map_or_else(|| all_chains(self.bound.as_ref()), <[ChainSpec]>::to_vec);
        let is_had = |spec: &ChainSpec| {
            Chain::prepare(&self.engine.codecs, spec, self.spec).is_ok_and(|chain| self.lacking(&chain).is_none())
        };
        let readable = readable(chains, &self.engine.codecs, self.spec, target);
        readable.into_iter().filter(|(spec, _)| self.filters.is_none() || is_had(spec)).collect()
    }

    /// What each kind of reader that is not allowed would gain over `best`: of the chains `beyond`, one for each is tried on
    /// a part of the samples, as far as that takes next to nothing of the time that encoding takes.
    fn wider(
        &self,
        best: &Candidate,
        beyond: &[(Reader, Candidate)],
        beliefs: &Beliefs,
        samples: &[(ArraySpec, Vec<u8>)],
    ) -> Vec<Wider> {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let mut left = COMPARING * megabytes(self.raw_bytes) / best.merits.encode;
        let part = cut_samples(samples, COMPARED, COMPARED);
        let size = megabytes(part.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        let (profile, codecs) = (&self.engine.profile, &self.engine.codecs);
        let mut try_one = |chain: &ChainSpec, encode: f64| {
            left -= size / encode;
            (left >= 0.0)
                .then(|| trial(codecs, chain, &part, self.bound.as_ref()))
                .filter(|tried| tried.failed.is_none())
        };
        let mut own = None;
        let mut of = |reader: Reader| {
            let scored = beyond.iter().filter(|(needs, _)| *needs <= reader).map(|(_, candidate)| {
                let ratio = beliefs.ratio(&candidate.chain);
                let merits = profile.paced_merits(codecs, &candidate.chain, ratio, candidate.pace);
                (self.goal.score(&merits), merits.encode, candidate)
            });
            let (_, encode, candidate) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
            if own.is_none() {
                own = try_one(&best.chain, best.merits.encode);
            }
            let ratio = best.merits.ratio * try_one(&candidate.chain, encode)?.ratio / own.as_ref()?.ratio;
            let merits = profile.paced_merits(codecs, &candidate.chain, ratio, candidate.pace);
            let ratio = if self.goal.score(&merits) > best.score { ratio } else { best.merits.ratio };
            Some(Wider { reader, ratio })
        };
        let readers = [Reader::NetCdf, Reader::Standard, Reader::Knarr];
        readers.into_iter().filter(|&reader| reader > self.target.allowed()).filter_map(&mut of).collect()
    }

    /// The bytes are stored as they are.
    fn raw(self, features: Features, candidates: Vec<Candidate>, sample_bytes: u64, reason: &str) -> Choice {
        let chain = ChainSpec::raw();
        Choice {
            chunk: self.chunk,
            fallback: None,
            bound: None,
            reader: Reader::Core,
            expected: self.engine.profile.merits(&self.engine.codecs, &chain, 1.0),
            chain,
            quality: self.settings.quality,
            reason: reason.to_owned(),
            missed: None,
            wider: Vec::new(),
            features,
            candidates,
            sample_bytes,
            seconds: 0.0,
        }
    }

    /// A filter of the chain that the reader does not have.
    fn lacking(&self, chain: &Chain) -> Option<FilterId> {
        let had = self.filters?;
        chain.hdf5_pipeline()?.iter().map(|filter| filter.id).find(|&id| !had.has(id))
    }

    /// A chain the user gave: it must serve the type, the target and the promise.
    fn checked(&self, forced: &ChainSpec) -> Result<ChainSpec> {
        let forced = &self.target.chain_asked_for(forced);
        let chain = Chain::prepare(&self.engine.codecs, forced, self.spec)?;
        if chain.loss() == Loss::Lossy && self.bound.is_none() {
            return Err(Error::new(
                ErrorKind::Quality,
                format!("chain '{forced}' changes values, the quality is lossless"),
            )
            .mend("state a bound, for example --max-abs-error, or choose a lossless chain"));
        }
        if !self.named.holds(&chain) {
            let (what, mend) = match self.named {
                Target::Hdf5(Reader::Core) => {
                    ("every HDF5 build can read (--portable core)", "allow plugins with --portable standard")
                }
                Target::Hdf5(_) => {
                    ("a standard HDF5 filter pipeline can hold", "allow Knarr's own filter with --portable knarr")
                }
                Target::Zarr(Reader::Core) if Target::Zarr(Reader::Standard).holds(&chain) => {
                    ("every Zarr v3 library has (--portable core)", "allow those of numcodecs with --portable standard")
                }
                Target::Zarr(_) if Target::Zarr(Reader::Knarr).holds(&chain) => {
                    ("Zarr readers other than Knarr decode", "allow Knarr's own codecs with --portable knarr")
                }
                Target::Zarr(_) => ("Zarr v3 codecs can hold", "choose another chain"),
            };
            return Err(Error::unsupported(format!("chain '{forced}' is more than {what}")).mend(mend));
        }
        if let Some(id) = self.lacking(&chain) {
            let why = format!("chain '{forced}' needs the filter {} ({id}), which the reader lacks", filter_name(id));
            return Err(Error::unsupported(why).mend("choose another chain, or let the program find the plugin"));
        }
        Ok(forced.clone())
    }
}

/// Why a chain was taken that the user gave, with what is odd about it.
fn as_asked(chain: &ChainSpec) -> String {
    match chain.idle_step() {
        Some((idle, compressor)) => format!(
            "{AS_ASKED}; '{idle}' behind '{compressor}' finds nothing to put in order: it belongs in front of it"
        ),
        None => AS_ASKED.to_owned(),
    }
}
