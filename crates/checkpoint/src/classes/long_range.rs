//! Whether ranks hold the same runs of numbers, and whether long frames of all ranks make a class smaller by it.
//!
//! If the problem is symmetric, or ranks hold copies, runs of numbers repeat at long range: in other ranks, or in other parts of
//! a variable. Samples miss such repeats, because both places are seldom in one sample. So the numbers of a whole frame are
//! scanned, which is cheap. Only if enough of them repeat are frames encoded to compare.

use std::collections::HashMap;

use crate::classes::decide::Decider;
use crate::classes::decision::{Decision, Tried};
use crate::classes::frame_sizes::{TARGET_FRAME, WORKER};
use crate::classes::lengths::longest;
use crate::classes::scheme::{LARGE, MOST_TOGETHER, MergeOrder, Merged, arrange, merged};
use crate::classes::similarity::{Class, Unit};
use crate::files::records::record_length;
use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::Result;
use knarr_codec::chain::ChainSpec;

/// Words of a run of which some bits count, and those bits of words in turn, the less significant word first: numbers
/// differ in their last bits by rounding where a problem is symmetric, and in their signs by its symmetry. Of bytes it is
/// not known where numbers begin.
const ALIKE: usize = 8;
const OF_F64: [u32; 2] = [0, 0x7fff_ffff];
const OF_F32: [u32; 2] = [0x7fff_ff00; 2];
const OF_BYTES: [u32; 2] = [0x7fff_0000; 2];
const OF_OTHERS: [u32; 2] = [u32::MAX; 2];
/// Words of a run that comes back as it is: what is worth the place where it was. One number may be.
const EQUAL: usize = 4;
const EQUAL_F64: usize = 2;
/// One of so many runs is remembered, chosen by its content so that both places of a repeat are, or none.
const KEPT_BITS: u32 = 6;
/// Runs that come back within as many bytes are found by any order: in a large variable, and among small ones.
const NEAR: u64 = 512 << 10;
const NEAR_SMALL: u64 = 64 << 10;
/// Pieces that are fetched at once to look at.
const AT_ONCE: usize = 8;
/// Share of runs that have to come back far away for long frames to be tried.
const WORTH_TRYING: f64 = 0.02;
/// Classes of fewer bytes fill no frame.
const SMALLEST: u64 = 64 << 10;
/// Comparing long frames takes more memory than all else. With less than this, frames are as long as usual.
const LEAST_MEMORY: u64 = 4 * WORKER;
/// Bytes that are encoded to compare: all of a class that has no more than the first, else the second.
const WHOLE: u64 = TARGET_FRAME;
const PART: u64 = 4 << 20;
/// Block of all ranks in turn: long enough for the numbers in it to be alike, short enough for the same part of all
/// ranks to be near.
const LONG_BLOCK: u64 = 64 << 10;
/// What long frames have to gain: a restore of one variable reads more of them.
const WORTH_SHARING: f64 = 1.01;
/// They are taken without a chain being chosen for others where a sample of those stays so far behind.
const CLEAR: f64 = 1.5;
/// Fast chains that are no further behind are tried with a deeper search.
const ABOUT_AS_GOOD: f64 = 0.85;
/// Chains that a decision keeps.
const CHAINS: usize = 3;

/// Pieces of a class that are encoded to compare.
struct Part {
    lanes: Vec<Vec<(usize, usize)>>,
    /// True where little of each large variable is left: what shares a frame does so in one frame.
    is_cut: bool,
}

/// A decision for long frames of all ranks, and what speaks for it.
struct LongRange {
    decision: Decision,
    part: Part,
    /// The whole frame, if the part is less.
    whole: Option<Part>,
    /// Share of the runs of numbers that come back far away, and how much more it is in the whole frame than in the part.
    share: f64,
    hidden: f64,
    /// Ratios of chains on the part.
    on_part: Vec<(ChainSpec, f64)>,
    score: f64,
    ratio: f64,
}

