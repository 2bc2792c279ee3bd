//! What is decided for each class of similar variables: the order in which its pieces are merged, and the chain.
//!
//! Orders are compared on a sample: the same part of the variables of some ranks, merged in every order that may pay and
//! encoded. Chains are then chosen by the engine on a frame of that order. Nothing depends on the clock or on threads.

use serde::{Deserialize, Serialize};

use super::merge::Merger;
use super::pieces::PIECE;
use super::records::record_length;
use super::scheme::{LARGE, MOST_TOGETHER, Merged, Order, Scheme, arrange, merged};
use super::similarity::{Class, Unit};
use crate::array::{ArraySpec, ArrayView, DType};
use crate::chain::ChainSpec;
use crate::choose::{cut, trial};
use crate::error::{ErrorKind, Result};
use crate::pack::Packer;

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Group of ranks it was made for.
    pub group: usize,
    /// Key of the class.
    pub class: String,
    /// Order of its pieces.
    pub order: Order,
    /// Chains, best first: what the first cannot take goes to the next.
    pub chains: Vec<ChainSpec>,
    /// Why, in one sentence.
    pub reason: String,
    /// Orders that were tried, with the ratios that were found on the sample.
    pub tried: Vec<(Order, f64)>,
    /// Bytes of the class in all ranks, without what is stored elsewhere already.
    pub raw_bytes: u64,
    /// Bytes of its frames.
    pub packed_bytes: u64,
}

/// Orders with the ratios that were found on a sample.
type Tried = Vec<(Order, f64)>;

/// Chains that a decision keeps: the chosen one, and others for arrays it cannot take.
const CHAINS: usize = 3;
/// Ranks whose variables make a sample of orders: every second one with its neighbour.
const SAMPLE_RANKS: usize = 16;
/// Bytes of a sample of orders, at least and at most; between them a part of the class.
const SAMPLE: std::ops::RangeInclusive<u64> = 1 << 20..=4 << 20;
const SAMPLE_SHARE: u64 = 16;
/// Bytes of a frame that chains are tried on which the engine did not try.
const OTHERS_SAMPLE: usize = 1 << 20;
/// Block of all ranks in turn that finds runs which repeat between them at about the same place.
const SHORT_BLOCK: u64 = 1024;
/// More than two ranks in a frame make partial restores read more than twice what they need. They have to gain this.
const WORTH_SHARING: f64 = 1.2;
/// What an order has to gain to be taken instead of a simpler one.
const WORTH_MERGING: f64 = 1.01;
/// A remembered decision is kept as long as it reaches this part of the ratio that it reached.
const STILL_GOOD: f64 = 0.9;

/// The order that merges nothing.
const APART: Order = Order { together: 1, block: 0 };

/// Decides about classes of one group.
pub(super) struct Decider<'a> {
    pub(super) packer: &'a Packer,
    pub(super) merger: &'a Merger<'a>,
    pub(super) scheme: Scheme,
    pub(super) block_size: u64,
    pub(super) group: usize,
    /// What was decided for an earlier set.
    pub(super) remembered: &'a [Decision],
}

