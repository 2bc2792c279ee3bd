//! Linear prediction from causal neighbours, in up to two planes back, with weights fitted to the data.
//!
//! All arithmetic is IEEE double in a fixed order, so encoder and decoder agree on every machine. Weights are fitted
//! by least squares on the differences to the west neighbour, which makes them sum to one, with samples weighted by
//! the inverse of the local error energy because the entropy coder adapts to that energy (compare Wu's TMW and
//! Meyer's and Tischer's work on weighted least squares in lossless image coding).

use crate::coding::bits::{Cursor, log2, put_f64, put_varint};
use crate::fields::geometry::Geometry;
use crate::{Error, Result};

/// A neighbour: steps back along (planes, rows, columns). Plane steps beyond 1 are symbolic, see [`plane_step`].
type Tap = (u8, i8, i8);

/// Every neighbour a predictor may use. The order is part of the format.
pub(crate) const TAPS: [Tap; 20] = [
    (0, 0, -1),
    (0, 0, -2),
    (0, -1, -1),
    (0, -1, 0),
    (0, -1, 1),
    (0, -2, 0),
    (0, -1, -2),
    (0, -1, 2),
    (0, -2, -1),
    (0, -2, 1),
    // previous plane
    (1, 0, 0),
    (1, 0, -1),
    (1, 0, 1),
    (1, -1, 0),
    (1, 1, 0),
    (1, -1, -1),
    // the plane before that
    (2, 0, 0),
    (2, 0, -1),
    // one step back along the next slower axis
    (3, 0, 0),
    (4, 0, 0),
];
/// Number of taps usable at each level: first plane, planes with a predecessor, planes with one a period back.
const LEVEL_TAPS: [usize; 3] = [10, 18, 20];

/// Which taps plane `p` may use.
pub(crate) fn level(g: &Geometry, p: usize) -> usize {
    if p == 0 {
        0
    } else if g.period > 1 && p > g.period {
        2
    } else {
        1
    }
}

/// Planes back for a symbolic plane step of plane `p`.
fn plane_step(g: &Geometry, p: usize, step: u8) -> usize {
    match step {
        0 => 0,
        1 => 1.min(p),
        2 => 2.min(p),
        3 => g.period.min(p),
        _ => (g.period + 1).min(p),
    }
}

/// A predictor: weights of the taps of one level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Predictor {
    /// Tap and weight; for fitted predictors without the west tap, whose weight is what the others leave of one.
    weights: Vec<(u8, f64)>,
    /// Weight of the mean of the data, and that mean, for fitted predictors.
    mean: Option<(f64, f64)>,
}

/// A predictor made ready for one plane: offsets into the padded buffer.
pub(crate) struct Ready {
    pub(crate) w1: f64,
    pub(crate) w2: f64,
    constant: f64,
    /// Distance back and weight of each tap that does not lie in the current row.
    rest: Vec<(usize, f64)>,
}

impl Predictor {
    /// A predictor with small integer weights.
    pub(crate) fn fixed(weights: &[(u8, f64)]) -> Self {
        let mut weights = weights.to_vec();
        // Ascending taps: the order of summation is part of the format.
        weights.sort_unstable_by_key(|w| w.0);
        Self { weights, mean: None }
    }

    /// Resolves the taps for plane `p`.
    pub(crate) fn ready(&self, g: &Geometry, p: usize) -> Ready {
        let mut r = Ready { w1: 0.0, w2: 0.0, constant: 0.0, rest: Vec::new() };
        if let Some((w, mean)) = self.mean {
            r.constant = w * mean;
            // Derived, not stored, so that rounding of the stored weights cannot make the sum differ from one.
            r.w1 = self.weights.iter().fold(1.0 - w, |s, t| s - t.1);
        }
        for &(t, w) in &self.weights {
            match t {
                0 => r.w1 = w,
                1 => r.w2 = w,
                _ => r.rest.push((back(g, p, t), w)),
            }
        }
        r
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mask = self.weights.iter().fold(0u64, |m, w| m | 1 << w.0);
        put_varint(out, mask << 1 | u64::from(self.mean.is_some()));
        for w in &self.weights {
            if self.mean.is_none() {
                out.push((w.1 as i8) as u8)
            } else {
                out.extend_from_slice(&(w.1 as f32).to_le_bytes())
            }
        }
        if let Some((w, mean)) = self.mean {
            out.extend_from_slice(&(w as f32).to_le_bytes());
            if w != 0.0 {
                put_f64(out, mean);
            }
        }
    }