/// Why a class has long frames.
fn because(share: f64, ratio: f64) -> String {
    format!("{:.0} % of the runs of numbers come back far away: {ratio:.2}x", share * 100.0)
}

impl Decider<'_> {
    /// The decision for a class, of which samples say that `order` is the best of those that bring near together what is
    /// alike: that one, or one for long frames of all ranks where they make the same pieces smaller.
    pub(crate) fn near_or_far(&self, class: &Class, order: MergeOrder, tried: Tried) -> Result<Decision> {
        let Some(mut far) = self.far(class)? else { return self.confirmed(class, order, tried) };
        let sampled = tried.iter().map(|(_, ratio)| *ratio).reduce(f64::max);
        far.decision.tried = [tried.clone(), vec![(far.decision.order, far.ratio)]].concat();
        if sampled.is_some_and(|ratio| far.ratio >= ratio * CLEAR) {
            return Ok(far.decision);
        }
        let near = self.confirmed(class, order, tried)?;
        let frames = self.near_frames(class, &far.part, near.order)?;
        let Some(on_part) = near.chains.first().and_then(|chain| self.score(chain, &frames)) else {
            return Ok(far.decision);
        };
        let is_better = |far: (f64, f64), near: (f64, f64)| far.0 > near.0 && far.1 >= near.1 * WORTH_SHARING;
        // A part that shows less than the sample did hides what both have.
        let hides = far.whole.is_some() && sampled.is_some_and(|ratio| ratio > far.ratio);
        if is_better((far.score, far.ratio), on_part) && !hides {
            return Ok(far.decision);
        }
        // The whole frame can save what comes back in it and not in the part, and little more.
        let most = |ratio: f64| ratio / (1.0 - far.hidden);
        let Some(whole) = far.whole.as_ref().filter(|_| most(far.ratio) >= on_part.1) else { return Ok(near) };
        let frames = self.near_frames(class, whole, near.order)?;
        let near_on_whole = near.chains.first().and_then(|chain| self.score(chain, &frames));
        drop(frames);
        let may_win = |ratio: f64| near_on_whole.is_none_or(|near| most(ratio) >= near.1 * WORTH_SHARING);
        let Some((chain, on_whole)) = self.on_whole(class, &far, whole, &may_win)? else { return Ok(near) };
        if near_on_whole.is_some_and(|near| !is_better(on_whole, near)) {
            return Ok(near);
        }
        far.decision.chains.retain(|other| *other != chain);
        far.decision.chains.insert(0, chain);
        far.decision.reason = because(far.share, on_whole.1);
        Ok(far.decision)
    }

    /// The best chain for the whole frame, and its score and ratio, of those that may win by their ratio on the part. What
    /// comes back beyond the part shows in the whole frame alone, and where bytes are shuffled it may not be found.
    fn on_whole(
        &self,
        class: &Class,
        far: &LongRange,
        whole: &Part,
        may_win: &dyn Fn(f64) -> bool,
    ) -> Result<Option<(ChainSpec, (f64, f64))>> {
        let one = [self.merger.merged(class, &merged(far.decision.order.block, whole.lanes.clone()))?];
        let first = far.decision.chains.first().map(ToString::to_string).unwrap_or_default();
        let plain = first.split_once(" | ").filter(|(order, _)| order.starts_with("shuffle")).map(|(_, rest)| rest);
        let chains = [Some(first.as_str()), plain].into_iter().flatten().filter_map(|chain| chain.parse().ok());
        let on_part = |chain: &ChainSpec| far.on_part.iter().find(|(other, _)| other == chain);
        let promising = chains.filter(|chain| on_part(chain).is_none_or(|(_, ratio)| may_win(*ratio)));
        let tried = promising.filter_map(|chain: ChainSpec| self.score(&chain, &one).map(|found| (chain, found)));
        Ok(tried.max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0)))
    }

    /// The best decision for long frames; `None` where too little comes back far away for them to pay.
    fn far(&self, class: &Class) -> Result<Option<LongRange>> {
        if class.bytes() < SMALLEST || self.packer.engine.max_mem < LEAST_MEMORY {
            return Ok(None);
        }
        let span = longest(self.packer.engine.max_mem);
        let lanes = MergeOrder { together: MOST_TOGETHER, block: self.block_size, span };
        let frames = arrange(&class.units, lanes, |rank, piece| self.merger.length(rank, piece));
        let Some(frame) = frames.get(frames.len().saturating_sub(1) / 2) else { return Ok(None) };
        let is_large = class.units.iter().filter(|unit| unit.bytes >= LARGE).count() * 2 > class.units.len();
        let share = self.far_share(class, frame, is_large)?;
        if share < WORTH_TRYING {
            return Ok(None);
        }
        let lanes = self.part(frame);
        let is_short = lanes != frame.lanes;
        let part = Part { lanes, is_cut: is_large && is_short };
        let in_part = if is_short { self.far_share(class, &merged(0, part.lanes.clone()), is_large)? } else { share };
        let whole = is_short.then(|| Part { lanes: frame.lanes.clone(), is_cut: false });
        let mut found = self.far_chains(class, &part)?;
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        let Some(&Found { score, ratio, block, .. }) = found.first() else { return Ok(None) };
        let of_block = found.into_iter().filter(|other| other.block == block);
        let on_part: Vec<(ChainSpec, f64)> = of_block.map(|found| (found.chain, found.ratio)).collect();
        let mut chains: Vec<ChainSpec> = on_part.iter().take(CHAINS).map(|(chain, _)| chain.clone()).collect();
        // How much a deeper search finds shows in the whole frame alone.
        if class.dtype == DType::U8 && self.merger.bytes(frame) > WHOLE {
            let deeper = chains.first().and_then(|first| first.to_string().replace("zstd:9", "zstd:12").parse().ok());
            chains.splice(..0, deeper);
            chains.truncate(CHAINS);
        }
        let decision = Decision {
            group: self.group,
            class: class.key.clone(),
            order: MergeOrder { together: MOST_TOGETHER, block, span },
            chains,
            reason: because(share, ratio),
            tried: Vec::new(),
            raw_bytes: class.bytes(),
            packed_bytes: 0,
            best: 0.0,
        };
        Ok(Some(LongRange { decision, part, whole, share, hidden: (share - in_part).max(0.0), on_part, score, ratio }))
    }

    /// Share of the runs of a frame that were there before, far away.
    fn far_share(&self, class: &Class, frame: &Merged, is_large: bool) -> Result<f64> {
        let masks = match class.dtype {
            DType::F64 => OF_F64,
            DType::F32 => OF_F32,
            DType::U8 => OF_BYTES,
            _ => OF_OTHERS,
        };
        let new = |masks, words| Runs { masks, words, is_big: class.endian == Endian::Big, ..Runs::default() };
        let mut alike = new(masks, ALIKE);
        let mut equal = new(OF_OTHERS, if class.dtype == DType::F64 { EQUAL_F64 } else { EQUAL });
        for (number, lane) in frame.lanes.iter().enumerate() {
            // Large variables of other ranks are in other frames.
            let (lane_number, near) = if is_large { (number, NEAR) } else { (0, NEAR_SMALL) };
            for pieces in lane.chunks(AT_ONCE) {
                let (_, bytes) = self.merger.merged(class, &merged(0, vec![pieces.to_vec()]))?;
                alike.add(&bytes, lane_number, near);
                equal.add(&bytes, lane_number, near);
            }
        }
        Ok(alike.share().max(equal.share()))
    }

    /// The same part of each lane, of about [`PART`] bytes together; all if it is not much.
    fn part(&self, frame: &Merged) -> Vec<Vec<(usize, usize)>> {
        let bytes = self.merger.bytes(frame);
        let shortened = |lane: &Vec<(usize, usize)>| {
            let count = usize::try_from(lane.len() as u64 * PART / bytes).unwrap_or(lane.len()).max(1);
            lane.iter().take(count).copied().collect()
        };
        if bytes <= WHOLE { frame.lanes.clone() } else { frame.lanes.iter().map(shortened).collect() }
    }

    /// The part in frames of `order`.
    fn near_frames(&self, class: &Class, part: &Part, order: MergeOrder) -> Result<Vec<(ArraySpec, Vec<u8>)>> {
        let frames: Vec<Merged> = if part.is_cut {
            part.lanes.chunks(order.together.max(1)).map(|lanes| merged(order.block, lanes.to_vec())).collect()
        } else {
            let unit = |lane: &Vec<(usize, usize)>| Unit {
                rank: lane.first().map_or(0, |&(rank, _)| rank),
                pieces: lane.iter().map(|&(_, piece)| piece).collect(),
                bytes: lane.iter().map(|&(rank, piece)| self.merger.length(rank, piece)).sum(),
            };
            let units: Vec<Unit> = part.lanes.iter().map(unit).collect();
            arrange(&units, order, |rank, piece| self.merger.length(rank, piece))
        };
        frames.iter().map(|frame| self.merger.merged(class, frame)).collect()
    }

    /// What may suit the part in one frame: fast chains find the block of all ranks, deeper searches the chain.
    fn far_chains(&self, class: &Class, part: &Part) -> Result<Vec<Found>> {
        let mut found: Vec<Found> = Vec::new();
        let mut fast: Vec<(String, Found)> = Vec::new();
        let element = class.dtype.size().max(1) as u64;
        for block in [0, self.block_size.next_multiple_of(element), LONG_BLOCK.next_multiple_of(element)] {
            let sample = [self.merger.merged(class, &merged(block, part.lanes.clone()))?];
            let Some((spec, bytes)) = sample.first() else { continue };
            let trial = |chain: &str| {
                let chain: ChainSpec = chain.parse().ok()?;
                self.score(&chain, &sample).map(|(score, ratio)| Found { score, ratio, block, chain })
            };
            // Neighbours in space are those of an array that is whole.
            if block == 0 {
                found.extend(if spec.dtype.is_float() { trial("grid") } else { None });
                continue;
            }
            let kinds = match record_length(bytes) {
                _ if spec.dtype.is_float() => vec!["signs | zstd".to_owned(), "shuffle | zstd".to_owned()],
                _ if spec.dtype != DType::U8 => vec!["zstd".to_owned(), "shuffle | zstd".to_owned()],
                Some(length) => vec!["zstd".to_owned(), format!("shuffle:{length} | zstd")],
                None => vec!["zstd".to_owned()],
            };
            fast.extend(kinds.into_iter().filter_map(|kind| trial(&format!("{kind}:3")).map(|found| (kind, found))));
        }
        let best = fast.iter().map(|(_, found)| found.ratio).fold(0.0, f64::max);
        fast.sort_by(|(_, a), (_, b)| b.ratio.total_cmp(&a.ratio));
        let mut kinds: Vec<String> = Vec::new();
        for (kind, known) in fast {
            let block = known.block;
            if known.ratio >= best * ABOUT_AS_GOOD && !kinds.contains(&kind) {
                let sample = [self.merger.merged(class, &merged(block, part.lanes.clone()))?];
                if let Ok(chain) = format!("{kind}:9").parse::<ChainSpec>()
                    && let Some((score, ratio)) = self.score(&chain, &sample)
                {
                    found.push(Found { score, ratio, block, chain });
                }
                kinds.push(kind);
            }
            found.push(known);
        }
        Ok(found)
    }
}