impl Decider<'_> {
    /// The decisions about `classes`, in their order.
    pub(super) fn decide(&self, classes: &[Class], progress: &(dyn Fn() + Sync)) -> Result<Vec<Decision>> {
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
                (Some(class), Some((None, (order, tried)))) => self.with_order(class, *order, tried.clone()),
                _ => Err(crate::Error::internal("no such class")),
            }
        })
    }

    /// The order of each class, and what was tried for it.
    fn orders(&self, classes: &[Class], known: &[Option<Decision>]) -> Result<Vec<(Order, Tried)>> {
        if let Some(order) = self.scheme.order(self.block_size) {
            return Ok(vec![(order, Vec::new()); classes.len()]);
        }
        // The largest classes first, until trials have seen as many bytes as there are to pack.
        let mut by_size: Vec<usize> = (0..classes.len()).filter(|&index| known.get(index) == Some(&None)).collect();
        let bytes = |index: &usize| classes.get(*index).map_or(0, Class::bytes);
        by_size.sort_by_key(|index| (std::cmp::Reverse(bytes(index)), *index));
        let mut left = by_size.iter().map(bytes).sum::<u64>();
        by_size.retain(|index| {
            let Some(class) = classes.get(*index) else { return false };
            let cost = self.sample(class).map_or(0, |sample| sample.bytes * sample.orders.len() as u64);
            let fits = cost <= left;
            left -= if fits { cost } else { 0 };
            fits
        });
        let tried = self.packer.engine.parallel(by_size.len(), |index| {
            match by_size.get(index).and_then(|&class| classes.get(class)) {
                Some(class) => self.try_orders(class),
                None => Ok((APART, Vec::new())),
            }
        })?;
        let mut orders = vec![None; classes.len()];
        for (&class, tried) in by_size.iter().zip(&tried) {
            if let Some(order) = orders.get_mut(class) {
                *order = Some(tried.clone());
            }
        }
        // The others are merged as the largest class that is built like them.
        let inherited = |class: &Class| {
            let like = by_size
                .iter()
                .zip(&tried)
                .find(|&(&other, _)| classes.get(other).is_some_and(|other| other.family() == class.family()));
            (like.map_or(APART, |(_, (order, _))| *order), Vec::new())
        };
        Ok(classes.iter().zip(orders).map(|(class, order)| order.unwrap_or_else(|| inherited(class))).collect())
    }

    fn with_order(&self, class: &Class, order: Order, tried: Tried) -> Result<Decision> {
        let frames = arrange(&class.units, order, |rank, piece| self.merger.length(rank, piece));
        let (chains, reason) = match frames.get(frames.len() / 2) {
            Some(sample) => self.chains(class, sample)?,
            None => (Vec::new(), "nothing to store".to_owned()),
        };
        let (class, raw_bytes) = (class.key.clone(), class.bytes());
        Ok(Decision { group: self.group, class, order, chains, reason, tried, raw_bytes, packed_bytes: 0 })
    }

    /// What was decided for the same class of an earlier set, if it still does as well.
    fn remembered(&self, class: &Class) -> Result<Option<Decision>> {
        let same = |decision: &&Decision| decision.group == self.group && decision.class == class.key;
        let Some(decision) = self.remembered.iter().find(same).filter(|_| self.scheme == Scheme::Auto) else {
            return Ok(None);
        };
        let frames = arrange(&class.units, decision.order, |rank, piece| self.merger.length(rank, piece));
        let (Some(sample), Some(chain)) = (frames.get(frames.len() / 2), decision.chains.first()) else {
            return Ok(None);
        };
        let sample = self.merger.merged(class, sample)?;
        let found = trial(&self.packer.engine.codecs, chain, &[sample], None);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let before = decision.raw_bytes as f64 / decision.packed_bytes.max(1) as f64;
        if found.failed.is_some() || found.ratio < STILL_GOOD * before {
            return Ok(None);
        }
        let reason = decision.reason.trim_start_matches(REMEMBERED);
        Ok(Some(Decision {
            reason: format!("{REMEMBERED}{reason}"),
            raw_bytes: class.bytes(),
            packed_bytes: 0,
            ..decision.clone()
        }))
    }

    /// What orders of a class are compared on; `None` if there is nothing to compare.
    fn sample(&self, class: &Class) -> Option<Sample> {
        let is_large = class.units.iter().filter(|unit| unit.bytes >= LARGE).count() * 2 > class.units.len();
        let most = (class.bytes() / SAMPLE_SHARE).clamp(*SAMPLE.start(), *SAMPLE.end());
        let units = if is_large { neighbours(&class.units) } else { until(&class.units, most) };
        let count = usize::try_from(most / PIECE / (units.len() as u64).max(1)).unwrap_or(1).max(1);
        // The same part of each: repeats between ranks lie at the same place, more often than not.
        let lanes: Vec<Vec<(usize, usize)>> = units
            .into_iter()
            .map(|unit| {
                let pieces = if is_large { count.min(unit.pieces.len()) } else { unit.pieces.len() };
                let begin = (unit.pieces.len() - pieces) / 2;
                unit.pieces.iter().skip(begin).take(pieces).map(|&piece| (unit.rank, piece)).collect()
            })
            .collect();
        let length = |lane: &Vec<(usize, usize)>| -> u64 {
            lane.iter().map(|&(rank, piece)| self.merger.length(rank, piece)).sum()
        };
        let each = lanes.first().map(length)?;
        if lanes.len() < 2 || each == 0 {
            return None;
        }
        let equal = lanes.iter().all(|lane| length(lane) == each);
        let blocks = |blocks: Vec<u64>| blocks.into_iter().filter(move |&block| block == 0 || equal && block < each);
        let of = |together: usize| move |block: u64| Order { together, block };
        let (rows, runs) = (self.rows(class, &lanes), self.runs(class));
        // The simplest come first.
        let orders: Vec<Order> = if is_large {
            let pairs = blocks([vec![0], rows].concat()).map(of(2));
            std::iter::once(APART).chain(pairs).chain(blocks([vec![0], runs].concat()).map(of(MOST_TOGETHER))).collect()
        } else {
            blocks([vec![0], rows, runs].concat()).map(of(1)).collect()
        };
        let bytes = lanes.iter().map(length).sum();
        (orders.len() > 1).then_some(Sample { lanes, orders, bytes })
    }

    /// Blocks of one element and of one row: they join arrays along their last axes, of which programs cut domains.
    fn rows(&self, class: &Class, lanes: &[Vec<(usize, usize)>]) -> Vec<u64> {
        let element = class.dtype.size() as u64;
        let spec = self.merger.spec(class, &merged(0, lanes.get(..1).unwrap_or_default().to_vec()));
        match spec.shape.as_slice() {
            _ if class.dtype == DType::U8 => Vec::new(),
            [_, .., row] if *row > 1 => vec![element, element.saturating_mul(*row as u64)],
            _ => vec![element],
        }
    }

    /// Blocks that bring runs of bytes together which ranks have in common.
    fn runs(&self, class: &Class) -> Vec<u64> {
        let element = class.dtype.size().max(1) as u64;
        let mut runs = vec![self.block_size.next_multiple_of(element), SHORT_BLOCK.next_multiple_of(element)];
        runs.dedup();
        runs
    }

    /// The order that makes the sample smallest, and the ratios of all that were tried.
    fn try_orders(&self, class: &Class) -> Result<(Order, Tried)> {
        let Some(Sample { lanes, orders, .. }) = self.sample(class) else { return Ok((APART, Vec::new())) };
        let numeric = match class.dtype.is_float() {
            true => "grid".parse().ok(),
            false => {
                let (spec, values) = self.merger.merged(class, &merged(0, lanes.clone()))?;
                let records = others(&spec, &values, false).into_iter().map(|(chain, _)| chain).next();
                records.or(self.planned(&spec, &values)?.0.into_iter().next())
            }
        };
        let matches: Option<ChainSpec> = "zstd:3".parse().ok();
        let (rows, runs) = (self.rows(class, &lanes), self.runs(class));
        let mut tried = Vec::new();
        for order in orders {
            let mut frames = Vec::new();
            let together = if order.together == 1 && class.units.iter().all(|unit| unit.bytes < LARGE) {
                lanes.len()
            } else {
                order.together
            };
            for lanes in lanes.chunks(together) {
                frames.push(self.merger.merged(class, &merged(order.block, lanes.to_vec()))?);
            }
            // Rows are for numbers, longer runs for matches.
            let chains = [&numeric, &matches].into_iter().zip([&runs, &rows]);
            let chains = chains.filter(|(_, others)| order.block == 0 || !others.contains(&order.block));
            let ratios = chains
                .filter_map(|(chain, _)| chain.as_ref())
                .map(|chain| trial(&self.packer.engine.codecs, chain, &frames, None));
            let best = ratios.filter(|tried| tried.failed.is_none()).map(|tried| tried.ratio).fold(1.0, f64::max);
            tried.push((order, best));
        }
        Ok((choose(&tried), tried))
    }

    /// Chains for frames like `sample`, best first, and why.
    fn chains(&self, class: &Class, sample: &Merged) -> Result<(Vec<ChainSpec>, String)> {
        let (spec, bytes) = self.merger.merged(class, sample)?;
        let (mut chains, mut reason) = self.planned(&spec, &bytes)?;
        let others = others(&spec, &bytes, sample.block > 0);
        // A cut would take runs apart that repeat.
        let part = [if sample.block > 0 { (spec, bytes) } else { cut(&spec, &bytes, OTHERS_SAMPLE) }];
        let mut best = chains.first().and_then(|chain| self.score(chain, &part));
        for (chain, why) in others {
            if let Some(found) = self.score(&chain, &part).filter(|found| best.is_none_or(|best| found.0 > best.0)) {
                best = Some(found);
                reason = format!("{why}: {:.2}x on a sample", found.1);
                chains.retain(|other| *other != chain);
                chains.insert(0, chain);
            }
        }
        chains.truncate(CHAINS);
        Ok((chains, reason))
    }

    /// Score under the goal and ratio of a chain on a sample; `None` if it cannot take it.
    fn score(&self, chain: &ChainSpec, sample: &[(ArraySpec, Vec<u8>)]) -> Option<(f64, f64)> {
        let engine = &self.packer.engine;
        let tried = trial(&engine.codecs, chain, sample, None);
        let score = self.packer.goal.score(&engine.profile.merits(&engine.codecs, chain, tried.ratio));
        tried.failed.is_none().then_some((score, tried.ratio))
    }

    /// Chains that the engine chooses, best first, and why. Bytes that are no numbers have candidates of their own: what
    /// the engine tries on numbers takes very long on them.
    fn planned(&self, spec: &ArraySpec, bytes: &[u8]) -> Result<(Vec<ChainSpec>, String)> {
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
            if chains.len() < CHAINS && !chains.contains(&candidate.chain) {
                chains.push(candidate.chain.clone());
            }
        }
        Ok((chains, choice.reason))
    }

    fn planned_bytes(&self, spec: &ArraySpec, bytes: &[u8]) -> (Vec<ChainSpec>, String) {
        let part = [cut(spec, bytes, OTHERS_SAMPLE)];
        let chains = FOR_BYTES.iter().filter_map(|chain| chain.parse::<ChainSpec>().ok());
        let mut found: Vec<_> =
            chains.filter_map(|chain| self.score(&chain, &part).map(|(score, ratio)| (score, ratio, chain))).collect();
        found.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        let reason =
            found.first().map_or("stored".to_owned(), |(_, ratio, _)| format!("bytes: {ratio:.2}x on a sample"));
        (found.into_iter().map(|(.., chain)| chain).filter(|chain| !chain.is_raw()).take(CHAINS).collect(), reason)
    }
}

