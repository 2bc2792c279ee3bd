//! A grid block: choosing how to represent and predict it, and its layout.
//!
//! ```text
//! body        = flags:u8 domain specials classes predictors frame sections
//! flags       = domain kind (bits 0..3), narrow doubles (bit 3), corrections (bit 4), classes (bit 5),
//!               irregular repeats (bit 6)
//! specials    = count:varint, raw bits each                     when classes
//! present     = varint, bit per class that occurs               when classes
//! candidates  = 3 bytes × 2 per component                       when a copying class is present and not bit 6
//! predictors  = per (band, level) in order of appearance: choice
//! frame       = start:f64 low:f64 high:f64 floor:i16
//! sections    = classes, literals, distances, corrections, tables, words, raw bits
//! ```

use super::binary::{self, Bit};
use super::bits::{Cursor, log2, put_f64, put_section, put_varint};
use super::block::{self, Candidate, Domain, Float32, Float64, Frame, Steps, order32, order64};
use super::geometry::Geometry;
use super::lattice::{self, Found, K_LIMIT, Lattice};
use super::mask::{self, CLASSES, LITERAL, MATCH, ORDINARY, SPECIALS};
use super::predict::{self, Predictor, Samples, Unit};
use super::repeats;
use super::{DType, Error, Result};

/// What the symbols of ordinary elements are.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
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
struct View {
    kind: Kind,
    symbols: Vec<u64>,
    classes: Vec<u8>,
    literals: Vec<u64>,
    corrections: Vec<i8>,
    /// Offset and pitch per plane for plane lattices.
    planes: Vec<(f64, f64)>,
    /// Stored distances when elements repeat irregularly.
    repeats: Option<Vec<u32>>,
    /// Bits spent outside the residuals.
    overhead: f64,
}

fn load(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    match dtype.size() {
        1 => bytes.iter().map(|&b| u64::from(b)).collect(),
        2 => bytes.as_chunks::<2>().0.iter().map(|&b| u64::from(u16::from_le_bytes(b))).collect(),
        4 => bytes.as_chunks::<4>().0.iter().map(|&b| u64::from(u32::from_le_bytes(b))).collect(),
        _ => bytes.as_chunks::<8>().0.iter().map(|&b| u64::from_le_bytes(b)).collect(),
    }
}

fn store(dtype: DType, values: &[u64], out: &mut Vec<u8>) {
    out.reserve(values.len() * dtype.size());
    match dtype.size() {
        1 => out.extend(values.iter().map(|&v| v as u8)),
        2 => out.extend(values.iter().flat_map(|&v| (v as u16).to_le_bytes())),
        4 => out.extend(values.iter().flat_map(|&v| (v as u32).to_le_bytes())),
        _ => out.extend(values.iter().flat_map(|&v| v.to_le_bytes())),
    }
}

/// Number an element stands for (floats only).
#[inline(always)]
fn number(wide: bool, bits: u64) -> f64 {
    if wide { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) }
}

/// Integer that sorts like the element.
#[inline(always)]
fn ordered(dtype: DType, bits: u64) -> u64 {
    match dtype {
        DType::F32 => u64::from(order32(bits as u32)),
        DType::F64 => order64(bits),
        _ if dtype.is_signed() => bits ^ 1 << (dtype.size() * 8 - 1),
        _ => bits,
    }
}

/// Inverse of [`ordered`].
#[inline(always)]
fn unordered(dtype: DType, key: u64) -> u64 {
    match dtype {
        DType::F32 => {
            let k = key as u32;
            u64::from(k ^ (((!k as i32) >> 31) as u32 | 0x8000_0000))
        }
        DType::F64 => key ^ (((!key as i64) >> 63) as u64 | 1 << 63),
        _ if dtype.is_signed() => key ^ 1 << (dtype.size() * 8 - 1),
        _ => key,
    }
}

/// About `want` indices spread evenly with jitter.
fn spread(n: usize, want: usize) -> impl Iterator<Item = usize> {
    let count = want.min(n);
    let mut jitter = 0x9e37_79b9u64;
    (0..count).map(move |i| {
        jitter = jitter.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (lo, hi) = (i * n / count, (i + 1) * n / count);
        lo + (jitter >> 33) as usize % (hi - lo).max(1)
    })
}