/// A chain that was tried on the part in one frame.
struct Found {
    score: f64,
    ratio: f64,
    block: u64,
    chain: ChainSpec,
}

/// Runs of words that were seen.
#[derive(Default)]
struct Runs {
    /// Bits of words in turn that count, the less significant word first.
    masks: [u32; 2],
    is_big: bool,
    /// Words of a run.
    words: usize,
    /// Lane and place of the last run with the same bits.
    last: HashMap<u64, (usize, u64)>,
    /// Bytes that were looked at.
    at: u64,
    looked_at: u64,
    far: u64,
}

impl Runs {
    /// Adds bytes of a lane, in which what is no more than `near` bytes back is not far away.
    fn add(&mut self, bytes: &[u8], lane: usize, near: u64) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let oldest = (0..self.words).fold(1u64, |product, _| product.wrapping_mul(FACTOR));
        let [mut mask, mut next] = self.masks;
        if self.is_big {
            std::mem::swap(&mut mask, &mut next);
        }
        let word = |chunk: &[u8]| {
            let chunk = chunk.try_into().unwrap_or_default();
            let word = if self.is_big { u32::from_be_bytes(chunk) } else { u32::from_le_bytes(chunk) };
            let mixed = u64::from(word & mask).wrapping_add(1).wrapping_mul(0xff51_afd7_ed55_8ccd);
            std::mem::swap(&mut mask, &mut next);
            mixed ^ mixed >> 33
        };
        let words: Vec<u64> = bytes.chunks_exact(4).map(word).collect();
        let mut hash = 0u64;
        for (number, new) in words.iter().enumerate() {
            hash = hash.wrapping_mul(FACTOR).wrapping_add(*new);
            let Some(old) = number.checked_sub(self.words).and_then(|before| words.get(before)) else { continue };
            hash = hash.wrapping_sub(old.wrapping_mul(oldest));
            let key = hash ^ hash >> 29;
            if key.wrapping_mul(FACTOR) >> (u64::BITS - KEPT_BITS) != 0 {
                continue;
            }
            let place = self.at + 4 * number as u64;
            let before = self.last.insert(key, (lane, place));
            self.looked_at += 1;
            self.far += u64::from(before.is_some_and(|(other, before)| other != lane || place - before > near));
        }
        self.at += bytes.len() as u64;
    }

    /// Share of the runs that were there before, far away.
    fn share(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts of at most a frame")]
        let share = self.far as f64 / self.looked_at.max(1) as f64;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that have nothing in common.
    fn numbers(seed: u64, count: u64) -> Vec<f64> {
        let number = |i: u64| {
            f64::from(u32::from_le_bytes(
                *blake3::hash(&[seed, i].map(u64::to_le_bytes).concat()).as_bytes().first_chunk().unwrap(),
            ))
        };
        (0..count).map(|i| 1.0 + number(i) / 1e10).collect()
    }

    fn share(lanes: &[Vec<f64>], is_big: bool) -> f64 {
        let mut runs = Runs { masks: OF_F64, words: ALIKE, is_big, ..Runs::default() };
        for (number, lane) in lanes.iter().enumerate() {
            let bytes = lane.iter().flat_map(|x| if is_big { x.to_be_bytes() } else { x.to_le_bytes() });
            runs.add(&bytes.collect::<Vec<_>>(), number, NEAR);
        }
        runs.share()
    }

    #[test]
    fn runs_that_come_back_in_another_lane_are_found_negated_and_rounded_otherwise() {
        let (one, other) = (numbers(1, 40_000), numbers(2, 40_000));
        let negated: Vec<f64> = [&other[..5], &one].concat().iter().map(|x| -x * (1.0 + 1e-15)).collect();
        for is_big in [false, true] {
            assert!(share(&[one.clone(), other.clone()], is_big) < 0.001);
            let found = share(&[one.clone(), negated.clone()], is_big);
            assert!((0.45..0.51).contains(&found), "{found}");
        }
    }

    #[test]
    fn what_comes_back_nearby_is_not_far_away() {
        let period: Vec<f64> = std::iter::repeat_n(numbers(1, 1000), 60).flatten().collect();
        assert!(share(std::slice::from_ref(&period), false) < 0.001);
        assert!(share(&[vec![0.0; 50_000], numbers(1, 50_000)], false) < 0.001);
        let distant = [numbers(1, 2000), numbers(2, 80_000), numbers(1, 2000)].concat();
        let found = share(&[distant], false);
        assert!((0.01..0.04).contains(&found), "{found}");
    }
}
