//! What is decided for each class of similar variables: the order in which its pieces are merged, and the chain.
//!
//! Chains are chosen by the engine on a frame of the order that [`super::orders`] found. Nothing depends on the clock or
//! on threads.

use crate::classes::decision::{APART, Decision, Tried};
use crate::classes::merge::Merger;
use crate::classes::scheme::{LARGE, MIXED_FRAME, MergeOrder, Merged, Scheme, arrange, merged};
use crate::classes::similarity::Class;
use crate::files::records::record_length;
use knarr_array::array::{ArraySpec, ArrayView, DType};
use knarr_array::error::{ErrorKind, Result};
use knarr_choose::choose::{Chooser, cut};
use knarr_choose::plan::Candidate;
use knarr_codec::chain::ChainSpec;
use knarr_flow::pack::Packer;

/// Chains that a decision keeps: the chosen one, and others for arrays it cannot take.
const CHAINS: usize = 3;
/// Chains that the engine proposes.
const RIVALS: usize = 8;
/// Short frames that propose chains, and that chains are tried on.
const PROPOSERS: usize = 3;
const SHORT_FRAMES: usize = 48;
/// Long frames that the best chains of one of them are compared on, and how many chains.
const SPREAD: usize = 3;
const FINALISTS: usize = 4;
/// Bytes of a frame that chains are tried on.
pub(crate) const SAMPLE_OF_CHAINS: usize = 384 << 10;
/// As many of bytes that are no numbers: what a deeper search finds in them lies far away, and a short sample hides it.
const SAMPLE_OF_BYTES: usize = 4 << 20;
/// As many where chains are compared that find what far parts of an array have in common.
const WHOLE_SAMPLE: usize = 1 << 20;
/// As many of frames in which runs repeat.
const RUNS_SAMPLE: u64 = 2 << 20;
/// What an order gains on a sample for it to be certain.
const CLEAR: f64 = 1.1;
/// A remembered decision is kept as long as it reaches this part of the ratio that it reached.
const STILL_GOOD: f64 = 0.9;

/// Decides about classes of one group.
pub(crate) struct Decider<'a> {
    pub(crate) packer: &'a Packer,
    pub(crate) merger: &'a Merger<'a>,
    pub(crate) scheme: Scheme,
    pub(crate) block_size: u64,
    pub(crate) group: usize,
    /// What was decided for an earlier set.
    pub(crate) remembered: &'a [Decision],
}