/// Finds values that are better masked than predicted.
fn find_specials(dtype: DType, values: &[u64], fills: &[u64]) -> Vec<u64> {
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
fn find_candidates(g: &Geometry, values: &[u64]) -> Vec<[Candidate; 2]> {
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

struct Encoder<'a> {
    dtype: DType,
    wide: bool,
    g: Geometry,
    values: &'a [u64],
    classes: Vec<u8>,
}

impl Encoder<'_> {
    fn view(&self, kind: Kind) -> View {
        View {
            kind,
            symbols: vec![0; self.values.len()],
            classes: self.classes.clone(),
            literals: Vec::new(),
            corrections: Vec::new(),
            planes: Vec::new(),
            repeats: None,
            overhead: 0.0,
        }
    }

    fn is_plain(class: u8) -> bool {
        class == ORDINARY || MATCH.contains(&class)
    }

    /// Copies of elements that are not ordinary cannot stay copies.
    fn bits_view(&self) -> View {
        let mut v = self.view(Kind::Bits);
        v.symbols.copy_from_slice(self.values);
        v
    }

    fn integer_view(&self) -> Option<View> {
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

    fn rank_view(&self) -> Option<View> {
        // Cheap refusal: many distinct values in a sample.
        let mut sample: Vec<u64> = spread(self.values.len(), 4096)
            .filter(|&i| Self::is_plain(self.classes[i]))
            .map(|i| self.values[i])
            .collect();
        let taken = sample.len();
        sample.sort_unstable();
        sample.dedup();
        if sample.len() * 10 > taken * 9 && taken > 64 {
            return None;
        }
        let mut keys: Vec<u64> = self
            .values
            .iter()
            .zip(&self.classes)
            .filter(|(_, c)| Self::is_plain(**c))
            .map(|(&v, _)| ordered(self.dtype, v))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.len() < 2 || keys.len() * 4 > self.values.len() {
            return None;
        }
        let mut v = self.view(Kind::Ranks(Vec::new()));
        for ((s, &x), &c) in v.symbols.iter_mut().zip(self.values).zip(&self.classes) {
            if Self::is_plain(c) {
                *s = keys.binary_search(&ordered(self.dtype, x)).ok()? as u64;
            }
        }
        v.overhead = keys.windows(2).map(|w| log2((w[1] - w[0]) as f64) + 2.0).sum();
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

    fn find(&self, planes: std::ops::Range<usize>, want: usize, hint: Option<Lattice>) -> Option<Found> {
        let (v, s) = self.sample(planes, want);
        if self.wide { lattice::find::<true>(&v, &s, hint) } else { lattice::find::<false>(&v, &s, hint) }
    }

    /// Quantises part of the elements on a lattice.
    fn quantise(&self, l: &Lattice, range: std::ops::Range<usize>, v: &mut View) {
        for i in range {
            let mut fix = 0i8;
            if Self::is_plain(self.classes[i]) {
                let bits = self.values[i];
                let hit = l.nearest(number(self.wide, bits)).and_then(|k| {
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

    fn lattice_view(&self, l: Lattice) -> View {
        let mut v = self.view(Kind::Lattice(l));
        self.quantise(&l, 0..self.values.len(), &mut v);
        Self::settle_corrections(&mut v);
        v
    }

    fn plane_lattice_view(&self, found: Vec<Lattice>) -> View {
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

/// Smallest and largest predicted number of the plain elements.
fn range_of(w: &[f64], plain: &[bool]) -> (f64, f64) {
    let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
    for (&x, _) in w.iter().zip(plain).filter(|(_, p)| **p) {
        (lo, hi) = (lo.min(x), hi.max(x));
    }
    if lo <= hi { (lo, hi) } else { (0.0, 0.0) }
}

/// The larger magnitude of two limits.
fn magnitude(low: f64, high: f64) -> f64 {
    if low.abs() > high.abs() { low.abs() } else { high.abs() }
}

/// Padded map of which elements are ordinary.
fn ordinary_map(g: &Geometry, classes: &[u8]) -> Result<Vec<bool>> {
    let mut m = vec![false; g.padded_len()?];
    for (k, row) in classes.chunks_exact(g.cols).enumerate() {
        let at = g.padded(k / g.rows, k % g.rows, 0);
        for (o, &c) in m[at..at + g.cols].iter_mut().zip(row) {
            *o = c == ORDINARY;
        }
    }
    Ok(m)
}

fn start_of(symbols: &[u64], classes: &[u8], value: impl Fn(u64) -> f64) -> f64 {
    // The mean of a few values is a fair guess for what lies before the first.
    let plain: Vec<f64> =
        spread(symbols.len(), 512).filter(|&i| Encoder::is_plain(classes[i])).map(|i| value(symbols[i])).collect();
    if plain.is_empty() {
        return 0.0;
    }
    let mean = plain.iter().sum::<f64>() / plain.len() as f64;
    if mean.is_finite() { f64::from(mean as f32) } else { 0.0 }
}

/// Planes that share predictors.
fn band(g: &Geometry) -> usize {
    if g.components > 1 { (g.planes / g.components).max(1) } else { (1usize << 16).div_ceil(g.area()).max(1) }
}

/// Rough bits per block of a view, by the best fixed predictor on a sample.
fn rough_cost<D: Domain>(g: &Geometry, v: &View, d: D) -> Result<(f64, Vec<f64>, Vec<bool>)> {
    let plain = ordinary_map(g, &v.classes)?;
    let w = frame_for(g, v, d).fill(d, &v.symbols)?;
    let s = Samples::new(g, 0..g.planes, 4096);
    let cost = predict::fixed(g, 0)
        .iter()
        .take(5)
        .map(|p| predict::trial(g, &s, &plain, &w, p, &Planewise(d, g, &s)))
        .fold(f64::INFINITY, f64::min);
    let n = v.classes.iter().filter(|&&c| c == ORDINARY).count() as f64;
    Ok((cost.max(-1.0) * n + v.overhead, w, plain))
}

/// Unit of a domain; plane lattices use the mean pitch.
struct Planewise<'a, D>(
    D,
    #[expect(dead_code, reason = "kept for per-plane units")] &'a Geometry,
    #[expect(dead_code, reason = "as above")] &'a Samples,
);

impl<D: Domain> Unit for Planewise<'_, D> {
    fn unit(&self, value: f64) -> f64 {
        self.0.unit(value)
    }
}

fn frame_for<'a, D: Domain>(g: &Geometry, v: &'a View, d: D) -> Frame<'a> {
    let mut d = d;
    d.plane(0);
    Frame {
        geometry: *g,
        classes: if v.classes.iter().all(|&c| c == ORDINARY) { &[] } else { &v.classes },
        candidates: &[],
        repeats: None,
        start: start_of(&v.symbols, &v.classes, |s| d.value(s)),
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        floor: 0,
        choice: &[],
        predictors: &[],
    }
}

/// Picks a predictor per band and level.
fn choose_predictors(g: &Geometry, plain: &[bool], w: &[f64], unit: &impl Unit) -> (Vec<Predictor>, Vec<usize>) {
    let levels = block::levels(g);
    let band = band(g);
    let mut predictors = Vec::new();
    let mut choice = Vec::with_capacity(g.planes);
    let mut p = 0;
    while p < g.planes {
        let mut end = p + 1;
        while end < g.planes && end / band == p / band && levels[end] == levels[p] {
            end += 1;
        }
        let level = levels[p];
        let elements = (end - p) * g.area();
        let first = if end - p > 2 && p < 2 { 2 } else { p };
        let s = Samples::new(g, first..end, 4096.min(elements));
        let mut best: Option<(f64, Predictor)> = None;
        let mut consider = |q: Predictor, bytes: f64| {
            let bits = predict::trial(g, &s, plain, w, &q, unit) + bytes * 8.0 / elements as f64;
            if best.as_ref().is_none_or(|b| bits < b.0) {
                best = Some((bits, q));
            }
        };
        for q in predict::fixed(g, level) {
            consider(q, 8.0);
        }
        for constant in [true] {
            if let Some(q) = predict::fit(g, level, &s, plain, w, unit, constant) {
                consider(q, 100.0);
            }
        }
        if let Some((_, q)) = best {
            predictors.push(q);
        }
        choice.extend(std::iter::repeat_n(predictors.len() - 1, end - p));
        p = end;
    }
    (predictors, choice)
}

/// Encodes one block; `None` when the representation does not suit it.
pub(super) fn encode(
    dtype: DType,
    shape: &[usize],
    fills: &[u64],
    bytes: &[u8],
    _effort: u8,
) -> Result<Option<Vec<u8>>> {
    let t0 = std::time::Instant::now();
    let g = Geometry::new(shape);
    let mut values = g.gather(&load(dtype, bytes));
    let specials = find_specials(dtype, &values, fills);
    // Doubles that are all singles are coded as singles; specials keep their bits.
    let narrow = dtype == DType::F64
        && values.iter().all(|&v| specials.contains(&v) || f64::from(f64::from_bits(v) as f32).to_bits() == v);
    let special_bits = specials.clone();
    let inner = if narrow { DType::F32 } else { dtype };
    let mut classes = vec![ORDINARY; values.len()];
    let mut any = false;
    if !specials.is_empty() || dtype.is_float() {
        for (c, &v) in classes.iter_mut().zip(&values) {
            if let Some(k) = specials.iter().position(|&s| s == v) {
                *c = k as u8 + 1;
                any = true;
            } else if dtype.is_float() && !number(dtype == DType::F64, v).is_finite() {
                *c = LITERAL;
                any = true;
            }
        }
    }
    let raw_values = values.clone();
    if narrow {
        for v in &mut values {
            *v = u64::from((f64::from_bits(*v) as f32).to_bits());
        }
    }
    let mut candidates = Vec::new();
    let before = classes.clone();
    if g.components > 1 {
        candidates = find_candidates(&g, &values);
        let each = (g.planes / g.components).max(1);
        for i in 0..values.len() {
            if classes[i] != ORDINARY {
                continue;
            }
            let p = i / g.area();
            let Some(pair) = candidates.get(p / each) else { continue };
            for (k, class) in pair.iter().zip(MATCH) {
                if *k != Candidate::default()
                    && k.exists(&g, p, i / g.cols % g.rows, i % g.cols)
                    && let Some((_, plain)) = k.back(&g)
                    && values[i] == values[i - plain]
                    && Encoder::is_plain(classes[i - plain])
                {
                    classes[i] = class;
                    any = true;
                    break;
                }
            }
        }
    }
    if std::env::var_os("GRID_DEBUG").is_some() {
        eprintln!("   t classes {:?}", t0.elapsed());
    }
    let copied = classes.iter().filter(|c| MATCH.contains(c)).count();
    if copied * 2 * g.components < classes.len() * (g.components - 1) {
        // Fixed neighbours explain too little; irregular repeats may do better.
        classes = before;
        candidates.clear();
    }
    let matches = classes.iter().any(|c| MATCH.contains(c));
    let e = Encoder { dtype: inner, wide: inner == DType::F64, g, values: &values, classes };
    if !e.classes.contains(&ORDINARY) {
        any = true;
    }
    let _ = any;
    let mut best: Option<(f64, View, Vec<f64>, Vec<bool>)> = None;
    let mut consider = |v: View| -> Result<()> {
        let (cost, w, plain) = match &v.kind {
            Kind::Bits if e.wide => rough_cost(&g, &v, Float64::new(1.0))?,
            Kind::Bits => rough_cost(&g, &v, Float32::new(1.0))?,
            _ => rough_cost(&g, &v, Steps::new(&v.planes))?,
        };
        if std::env::var_os("GRID_DEBUG").is_some() {
            eprintln!("   t {:?}", t0.elapsed());
            eprintln!(
                "   view {} {:.3} bits/elem (overhead {:.3})",
                match &v.kind {
                    Kind::Bits => "bits".into(),
                    Kind::Integers { .. } => "ints".into(),
                    Kind::Lattice(l) => format!("{l:?}"),
                    Kind::PlaneLattices(l) => format!("planes {:?}", l.first()),
                    Kind::Ranks(r) => format!("ranks {}", r.len()),
                },
                cost / v.symbols.len() as f64,
                v.overhead / v.symbols.len() as f64
            );
        }
        if best.as_ref().is_none_or(|b| cost < b.0) {
            best = Some((cost, v, w, plain));
        }
        Ok(())
    };
    if inner.is_float() {
        consider(e.bits_view())?;
        let whole = e.find(0..g.planes, 4096, None).filter(|f| f.gain > 0.2);
        if let Some(f) = whole {
            consider(e.lattice_view(f.lattice))?;
        }
        if g.planes > 1 && !matches && g.components == 1 && whole.is_none_or(|f| f.missed > 0.0 || f.gain < 6.0) {
            let probes = [g.planes / 3, g.planes - 1 - g.planes / 4];
            let gain = probes.iter().map(|&p| e.find(p..p + 1, 1024, None).map_or(0.0, |f| f.gain)).sum::<f64>() / 2.0;
            if gain > whole.map_or(0.0, |f| f.gain) + 0.5 {
                let mut found: Vec<Lattice> = Vec::with_capacity(g.planes);
                let mut hint = None;
                for p in 0..g.planes {
                    let l = e
                        .find(p..p + 1, 1024, hint)
                        .map_or(Lattice { offset: 0.0, step: 1.0, divisor: 1.0, single: false }, |f| f.lattice);
                    found.push(l);
                    hint = Some(l);
                }
                consider(e.plane_lattice_view(found))?;
            }
        }
    } else if let Some(v) = e.integer_view() {
        consider(v)?;
    }
    if let Some(v) = e.rank_view() {
        consider(v)?;
    }
    let Some((cost, mut view, w, plain)) = best else { return Ok(None) };
    let each = cost / values.len() as f64;
    if !matches && each > 6.0 && values.len() < u32::MAX as usize / 2 && repeats::share(&values) > 0.1 {
        let mut classes = view.classes.clone();
        let (stored, saved) = repeats::parse(&values, &mut classes, g.area(), each + 2.0);
        if std::env::var_os("GRID_DEBUG").is_some() {
            eprintln!("   repeats {} saved {} of {}", stored.len(), saved, cost);
        }
        if saved > 0.03 * cost {
            view.classes = classes;
            view.repeats = Some(stored);
        }
    }
    // A copy must be of an element whose symbol is known, which literals of this view are not.
    if matches && view.classes.contains(&LITERAL) || matches && !view.corrections.is_empty() {
        view = e.bits_view();
    }
    if std::env::var_os("GRID_DEBUG").is_some() {
        eprintln!("   t views {:?}", t0.elapsed());
    }
    let (low, high) = range_of(&w, &plain);
    let top = magnitude(low, high);
    let out = match &view.kind {
        Kind::Bits if e.wide => {
            finish(&e, &view, Float64::new(top), &special_bits, &raw_values, narrow, &candidates, w, plain)?
        }
        Kind::Bits => finish(&e, &view, Float32::new(top), &special_bits, &raw_values, narrow, &candidates, w, plain)?,
        _ => finish(&e, &view, Steps::new(&view.planes), &special_bits, &raw_values, narrow, &candidates, w, plain)?,
    };
    view.literals.clear();
    Ok(Some(out))
}

#[expect(clippy::too_many_arguments, reason = "one call site per domain")]
fn finish<D: Domain>(
    e: &Encoder<'_>,
    v: &View,
    d: D,
    specials: &[u64],
    raw_values: &[u64],
    narrow: bool,
    candidates: &[[Candidate; 2]],
    w: Vec<f64>,
    plain: Vec<bool>,
) -> Result<Vec<u8>> {
    let g = e.g;
    let tt = std::time::Instant::now();
    let mut d0 = d;
    d0.plane(g.planes / 2);
    // A view that was rebuilt after the choice has other numbers.
    let (w, plain) = {
        let _ = (&w, &plain);
        (frame_for(&g, v, d).fill(d, &v.symbols)?, ordinary_map(&g, &v.classes)?)
    };
    let (predictors, choice) = choose_predictors(&g, &plain, &w, &d0);
    if std::env::var_os("GRID_DEBUG").is_some() {
        eprintln!("   t predictors {:?}", tt.elapsed());
    }
    let (low, high) = range_of(&w, &plain);
    let mut frame = frame_for(&g, v, d);
    let start = frame.start;
    (frame.low, frame.high) = (low, high);
    frame.choice = &choice;
    frame.predictors = &predictors;
    let coded = block::encode(&frame, d, &v.symbols, &w);
    if std::env::var_os("GRID_DEBUG").is_some() {
        for p in &predictors {
            eprintln!("   {p:?}");
        }
        eprintln!("   tables {} words {} raw {}", coded.tables.len(), coded.words.len(), coded.raw.len());
    }
    if std::env::var_os("GRID_DEBUG").is_some() {
        eprintln!("   t coded {:?}", tt.elapsed());
    }
    let mut present = 0u16;
    for &c in &v.classes {
        present |= 1 << c;
    }
    present &= !1;
    let kind = match &v.kind {
        Kind::Bits => 0,
        Kind::Integers { .. } => 1,
        Kind::Lattice(_) => 2,
        Kind::PlaneLattices(_) => 3,
        Kind::Ranks(_) => 4u8,
    };
    let mut out = vec![
        kind | u8::from(narrow) << 3
            | u8::from(!v.corrections.is_empty()) << 4
            | u8::from(present != 0) << 5
            | u8::from(v.repeats.is_some()) << 6,
    ];
    match &v.kind {
        Kind::Bits => {}
        Kind::Integers { base, gcd } => {
            put_varint(&mut out, *base);
            put_varint(&mut out, *gcd);
        }
        Kind::Lattice(l) => l.write(&mut out),
        Kind::PlaneLattices(all) => all.iter().for_each(|l| l.write(&mut out)),
        Kind::Ranks(keys) => write_keys(e.dtype, keys, &mut out),
    }
    if present != 0 {
        put_varint(&mut out, specials.len() as u64);
        specials.iter().for_each(|&s| put_varint(&mut out, s));
        put_varint(&mut out, u64::from(present));
        if v.repeats.is_none() && present & (1 << MATCH[0] | 1 << MATCH[1]) != 0 {
            for k in candidates.iter().flatten() {
                out.extend_from_slice(&[k.planes, k.rows as u8, k.cols as u8]);
            }
        }
    }
    predictors.iter().for_each(|p| p.write(&mut out));
    put_f64(&mut out, start);
    put_f64(&mut out, low);
    put_f64(&mut out, high);
    out.extend_from_slice(&(coded.floor as i16).to_le_bytes());
    if present != 0 {
        let m = mask::encode(&g, &v.classes, present)?;
        put_section(&mut out, &m);
        let mut literals = Vec::new();
        for (&c, &x) in v.classes.iter().zip(raw_values) {
            if c == LITERAL {
                literals.extend_from_slice(&x.to_le_bytes()[..e_size(e.dtype, narrow)]);
            }
        }
        put_section(&mut out, &literals);
        if let Some(d) = &v.repeats {
            put_section(&mut out, &repeats::encode(d));
        }
        if std::env::var_os("GRID_DEBUG").is_some() {
            eprintln!(
                "   mask {} literals {} corrections {}",
                m.len(),
                literals.len(),
                block::encode_corrections(&v.corrections).len()
            );
        }
    }
    if !v.corrections.is_empty() {
        put_section(&mut out, &block::encode_corrections(&v.corrections));
    }
    put_section(&mut out, &coded.tables);
    put_section(&mut out, &coded.words);
    out.extend_from_slice(&coded.raw);
    Ok(out)
}

/// Bytes of a literal.
fn e_size(inner: DType, narrow: bool) -> usize {
    if narrow { 8 } else { inner.size() }
}

/// Codes ascending integers by their differences.
fn put_ascending(e: &mut binary::Encoder, keys: impl Iterator<Item = u64>) {
    let mut m = vec![[Bit::default(); 64]; 65];
    let (mut previous, mut last) = (None, 0usize);
    for k in keys {
        let d = previous.map_or(k, |p: u64| k - p - 1);
        if let Some(m) = m.get_mut(last) {
            e.put_number(m, d);
        }
        last = 64 - d.leading_zeros() as usize;
        previous = Some(k);
    }
}

/// Inverse of [`put_ascending`].
fn get_ascending(d: &mut binary::Decoder<'_>, n: usize) -> Result<Vec<u64>> {
    let mut m = vec![[Bit::default(); 64]; 65];
    let mut keys = Vec::with_capacity(n);
    let (mut previous, mut last) = (None, 0usize);
    for _ in 0..n {
        let step = m.get_mut(last).and_then(|m| d.get_number(m)).ok_or(Error::Corrupt("distinct values"))?;
        last = 64 - step.leading_zeros() as usize;
        let key = match previous {
            None => Some(step),
            Some(p) => step.checked_add(1).and_then(|s| s.checked_add(p)),
        }
        .ok_or(Error::Corrupt("distinct values overflow"))?;
        previous = Some(key);
        keys.push(key);
    }
    Ok(keys)
}

/// Writes the sorted distinct values. Those of floats are magnitudes with the signs that occur, because coordinates
/// are often symmetric.
fn write_keys(dtype: DType, keys: &[u64], out: &mut Vec<u8>) {
    let mut e = binary::Encoder::new();
    if dtype.is_float() {
        let sign = 1u64 << (dtype.size() * 8 - 1);
        let mut m: Vec<(u64, bool)> =
            keys.iter().map(|&k| unordered(dtype, k)).map(|v| (v & !sign, v & sign != 0)).collect();
        m.sort_unstable();
        let groups: Vec<(u64, bool, bool)> =
            m.chunk_by(|a, b| a.0 == b.0).map(|c| (c[0].0, c.iter().any(|v| !v.1), c.iter().any(|v| v.1))).collect();
        put_varint(out, groups.len() as u64);
        put_ascending(&mut e, groups.iter().map(|g| g.0));
        let mut bits = [Bit::default(); 8];
        let mut c = 0usize;
        for &(_, plus, minus) in &groups {
            // Both, or only one of them.
            e.put(&mut bits[c], plus && minus);
            if !(plus && minus) {
                e.put(&mut bits[4 + c], minus);
            }
            c = usize::from(plus) | usize::from(minus) << 1;
        }
    } else {
        put_varint(out, keys.len() as u64);
        put_ascending(&mut e, keys.iter().copied());
    }
    put_section(out, &e.finish());
}

/// Inverse of [`write_keys`]; at most `max` keys.
fn read_keys(dtype: DType, c: &mut Cursor<'_>, max: usize) -> Result<Vec<u64>> {
    let n = c.bounded(max, "more distinct values than elements")?;
    let mut d = binary::Decoder::new(c.section()?);
    let mut keys = get_ascending(&mut d, n)?;
    if dtype.is_float() {
        let sign = 1u64 << (dtype.size() * 8 - 1);
        let mut bits = [Bit::default(); 8];
        let mut c = 0usize;
        let (mut plus_keys, mut minus_keys) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for &k in &keys {
            if k & !(sign - 1) != 0 {
                return Err(Error::Corrupt("distinct values overflow"));
            }
            let both = bits.get_mut(c).is_some_and(|b| d.get(b));
            let minus = both || bits.get_mut(4 + c).is_some_and(|b| d.get(b));
            let plus = both || !minus;
            if plus {
                plus_keys.push(ordered(dtype, k));
            }
            if minus {
                minus_keys.push(ordered(dtype, k | sign));
            }
            c = usize::from(plus) | usize::from(minus) << 1;
        }
        minus_keys.reverse();
        minus_keys.extend(plus_keys);
        keys = minus_keys;
    }
    Ok(keys)
}

/// Decodes one block, appending its bytes.
pub(super) fn decode(dtype: DType, shape: &[usize], body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let g = Geometry::new(shape);
    let n = g.len();
    let mut c = Cursor::new(body);
    let flags = c.u8()?;
    let narrow = flags & 8 != 0;
    if narrow && dtype != DType::F64 || flags >> 7 != 0 {
        return Err(Error::Corrupt("flags"));
    }
    let inner = if narrow { DType::F32 } else { dtype };
    let wide = inner == DType::F64;
    let kind = match flags & 7 {
        0 if inner.is_float() => Kind::Bits,
        1 => Kind::Integers { base: c.varint()?, gcd: c.varint()? },
        2 if inner.is_float() => Kind::Lattice(Lattice::read(&mut c)?),
        3 if inner.is_float() => {
            Kind::PlaneLattices((0..g.planes).map(|_| Lattice::read(&mut c)).collect::<Result<_>>()?)
        }
        4 => Kind::Ranks(read_keys(inner, &mut c, n)?),
        _ => return Err(Error::Corrupt("representation")),
    };
    let (mut specials, mut present, mut candidates) = (Vec::new(), 0u16, Vec::new());
    if flags & 32 != 0 {
        let k = c.bounded(SPECIALS, "special values")?;
        for _ in 0..k {
            specials.push(c.varint()?);
        }
        present = c.bounded((1 << CLASSES) - 1, "classes")? as u16;
        if flags & 64 == 0 && present & (1 << MATCH[0] | 1 << MATCH[1]) != 0 {
            for _ in 0..g.components {
                let mut pair = [Candidate::default(); 2];
                for k in &mut pair {
                    *k = Candidate { planes: c.u8()?, rows: c.u8()? as i8, cols: c.u8()? as i8 };
                }
                candidates.push(pair);
            }
        }
    }
    let levels = block::levels(&g);
    let band = band(&g);
    let (mut predictors, mut choice) = (Vec::new(), Vec::with_capacity(g.planes));
    for p in 0..g.planes {
        if p == 0 || p / band != (p - 1) / band || levels[p] != levels[p - 1] {
            predictors.push(Predictor::read(&mut c, levels[p])?);
        }
        choice.push(predictors.len() - 1);
    }
    let (start, low, high) = (c.f64()?, c.f64()?, c.f64()?);
    let floor = i32::from(i16::from_le_bytes([c.u8()?, c.u8()?]));
    let (mut classes, mut literals, mut repeats) = (Vec::new(), &[][..], None);
    if present != 0 {
        classes = mask::decode(&g, c.section()?, present)?;
        literals = c.section()?;
        if flags & 64 != 0 {
            let stored = classes.iter().filter(|&&c| c == MATCH[1]).count();
            repeats = Some(repeats::decode(c.section()?, stored)?);
        }
    }
    let corrections = if flags & 16 != 0 { block::decode_corrections(c.section()?, n)? } else { Vec::new() };
    let (tables, words) = (c.section()?, c.section()?);
    let raw = c.take(c.remaining())?;
    let frame = Frame {
        geometry: g,
        classes: &classes,
        candidates: &candidates,
        repeats: repeats.as_deref(),
        start,
        low,
        high,
        floor,
        choice: &choice,
        predictors: &predictors,
    };
    let planes: Vec<(f64, f64)> = match &kind {
        Kind::PlaneLattices(l) => l.iter().map(|l| (l.offset / l.divisor, l.pitch())).collect(),
        _ => Vec::new(),
    };
    let mut v = match &kind {
        Kind::Bits if wide => block::decode(&frame, Float64::new(magnitude(low, high)), tables, words, raw)?,
        Kind::Bits => block::decode(&frame, Float32::new(magnitude(low, high)), tables, words, raw)?,
        _ => block::decode(&frame, Steps::new(&planes), tables, words, raw)?,
    };
    match &kind {
        Kind::Bits => {}
        Kind::Integers { base, gcd } => {
            for s in &mut v {
                *s = unordered(inner, base.wrapping_add(s.wrapping_mul(*gcd)));
            }
        }
        Kind::Lattice(l) => points(l, wide, &mut v),
        Kind::PlaneLattices(all) => {
            for (l, part) in all.iter().zip(v.chunks_mut(g.area())) {
                points(l, wide, part);
            }
        }
        Kind::Ranks(keys) => {
            for s in &mut v {
                let key =
                    usize::try_from(*s).ok().and_then(|i| keys.get(i)).ok_or(Error::Corrupt("rank out of range"))?;
                *s = unordered(inner, *key);
            }
        }
    }
    for (s, &fix) in v.iter_mut().zip(&corrections) {
        if fix != 0 {
            *s = unordered(inner, ordered(inner, *s).wrapping_add(i64::from(fix) as u64));
        }
    }
    if narrow {
        for s in &mut v {
            *s = f64::from(f32::from_bits(*s as u32)).to_bits();
        }
    }
    let size = e_size(inner, narrow);
    let mut literals = literals.chunks_exact(size);
    for (s, &class) in v.iter_mut().zip(&classes) {
        match class {
            ORDINARY => {}
            LITERAL => {
                let mut b = [0u8; 8];
                let literal = literals.next().ok_or(Error::Corrupt("too few literals"))?;
                b.iter_mut().zip(literal).for_each(|(d, s)| *d = *s);
                *s = u64::from_le_bytes(b);
            }
            c if MATCH.contains(&c) => {}
            c => *s = specials.get(usize::from(c) - 1).copied().ok_or(Error::Corrupt("special value out of range"))?,
        }
    }
    store(dtype, &g.scatter(v), out);
    Ok(())
}

/// Replaces each `k` by the bits of its lattice point.
fn points(l: &Lattice, wide: bool, v: &mut [u64]) {
    for s in v {
        *s = if wide { l.bits::<true>(*s as i64) } else { l.bits::<false>(*s as i64) };
    }
}
