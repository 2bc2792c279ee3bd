//! In which order the pieces of each class are merged, found on samples.
//!
//! Orders are compared on a sample: the same part of the variables of some ranks, merged in every order that may pay and
//! encoded.

use std::collections::{BTreeMap, HashMap};

use super::decide::{Decider, Decision, SAMPLE_OF_CHAINS, Search, others};
use super::pieces::PIECE;
use super::scheme::{LARGE, MOST_TOGETHER, Order, merged};
use super::similarity::{Class, Unit};
use crate::array::DType;
use crate::chain::ChainSpec;
use crate::choose::{cut, trial};
use crate::error::Result;

/// Orders with the ratios that were found on a sample.
pub(super) type Tried = Vec<(Order, f64)>;

/// Ranks whose variables make a sample of orders: every second one with its neighbour.
const SAMPLE_RANKS: usize = 16;
/// Bytes of a sample of orders, at least and at most; between them a part of the class.
const SAMPLE: std::ops::RangeInclusive<u64> = 1 << 20..=4 << 20;
const SAMPLE_SHARE: u64 = 16;
/// Block of all ranks in turn that finds runs which repeat between them at about the same place.
const SHORT_BLOCK: u64 = 1024;
/// More than two ranks in a frame make partial restores read more than twice what they need. They have to gain this.
const WORTH_SHARING: f64 = 1.2;
/// What an order has to gain to be taken instead of a simpler one.
const WORTH_MERGING: f64 = 1.01;
/// Classes of those that are built alike whose orders are tried first.
const WITNESSES: usize = 2;

/// The order that merges nothing.
const APART: Order = Order { together: 1, block: 0, span: 0 };

impl Decider<'_> {
    /// The order of each class, and what was tried for it.
    pub(super) fn orders(&self, classes: &[Class], known: &[Option<Decision>]) -> Result<Vec<(Order, Tried)>> {
        let given = |index: usize| classes.get(index).and_then(|class| self.given(class));
        let is_open = |&index: &usize| known.get(index) == Some(&None) && given(index).is_none();
        // The largest classes first, until trials have seen as many bytes as there are to pack.
        let mut by_size: Vec<usize> = (0..classes.len()).filter(is_open).collect();
        let bytes = |index: &usize| classes.get(*index).map_or(0, Class::bytes);
        by_size.sort_by_key(|index| (std::cmp::Reverse(bytes(index)), *index));
        let mut left = by_size.iter().map(bytes).sum::<u64>();
        let mut found: BTreeMap<usize, (Order, Tried)> = BTreeMap::new();
        let family = |index: usize| classes.get(index).map(Class::family);
        // What two of the classes say that are built alike goes for the others; only where they differ all are tried.
        for _ in 0..2 {
            let mut seen = HashMap::new();
            let next: Vec<usize> = by_size
                .iter()
                .copied()
                .filter(|index| !found.contains_key(index))
                .filter(|&index| {
                    let mut alike = found.iter().filter(|(other, _)| family(**other) == family(index));
                    let seen = seen.entry(family(index)).or_insert(0);
                    *seen += 1;
                    match alike.next() {
                        Some((_, (first, _))) => alike.any(|(_, (order, _))| order != first),
                        None => *seen <= WITNESSES,
                    }
                })
                .filter(|&index| {
                    let sample = classes.get(index).and_then(|class| self.sample(class));
                    let cost = sample.map_or(0, |sample| sample.bytes * sample.orders.len() as u64);
                    let fits = cost <= left;
                    left -= if fits { cost } else { 0 };
                    fits
                })
                .collect();
            let tried = self.packer.engine.parallel(next.len(), |place| {
                match next.get(place).and_then(|&class| classes.get(class)) {
                    Some(class) => self.try_orders(class),
                    None => Ok((APART, Vec::new())),
                }
            })?;
            found.extend(next.into_iter().zip(tried));
        }
        // The others are merged as the largest class that is built like them.
        let inherited = |index: usize| {
            let like = by_size.iter().find(|other| found.contains_key(other) && family(**other) == family(index));
            (like.and_then(|other| found.get(other)).map_or(APART, |(order, _)| *order), Vec::new())
        };
        let order = |index: usize| match given(index) {
            Some(order) => (order, Vec::new()),
            None => found.get(&index).cloned().unwrap_or_else(|| inherited(index)),
        };
        Ok((0..classes.len()).map(order).collect())
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
        let of = |together: usize| move |block: u64| Order { together, block, span: 0 };
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
    pub(super) fn runs(&self, class: &Class) -> Vec<u64> {
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
                let (spec, values) = cut(&spec, &values, SAMPLE_OF_CHAINS);
                let records = others(&spec, &values, Search::NUMBERS).into_iter().map(|(chain, _)| chain).next();
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
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_frames_only_where_it_pays() {
        let order = |together, block| Order { together, block, span: 0 };
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
