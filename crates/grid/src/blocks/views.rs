//! Ways to represent the elements of a block as symbols, and the search for masks and fixed copies.

use crate::DType;
use crate::blocks::block::Candidate;
use crate::coding::bits::log2;
use crate::fields::geometry::Geometry;
use crate::fields::mask::{LITERAL, ORDINARY, SPECIALS, is_copy};
use crate::numbers::elements::{number, ordered, spread, unordered};
use crate::numbers::lattice::{self, Found, K_LIMIT, Lattice};

/// What the symbols of ordinary elements are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Bits of the float itself.
    Bits,
    /// `base + k * gcd`, wrapping, of the order-preserving integer.
    Integers { base: u64, gcd: u64 },
    /// One lattice for the block; predicted in `k`.
    Lattice(Lattice),
    /// One lattice per plane; predicted in the unit of the data.
    PlaneLattices(Vec<Lattice>),
    /// Rank among the distinct values (ascending order-preserving integers).
    Ranks(Vec<u64>),
}

/// A representation under consideration.
pub(crate) struct View {
    pub(crate) kind: Kind,
    /// Symbol per element in plane order; meaningless where the class is not ordinary or a copy.
    pub(crate) symbols: Vec<u64>,
    pub(crate) classes: Vec<u8>,
    /// Units in the last place to add per element; empty for none.
    pub(crate) corrections: Vec<i8>,
    /// Offset and pitch per plane for plane lattices.
    pub(crate) planes: Vec<(f64, f64)>,
    /// Rare elements that are replaced after decoding, as (index, raw bits).
    pub(crate) patches: Vec<(usize, u64)>,
    /// Stored distances when elements repeat irregularly.
    pub(crate) repeats: Option<Vec<u32>>,
    /// Bits spent outside the residuals.
    pub(crate) overhead: f64,
}

/// Finds values that are better masked than predicted.
pub(crate) fn find_specials(dtype: DType, values: &[u64], fills: &[u64]) -> Vec<u64> {
    let mut sample: Vec<u64> = spread(values.len(), 8192).map(|i| values[i]).collect();
    sample.sort_unstable();
    let total = sample.len() as f64;
    let mut counted: Vec<(f64, u64)> = sample.chunk_by(|a, b| a == b).map(|r| (r.len() as f64 / total, r[0])).collect();
    counted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut keys: Vec<u64> = sample.iter().map(|&v| ordered(dtype, v)).collect();
    keys.sort_unstable();
    let mut specials: Vec<u64> = fills.iter().copied().filter(|f| sample.binary_search(f).is_ok()).collect();
    specials.dedup();
    for &(share, v) in counted.iter().take(12) {
        if share < 0.002 && dtype.is_float() && number(dtype == DType::F64, v).is_finite() {
            continue;
        }
        if specials.contains(&v) || specials.len() >= SPECIALS {
            continue;
        }
        let special = if dtype.is_float() {
            let x = number(dtype == DType::F64, v);
            let others: Vec<f64> = sample
                .iter()
                .filter(|o| **o != v && !specials.contains(o))
                .map(|&o| number(dtype == DType::F64, o))
                .filter(|o| o.is_finite())
                .collect();
            let outlier = match others.len() {
                0 => false,
                m => {
                    let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
                    for &o in &others {
                        (lo, hi) = (lo.min(o), hi.max(o));
                    }
                    m > 1 && (x < lo - 1.0 * (hi - lo) || x > hi + 1.0 * (hi - lo))
                }
            };
            !x.is_finite() || share >= 0.3 || (share >= 0.002 && outlier)
        } else {
            share >= 0.3
        };
        if special {
            specials.push(v);
        }
    }
    specials.truncate(SPECIALS);
    specials
}

/// Neighbours in the component planes that are often repeated exactly, per component.
pub(crate) fn find_candidates(g: &Geometry, values: &[u64]) -> Vec<[Candidate; 2]> {
    let each = (g.planes / g.components).max(1);
    let mut out = Vec::with_capacity(g.components);
    for c in 0..g.components {
        let mut pool = Vec::new();
        for planes in 0..=c {
            let Ok(planes) = u8::try_from(planes * each) else { continue };
            for rows in -1..=1i8 {
                for cols in -1..=1i8 {
                    let k = Candidate { planes, rows, cols };
                    if k.back(g).is_some() && (planes > 0 || (rows, cols) < (0, 0)) {
                        pool.push(k);
                    }
                }
            }
        }
        let places: Vec<usize> = spread(each * g.area(), 1024).map(|i| c * each * g.area() + i).collect();
        let hits = |k: &Candidate, left: &[usize]| -> Vec<usize> {
            let Some((_, plain)) = k.back(g) else { return Vec::new() };
            left.iter()
                .copied()
                .filter(|&i| {
                    k.exists(g, i / g.area(), i / g.cols % g.rows, i % g.cols) && values[i] == values[i - plain]
                })
                .collect()
        };
        let mut pair = [Candidate::default(); 2];
        let mut left = places;
        for slot in &mut pair {
            let Some((best, matched)) = pool.iter().map(|k| (*k, hits(k, &left))).max_by_key(|m| m.1.len()) else {
                break;
            };
            if matched.len() < 40 {
                break;
            }
            *slot = best;
            left.retain(|i| matched.binary_search(i).is_err());
        }
        out.push(pair);
    }
    out
}