    pub(crate) fn read(c: &mut Cursor<'_>, level: usize) -> Result<Self> {
        let head = c.varint()?;
        let (mask, fitted) = (head >> 1, head & 1 == 1);
        if mask >> LEVEL_TAPS.get(level).copied().unwrap_or(0) != 0 {
            return Err(Error::Corrupt("predictor uses planes that do not exist"));
        }
        let single = |c: &mut Cursor<'_>| -> Result<f64> {
            let mut b = [0u8; 4];
            b.copy_from_slice(c.take(4)?);
            Ok(f64::from(f32::from_le_bytes(b)))
        };
        let mut weights = Vec::new();
        for t in 0..TAPS.len() as u8 {
            if mask >> t & 1 == 1 {
                let w = if fitted { single(c)? } else { f64::from(c.u8()? as i8) };
                weights.push((t, w));
            }
        }
        let mut mean = None;
        if fitted {
            let w = single(c)?;
            mean = Some((w, if w != 0.0 { c.f64()? } else { 0.0 }));
        }
        Ok(Self { weights, mean })
    }
}

/// Distance back in the padded buffer from an element of plane `p` to tap `t`.
fn back(g: &Geometry, p: usize, t: u8) -> usize {
    let (step, dy, dx) = TAPS.get(usize::from(t)).copied().unwrap_or((0, 0, -1));
    let planes = plane_step(g, p, step) * g.plane_stride();
    // Taps of later rows exist only in earlier planes, so the distance is positive.
    (planes as isize - isize::from(dy) * g.stride() as isize - isize::from(dx)).max(1) as usize
}

impl Ready {
    /// Sum over the taps outside the current row for a whole row that starts at `at`.
    pub(crate) fn row(&self, values: &[f64], at: usize, base: &mut [f64]) {
        base.fill(self.constant);
        let n = base.len();
        let row = |d: usize| &values[at - d..at - d + n];
        let mut groups = self.rest.chunks_exact(4);
        for g in groups.by_ref() {
            if let [(d0, c0), (d1, c1), (d2, c2), (d3, c3)] = *g {
                let taps = row(d0).iter().zip(row(d1)).zip(row(d2).iter().zip(row(d3)));
                for (b, ((v0, v1), (v2, v3))) in base.iter_mut().zip(taps) {
                    *b += (c0 * v0 + c1 * v1) + (c2 * v2 + c3 * v3);
                }
            }
        }
        for &(d, c) in groups.remainder() {
            for (b, v) in base.iter_mut().zip(row(d)) {
                *b += c * v;
            }
        }
    }

    /// Prediction of one element, for fitting and trials.
    pub(crate) fn at(&self, values: &[f64], i: usize) -> f64 {
        let mut s = self.constant + self.w1 * values[i - 1] + self.w2 * values[i - 2];
        for &(d, c) in &self.rest {
            s += c * values[i - d];
        }
        s
    }
}

/// Elements used for fitting: (plane, padded index), in short runs.
pub(crate) struct Samples {
    /// Runs of (plane, first padded index, length).
    pub(crate) runs: Vec<(usize, usize, usize)>,
}

impl Samples {
    /// Spreads runs over the planes in `planes`, about `want` elements in all.
    pub(crate) fn new(g: &Geometry, planes: std::ops::Range<usize>, want: usize) -> Self {
        let len = g.cols.min(32);
        let lines = planes.len() * g.rows * g.cols.div_ceil(len);
        let count = want.div_ceil(len).min(lines).max(1);
        let per_row = g.cols.div_ceil(len);
        let mut runs = Vec::with_capacity(count);
        let mut jitter = 0x2545_f491u64;
        for k in 0..count {
            jitter = jitter.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (lo, hi) = (k * lines / count, (k + 1) * lines / count);
            let line = lo + (jitter >> 33) as usize % (hi - lo).max(1);
            let (plane, rest) = (planes.start + line / (g.rows * per_row), line % (g.rows * per_row));
            let (row, part) = (rest / per_row, rest % per_row);
            let col = part * len;
            runs.push((plane, g.padded(plane, row, col), len.min(g.cols - col)));
        }
        Self { runs }
    }
}

impl Samples {
    /// Every second run, for judging.
    pub(crate) fn half(&self) -> Self {
        Self { runs: self.runs.iter().step_by(2).copied().collect() }
    }
}

/// Scale of errors that cost nothing: half a lattice step, or the spacing of floats at a value.
pub(crate) trait Unit {
    /// Size of one code step at `value` in plane `p`.
    fn unit(&self, p: usize, value: f64) -> f64;
}