impl Decider<'_> {
    /// The order that the scheme gives a class; `None` where it is to be found.
    pub(crate) fn given(&self, class: &Class) -> Option<MergeOrder> {
        self.scheme.order(self.block_size, class.is_variables())
    }

    /// The decisions about `classes`, in their order.
    pub(crate) fn decide(&self, classes: &[Class], progress: &(dyn Fn() + Sync)) -> Result<Vec<Decision>> {
        let remembered = self.packer.engine.parallel(classes.len(), |index| match classes.get(index) {
            Some(class) => self.remembered(class),
            None => Ok(None),
        })?;
        let orders = self.orders(classes, &remembered)?;
        let decisions = remembered.into_iter().zip(orders).collect::<Vec<_>>();
        self.packer.engine.parallel(classes.len(), |index| {
            progress();
            match (classes.get(index), decisions.get(index)) {
                (Some(_), Some((Some(kept), _))) => Ok(kept.clone()),
                (Some(class), Some((None, (order, tried)))) => match self.given(class) {
                    Some(given) => self.with_order(class, given, Vec::new()),
                    None => self.near_or_far(class, *order, tried.clone()),
                },
                _ => Err(knarr_array::Error::internal("no such class")),
            }
        })
    }

    pub(crate) fn with_order(&self, class: &Class, order: MergeOrder, tried: Tried) -> Result<Decision> {
        let frames = arrange(&class.units, order, |rank, piece| self.merger.length(rank, piece));
        let (mut chains, reason) = match middle(&frames) {
            Some(sample) => match self.short(class, &frames)?.as_slice() {
                [] => self.chains_of_long(class, &frames, sample)?,
                short => self.chains_of_short(short)?,
            },
            None => (Vec::new(), "nothing to store".to_owned()),
        };
        chains.truncate(CHAINS);
        let span = self.span(class, order);
        let (class, raw_bytes, order) = (class.key.clone(), class.bytes(), MergeOrder { span, ..order });
        Ok(Decision { group: self.group, class, order, chains, reason, tried, raw_bytes, packed_bytes: 0, best: 0.0 })
    }

    /// As [`Self::with_order`], unless a part of a real frame is smaller with its pieces apart: samples of orders are too
    /// short to show by a little what is better, and have equal lanes where those of frames may differ in length.
    pub(crate) fn confirmed(&self, class: &Class, order: MergeOrder, tried: Tried) -> Result<Decision> {
        let reached =
            |order: MergeOrder| tried.iter().find(|(other, _)| *other == order).map_or(1.0, |(_, ratio)| *ratio);
        let clear = CLEAR * reached(APART);
        let is_clear_on_sample = reached(order) > clear;
        let decision = self.with_order(class, order, tried.clone())?;
        let frames = arrange(&class.units, decision.order, |rank, piece| self.merger.length(rank, piece));
        let (Some(frame), Some(chain), true) = (middle(&frames), decision.chains.first(), order.block > 0) else {
            return Ok(decision);
        };
        let part = self.shortened(frame);
        let joined = self.score(chain, &[self.merger.merged(class, &part)?]);
        if is_clear_on_sample && joined.is_some_and(|(_, ratio)| ratio > clear) {
            return Ok(decision);
        }
        let is_small = class.units.iter().all(|unit| unit.bytes < LARGE);
        let lanes = part.lanes.chunks(if is_small { part.lanes.len() } else { 1 });
        let parts =
            lanes.map(|lanes| self.merger.merged(class, &merged(0, lanes.to_vec()))).collect::<Result<Vec<_>>>()?;
        let apart = self.with_order(class, APART, tried)?;
        // Bytes begin with headers, which another chain may suit better than all that follows.
        let own = apart.chains.first().filter(|_| class.dtype != DType::U8);
        let score = [Some(chain), own].into_iter().flatten().filter_map(|chain| self.score(chain, &parts));
        let score = score.map(|(score, _)| score).reduce(f64::max);
        Ok(if score > joined.map(|(score, _)| score) { apart } else { decision })
    }

    /// What was decided for the same class of an earlier set, if it still does as well.
    fn remembered(&self, class: &Class) -> Result<Option<Decision>> {
        // What long frames reach shows in them alone, and to try one would take as long as to write it.
        let same = |decision: &&Decision| {
            decision.group == self.group && decision.class == class.key && decision.order.span < MIXED_FRAME
        };
        let Some(decision) = self.remembered.iter().find(same).filter(|_| self.given(class).is_none()) else {
            return Ok(None);
        };
        let frames = arrange(&class.units, decision.order, |rank, piece| self.merger.length(rank, piece));
        let (Some(sample), Some(chain)) = (middle(&frames), decision.chains.first()) else {
            return Ok(None);
        };
        let sample = self.merger.merged(class, sample)?;
        let found = self.score(chain, &[sample]);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let before = (decision.raw_bytes as f64 / decision.packed_bytes.max(1) as f64).max(decision.best);
        if found.is_none_or(|(_, ratio)| ratio < STILL_GOOD * before) {
            return Ok(None);
        }
        let reason = decision.reason.trim_start_matches(REMEMBERED);
        Ok(Some(Decision {
            reason: format!("{REMEMBERED}{reason}"),
            raw_bytes: class.bytes(),
            packed_bytes: 0,
            // Against the best, so that many small losses count as well.
            best: before,
            ..decision.clone()
        }))
    }

    /// Chains for frames like `sample`, best first, and why.
    fn chains(&self, class: &Class, sample: &Merged) -> Result<(Vec<ChainSpec>, String)> {
        // A cut would take runs apart that repeat: of bytes, those of all ranks in turn.
        let is_given = self.given(class).is_some();
        let matches = sample.block > 0 && (is_given || class.dtype == DType::U8);
        let (spec, bytes) = match matches {
            true => self.merger.merged(class, &self.shortened(sample))?,
            false => self.merger.merged(class, sample)?,
        };
        let small = if matches && is_given { None } else { Some(cut(&spec, &bytes, SAMPLE_OF_CHAINS)) };
        let (mut chains, mut reason) = match &small {
            Some((spec, bytes)) => self.planned(spec, bytes)?,
            None => self.planned(&spec, &bytes)?,
        };
        let mut others = others(&spec, &bytes, matches);
        others.retain(|(chain, _)| chains.first() != Some(chain));
        if others.is_empty() {
            return Ok((chains, reason));
        }
        // A part of many small arrays is like the whole; one of a large array hides what far parts have in common.
        let part = match small {
            _ if matches => [(spec, bytes)],
            Some(small) if class.units.iter().all(|unit| unit.bytes < LARGE) || spec.dtype == DType::U8 => [small],
            _ => [cut(&spec, &bytes, WHOLE_SAMPLE)],
        };
        let mut best = chains.first().and_then(|chain| self.score(chain, &part));
        for (chain, why) in others {
            if let Some(found) = self.score(&chain, &part).filter(|found| best.is_none_or(|best| found.0 > best.0)) {
                best = Some(found);
                reason = format!("{why}: {:.2}x on a sample", found.1);
                chains.retain(|other| *other != chain);
                chains.insert(0, chain);
            } else if !chains.contains(&chain) {
                chains.insert(1.min(chains.len()), chain);
            }
        }
        Ok((chains, reason))
    }

    /// As [`Self::chains`], for frames of which `sample` is the one in the middle: where there are several, its best are
    /// compared on others, too, since one rank may see what others don't.
    fn chains_of_long(&self, class: &Class, frames: &[Merged], sample: &Merged) -> Result<(Vec<ChainSpec>, String)> {
        let (mut chains, reason) = self.chains(class, sample)?;
        // A cut would take runs apart that repeat.
        if frames.len() < SPREAD || sample.block > 0 && class.dtype == DType::U8 {
            return Ok((chains, reason));
        }
        let spread = (0..SPREAD).filter_map(|number| frames.get((2 * number + 1) * frames.len() / (2 * SPREAD)));
        let most = if class.dtype == DType::U8 { SAMPLE_OF_BYTES } else { SAMPLE_OF_CHAINS };
        let cut_frame = |frame: &Merged| {
            let (spec, bytes) = self.merger.merged(class, frame)?;
            Ok(cut(&spec, &bytes, most))
        };
        let samples = spread.map(cut_frame).collect::<Result<Vec<_>>>()?;
        let rest = chains.split_off(chains.len().min(FINALISTS));
        let found = self.usable(&chains, &samples);
        let (Some(best), Some(first)) = (found.first(), chains.first()) else { return Ok((chains, reason)) };
        let reason = match best.chain == *first {
            true => reason,
            false => format!("best of {} on {SPREAD} frames: {:.2}x", chains.len(), best.merits.ratio),
        };
        Ok((found.into_iter().map(|found| found.chain).chain(rest).collect(), reason))
    }

    /// Frames that are too short for one to speak for all, evenly spread; none where they are not.
    fn short(&self, class: &Class, frames: &[Merged]) -> Result<Vec<(ArraySpec, Vec<u8>)>> {
        let is_long = |frame: &Merged| self.merger.bytes(frame) * 2 > SAMPLE_OF_CHAINS as u64;
        if frames.len() < 2 || middle(frames).is_none_or(is_long) {
            return Ok(Vec::new());
        }
        let kept = frames.len().min(SHORT_FRAMES);
        let spread = (0..kept).filter_map(|number| frames.get((2 * number + 1) * frames.len() / (2 * kept)));
        // Long ones among them would take memory, and say no more.
        spread.filter(|frame| !is_long(frame)).map(|frame| self.merger.merged(class, frame)).collect()
    }

    /// As [`Self::chains`], for short frames like `samples`: what some of them propose is tried on all.
    fn chains_of_short(&self, samples: &[(ArraySpec, Vec<u8>)]) -> Result<(Vec<ChainSpec>, String)> {
        let mut chains: Vec<ChainSpec> = Vec::new();
        for number in 0..PROPOSERS {
            let Some((spec, bytes)) = samples.get((2 * number + 1) * samples.len() / (2 * PROPOSERS)) else { continue };
            let others = others(spec, bytes, false).into_iter().map(|(chain, _)| chain);
            for chain in self.planned(spec, bytes)?.0.into_iter().chain(others) {
                if !chains.contains(&chain) {
                    chains.push(chain);
                }
            }
        }
        let found = self.usable(&chains, samples);
        let reason = match found.first() {
            Some(best) => {
                let (tried, of, ratio) = (chains.len(), samples.len(), best.merits.ratio);
                format!("best of {tried} tried on {of} of them: {ratio:.2}x")
            }
            None => "no chain takes them".to_owned(),
        };
        Ok((found.into_iter().map(|found| found.chain).take(CHAINS).collect(), reason))
    }

    /// The first pieces of each lane, of about [`RUNS_SAMPLE`] bytes together.
    fn shortened(&self, frame: &Merged) -> Merged {
        let share = RUNS_SAMPLE / (frame.lanes.len() as u64).max(1);
        let short = |lane: &Vec<(usize, usize)>| -> Vec<(usize, usize)> {
            let mut before = 0;
            let fitting = lane.iter().take_while(|&&(rank, piece)| {
                let fits = before < share;
                before += self.merger.length(rank, piece);
                fits
            });
            fitting.copied().collect()
        };
        Merged { block: frame.block, lanes: frame.lanes.iter().map(short).collect() }
    }

    fn chooser(&self) -> Chooser<'_> {
        self.packer.engine.chooser(&self.packer.goal, None)
    }

    /// Score under the goal and ratio of a chain on a sample; `None` if it cannot take it.
    pub(crate) fn score(&self, chain: &ChainSpec, sample: &[(ArraySpec, Vec<u8>)]) -> Option<(f64, f64)> {
        let tried = self.chooser().tried(chain, sample);
        tried.is_usable().then_some((tried.score, tried.merits.ratio))
    }

    /// Those of `chains` that can take `samples`, best first.
    fn usable(&self, chains: &[ChainSpec], samples: &[(ArraySpec, Vec<u8>)]) -> Vec<Candidate> {
        let mut ranked = self.chooser().try_all(chains, samples);
        ranked.retain(Candidate::is_usable);
        ranked
    }

    /// Chains that the engine chooses, best first, and why. Bytes that are no numbers have candidates of their own: what
    /// the engine tries on numbers takes very long on them.
    pub(crate) fn planned(&self, spec: &ArraySpec, bytes: &[u8]) -> Result<(Vec<ChainSpec>, String)> {
        if spec.dtype == DType::U8 {
            return Ok(self.planned_bytes(spec, bytes));
        }
        let choice = match self.packer.plan(&ArrayView::new(spec, bytes)?) {
            // Without the codecs of foreign libraries not every type has a chain.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok((Vec::new(), error.to_string())),
            planned => planned?,
        };
        let mut chains = vec![choice.chain.clone()];
        for candidate in choice.candidates.iter().filter(|candidate| candidate.is_usable()) {
            if chains.len() < RIVALS && !chains.contains(&candidate.chain) {
                chains.push(candidate.chain.clone());
            }
        }
        Ok((chains, choice.reason))
    }

    fn planned_bytes(&self, spec: &ArraySpec, bytes: &[u8]) -> (Vec<ChainSpec>, String) {
        let part = [(spec.clone(), bytes.to_vec())];
        let chains: Vec<ChainSpec> = FOR_BYTES.iter().filter_map(|chain| chain.parse().ok()).collect();
        let found = self.usable(&chains, &part);
        let reason =
            found.first().map_or("stored".to_owned(), |best| format!("bytes: {:.2}x on a sample", best.merits.ratio));
        (found.into_iter().map(|found| found.chain).filter(|chain| !chain.is_raw()).take(CHAINS).collect(), reason)
    }
}

