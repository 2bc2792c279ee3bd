//! One choice: the chain of one variable, or of one array in memory, from samples of its values.

use crate::settings::VariableSettings;
use crate::threads::engine::Engine;
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::filter::FilterId;
use knarr_array::quality::Bound;
use knarr_choose::choose::{Budget, Question, Ranked, all_chains, cut_samples, readable, reason, trial};
use knarr_choose::features::Features;
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Candidate, Choice, Wider};
use knarr_choose::predictor::{Beliefs, Subject};
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::codec::{CodecList, FilterSet, Loss, ReaderLevel, filter_name};

/// A ratio that is not worth a decoder.
const INCOMPRESSIBLE: f64 = 1.01;
/// Full chunks looked at per variable, at most.
pub(in crate::pipeline) const SAMPLES: usize = 3;
/// Variables from this size on are looked at for readers that need more, too: that takes at most such a share of the time
/// of encoding, for trials on so many bytes. Smaller ones say little of a file.
const WORTH_COMPARING: u64 = 4 << 20;
const COMPARING: f64 = 0.01;
/// Seconds of one core that it may take in any case for a variable that is a large part of its file.
const LEAST_COMPARING: f64 = 0.006;
const COMPARED: usize = 64 << 10;
/// Why a chain was taken that the user gave.
const AS_ASKED: &str = "as asked";

/// What becomes of chains that leave no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum Given {
    /// They are tried on samples like others.
    Tried,
    /// The model says what to expect.
    Believed,
    /// They were chosen for like data before: the model says what to expect, and chunks that miss the bound are lossless.
    Planned,
}

/// One choice, with everything it depends on.
pub(in crate::pipeline) struct ChoiceJob<'a> {
    pub(in crate::pipeline) engine: &'a Engine,
    pub(in crate::pipeline) goal: &'a knarr_array::goal::Goal,
    pub(in crate::pipeline) target: FormatLimits,
    /// What a chain that the user gave must fit into.
    pub(in crate::pipeline) named: FormatLimits,
    /// HDF5 filters that the reader has, where that is known.
    pub(in crate::pipeline) filters: Option<FilterSet>,
    /// Chains that may be chosen, if not all that the target can hold.
    pub(in crate::pipeline) among: Option<&'a [ChainSpec]>,
    pub(in crate::pipeline) bound: Option<Bound>,
    pub(in crate::pipeline) settings: &'a VariableSettings,
    pub(in crate::pipeline) given: Given,
    pub(in crate::pipeline) spec: &'a ArraySpec,
    /// It is for a large part of a file: what other readers would gain is worth a closer look.
    pub(in crate::pipeline) weighty: bool,
    /// Bytes that it is made for.
    pub(in crate::pipeline) raw_bytes: u64,
    pub(in crate::pipeline) chunk: Vec<u64>,
}

