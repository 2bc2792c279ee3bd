//! In which order the pieces of each class are merged, found on samples.
//!
//! Orders are compared on a sample: the same part of the variables of some ranks, merged in every order that may pay and
//! encoded. What classes look like from outside says nothing of their values, so each is tried for itself. What ranks have
//! in common far away shows in no sample: [`super::far`] looks for it.

use crate::classes::decide::{Decider, SAMPLE_OF_CHAINS, others};
use crate::classes::decision::{APART, Decision, Tried};
use crate::classes::scheme::{LARGE, MOST_TOGETHER, MergeOrder, merged};
use crate::classes::similarity::{Class, Unit};
use crate::files::pieces::PIECE;
use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_choose::choose::cut;
use knarr_codec::chain::ChainSpec;

/// Ranks whose variables make a sample of orders: every second one with its neighbour.
const SAMPLE_RANKS: usize = 16;
/// Bytes of a sample of orders: so small a part of a class that all orders together take a part of the class's time, but
/// not less and not more than this.
const SAMPLE_SHARE: u64 = 16;
const SAMPLE: std::ops::RangeInclusive<u64> = 256 << 10..=4 << 20;
/// Bytes of unknown meaning are compared whole up to this many: a part of them says little of where others repeat it.
const WHOLE: u64 = 8 << 20;
/// More than two ranks in a frame make partial restores read more than twice what they need. They have to gain this.
const WORTH_SHARING: f64 = 1.01;
/// Most axes that are predicted along.
const AXES: usize = 3;
/// What an order has to gain to be taken instead of a simpler one.
const WORTH_MERGING: f64 = 1.01;