/// Chains for bytes that are no numbers. The last one is there without the codecs of foreign libraries, too.
const FOR_BYTES: [&str; 6] = ["raw", "zstd:1", "zstd:3", "zstd:9", "zstd:12", "brotli:5"];

/// How a decision of an earlier set is told.
const REMEMBERED: &str = "as in the earlier set: ";

/// What orders are compared on.
struct Sample {
    lanes: Vec<Vec<(usize, usize)>>,
    orders: Vec<Order>,
    bytes: u64,
}

/// Units spread over all ranks, each with the one after it.
fn neighbours(units: &[Unit]) -> Vec<&Unit> {
    let pairs = (units.len() / 2).clamp(1, SAMPLE_RANKS / 2);
    let starts = (0..pairs).map(|pair| pair * (units.len() / 2) / pairs * 2);
    starts.flat_map(|start| units.iter().skip(start).take(2)).collect()
}

/// Units from the middle on, of about `most` bytes.
fn until(units: &[Unit], most: u64) -> Vec<&Unit> {
    let mut left = most;
    let whole: u64 = units.iter().map(|unit| unit.bytes).sum();
    let start = if whole <= most { 0 } else { units.len() / 2 };
    let taken = units.iter().skip(start).take_while(|unit| {
        let goes_on = left > 0;
        left = left.saturating_sub(unit.bytes);
        goes_on
    });
    taken.collect()
}