/// Mean bits per element a predictor would cost, roughly.
pub(crate) fn trial(g: &Geometry, s: &Samples, ordinary: &[bool], w: &[f64], p: &Predictor, unit: &impl Unit) -> f64 {
    let (mut bits, mut n) = (0.0, 0usize);
    let mut ready: Option<(usize, Ready)> = None;
    for &(plane, at, len) in &s.runs {
        if ready.as_ref().is_none_or(|r| r.0 != plane) {
            ready = Some((plane, p.ready(g, plane)));
        }
        let Some((_, r)) = &ready else { continue };
        for i in at..at + len {
            if ordinary[i] {
                let e = (w[i] - r.at(w, i)).abs() / unit.unit(plane, w[i]);
                bits += log2(e + 0.3).min(64.0);
                n += 1;
            }
        }
    }
    if n == 0 { 0.0 } else { bits / n as f64 }
}

/// Mean of the sampled numbers.
fn centre(s: &Samples, ordinary: &[bool], w: &[f64]) -> f64 {
    let (mut sum, mut n) = (0.0, 0usize);
    for i in s.runs.iter().flat_map(|r| r.1..r.1 + r.2).filter(|&i| ordinary[i]) {
        sum += w[i];
        n += 1;
    }
    let mean = sum / n.max(1) as f64;
    if mean.is_finite() { mean } else { 0.0 }
}

/// Predicts the mean of the sample everywhere.
pub(crate) fn mean(s: &Samples, ordinary: &[bool], w: &[f64]) -> Predictor {
    Predictor { weights: Vec::new(), mean: Some((1.0, centre(s, ordinary, w))) }
}

/// Fits weights for the taps of `level` on the samples; `None` when there is too little data.
pub(crate) fn fit(
    g: &Geometry,
    level: usize,
    s: &Samples,
    ordinary: &[bool],
    w: &[f64],
    unit: &impl Unit,
    constant: bool,
) -> Option<Predictor> {
    let taps: Vec<u8> = (1..LEVEL_TAPS[level] as u8)
        .filter(|&t| {
            let (step, dy, _) = TAPS[usize::from(t)];
            // A single row has nothing above or below it.
            (g.rows > 1 || dy == 0) && (step != 2 || s.runs.iter().all(|r| r.0 > 1))
        })
        .collect();
    let f = taps.len() + usize::from(constant);
    let mut rows: Vec<f64> = Vec::new();
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    let mut total = 0;
    let (mut plane_now, mut dist) = (usize::MAX, Vec::new());
    let centre = centre(s, ordinary, w);
    for &(plane, at, len) in &s.runs {
        if plane != plane_now {
            plane_now = plane;
            dist = taps.iter().map(|&t| back(g, plane, t)).collect();
        }
        for part in (at..at + len).step_by(8) {
            let first = total;
            for i in part..(part + 8).min(at + len) {
                if ordinary[i] {
                    let west = w[i - 1];
                    rows.extend(dist.iter().map(|&d| w[i - d] - west));
                    if constant {
                        rows.push(centre - west);
                    }
                    rows.push(w[i] - west);
                    total += 1;
                }
            }
            if total > first {
                groups.push(first..total);
            }
        }
    }
    if total < 8 * (f + 1) {
        return None;
    }
    let width = f + 1;
    let units: Vec<f64> = {
        let mut u = Vec::with_capacity(groups.len());
        let mut k = 0;
        let all: Vec<(usize, f64)> = s
            .runs
            .iter()
            .flat_map(|r| (r.1..r.1 + r.2).map(|i| (r.0, i)))
            .filter(|&(_, i)| ordinary[i])
            .map(|(p, i)| (p, w[i]))
            .collect();
        for r in &groups {
            u.push(unit.unit(all[k].0, all[k].1));
            k += r.len();
        }
        u
    };
    let mut solution = vec![0.0; f];
    let mut best: Option<(f64, Vec<f64>)> = None;
    for round in 0..3 {
        // Round 0 weights by the step to the west, later rounds by the errors of the round before.
        let mut a = vec![0.0; width * width];
        let mut cost = 0.0;
        for (r, &u) in groups.iter().zip(&units) {
            let mut energy = 0.0;
            for k in r.clone() {
                let row = &rows[k * width..(k + 1) * width];
                let p: f64 = row.iter().zip(&solution).map(|(x, c)| x * c).sum();
                energy += (row[f] - p) * (row[f] - p);
            }
            let energy = energy / r.len() as f64 + 0.1 * u * u;
            cost += log2(energy) * r.len() as f64;
            let weight = 1.0 / energy;
            // The last round only judges the solution of the one before.
            if round == 2 || !weight.is_finite() {
                continue;
            }
            for k in r.clone() {
                let row = &rows[k * width..(k + 1) * width];
                for i in 0..f {
                    let wi = row[i] * weight;
                    for (o, &x) in a[i * width + i..(i + 1) * width].iter_mut().zip(&row[i..]) {
                        *o += wi * x;
                    }
                }
            }
        }
        if round > 0 && best.as_ref().is_none_or(|b| cost < b.0) {
            best = Some((cost, solution.clone()));
        }
        if round == 2 {
            break;
        }
        match solve(&mut a, f) {
            Some(x) => solution = x,
            None => break,
        }
    }
    let solution = best?.1;
    let single = |v: f64| f64::from(v as f32);
    let weights: Vec<(u8, f64)> =
        taps.iter().zip(&solution).map(|(&t, &c)| (t, single(c))).filter(|w| w.1 != 0.0).collect();
    let mean = if constant { (single(solution[f - 1]), centre) } else { (0.0, 0.0) };
    let finite = mean.0.is_finite() && mean.1.is_finite() && weights.iter().all(|w| w.1.is_finite());
    finite.then_some(Predictor { weights, mean: Some(mean) })
}

