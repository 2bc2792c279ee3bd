//! Exact repeats at irregular distances, as on unstructured grids whose elements share nodes.
//!
//! An element may copy an earlier one, or its negative as on grids that are symmetric. Its distance is either the *expected* one (that of the element at the same
//! place of the previous plane when that was a copy, else of the latest copy) or is stored. The parse is greedy: the
//! expected distance when it fits, else the latest occurrence of the value together with its successor, else of the
//! value alone when naming the distance costs less than coding the value.

use crate::coding::binary::{Bit, Decoder, Encoder};
use crate::fields::mask::{FLIP, MATCH, ORDINARY, is_copy};
use crate::{Error, Result};

/// Odd, without a pattern in its bits: 2^64 over the golden ratio.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
/// Values that a repeat should have in common with its source to be preferred.
const RUN: usize = 8;

/// Expected distance of element `i`, given the distances so far (0: no copy) and the latest one.
#[inline(always)]
pub(crate) fn expected(distances: &[u32], i: usize, area: usize, latest: u32) -> u32 {
    match i.checked_sub(area).and_then(|j| distances.get(j)) {
        Some(&d) if d > 0 => d,
        _ => latest,
    }
}

#[inline(always)]
fn hash(v: u64, bits: u32) -> usize {
    (v.wrapping_mul(BASE) >> (64 - bits)) as usize
}

/// Share of a window's elements that repeat an earlier one in it.
fn share(values: &[u64], sign: u64) -> f64 {
    let window = &values[..values.len().min(1 << 14)];
    let mut seen = vec![u64::MAX; 1 << 15];
    let mut hits = 0usize;
    for v in window.iter().map(|v| v & !sign) {
        let slot = &mut seen[hash(v, 15)];
        hits += usize::from(*slot == v);
        *slot = v;
    }
    hits as f64 / window.len().max(1) as f64
}

/// Whether [`parse`] promises a saving, judged on a first part.
pub(crate) fn pays(values: &[u64], classes: &[u8], sign: u64, area: usize, literal_bits: f64) -> bool {
    if share(values, sign) < 0.1 {
        return false;
    }
    let n = if values.len() <= 1 << 17 { values.len() } else { 1 << 16 };
    let mut trial = classes[..n].to_vec();
    n == values.len() || parse(&values[..n], &mut trial, sign, area, literal_bits).1 > 0.02 * literal_bits * n as f64
}

/// Turns ordinary elements into copies where that pays. `sign` is the bit in which a copy may differ from its source,
/// or 0. Returns the stored distances and the bits saved, estimated.
pub(crate) fn parse(values: &[u64], classes: &mut [u8], sign: u64, area: usize, literal_bits: f64) -> (Vec<u32>, f64) {
    let n = values.len();
    let bits = n.next_power_of_two().ilog2().max(1);
    let mut single = vec![u32::MAX; 1 << bits];
    let mut double = vec![u32::MAX; 1 << bits];
    let mut long = vec![u32::MAX; 1 << bits];
    // Polynomial over the next RUN values, for which it is computed from that of the element before.
    let value = |i: usize| values.get(i).map_or(0, |v| v & !sign);
    let mut rolling = (0..RUN).fold(0u64, |h, i| h.wrapping_mul(BASE).wrapping_add(value(i)));
    let outgoing = (1..RUN).fold(1u64, |power, _| power.wrapping_mul(BASE));
    let mut distances = vec![0u32; n];
    let mut stored = Vec::new();
    let (mut latest, mut saved) = (1u32, 0.0);
    let mut miss_streak = 0usize;
    for i in 0..n {
        let v = values[i] & !sign;
        let pair = values.get(i + 1).map_or(0, |w| (w & !sign).rotate_left(29) ^ v.wrapping_mul(31));
        if classes[i] == ORDINARY {
            let at = |d: u32| {
                i.checked_sub(d as usize)
                    .filter(|&j| values[j] & !sign == v && (classes[j] == ORDINARY || is_copy(classes[j])))
            };
            let e = expected(&distances, i, area, latest);
            if at(e).is_some() {
                distances[i] = e;
                classes[i] = if values[i - e as usize] == values[i] { MATCH[0] } else { FLIP[0] };
                saved += literal_bits - 0.3;
                miss_streak = 0;
            } else {
                let back = |j: u32| (i as u32).wrapping_sub(j);
                let d2 = Some(back(double[hash(pair, bits)])).filter(|&d| {
                    d as usize <= i
                        && d > 0
                        && at(d).is_some()
                        && values.get(i + 1).map(|v| v & !sign) == values.get(i + 1 - d as usize).map(|v| v & !sign)
                });
                let d1 = Some(back(single[hash(v, bits)])).filter(|&d| d as usize <= i && d > 0 && at(d).is_some());
                let d8 = Some(back(long[hash(rolling, bits)])).filter(|&d| {
                    d as usize <= i
                        && d > 0
                        && at(d).is_some()
                        && (1..RUN).all(|k| value(i + k) == value(i + k - d as usize))
                });
                let chosen = match (d8.or(d2), d1) {
                    (Some(d), _) => Some((d, 2.0)),
                    (None, Some(d)) => Some((d, 1.0)),
                    _ => None,
                };
                let cost = |d: u32| f64::from(32 - d.leading_zeros()) + 3.0;
                if let Some((d, _)) = chosen.filter(|&(d, run)| cost(d) < literal_bits * run) {
                    distances[i] = d;
                    classes[i] = if values[i - d as usize] == values[i] { MATCH[1] } else { FLIP[1] };
                    stored.push(d);
                    latest = d;
                    saved += literal_bits - cost(d);
                } else {
                    saved -= if miss_streak < 8 { 0.6 } else { 0.1 };
                    miss_streak += 1;
                }
            }
            if distances[i] > 0 {
                latest = distances[i];
            }
        }
        single[hash(v, bits)] = i as u32;
        double[hash(pair, bits)] = i as u32;
        long[hash(rolling, bits)] = i as u32;
        rolling = rolling.wrapping_sub(v.wrapping_mul(outgoing)).wrapping_mul(BASE).wrapping_add(value(i + RUN));
    }
    (stored, saved)
}

