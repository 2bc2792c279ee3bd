//! Finding the lattice behind floating-point numbers that were once integers or decimals.
//!
//! GRIB and CF packing, and rounding to decimals, leave values that are exactly `round((offset + k * step) / divisor)`
//! for an integer `k`. The search works on a sample: try decimals and powers of two, then estimate the step as an
//! approximate greatest common divisor of differences, refine it over growing spans, and snap step and offset to
//! numbers a packer would have used. Whatever is found is verified on every element by the caller; elements a few
//! units in the last place off are corrected, others are stored literally, so a wrong guess costs space, never data.

use crate::coding::bits::{Cursor, log2, put_f64};
use crate::numbers::domain::{order32, order64};
use crate::{Error, Result};

/// One lattice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lattice {
    pub(crate) offset: f64,
    pub(crate) step: f64,
    pub(crate) divisor: f64,
    /// Whether products and sums are rounded to single precision on the way.
    pub(crate) single: bool,
    /// Numbers are rounded to a multiple of two to this power, as adding and subtracting a larger offset does.
    pub(crate) quantum: Option<i16>,
}

/// Largest correction in units in the last place; elements farther off are stored literally.
pub(crate) const MISS: i64 = 7;

/// Bits of a correction beyond saying that there is one.
pub(crate) fn correction_bits(miss: i64) -> f64 {
    1.0 + 2.0 * log2(miss.abs().max(1) as f64)
}

/// Largest |k| in use; keeps every sum exact in doubles and rounding safe.
pub(crate) const K_LIMIT: f64 = 1_125_899_906_842_624.0;

/// Adding and subtracting this rounds a double below 2^51 to an integer, ties to even.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Two to a power within ±1000.
#[inline(always)]
fn power2(e: i16) -> f64 {
    f64::from_bits(((1023 + i64::from(e.clamp(-1000, 1000))) as u64) << 52)
}

impl Lattice {
    /// Products and sums in double precision, without divisor.
    pub(crate) fn plain(offset: f64, step: f64) -> Self {
        Self { offset, step, divisor: 1.0, single: false, quantum: None }
    }

    /// The number at `k`, before rounding to the element type.
    #[inline(always)]
    pub(crate) fn at(&self, k: i64) -> f64 {
        let x = if self.single {
            f64::from((k as f32 * self.step as f32 + self.offset as f32) / self.divisor as f32)
        } else {
            let x = self.offset + k as f64 * self.step;
            // Most lattices have no divisor, and divisions are slow.
            if self.divisor == 1.0 { x } else { x / self.divisor }
        };
        match self.quantum {
            None => x,
            Some(q) => ((x * power2(-q) + ROUND) - ROUND) * power2(q),
        }
    }

    /// The bits of the element at `k`.
    #[inline(always)]
    pub(crate) fn bits<const WIDE: bool>(&self, k: i64) -> u64 {
        if WIDE { self.at(k).to_bits() } else { u64::from((self.at(k) as f32).to_bits()) }
    }

    /// The nearest `k` of a number, when in range.
    #[inline(always)]
    pub(crate) fn nearest(&self, x: f64) -> Option<i64> {
        self.nearest_by(x, 1.0 / self.step)
    }

    /// [`Lattice::nearest`] with the inverse of the step at hand.
    #[inline(always)]
    pub(crate) fn nearest_by(&self, x: f64, inverse: f64) -> Option<i64> {
        let t = (x * self.divisor - self.offset) * inverse;
        (t.abs() < K_LIMIT).then_some(((t + ROUND) - ROUND) as i64)
    }

    /// Difference in units in the last place between an element and the lattice at its nearest `k`.
    #[inline(always)]
    pub(crate) fn miss<const WIDE: bool>(&self, bits: u64, k: i64) -> i64 {
        let b = self.bits::<WIDE>(k);
        if WIDE {
            order64(bits).wrapping_sub(order64(b)) as i64
        } else {
            i64::from(order32(bits as u32)) - i64::from(order32(b as u32))
        }
    }