impl ChoiceJob<'_> {
    /// True if values are to be stored as they are: nothing that could be found in them would matter.
    pub(in crate::pipeline) fn is_settled(&self) -> bool {
        self.bound.is_none() && self.settings.chain.as_ref().is_some_and(ChainSpec::is_raw)
    }

    /// True if nothing is tried: there is nothing to choose, and nothing to tell of a bound that is missed.
    pub(in crate::pipeline) fn is_believed(&self) -> bool {
        let is_believed = self.given == Given::Believed && self.bound.is_none();
        self.settings.chain.is_some() && (is_believed || self.given == Given::Planned)
    }

    /// The choice of what was asked for, where nothing else would matter.
    pub(in crate::pipeline) fn settled(self) -> Result<Choice> {
        self.checked(&ChainSpec::raw())?;
        Ok(self.raw(Features::default(), Vec::new(), 0, AS_ASKED))
    }

    /// What prediction needs to know of the samples.
    pub(in crate::pipeline) fn look(&self, samples: &[(ArraySpec, Vec<u8>)]) -> Subject {
        self.engine.chooser(self.goal, self.bound.as_ref()).look(samples, self.budget())
    }

    fn budget(&self) -> Budget {
        match self.is_believed() {
            true => Budget::Prediction,
            false => Budget::Variable { bytes: self.raw_bytes, patience: self.engine.patience },
        }
    }

    /// The chain that serves the goal best, by trials on `samples`.
    pub(in crate::pipeline) fn choose(self, samples: &[(ArraySpec, Vec<u8>)]) -> Result<Choice> {
        let (goal, codecs) = (self.goal, &self.engine.codecs);
        let chooser = self.engine.chooser(goal, self.bound.as_ref());
        let (budget, subject) = (self.budget(), self.look(samples));
        let held = match &self.settings.chain {
            Some(forced) => vec![(self.checked(forced)?, self.target.allowed)],
            None => self.chains(),
        };
        let of = |allowed: bool| {
            let chains = held.iter().filter(|(_, reader)| (*reader <= self.target.allowed) == allowed);
            chains.map(|(chain, _)| chain.clone()).collect::<Vec<_>>()
        };
        let (chains, beyond) = (of(true), of(false));
        let question = Question { chains: &chains, beyond: &beyond, subject: &subject, learnt: None, budget };
        let Ranked { candidates: ranked, beyond, beliefs, sample_bytes, .. } = chooser.choose(question, samples);
        let features = subject.features;
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
                .hint("force one with --chain, or allow more with --portable"));
        };
        let reader_of =
            |candidate: &Candidate| held.iter().find(|(chain, _)| *chain == candidate.chain).map(|held| held.1);
        let beyond: Vec<_> =
            beyond.into_iter().filter_map(|candidate| Some((reader_of(&candidate)?, candidate))).collect();
        let wider = self.wider(&best, &beyond, &beliefs, samples);
        if let Some(why) = &best.dropped {
            let kind = if self.bound.is_some() { ErrorKind::Quality } else { ErrorKind::Unsupported };
            return Err(Error::new(kind, format!("chain '{}' cannot be used: {why}", best.chain))
                .hint("choose another chain or bound"));
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
                Some(_) => as_asked(codecs, &best.chain),
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
    fn chains(&self) -> Vec<(ChainSpec, ReaderLevel)> {
        // Where the reader is known, nobody asks for another.
        let compared = self.raw_bytes >= WORTH_COMPARING && self.among.is_none() && self.filters.is_none();
        let target = if compared { self.target.for_reader(ReaderLevel::Knarr) } else { self.target };
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
        beyond: &[(ReaderLevel, Candidate)],
        beliefs: &Beliefs,
        samples: &[(ArraySpec, Vec<u8>)],
    ) -> Vec<Wider> {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let least = if self.weighty { LEAST_COMPARING } else { 0.0 };
        let mut left = (COMPARING * megabytes(self.raw_bytes) / best.merits.encode).max(least);
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
        let mut of = |reader: ReaderLevel| {
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
        let readers = [ReaderLevel::NetCdf, ReaderLevel::Standard, ReaderLevel::Knarr];
        readers.into_iter().filter(|&reader| reader > self.target.allowed).filter_map(&mut of).collect()
    }

    /// The bytes are stored as they are.
    pub(in crate::pipeline) fn raw(
        self,
        features: Features,
        candidates: Vec<Candidate>,
        sample_bytes: u64,
        reason: &str,
    ) -> Choice {
        let chain = ChainSpec::raw();
        Choice {
            chunk: self.chunk,
            fallback: None,
            bound: None,
            reader: ReaderLevel::Core,
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

    /// True if the output can hold what the chain writes, and its readers have what that takes.
    pub(in crate::pipeline) fn can_have(&self, chain: &ChainSpec) -> bool {
        let chain = Chain::prepare(&self.engine.codecs, chain, self.spec);
        chain.is_ok_and(|chain| self.target.holds(&chain) && self.lacking(&chain).is_none())
    }

    /// A filter of the chain that the reader does not have.
    fn lacking(&self, chain: &Chain) -> Option<FilterId> {
        let had = self.filters?;
        chain.hdf5_pipeline()?.iter().map(|filter| filter.id).find(|&id| !had.has(id))
    }

    /// A chain the user gave: it must serve the type, the target and the promise.
    pub(in crate::pipeline) fn checked(&self, forced: &ChainSpec) -> Result<ChainSpec> {
        let forced = &self.target.chain_asked_for(forced);
        let chain = Chain::prepare(&self.engine.codecs, forced, self.spec)?;
        may_lose(&chain, self.bound.is_some())?;
        is_held(&chain, self.named)?;
        if let Some(id) = self.lacking(&chain) {
            let why = format!("chain '{forced}' needs the filter {} ({id}), which the reader lacks", filter_name(id));
            return Err(Error::unsupported(why).hint("choose another chain, or let the program find the plugin"));
        }
        Ok(forced.clone())
    }
}

/// Refuses a chain that changes values, unless there is a bound.
pub(in crate::pipeline) fn may_lose(chain: &Chain, is_bounded: bool) -> Result<()> {
    if chain.loss() == Loss::Lossless || is_bounded {
        return Ok(());
    }
    let what = format!("chain '{}' changes values, the quality is lossless", chain.spec());
    Err(Error::new(ErrorKind::Quality, what)
        .hint("state a bound, for example --max-abs-error, or choose a lossless chain"))
}

/// Refuses a chain that files of this kind cannot hold.
pub(in crate::pipeline) fn is_held(chain: &Chain, named: FormatLimits) -> Result<()> {
    if named.holds(chain) {
        return Ok(());
    }
    let (what, hint) = named.exceeded(chain);
    Err(Error::unsupported(format!("chain '{}' is more than {what}", chain.spec())).hint(hint))
}

/// What chains that the user names may need: every registered filter or codec, unless it was said that readers have
/// less, or have more.
pub(in crate::pipeline) fn named(portable: Option<ReaderLevel>, target: FormatLimits) -> FormatLimits {
    let reader = match portable {
        None => target.allowed.max(ReaderLevel::Standard),
        Some(ReaderLevel::NetCdf) => ReaderLevel::Standard,
        Some(reader) => reader,
    };
    target.for_reader(reader)
}

/// Why a chain was taken that the user gave, with what is odd about it.
fn as_asked(codecs: &CodecList, chain: &ChainSpec) -> String {
    match chain.idle_step(codecs) {
        Some((idle, compressor)) => format!(
            "{AS_ASKED}; '{idle}' behind '{compressor}' finds nothing to put in order: it belongs in front of it"
        ),
        None => AS_ASKED.to_owned(),
    }
}
