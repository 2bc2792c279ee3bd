//! Planning of one variable: whether it is encoded at all, and what its choice depends on.

use crate::energy::thread_seconds;
use crate::pipeline::execution::execute::largest_chunk;
use crate::pipeline::planning::choice::{ChoiceJob, Given, SAMPLES, named};
use crate::pipeline::planning::earlier;
use crate::pipeline::planning::planned::{self, Planned};
use crate::settings::{ChunkRule, Settings, VariableSettings, chunk_shape, small_chunks, within_limits};
use crate::store::Source;
use crate::threads::engine::Engine;
use knarr_array::array::{ArraySpec, is_constant};
use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, Result};
use knarr_array::filter::FilterId;
use knarr_array::model::{StorageLayout, Variable};
use knarr_array::quality::{Bound, Quality};
use knarr_array::region::{Region, chunk_count, chunk_position, chunk_region};
use knarr_choose::choose::{PREDICTION_SAMPLE, middle, sample_regions};
use knarr_choose::features::Features;
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Action, Choice, VariablePlan};
use knarr_choose::predictor::Subject;
use knarr_codec::chain::StepSpec;
use knarr_codec::codec::{Options, Provider, ReaderLevel, registered};

/// Variables smaller than this are copied: a filter saves less than its header costs.
const WORTH_ENCODING: u64 = 2048;
/// Why a variable without chunks stays so.
const INDEX_COSTS_MORE: &str = "an index of chunks takes more than a filter saves";
/// Variables that are so large a part of all that is encoded are looked at more closely.
const WEIGHTY: u64 = 8;
/// Variables from this size on have as many samples as that.
const SEVERAL: u64 = 2 << 20;
/// HDF5's filter of that name.
const FLETCHER32: FilterId = 3;

/// What is known of a variable before chains are tried.
pub(in crate::pipeline) struct Prepared {
    step: Step,
    /// What was seen of the values of one in a crowd.
    pub(in crate::pipeline) subject: Option<Subject>,
    /// What was asked for that the variable cannot have.
    unmet: Vec<String>,
    /// Processor time that it took.
    seconds: f64,
}

impl Prepared {
    /// What the choice depends on, if there is one to make.
    pub(in crate::pipeline) fn open(&self) -> Option<&Open> {
        match &self.step {
            Step::Open(open) => Some(open),
            Step::Done(_) => None,
        }
    }
}

/// How far planning comes without a look at the values.
enum Step {
    /// Decided.
    Done(Action),
    /// To be chosen.
    Open(Box<Open>),
}

/// What the choice for a variable depends on besides its values.
#[derive(Clone, PartialEq)]
pub(in crate::pipeline) struct Open {
    settings: VariableSettings,
    bound: Option<Bound>,
    chunk: Vec<u64>,
    spec: ArraySpec,
    small: bool,
    asked: bool,
    /// Why the chain was chosen before, if the user gave a plan.
    planned: Option<String>,
}

/// A choice that was made.
pub(in crate::pipeline) struct Chosen {
    pub(in crate::pipeline) choice: Choice,
    /// What was asked for that the variable cannot have.
    pub(in crate::pipeline) unmet: Vec<String>,
}

/// Plans one variable.
pub(in crate::pipeline) struct Planner<'a> {
    pub(in crate::pipeline) engine: &'a Engine,
    pub(in crate::pipeline) source: &'a dyn Source,
    pub(in crate::pipeline) settings: &'a Settings,
    pub(in crate::pipeline) coordinates: &'a Coordinates,
    pub(in crate::pipeline) target: FormatLimits,
    pub(in crate::pipeline) given: Given,
    pub(in crate::pipeline) index: usize,
    /// Bytes of the values of all variables.
    pub(in crate::pipeline) total: u64,
    pub(in crate::pipeline) variable: &'a Variable,
    /// What the plan that the user gave says of it.
    pub(in crate::pipeline) planned: Option<&'a VariablePlan>,
    /// What was chosen for a variable of this name in an earlier file.
    pub(in crate::pipeline) earlier: Option<&'a VariablePlan>,
}

