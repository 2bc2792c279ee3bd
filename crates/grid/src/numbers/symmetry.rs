//! Symmetries of a set of numbers: mirrored about a centre or repeated at a period, as the coordinates of many grids are.
//!
//! Each symmetry is a *move*; the *images* of the values known so far predict those to come, within rounding. The values
//! are magnitudes of floats (so their bits ascend with them), and every move leads upwards.

use crate::numbers::elements::{number, spread};

/// Largest number of moves of a set.
pub(crate) const MOVES: usize = 4;

/// A value `x` has the image `by - x` when mirrored, else `by + x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Move {
    pub(crate) mirrored: bool,
    pub(crate) by: f64,
}

impl Move {
    /// Bits of the image of a value, when it is a number above zero.
    fn image(&self, wide: bool, bits: u64) -> Option<u64> {
        let x = number(wide, bits);
        let y = if self.mirrored { self.by - x } else { self.by + x };
        (y > 0.0 && y.is_finite()).then(|| if wide { y.to_bits() } else { u64::from((y as f32).to_bits()) })
    }
}

/// The images of the values pushed so far, in ascending order.
pub(crate) struct Images {
    wide: bool,
    values: Vec<u64>,
    /// Per move the position of the value whose image is next, plus one for mirrored moves.
    moves: Vec<(Move, usize)>,
}

impl Images {
    pub(crate) fn new(wide: bool, moves: &[Move]) -> Self {
        Self { wide, values: Vec::new(), moves: moves.iter().map(|&m| (m, 0)).collect() }
    }

    /// Adds a value above all earlier ones.
    pub(crate) fn push(&mut self, value: u64) {
        if self.moves.is_empty() {
            return;
        }
        self.values.push(value);
        for (m, at) in &mut self.moves {
            // The newest value has the lowest image.
            if m.mirrored && m.image(self.wide, value).is_some_and(|i| i > value) {
                *at = self.values.len();
            }
        }
    }

    /// Drops the images up to a limit.
    pub(crate) fn skip(&mut self, limit: u64) {
        for (m, at) in &mut self.moves {
            if m.mirrored {
                while let Some(&v) = at.checked_sub(1).and_then(|i| self.values.get(i))
                    && m.image(self.wide, v).is_none_or(|i| i <= limit)
                {
                    *at -= 1;
                }
            } else {
                while let Some(&v) = self.values.get(*at)
                    && m.image(self.wide, v).is_none_or(|i| i <= limit)
                {
                    *at += 1;
                }
            }
        }
    }

    /// The lowest image above `previous`.
    pub(crate) fn next(&mut self, previous: Option<u64>) -> Option<u64> {
        self.skip(previous?);
        self.moves
            .iter()
            .filter_map(|(m, at)| {
                let at = if m.mirrored { at.checked_sub(1)? } else { *at };
                m.image(self.wide, *self.values.get(at)?)
            })
            .min()
    }
}

/// Fewest values worth a search.
const FEWEST: usize = 256;
/// Values that judge a move.
const JUDGES: usize = 128;
/// Judges a move must explain beyond those of the moves before it.
const GAIN: u32 = 8;