impl Decider<'_> {
    /// The order of each class, and what was tried for it.
    pub(crate) fn orders(&self, classes: &[Class], known: &[Option<Decision>]) -> Result<Vec<(MergeOrder, Tried)>> {
        self.packer.engine.parallel(classes.len(), |index| {
            let open = classes.get(index).filter(|_| known.get(index) == Some(&None));
            match open.map(|class| (class, self.given(class))) {
                Some((_, Some(given))) => Ok((given, Vec::new())),
                Some((class, None)) => self.try_orders(class),
                None => Ok((APART, Vec::new())),
            }
        })
    }

    /// What orders of a class are compared on; `None` if there is nothing to compare.
    fn sample(&self, class: &Class) -> Option<Sample> {
        let is_large = class.units.iter().filter(|unit| unit.bytes >= LARGE).count() * 2 > class.units.len();
        let most = match class.dtype {
            DType::U8 if class.bytes() <= WHOLE => class.bytes(),
            _ => (class.bytes() / SAMPLE_SHARE).clamp(*SAMPLE.start(), *SAMPLE.end()),
        };
        let pairs = usize::try_from(most / (2 * PIECE)).unwrap_or(1);
        let units = if is_large { neighbours(&class.units, pairs) } else { until(&class.units, most) };
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
        let each = lanes.first().map(length).filter(|&each| each > 0 && lanes.len() > 1)?;
        let equal = lanes.iter().all(|lane| length(lane) == each);
        let of = |together: usize| move |&block: &u64| MergeOrder { together, block, span: 0 };
        let mut rows = self.rows(class, &lanes);
        rows.retain(|&block| equal && block < each);
        // The simplest come first.
        let together = match is_large {
            true if lanes.len() > 2 => vec![2, MOST_TOGETHER],
            true => vec![2],
            false => vec![1],
        };
        let joined = together.into_iter().flat_map(|together| rows.iter().map(of(together)));
        // Of bytes it is not known what they are: those at about the same place may be alike in all ranks.
        let bytes = (class.dtype == DType::U8 && self.block_size < each).then_some(&self.block_size);
        let bytes = bytes.into_iter().map(of(if is_large { MOST_TOGETHER } else { 1 }));
        // Longer frames, of one variable after the other.
        let longer = is_large.then(|| of(2)(&0));
        let orders: Vec<MergeOrder> = std::iter::once(APART).chain(longer).chain(joined).chain(bytes).collect();
        (orders.len() > 1).then_some(Sample { lanes, orders })
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

    /// Chains that tell how alike numbers are that an order brings together.
    fn numeric(&self, class: &Class, lanes: &[Vec<(usize, usize)>]) -> Result<Vec<ChainSpec>> {
        let one = merged(0, lanes.get(..1).unwrap_or_default().to_vec());
        if class.dtype.is_float() {
            let axes = self.merger.spec(class, &one).shape.len().clamp(1, AXES);
            let chains = ["grid".to_owned(), format!("lorenzo:{axes} | shuffle | zstd:1")];
            return Ok(chains.iter().filter_map(|chain| chain.parse().ok()).collect());
        }
        let (spec, values) = self.merger.merged(class, &merged(0, lanes.to_vec()))?;
        let (spec, values) = cut(&spec, &values, SAMPLE_OF_CHAINS);
        let records = others(&spec, &values, false).into_iter().map(|(chain, _)| chain).next();
        Ok(records.or(self.planned(&spec, &values)?.0.into_iter().next()).into_iter().collect())
    }

    /// The order that makes the sample smallest, and the ratios of all that were tried.
    fn try_orders(&self, class: &Class) -> Result<(MergeOrder, Tried)> {
        let Some(Sample { lanes, orders, .. }) = self.sample(class) else { return Ok((APART, Vec::new())) };
        let numeric = self.numeric(class, &lanes)?;
        let plain: Vec<ChainSpec> = "zstd:3".parse().into_iter().collect();
        let is_small = class.units.iter().all(|unit| unit.bytes < LARGE);
        let mut tried: Tried = Vec::new();
        for order in orders {
            // More ranks have no more in common than two.
            if order.together > 2 && class.dtype != DType::U8 && choose(&tried) == APART {
                break;
            }
            let together = if order.together == 1 && is_small { lanes.len() } else { order.together };
            let frames =
                lanes.chunks(together).map(|lanes| self.merger.merged(class, &merged(order.block, lanes.to_vec())));
            let frames = frames.collect::<Result<Vec<_>>>()?;
            // What repeats does so within a variable.
            let chains = numeric.iter().chain(plain.iter().filter(|_| order.block == 0 || class.dtype == DType::U8));
            let ratios = chains.filter_map(|chain| self.score(chain, &frames)).map(|(_, ratio)| ratio);
            let best = ratios.fold(1.0, f64::max);
            tried.push((order, best));
        }
        Ok((choose(&tried), tried))
    }
}

/// What orders are compared on.
struct Sample {
    lanes: Vec<Vec<(usize, usize)>>,
    orders: Vec<MergeOrder>,
}

/// Units spread over all ranks, each with the one after it.
fn neighbours(units: &[Unit], most: usize) -> Vec<&Unit> {
    let pairs = (units.len() / 2).clamp(1, most.clamp(1, SAMPLE_RANKS / 2));
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
fn choose(tried: &[(MergeOrder, f64)]) -> MergeOrder {
    let best = |most: usize| {
        let allowed = tried.iter().filter(|(order, _)| order.together <= most);
        // They come simplest first.
        allowed.fold(None, |best: Option<(MergeOrder, f64)>, &(order, ratio)| match best {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_frames_only_where_it_pays() {
        let order = |together, block| MergeOrder { together, block, span: 0 };
        let chosen = |ratios: &[(usize, u64, f64)]| {
            let tried: Vec<_> =
                ratios.iter().map(|&(together, block, ratio)| (order(together, block), ratio)).collect();
            choose(&tried)
        };
        assert_eq!(chosen(&[(1, 0, 2.0), (2, 8, 2.01), (64, 8, 2.01)]), APART);
        assert_eq!(chosen(&[(1, 0, 2.0), (2, 8, 2.2), (64, 8, 2.21)]), order(2, 8));
        assert_eq!(chosen(&[(1, 0, 2.0), (2, 8, 2.2), (2, 80, 2.21), (64, 8, 2.25)]), order(64, 8));
        assert_eq!(chosen(&[]), APART);
    }
}