/// Solves the symmetric system in the upper triangle of `a` (right-hand side in the last column) by Cholesky.
fn solve(a: &mut [f64], f: usize) -> Option<Vec<f64>> {
    let width = f + 1;
    let trace: f64 = (0..f).map(|i| a[i * width + i]).sum();
    if !(trace.is_finite() && trace > 0.0) {
        return None;
    }
    for i in 0..f {
        a[i * width + i] += trace / f as f64 * 1e-10;
    }
    for i in 0..f {
        let mut d = a[i * width + i];
        for k in 0..i {
            d -= a[k * width + i] * a[k * width + i];
        }
        if d <= 0.0 || !d.is_finite() {
            return None;
        }
        let d = d.sqrt();
        a[i * width + i] = d;
        for j in i + 1..=f {
            let mut v = a[i * width + j];
            for k in 0..i {
                v -= a[k * width + i] * a[k * width + j];
            }
            a[i * width + j] = v / d;
        }
    }
    let mut x = vec![0.0; f];
    for i in (0..f).rev() {
        let mut v = a[i * width + f];
        for j in i + 1..f {
            v -= a[i * width + j] * x[j];
        }
        x[i] = v / a[i * width + i];
    }
    Some(x)
}

/// Fixed predictors that integer-valued smooth data can follow exactly, per level.
pub(crate) fn fixed(g: &Geometry, level: usize) -> Vec<Predictor> {
    let p = Predictor::fixed;
    let mut v = vec![p(&[(0, 1.0)]), p(&[(0, 2.0), (1, -1.0)])];
    if g.rows > 1 {
        v.push(p(&[(3, 1.0)]));
        v.push(p(&[(0, 1.0), (3, 1.0), (2, -1.0)]));
        v.push(p(&[(3, 2.0), (5, -1.0)]));
        // Second difference along both axes.
        v.push(p(&[(0, 2.0), (1, -1.0), (3, 1.0), (2, -2.0), (6, 1.0)]));
        v.push(p(&[(0, 1.0), (3, 2.0), (2, -2.0), (5, -1.0), (8, 1.0)]));
    }
    if level > 0 {
        v.push(p(&[(10, 1.0)]));
        v.push(p(&[(0, 1.0), (10, 1.0), (11, -1.0)]));
        if g.rows > 1 {
            v.push(p(&[(3, 1.0), (10, 1.0), (13, -1.0)]));
            v.push(p(&[(0, 1.0), (3, 1.0), (10, 1.0), (2, -1.0), (11, -1.0), (13, -1.0), (15, 1.0)]));
        }
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictors_are_written_and_read() {
        let g = Geometry::new(&[4, 5, 6]);
        let fitted = Predictor { weights: vec![(2, 0.25), (4, 0.5)], mean: Some((0.125, 3.5)) };
        for p in fixed(&g, 1).into_iter().chain([fitted]) {
            let mut b = Vec::new();
            p.write(&mut b);
            assert_eq!(Predictor::read(&mut Cursor::new(&b), 1).unwrap(), p);
        }
        let mut b = Vec::new();
        Predictor::fixed(&[(10, 1.0)]).write(&mut b);
        assert!(Predictor::read(&mut Cursor::new(&b), 0).is_err(), "no previous plane in the first");
    }

    #[test]
    fn solves_a_small_system() {
        // 4x + y = 1, x + 3y = 2
        let mut a = vec![4.0, 1.0, 1.0, 0.0, 3.0, 2.0];
        let x = solve(&mut a, 2).unwrap();
        assert!((x[0] - 1.0 / 11.0).abs() < 1e-6 && (x[1] - 7.0 / 11.0).abs() < 1e-6);
    }
}