/// The best of the tried orders; of those that are about as good, the one that keeps most apart.
fn choose(tried: &[(Order, f64)]) -> Order {
    let best = |most: usize| {
        let allowed = tried.iter().filter(|(order, _)| order.together <= most);
        // They come simplest first.
        allowed.fold(None, |best: Option<(Order, f64)>, &(order, ratio)| match best {
            Some((_, known)) if ratio < known * WORTH_MERGING => best,
            _ => Some((order, ratio)),
        })
    };
    match (best(2), best(usize::MAX)) {
        (Some((_, few)), Some((order, many))) if many >= few * WORTH_SHARING => order,
        (Some((order, _)), _) => order,
        (None, _) => APART,
    }
}

/// Chains that the engine does not consider and that may suit merged pieces, with the reason they would have.
fn others(spec: &ArraySpec, bytes: &[u8], is_interleaved: bool) -> Vec<(ChainSpec, String)> {
    let mut chains = Vec::new();
    if spec.dtype.is_float() {
        chains.push(("grid".to_owned(), "numbers on a grid".to_owned()));
    }
    if is_interleaved {
        let why = "runs that repeat between ranks";
        chains.extend([9, 12].map(|level| (format!("zstd:{level}"), why.to_owned())));
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
    fn ranks_share_frames_only_where_it_pays() {
        let order = |together, block| Order { together, block };
        let chosen = |ratios: &[(usize, u64, f64)]| {
            let tried: Vec<_> =
                ratios.iter().map(|&(together, block, ratio)| (order(together, block), ratio)).collect();
            choose(&tried)
        };
        assert_eq!(chosen(&[(1, 0, 2.0), (2, 0, 2.01), (64, 0, 2.1)]), APART);
        assert_eq!(chosen(&[(1, 0, 2.0), (2, 0, 2.2), (64, 0, 2.3)]), order(2, 0));
        assert_eq!(chosen(&[(1, 0, 2.0), (2, 0, 2.2), (2, 1024, 2.21), (64, 4096, 3.0)]), order(64, 4096));
        assert_eq!(chosen(&[]), APART);
    }
}