    /// Step in the unit of the data.
    pub(crate) fn pitch(&self) -> f64 {
        self.step / self.divisor
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let short = |v: f64| f64::from(v as f32).to_bits() == v.to_bits();
        let divisor = (0..=15u8).find(|&d| power10(d) == self.divisor);
        let flags = u8::from(short(self.offset))
            | u8::from(short(self.step)) << 1
            | u8::from(self.single) << 2
            | divisor.unwrap_or(0) << 3
            | u8::from(self.quantum.is_some()) << 7;
        out.push(flags);
        for v in [self.offset, self.step] {
            if short(v) { out.extend_from_slice(&(v as f32).to_le_bytes()) } else { put_f64(out, v) }
        }
        if let Some(q) = self.quantum {
            out.extend_from_slice(&q.to_le_bytes());
        }
    }

    pub(crate) fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let flags = c.u8()?;
        let number = |c: &mut Cursor<'_>, short: bool| -> Result<f64> {
            if short {
                let mut b = [0u8; 4];
                b.copy_from_slice(c.take(4)?);
                Ok(f64::from(f32::from_le_bytes(b)))
            } else {
                c.f64()
            }
        };
        let offset = number(c, flags & 1 != 0)?;
        let step = number(c, flags & 2 != 0)?;
        if !(step.is_finite() && offset.is_finite() && step > 0.0) {
            return Err(Error::Corrupt("lattice step or offset is not usable"));
        }
        let quantum = if flags & 128 != 0 { Some(i16::from_le_bytes([c.u8()?, c.u8()?])) } else { None };
        Ok(Self { offset, step, divisor: power10(flags >> 3 & 15), single: flags & 4 != 0, quantum })
    }
}

/// Ten to a signed power.
fn decimal(e: i32) -> f64 {
    let p = (0..e.abs()).fold(1.0, |p, _| p * 10.0);
    if e < 0 { 1.0 / p } else { p }
}

fn power10(d: u8) -> f64 {
    (0..d).fold(1.0, |p, _| p * 10.0)
}

/// A lattice with what it is worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) lattice: Lattice,
    /// Bits saved per element against coding the float itself, estimated.
    pub(crate) gain: f64,
    /// Share of sampled elements that need a correction or are literals.
    pub(crate) missed: f64,
}

/// log2 of the spacing of floats at `x`.
fn spacing_log2<const WIDE: bool>(x: f64) -> f64 {
    if WIDE {
        ((x.to_bits() >> 52 & 0x7ff).max(1) as f64) - 1075.0
    } else {
        (((x as f32).to_bits() >> 23 & 0xff).max(1) as f64) - 150.0
    }
}

fn bits_of<const WIDE: bool>(x: f64) -> u64 {
    if WIDE { x.to_bits() } else { u64::from((x as f32).to_bits()) }
}

/// Estimates what a lattice is worth on a sample.
fn assess<const WIDE: bool>(l: Lattice, sample: &[f64], spacing: f64) -> Option<Found> {
    if !(l.step > 0.0 && l.step.is_finite() && l.offset.is_finite()) {
        return None;
    }
    let (mut small, mut large, mut extra) = (0usize, 0usize, 0.0);
    for (i, &x) in sample.iter().enumerate() {
        let k = l.nearest(x)?;
        match l.miss::<WIDE>(bits_of::<WIDE>(x), k) {
            0 => {}
            m if m.abs() <= MISS => {
                small += 1;
                extra += correction_bits(m);
            }
            _ => large += 1,
        }
        // Hopeless candidates are dropped early.
        if i == 63 && large > 12 {
            return None;
        }
    }
    let n = sample.len() as f64;
    let p = small as f64 / n;
    let entropy = if p > 0.0 && p < 1.0 { -(p * log2(p) + (1.0 - p) * log2(1.0 - p)) } else { 0.0 };
    let gain = log2(l.pitch()) - spacing - entropy - extra / n - large as f64 / n * if WIDE { 70.0 } else { 40.0 };
    Some(Found { lattice: l, gain, missed: (small + large) as f64 / n })
}