/// The elements of a block before a representation is chosen.
pub(crate) struct Source<'a> {
    pub(crate) dtype: DType,
    /// Whether elements are doubles.
    pub(crate) wide: bool,
    pub(crate) g: Geometry,
    pub(crate) values: &'a [u64],
    pub(crate) classes: Vec<u8>,
}

impl Source<'_> {
    fn view(&self, kind: Kind) -> View {
        View {
            kind,
            symbols: vec![0; self.values.len()],
            classes: self.classes.clone(),
            corrections: Vec::new(),
            planes: Vec::new(),
            patches: Vec::new(),
            repeats: None,
            overhead: 0.0,
        }
    }

    /// Whether elements of a class have a symbol.
    pub(crate) fn is_plain(class: u8) -> bool {
        class == ORDINARY || is_copy(class)
    }

    /// The floats as they are.
    pub(crate) fn bits_view(&self) -> View {
        let mut v = self.view(Kind::Bits);
        v.symbols.copy_from_slice(self.values);
        v
    }

    /// Integers without their common base and divisor; `None` when the range is too wide.
    pub(crate) fn integer_view(&self) -> Option<View> {
        let plain = || {
            self.values
                .iter()
                .zip(&self.classes)
                .filter(|(_, c)| Self::is_plain(**c))
                .map(|(&v, _)| ordered(self.dtype, v))
        };
        let (base, top) = (plain().min()?, plain().max()?);
        let mut gcd = 0u64;
        for v in plain() {
            let mut b = v - base;
            while b != 0 {
                (gcd, b) = (b, gcd % b);
            }
            if gcd == 1 {
                break;
            }
        }
        let gcd = gcd.max(1);
        if (top - base) / gcd >= K_LIMIT as u64 {
            return None;
        }
        let mut v = self.view(Kind::Integers { base, gcd });
        for ((s, &x), &c) in v.symbols.iter_mut().zip(self.values).zip(&self.classes) {
            if Self::is_plain(c) {
                *s = (ordered(self.dtype, x) - base) / gcd;
            }
        }
        Some(v)
    }

    /// Ranks among the distinct values; `None` when those are many. `most` is the largest share of distinct values in a sample for which ranks are worth a try.
    pub(crate) fn rank_view(&self, most: f64) -> Option<View> {
        // Cheap refusal: many distinct values in a sample.
        let mut sample: Vec<u64> = spread(self.values.len(), 4096)
            .filter(|&i| Self::is_plain(self.classes[i]))
            .map(|i| self.values[i])
            .collect();
        let taken = sample.len();
        sample.sort_unstable();
        sample.dedup();
        if sample.len() as f64 > taken as f64 * most && taken > 64 {
            return None;
        }
        // Distinct values by open addressing; given up when there are too many.
        let most = self.values.len() / 4;
        let bits = usize::BITS - (most * 2).leading_zeros() + 1;
        let mut table: Vec<u32> = vec![u32::MAX; 1 << bits];
        let mut distinct: Vec<u64> = Vec::new();
        let mut v = self.view(Kind::Ranks(Vec::new()));
        for ((s, &x), &c) in v.symbols.iter_mut().zip(self.values).zip(&self.classes) {
            if !Self::is_plain(c) {
                continue;
            }
            let mut at = (x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
            *s = loop {
                match table[at] {
                    u32::MAX => {
                        if distinct.len() >= most {
                            return None;
                        }
                        table[at] = distinct.len() as u32;
                        distinct.push(x);
                        break distinct.len() as u64 - 1;
                    }
                    k if distinct[k as usize] == x => break u64::from(k),
                    _ => at = (at + 1) & ((1 << bits) - 1),
                }
            };
        }
        if distinct.len() < 2 {
            return None;
        }
        let mut sorted: Vec<(u64, u32)> =
            distinct.iter().enumerate().map(|(i, &x)| (ordered(self.dtype, x), i as u32)).collect();
        sorted.sort_unstable();
        let mut rank = vec![0u32; sorted.len()];
        for (r, &(_, i)) in sorted.iter().enumerate() {
            rank[i as usize] = r as u32;
        }
        for (s, &c) in v.symbols.iter_mut().zip(&self.classes) {
            if Self::is_plain(c) {
                *s = u64::from(rank[*s as usize]);
            }
        }
        let keys: Vec<u64> = sorted.into_iter().map(|k| k.0).collect();
        v.overhead = keys.windows(2).map(|w| log2((w[1] - w[0]) as f64) + 4.0).sum();
        if self.dtype.is_float() {
            // Values that occur with both signs are written once.
            let sign = 1u64 << (self.dtype.size() * 8 - 1);
            let mirrored = spread(keys.len(), 256)
                .filter(|&i| keys.binary_search(&ordered(self.dtype, unordered(self.dtype, keys[i]) ^ sign)).is_ok())
                .count();
            v.overhead *= 1.0 - 0.5 * mirrored as f64 / keys.len().min(256) as f64;
        }
        v.kind = Kind::Ranks(keys);
        Some(v)
    }

    /// Sample of ordinary numbers of some planes, as it comes and sorted without repeats.
    fn sample(&self, planes: std::ops::Range<usize>, want: usize) -> (Vec<f64>, Vec<f64>) {
        let (from, n) = (planes.start * self.g.area(), planes.len() * self.g.area());
        let v: Vec<f64> = spread(n, want)
            .map(|i| from + i)
            .filter(|&i| Self::is_plain(self.classes[i]))
            .map(|i| number(self.wide, self.values[i]))
            .collect();
        let mut s = v.clone();
        s.sort_unstable_by(f64::total_cmp);
        s.dedup();
        (v, s)
    }

    /// Searches a lattice for some planes on about `want` elements.
    pub(crate) fn find(&self, planes: std::ops::Range<usize>, want: usize, hint: Option<Found>) -> Option<Found> {
        let (v, s) = self.sample(planes, want);
        if self.wide { lattice::find::<true>(&v, &s, hint) } else { lattice::find::<false>(&v, &s, hint) }
    }

    /// Quantises part of the elements on a lattice.
    fn quantise(&self, l: &Lattice, range: std::ops::Range<usize>, v: &mut View) {
        let inverse = 1.0 / l.step;
        for i in range {
            let mut fix = 0i8;
            if Self::is_plain(self.classes[i]) {
                let bits = self.values[i];
                let hit = l.nearest_by(number(self.wide, bits), inverse).and_then(|k| {
                    let miss = if self.wide { l.miss::<true>(bits, k) } else { l.miss::<false>(bits, k) };
                    (miss.abs() <= lattice::MISS).then_some((k, miss as i8))
                });
                match hit {
                    Some((k, miss)) => {
                        v.symbols[i] = k as u64;
                        fix = miss;
                    }
                    None => {
                        v.classes[i] = LITERAL;
                        v.overhead += 40.0;
                    }
                }
            }
            v.corrections.push(fix);
        }
    }

    /// All elements on one lattice.
    pub(crate) fn lattice_view(&self, l: Lattice) -> View {
        let mut v = self.view(Kind::Lattice(l));
        self.quantise(&l, 0..self.values.len(), &mut v);
        Self::settle_corrections(&mut v);
        v
    }

    /// Each plane on its own lattice.
    pub(crate) fn plane_lattice_view(&self, found: Vec<Lattice>) -> View {
        let mut v = self.view(Kind::Bits);
        for (p, l) in found.iter().enumerate() {
            self.quantise(l, p * self.g.area()..(p + 1) * self.g.area(), &mut v);
            v.planes.push((l.offset / l.divisor, l.pitch()));
        }
        v.overhead += found.len() as f64 * 80.0;
        v.kind = Kind::PlaneLattices(found);
        Self::settle_corrections(&mut v);
        v
    }

    /// Drops the corrections when there are none, turns rare ones into literals, and accounts for the rest.
    fn settle_corrections(v: &mut View) {
        let n = v.corrections.len() as f64;
        let m = v.corrections.iter().filter(|&&c| c != 0).count() as f64;
        if m < n / 4000.0 {
            for (c, class) in v.corrections.iter().zip(&mut v.classes) {
                if *c != 0 {
                    *class = LITERAL;
                }
            }
            v.corrections.clear();
            v.overhead += m * 45.0;
        } else {
            let p = m / n;
            v.overhead += n * (-(p * p.log2()) - (1.0 - p) * (1.0 - p).max(1e-9).log2());
            v.overhead +=
                v.corrections.iter().filter(|c| **c != 0).map(|&c| lattice::correction_bits(i64::from(c))).sum::<f64>();
        }
    }
}