/// Chains for bytes that are no numbers. The last one is there without the codecs of foreign libraries, too.
const FOR_BYTES: [&str; 7] = ["raw", "zstd:1", "zstd:3", "zstd:9", "zstd:12", "zstd:19", "brotli:5"];

/// How a decision of an earlier set is told.
const REMEMBERED: &str = "as in the earlier set: ";

/// The frame in the middle, which is a full one if there is any: the last one holds what is left.
fn middle(frames: &[Merged]) -> Option<&Merged> {
    frames.get(frames.len().saturating_sub(1) / 2)
}

/// Chains that the engine does not consider and that may suit merged pieces, with the reason they would have; with
/// `matches` those that find runs of bytes which repeat.
pub(crate) fn others(spec: &ArraySpec, bytes: &[u8], matches: bool) -> Vec<(ChainSpec, String)> {
    let mut chains = Vec::new();
    if spec.dtype.is_float() {
        chains.push(("grid".to_owned(), "numbers on a grid".to_owned()));
    }
    if matches {
        let why = "runs that repeat between ranks";
        chains.push(("zstd:9".to_owned(), why.to_owned()));
        if spec.dtype.is_float() {
            chains.extend([3, 9].map(|level| (format!("signs | zstd:{level}"), format!("{why}, some negated"))));
        }
    } else if spec.dtype.is_number() && spec.dtype.size() > 1 && spec.shape.len() == 1 {
        chains.push(("delta | shuffle | zstd:9".to_owned(), "small steps".to_owned()));
    }
    if spec.dtype == DType::U8
        && let Some(length) = record_length(bytes)
    {
        let why = format!("records of {length} bytes");
        chains.extend([3, 9].map(|level| (format!("shuffle:{length} | zstd:{level}"), why.clone())));
    }
    chains.into_iter().filter_map(|(chain, why)| Some((chain.parse().ok()?, why))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_tried_on_a_full_frame() {
        let frames: Vec<Merged> = (0..5).map(|rank| Merged { block: 0, lanes: vec![vec![(rank, 0)]] }).collect();
        let chosen = |count: usize| middle(&frames[..count]).map(|frame| frame.lanes[0][0].0);
        // The last frame of several holds what is left.
        assert_eq!([0, 1, 2, 3, 5].map(chosen), [None, Some(0), Some(0), Some(1), Some(2)]);
    }
}