/// Finds the moves that explain most of an ascending set of magnitudes; few or none for most sets.
pub(crate) fn find(wide: bool, values: &[u64]) -> Vec<Move> {
    let finite = |&v: &u64| number(wide, v).is_finite();
    if values.len() < FEWEST || !values.iter().all(finite) {
        return Vec::new();
    }
    let x = |v: u64| number(wide, v);
    let (lowest, highest) = (x(values[0]), x(values[values.len() - 1]));
    // Rounding errors of a few operations on the largest.
    let tolerance = highest * if wide { 2f64.powi(-46) } else { 2f64.powi(-22) };
    if tolerance * values.len() as f64 > 0.01 * (highest - lowest) {
        // Nearly every number would be near a value.
        return Vec::new();
    }
    let near = |y: f64| {
        let i = values.partition_point(|&v| x(v) < y - tolerance);
        values.get(i).is_some_and(|&v| x(v) <= y + tolerance)
    };
    let judges: Vec<f64> = spread(values.len(), JUDGES).map(|i| x(values[i])).collect();
    // Whether a move explains a value by a lower one.
    let explains = |m: &Move, y: f64| {
        let source = if m.mirrored { m.by - y } else { y - m.by };
        source < y - tolerance && source >= lowest - tolerance && near(source)
    };
    let mut found: Vec<(Move, u128)> = Vec::new();
    for reference in [values.len() / 5, values.len() * 3 / 4] {
        let a = x(values[reference]);
        for i in spread(values.len(), 8192) {
            let b = x(values[i]);
            for m in [Move { mirrored: true, by: a + b }, Move { mirrored: false, by: (a - b).abs() }] {
                if m.by <= 4.0 * tolerance
                    || found.iter().any(|f| f.0.mirrored == m.mirrored && (f.0.by - m.by).abs() <= 2.0 * tolerance)
                {
                    continue;
                }
                // Most candidates fail on the first judges that have a source in range.
                let (mut asked, mut hits, mut set) = (0, 0, 0u128);
                for (k, &y) in judges.iter().enumerate() {
                    let source = if m.mirrored { m.by - y } else { y - m.by };
                    if source < y && source >= lowest {
                        asked += 1;
                        if explains(&m, y) {
                            hits += 1;
                            set |= 1 << k;
                        } else if asked - hits > 1 + asked / 2 {
                            break;
                        }
                    }
                }
                if hits >= GAIN && hits * 3 >= asked * 2 {
                    found.push((m, set));
                }
            }
        }
    }
    let (mut moves, mut explained) = (Vec::new(), 0u128);
    while moves.len() < MOVES
        && let Some((m, set)) = found.iter().max_by_key(|f| (f.1 & !explained).count_ones())
        && (set & !explained).count_ones() >= GAIN
    {
        moves.push(round(*m, tolerance));
        explained |= set;
    }
    moves
}

/// The shortest decimal within the tolerance: a centre or period is a round number more often than not.
fn round(m: Move, tolerance: f64) -> Move {
    let by = [1.0, 10.0, 100.0, 1e3, 1e4]
        .into_iter()
        .map(|scale| (m.by * scale).round() / scale)
        .find(|r| (r - m.by).abs() <= 4.0 * tolerance)
        .unwrap_or(m.by);
    Move { by, ..m }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symmetries_of_longitudes_are_found() {
        let mut x = 3u64;
        let mut v: Vec<f64> = (0..400)
            .flat_map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let y = (x >> 11) as f64 / (1u64 << 53) as f64 * 45.0;
                (0..4).flat_map(move |k| [f64::from(k) * 90.0 + y, f64::from(k + 1) * 90.0 - y])
            })
            .collect();
        v.sort_unstable_by(f64::total_cmp);
        let bits: Vec<u64> = v.iter().map(|v| v.to_bits()).collect();
        let moves = find(true, &bits);
        let mut images = Images::new(true, &moves);
        let (mut previous, mut hits) = (None, 0);
        for &b in &bits {
            while let Some(i) = images.next(previous) {
                if i.abs_diff(b) <= 255 {
                    hits += 1;
                    break;
                }
                if i > b {
                    break;
                }
                images.skip(i.saturating_add(255));
            }
            images.push(b);
            previous = Some(b);
        }
        assert!(hits > bits.len() * 3 / 4, "{hits} of {}", bits.len());
    }

    #[test]
    fn noise_has_no_symmetry() {
        let mut x = 3u64;
        let mut v: Vec<u64> = (0..4000)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((x >> 11) as f64 / (1u64 << 53) as f64).to_bits()
            })
            .collect();
        v.sort_unstable();
        assert_eq!(find(true, &v), []);
    }
}