/// Adaptive model for distances: guesses from the last three, two and one distances, then the number itself, its
/// exponent in the context of the previous exponent, its leading bits by exponent.
struct Model {
    exponent: Vec<Bit>,
    leading: Vec<Bit>,
    /// Latest distance seen after a history, per order, with the number of times in a row it was right.
    guesses: [Vec<(u32, u8)>; 3],
    hit: Vec<Bit>,
    history: [u32; 3],
    hits: usize,
}

impl Model {
    fn new() -> Self {
        Self {
            exponent: vec![Bit::default(); 33 * 64],
            leading: vec![Bit::default(); 64 * 16],
            guesses: std::array::from_fn(|_| vec![(0, 0); 1 << 12]),
            hit: vec![Bit::default(); 3 * 4 * 16],
            history: [0; 3],
            hits: 0,
        }
    }

    /// Slot of each order for the current history.
    fn slots(&self) -> [usize; 3] {
        let mut h = 0u64;
        let mut slots = [0; 3];
        for (slot, &d) in slots.iter_mut().zip(&self.history) {
            h = (h ^ u64::from(d)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *slot = (h >> 52) as usize;
        }
        slots
    }

    /// Guess of an order, and the context of its being right.
    fn guess(&self, order: usize, slots: &[usize; 3]) -> (u32, usize) {
        let (d, streak) = self.guesses[order][slots[order]];
        (d, order << 6 | usize::from(streak.min(3)) << 4 | self.hits & 15)
    }

    fn learn(&mut self, d: u32, slots: &[usize; 3], hit: bool) {
        for (table, &slot) in self.guesses.iter_mut().zip(slots) {
            let (guess, streak) = &mut table[slot];
            if *guess == d {
                *streak = streak.saturating_add(1);
            } else {
                (*guess, *streak) = (d, 0);
            }
        }
        self.history = [d, self.history[0], self.history[1]];
        self.hits = self.hits << 1 | usize::from(hit);
    }

    /// First node of the exponent tree: by the exponent of the previous distance.
    fn exponent_tree(&self) -> usize {
        (31 - self.history[0].max(1).leading_zeros()) as usize * 64
    }
}

/// Writes the stored distances (all above 0).
pub(crate) fn encode(distances: &[u32]) -> Vec<u8> {
    let mut e = Encoder::new();
    let mut m = Model::new();
    for &d in distances {
        let slots = m.slots();
        let mut hit = false;
        let mut wrong = 0;
        for order in (0..3).rev() {
            let (guess, c) = m.guess(order, &slots);
            // A guess that was already refuted is not asked again.
            if guess != 0 && guess != wrong {
                e.put(&mut m.hit[c], guess == d);
                if guess == d {
                    hit = true;
                    break;
                }
                wrong = guess;
            }
        }
        if !hit {
            let x = 31 - d.leading_zeros();
            let tree = m.exponent_tree();
            let mut node = 1usize;
            for i in (0..5).rev() {
                let bit = x >> i & 1 == 1;
                e.put(&mut m.exponent[tree + node], bit);
                node = node << 1 | usize::from(bit);
            }
            let mut node = 1usize;
            for i in (0..x).rev() {
                let bit = d >> i & 1 == 1;
                if node < 16 {
                    e.put(&mut m.leading[(x as usize) << 4 | node], bit);
                    node = node << 1 | usize::from(bit);
                } else {
                    e.put(&mut Bit::default(), bit);
                }
            }
        }
        m.learn(d, &slots, hit);
    }
    e.finish()
}

/// Inverse of [`encode`] for `n` distances.
pub(crate) fn decode(bytes: &[u8], n: usize) -> Result<Vec<u32>> {
    let mut d = Decoder::new(bytes);
    let mut m = Model::new();
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        let slots = m.slots();
        let mut found = None;
        let mut wrong = 0;
        for order in (0..3).rev() {
            let (guess, c) = m.guess(order, &slots);
            if guess != 0 && guess != wrong {
                if d.get(&mut m.hit[c]) {
                    found = Some(guess);
                    break;
                }
                wrong = guess;
            }
        }
        let v = match found {
            Some(v) => v,
            None => {
                let tree = m.exponent_tree();
                let mut node = 1usize;
                for _ in 0..5 {
                    let c = m.exponent.get_mut(tree + node).ok_or(Error::Corrupt("distance"))?;
                    node = node << 1 | usize::from(d.get(c));
                }
                let x = node & 31;
                let (mut v, mut node) = (1u32, 1usize);
                for _ in 0..x {
                    let bit = match m.leading.get_mut(x << 4 | node) {
                        Some(c) if node < 16 => d.get(c),
                        _ => d.get(&mut Bit::default()),
                    };
                    if node < 16 {
                        node = node << 1 | usize::from(bit);
                    }
                    v = v << 1 | u32::from(bit);
                }
                v
            }
        };
        m.learn(v, &slots, found.is_some());
        out.push(v);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_round_trip() {
        let d: Vec<u32> =
            (0..2000u32).map(|i| if i % 3 == 0 { 6 } else { (i * i * 977) % 50000 + 1 }).chain([u32::MAX, 1]).collect();
        assert_eq!(decode(&encode(&d), d.len()).unwrap(), d);
    }
}