/// Finds the best lattice for a sample of finite numbers; `sorted` is the same sample in order, without repeats.
pub(crate) fn find<const WIDE: bool>(sample: &[f64], sorted: &[f64], hint: Option<Found>) -> Option<Found> {
    if sorted.len() < 2 {
        let &x = sorted.first()?;
        return Some(Found { lattice: Lattice::plain(x, 1.0), gain: 30.0, missed: 0.0 });
    }
    let spacing = sample.iter().map(|&x| spacing_log2::<WIDE>(x)).sum::<f64>() / sample.len().max(1) as f64;
    let mut best: Option<Found> = None;
    // Numbers that went through a sum with something larger share trailing zeros beyond those of their own size.
    let lowest =
        sample.iter().filter(|&&x| x != 0.0).map(|&x| lowest_bit(x)).min().filter(|e| (-1000..1000).contains(e));
    let smallest = sample.iter().filter(|&&x| x != 0.0).map(|&x| spacing_log2::<WIDE>(x)).fold(f64::INFINITY, f64::min);
    let quantum = lowest.filter(|&e| f64::from(e) > smallest).map(|e| e as i16);
    let mut consider = |l: Lattice| {
        let forms = [
            Some(l),
            quantum
                .filter(|&q| l.quantum.is_none() && !l.single && power2(q) < l.pitch())
                .map(|q| Lattice { quantum: Some(q), ..l }),
        ];
        for l in forms.into_iter().flatten() {
            if let Some(f) = assess::<WIDE>(l, sample, spacing)
                && best.as_ref().is_none_or(|b| f.gain > b.gain + 1e-9)
            {
                best = Some(f);
            }
            if best.is_some_and(|b| b.missed == 0.0) {
                break;
            }
        }
        best
    };
    if let Some(l) = hint {
        // Neighbouring planes often share the step; when it explains everything as well as there, the search is over.
        {
            let (least, l) = (l.gain - 0.5, l.lattice);
            for offset in [l.offset, sorted[0] * l.divisor] {
                let l = Lattice { offset, ..l };
                if let Some(f) = consider(l).filter(|f| {
                    f.missed == 0.0 && f.gain >= least && f.lattice.step == l.step && f.lattice.offset == l.offset
                }) {
                    // All points may lie on a multiple of the step.
                    let l = f.lattice;
                    let first = l.nearest(sorted[0]).unwrap_or(0);
                    let multiple =
                        sample.iter().filter_map(|&x| l.nearest(x)).fold(0u64, |g, k| gcd(g, k.abs_diff(first)));
                    if multiple > 1 && multiple < 1 << 20 {
                        let wider =
                            Lattice { offset: l.offset + first as f64 * l.step, step: l.step * multiple as f64, ..l };
                        return consider(wider);
                    }
                    return Some(f);
                }
            }
        }
    }
    for d in 0..=9 {
        consider(Lattice { offset: 0.0, step: 1.0, divisor: power10(d), single: false, quantum: None });
    }
    if let Some(e) = lowest {
        consider(Lattice::plain(0.0, f64::from_bits(((e + 1023) as u64) << 52)));
    }
    let top = sorted.last().copied().unwrap_or(0.0).abs().max(sorted[0].abs());
    let u = power2(spacing_log2::<WIDE>(top) as i16).max(quantum.map_or(0.0, power2));
    if let Some((offset, step, count)) = estimate(sorted, u) {
        for s in steps_near(step.0, step.1, u / count) {
            let pitch = s.0 / s.1;
            for m in offsets_near(offset, pitch, sorted[0], u) {
                let l = Lattice { offset: m * s.1, step: s.0, divisor: s.1, single: false, quantum: None };
                consider(l);
                if !WIDE && s.1 == 1.0 {
                    consider(Lattice { single: true, ..l });
                }
            }
        }
        let so_far = consider(Lattice::plain(offset, step.0 / step.1));
        if so_far.is_none_or(|b| b.missed > 0.0)
            && let Some((m, s)) = fit_intervals::<WIDE>(sorted, offset, step.0 / step.1)
        {
            consider(Lattice::plain(m, s));
        }
    }
    best
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Exponent of the lowest set bit of a double.
fn lowest_bit(x: f64) -> i32 {
    let b = x.to_bits();
    let e = (b >> 52 & 0x7ff) as i32;
    let m = b & ((1 << 52) - 1) | u64::from(e > 0) << 52;
    e.max(1) - 1075 + m.trailing_zeros() as i32
}

/// Estimates (offset, (step, 1), number of steps spanned) from sorted distinct values known to within `u`.
fn estimate(v: &[f64], u: f64) -> Option<(f64, (f64, f64), f64)> {
    let mut d: Vec<f64> = v.windows(2).map(|w| w[1] - w[0]).filter(|&d| d > 1.5 * u).collect();
    if d.len() < 8 {
        return None;
    }
    d.sort_unstable_by(f64::total_cmp);
    let mut tried: Vec<f64> = Vec::new();
    for q in [0, d.len() / 50, d.len() / 12, d.len() / 4] {
        for j in 1..=4 {
            let g0 = d[q] / f64::from(j);
            if g0 < 3.0 * u || tried.iter().any(|t| (t - g0).abs() < u) {
                continue;
            }
            tried.push(g0);
            // First over the short differences, then over growing spans from the smallest value.
            let Some((g, n, _)) = refine(g0, 1.0, d.iter().copied(), u) else { continue };
            let Some((g, n, _)) = refine(g, n, v[1..].iter().map(|x| x - v[0]), u) else { continue };
            // Least squares over all values.
            let (mut sn, mut sv, mut snn, mut snv, mut c) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for &x in v {
                let k = ((x - v[0]) / g).round();
                if ((x - v[0]) - k * g).abs() < 3.0 * u {
                    let y = x - v[0];
                    (sn, sv, snn, snv, c) = (sn + k, sv + y, snn + k * k, snv + k * y, c + 1.0);
                }
            }
            let det = c * snn - sn * sn;
            if det <= 0.0 {
                continue;
            }
            let s = (c * snv - sn * sv) / det;
            let m = v[0] + (sv - s * sn) / c;
            return Some((m, (s, 1.0), n));
        }
    }
    None
}

/// Refines a step over spans in growing order. Fails when more than 3 % of the spans are no multiples of it.
fn refine(mut g: f64, mut n: f64, spans: impl Iterator<Item = f64> + Clone, u: f64) -> Option<(f64, f64, f64)> {
    let total = spans.clone().count() as f64;
    let mut bad = 0.0;
    for d in spans {
        let k = (d / g).round();
        let slack = 1.6 * u * (1.0 + k / n);
        if slack > 0.35 * g {
            // The step is not known well enough to count over this span.
            bad += 1.0;
        } else if k >= 1.0 && (d - k * g).abs() <= slack {
            if k > n {
                g = d / k;
                n = k;
            }
        } else if k >= 1.0 || d > 2.0 * u {
            bad += 1.0;
        }
        if bad > 2.0 + 0.03 * total {
            return None;
        }
    }
    Some((g, n, bad))
}

/// Steps a packer could have used, within `tolerance` of the estimate, as (step, divisor).
fn steps_near(s: f64, _: f64, tolerance: f64) -> Vec<(f64, f64)> {
    let mut v = vec![(s, 1.0)];
    let mut push = |x: (f64, f64)| {
        if x.0 > 0.0 && !v.contains(&x) {
            v.push(x);
        }
    };
    // Library logarithms and powers differ between machines in the last place; these do not.
    let magnitude = (-300..300).find(|&e| decimal(e + 1) > s).unwrap_or(0);
    for digits in 1..=10 {
        let scale = decimal(digits - 1 - magnitude);
        let r = (s * scale).round() / scale;
        if (r - s).abs() < tolerance {
            push((r, 1.0));
            break;
        }
    }
    for d in 0..=6u8 {
        // step = j * 2^e / 10^d with few bits in j, as GRIB has it
        let t = s * power10(d);
        let tol = tolerance * power10(d);
        for bits in 0..=20i16 {
            let unit = power2((t.to_bits() >> 52 & 0x7ff) as i16 - 1023 - bits);
            let r = (t / unit).round() * unit;
            if (r - t).abs() < tol {
                if bits <= 3 || d == 0 {
                    push((r, power10(d)));
                }
                break;
            }
        }
    }
    // one over a round number
    let inverse = 1.0 / s;
    let r = inverse.round();
    if r > 0.0 && (1.0 / r - s).abs() < tolerance {
        push((1.0 / r, 1.0));
    }
    push((f64::from(s as f32), 1.0));
    v
}

/// Offsets to try with a step.
fn offsets_near(m: f64, s: f64, first: f64, u: f64) -> Vec<f64> {
    let mut v = vec![m, first];
    let mut push = |x: f64| {
        if !v.contains(&x) {
            v.push(x);
        }
    };
    push(f64::from(m as f32));
    if (m - (m / s).round() * s).abs() < 2.0 * u {
        push(0.0);
    }
    for digits in 0..8 {
        let scale = power10(digits);
        let r = (m * scale).round() / scale;
        if (r - m).abs() < u {
            push(r);
            break;
        }
    }
    v
}

/// Moves an approximate lattice into the region where every sampled value rounds right, by projecting on the most
/// violated constraint (Kaczmarz); `None` when that does not settle.
fn fit_intervals<const WIDE: bool>(v: &[f64], m: f64, s: f64) -> Option<(f64, f64)> {
    let middle = (v[0] + v[v.len() - 1]) / 2.0;
    let k_mid = ((middle - m) / s).round();
    let span = ((v[v.len() - 1] - v[0]) / s).max(1.0);
    // Value = a + b * t with t = (k - k_mid) / span in [-1/2, 1/2].
    let (mut a, mut b) = (m + k_mid * s, s * span);
    let points: Vec<(f64, f64, f64)> = v
        .iter()
        .map(|&x| ((((x - m) / s).round() - k_mid) / span, x, power2(spacing_log2::<WIDE>(x) as i16) * 0.49))
        .collect();
    for _ in 0..200 {
        let mut worst = (0.0, 0.0, 0.0);
        for &(t, x, half) in &points {
            let e = x - (a + b * t);
            let over = e.abs() - half;
            if over > worst.0 && over < 8.0 * half {
                worst = (over, t, e.signum() * over);
            }
        }
        if worst.0 <= 0.0 {
            break;
        }
        let norm = 1.0 + worst.1 * worst.1;
        a += worst.2 * 1.1 / norm;
        b += worst.2 * 1.1 * worst.1 / norm;
    }
    let s = b / span;
    let m = a - k_mid * s;
    (s > 0.0 && s.is_finite() && m.is_finite()).then_some((m, s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check32(make: impl Fn(i64) -> f32, want_gain: f64) {
        let mut x = 5u64;
        let v: Vec<f64> = (0..2000)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                f64::from(make((x >> 33) as i64 % 3000))
            })
            .collect();
        let mut s = v.clone();
        s.sort_unstable_by(f64::total_cmp);
        s.dedup();
        let f = find::<false>(&v, &s, None).unwrap();
        assert!(f.missed == 0.0 && f.gain > want_gain, "{f:?}");
    }

    #[test]
    fn finds_the_lattices_of_common_packings() {
        check32(|k| k as f32 / 100.0, 5.0);
        check32(|k| (k as f64 * 0.01 + 273.15) as f32, 6.0);
        check32(|k| (201.337_f32 as f64 + k as f64 / 64.0) as f32, 6.0);
        check32(|k| ((5120.5 + k as f64 * 0.25) / 10.0) as f32, 6.0);
        check32(|k| (k as f64 * 0.0123456 - 17.77) as f32, 8.0);
        check32(|k| k as f32 * 0.003_173_f32 + 250.0_f32, 5.0);
        check32(|k| (k as f64 * 3.28) as f32, 6.0);
    }

    #[test]
    fn written_lattices_read_back() {
        for l in [
            Lattice::plain(0.1, 0.3),
            Lattice { offset: 0.5, step: 0.25, divisor: 1000.0, single: true, quantum: None },
        ] {
            let mut b = Vec::new();
            l.write(&mut b);
            assert_eq!(Lattice::read(&mut Cursor::new(&b)).unwrap(), l);
        }
    }

    #[test]
    fn noise_has_no_lattice() {
        let mut x = 5u64;
        let mut v: Vec<f64> = (0..2000)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                f64::from((x >> 40) as f32 * 1.3e-7 + 3.0)
            })
            .collect();
        let sample = v.clone();
        v.sort_unstable_by(f64::total_cmp);
        v.dedup();
        assert!(find::<false>(&sample, &v, None).is_none_or(|f| f.gain < 3.0));
    }
}