impl Planner<'_> {
    /// All that is known before chains are tried; of one in a crowd also what its values look like.
    pub(in crate::pipeline) fn prepare(&self, in_crowd: bool) -> Result<Prepared> {
        let begin = thread_seconds();
        let mut unmet = Vec::new();
        let step = self.begin(&mut unmet)?;
        let subject = match &step {
            Step::Open(open) if in_crowd => self.look(open)?,
            _ => None,
        };
        Ok(Prepared { step, subject, unmet, seconds: thread_seconds() - begin })
    }

    /// The plan, with the choice where one was to be made.
    pub(in crate::pipeline) fn plan(&self, prepared: Prepared, choice: Option<Chosen>) -> Result<VariablePlan> {
        let variable = self.variable;
        let mut unmet = prepared.unmet;
        let action = match (prepared.step, choice) {
            (Step::Open(open), Some(chosen)) => {
                unmet.extend(chosen.unmet);
                self.finish(&open, chosen.choice, prepared.seconds)
            }
            (Step::Open(_), None) => return Err(Error::internal("no choice was made")),
            (Step::Done(action), _) => action,
        };
        Ok(VariablePlan {
            path: variable.path.clone(),
            dtype: variable.dtype,
            shape: variable.shape.clone(),
            raw_bytes: variable.raw_bytes(),
            action,
            unmet,
        })
    }

    /// What is decided without a look at the values, or what a choice depends on.
    fn begin(&self, unmet: &mut Vec<String>) -> Result<Step> {
        let variable = self.variable;
        let copy = |why: &str| Ok(Step::Done(Action::Copy(why.to_owned())));
        if let Some(why) = &variable.copied_because {
            return copy(why);
        }
        if variable.is_empty() {
            return copy("no values");
        }
        if variable.shape.is_empty() {
            return copy("scalar");
        }
        let (mut settings, planned) = match self.planned.map(|planned| planned::read(planned, variable)).transpose()? {
            Some(Planned::Encode(settings, choice)) => (settings, Some(choice)),
            // What is stored may be what readers of the output lack.
            Some(Planned::Copy(why)) if variable.filters.is_empty() || self.may_keep_filters() => return copy(why),
            _ => (self.asked(unmet)?, None),
        };
        let chunk = self.chunk(&mut settings, unmet)?;
        let asked = settings.chain.is_some() || !settings.quality.is_lossless();
        let small = variable.raw_bytes() < WORTH_ENCODING && !asked && self.target.is_hdf5();
        let shaped = matches!(settings.chunks, ChunkRule::Shape(_));
        let is_as_stored = self.stored_chunk() == Some(&chunk);
        if small && self.may_keep_filters() && (is_as_stored || (self.stored_chunk().is_none() && !shaped)) {
            return copy("under 2 KiB: too small to gain");
        }
        let most = variable.raw_bytes();
        if settings.chain.is_none() && !shaped && self.index_bytes(&chunk).is_some_and(|index| most <= index) {
            return copy(INDEX_COSTS_MORE);
        }
        // It takes no room as it is.
        let whole = Region::whole(&variable.shape);
        if !asked && self.target.is_hdf5() && !self.source.is_written(self.index, &whole) {
            return copy("nothing was written into it");
        }
        let bound = self.bound(&settings)?;
        if let Some(choice) = planned {
            settings.chain = Some(planned::chain_for(choice, bound.as_ref()));
        }
        let planned = planned.map(|choice| planned::as_planned(&choice.reason));
        let spec = variable.chunk_spec(&chunk);
        let mut open = Open { settings, bound, chunk, spec, small, asked, planned };
        if self.settings.lenient
            && open.planned.is_none()
            && let Some(chain) = &open.settings.chain
            && self.met(self.job(&open, most).checked(chain), unmet)?.is_none()
        {
            open.settings.chain = None;
            open.asked = open.bound.is_some();
        }
        Ok(Step::Open(Box::new(open)))
    }

    /// What is asked of the variable.
    fn asked(&self, unmet: &mut Vec<String>) -> Result<VariableSettings> {
        let of = |settings: &Settings| settings.of(self.coordinates, self.variable);
        match self.met(of(self.settings), unmet)? {
            Some(settings) => Ok(settings),
            None => of(&self.settings.without_bounds()),
        }
    }

    /// Its chunks. If it cannot have those that were asked for, the settings are those of variables of which nothing is asked.
    fn chunk(&self, settings: &mut VariableSettings, unmet: &mut Vec<String>) -> Result<Vec<u64>> {
        let variable = self.variable;
        let chunk = match self.met(chunk_shape(&settings.chunks, variable), unmet)? {
            Some(chunk) => chunk,
            None => {
                settings.chunks = self.coordinates.least_chunk(variable).map_or(ChunkRule::Auto, ChunkRule::AtLeast);
                chunk_shape(&settings.chunks, variable)?
            }
        };
        let bytes = chunk.iter().product::<u64>().saturating_mul(variable.dtype.size() as u64);
        let chunk = match largest_chunk(self.engine) {
            most if self.settings.lenient && bytes > most => {
                if !matches!(settings.chunks, ChunkRule::Auto | ChunkRule::AtLeast(_)) {
                    unmet.push("a chunk takes more memory while it is encoded than --max-mem allows".to_owned());
                }
                small_chunks(variable, most)
            }
            _ => chunk,
        };
        let is_hdf5 = self.target.is_hdf5();
        Ok(if is_hdf5 { within_limits(chunk, variable) } else { chunk })
    }

    /// What was asked for; nothing, and a word of it, if the variable cannot have it and that is no error.
    fn met<T>(&self, asked: Result<T>, unmet: &mut Vec<String>) -> Result<Option<T>> {
        match asked {
            Err(error) if self.settings.lenient && error.is_of_options() => {
                let words = error.without_advice();
                let words = words.strip_prefix(&format!("variable '{}': ", self.variable.name())).unwrap_or(&words);
                if !unmet.iter().any(|known| known == words) {
                    unmet.push(words.to_owned());
                }
                Ok(None)
            }
            asked => asked.map(Some),
        }
    }

    /// What choices depend on besides names: variables that look alike get the chain of one of them.
    fn look(&self, open: &Open) -> Result<Option<Subject>> {
        let job = self.job(open, self.variable.raw_bytes());
        if open.small || job.is_settled() || job.is_believed() {
            return Ok(None);
        }
        Ok(Some(job.look(&self.samples(&open.chunk, 1, u64::MAX)?)))
    }

    /// The choice by the values alone, for variables of `served` bytes together.
    pub(in crate::pipeline) fn choose(&self, open: &Open, served: u64) -> Result<Chosen> {
        let begin = thread_seconds();
        let mut unmet = Vec::new();
        let choice = match self.met(self.choice(open, served), &mut unmet)? {
            Some(choice) => choice,
            None => self.choice_of_less(open.clone(), served, &mut unmet)?,
        };
        Ok(Chosen { choice: Choice { seconds: thread_seconds() - begin, ..choice }, unmet })
    }

    /// The choice without a chain that does not serve; without a bound either, if no chain keeps it.
    fn choice_of_less(&self, mut open: Open, served: u64, unmet: &mut Vec<String>) -> Result<Choice> {
        open.settings.chain = None;
        if let Some(choice) = self.met(self.choice(&open, served), unmet)? {
            return Ok(choice);
        }
        (open.settings.quality, open.bound) = (Quality::LOSSLESS, None);
        self.choice(&open, served)
    }

    fn choice(&self, open: &Open, served: u64) -> Result<Choice> {
        let (variable, job) = (self.variable, self.job(open, served));
        if job.is_settled() {
            return job.settled();
        }
        if open.small {
            // A filter saves less than its header costs; chunks of one element cost more than the values.
            let why = match (&open.settings.chunks, self.may_keep_filters()) {
                (ChunkRule::Shape(_), _) => "under 2 KiB: chunks as asked",
                (_, true) => "under 2 KiB: one chunk of small ones",
                (_, false) => "under 2 KiB: without its filters, which readers need not have",
            };
            return Ok(job.raw(Features::default(), Vec::new(), 0, why));
        }
        // A part of a chunk that is compressed takes as long as the chunk, and the source would keep the rest.
        let is_plain = variable.chain == "raw";
        let samples = match job.is_believed() {
            true if is_plain => self.samples(&open.chunk, SAMPLES, PREDICTION_SAMPLE as u64)?,
            false if variable.raw_bytes() >= SEVERAL => self.samples(&open.chunk, SAMPLES, u64::MAX)?,
            _ => self.samples(&open.chunk, 1, u64::MAX)?,
        };
        if let (Some(before), None) = (self.earlier, &open.settings.chain)
            && let kept = (open.settings.quality, open.bound.as_ref())
            && let Some(choice) =
                earlier::as_earlier(before, (&open.spec, &open.chunk), kept, &job.look(&samples).features)
            && job.can_have(&choice.chain)
        {
            return Ok(choice);
        }
        job.choose(&samples)
    }

    /// What becomes of the variable with this choice, to which `seconds` were prepared: what is stored may be better already.
    fn finish(&self, open: &Open, mut choice: Choice, seconds: f64) -> Action {
        let variable = self.variable;
        if !open.asked && self.stored_chunk() == Some(&open.chunk) && self.is_kept(&choice) {
            return Action::Copy(format!("already as small: {}", variable.chain));
        }
        let is_shaped = matches!(open.settings.chunks, ChunkRule::Shape(_));
        let is_free = open.settings.chain.is_none() && !is_shaped;
        if is_free && self.index_bytes(&open.chunk).is_some_and(|index| self.saves(&choice) <= index) {
            return Action::Copy(INDEX_COSTS_MORE.to_owned());
        }
        if let Some(why) = open.settings.kept_lossless {
            choice.reason = format!("{why}; {}", choice.reason);
        }
        if open.settings.chain.is_none() {
            self.keep_checksum(&mut choice);
        }
        if let Some(reason) = &open.planned {
            choice.reason.clone_from(reason);
        }
        choice.seconds += seconds;
        Action::Encode(Box::new(choice))
    }

    fn job<'b>(&'b self, open: &'b Open, raw_bytes: u64) -> ChoiceJob<'b> {
        ChoiceJob {
            engine: self.engine,
            goal: &self.settings.goal,
            target: self.target,
            named: named(self.settings.portable, self.target),
            filters: self.settings.filters,
            among: None,
            bound: open.bound,
            settings: &open.settings,
            given: if open.planned.is_some() { Given::Planned } else { self.given },
            spec: &open.spec,
            weighty: raw_bytes >= self.total / WEIGHTY,
            raw_bytes,
            chunk: open.chunk.clone(),
        }
    }

    fn stored_chunk(&self) -> Option<&Vec<u64>> {
        match &self.variable.layout {
            StorageLayout::Chunked(stored) => Some(stored),
            _ => None,
        }
    }

    /// Bytes that an index of chunks takes which the variable does not need otherwise.
    fn index_bytes(&self, chunk: &[u64]) -> Option<u64> {
        let variable = self.variable;
        let grows = variable.max_shape.iter().zip(&variable.shape).any(|(limit, extent)| *limit != Some(*extent));
        let low = self.settings.libver.low;
        if !self.target.is_hdf5() || grows || self.stored_chunk().is_some() || !low.indexes_by_tree() {
            return None;
        }
        Some(low.chunk_index_bytes(chunk_count(&variable.shape, chunk), variable.shape.len() as u64))
    }

    /// Bytes that the choice is expected to save.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
    fn saves(&self, choice: &Choice) -> u64 {
        let raw = self.variable.raw_bytes() as f64;
        (raw - raw / choice.expected.ratio).max(0.0) as u64
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
            let region = chunk_region(&variable.shape, &whole, &chunk_position(&variable.shape, &whole, index));
            self.source.read_region(self.index, &region, &mut bytes)?;
            let found = mine.quality.valid_range(&variable.chunk_spec(&region.count), &bytes);
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
            let region = middle(region, element, bytes);
            let mut values = Vec::new();
            self.source.read_region(self.index, &region, &mut values)?;
            let sample = (variable.chunk_spec(&region.count), values);
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

    /// Appends Fletcher's checksum where the variable has one and filters of HDF5 hold its chunks. Frames of Knarr's
    /// filter have checksums of their own.
    fn keep_checksum(&self, choice: &mut Choice) {
        let has_checksum = self.variable.filters.iter().any(|filter| filter.id == FLETCHER32);
        let is_standard = self.target.is_hdf5() && choice.reader < ReaderLevel::Knarr;
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
        let needs = ReaderLevel::of_filters(ids());
        self.target.is_hdf5() && needs <= self.target.allowed && !ids().any(is_optional)
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
        let merits = knarr_array::goal::Merits { ratio, ..choice.expected };
        self.settings.goal.score(&merits) >= self.settings.goal.score(&choice.expected)
    }
}
