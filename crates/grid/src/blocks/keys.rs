//! The table of distinct values of a block that is coded by ranks.
//!
//! ```text
//! table   = count:varint moves section                  floats: the values are magnitudes
//!         = count:varint section                        integers
//! moves   = count:u8, then mirrored:u8 by:f64 each      see `symmetry`
//! ```

use crate::coding::binary::{self, Bit};
use crate::coding::bits::{Cursor, put_f64, put_section, put_varint, unzigzag, zigzag};
use crate::numbers::elements::{ordered, unordered};
use crate::numbers::symmetry::{self, Images, MOVES, Move};
use crate::{DType, Error, Result};

/// A key this near its image is coded by the difference.
const NEAR: u64 = 255;

/// Adaptive model of ascending keys: the step from the key before, or the difference from an image of an earlier key.
struct Model {
    steps: Vec<[Bit; 64]>,
    /// Bits of the latest step.
    last: usize,
    differences: Vec<Bit>,
    /// Whether the next image is near the next key, and else whether it lies before it, by the two latest answers.
    near: [Bit; 9],
    skip: [Bit; 9],
    history: usize,
}

impl Model {
    fn new() -> Self {
        Self {
            steps: vec![[Bit::default(); 64]; 65],
            last: 0,
            differences: vec![Bit::default(); 64],
            near: [Bit::default(); 9],
            skip: [Bit::default(); 9],
            history: 0,
        }
    }

    /// Notes an answer: 0 near, 1 skipped, 2 neither.
    fn note(&mut self, answer: usize) {
        self.history = self.history % 3 * 3 + answer;
    }
}

/// Codes ascending keys, using the images of earlier ones under `moves`.
fn put_ascending(e: &mut binary::Encoder, keys: &[u64], wide: bool, moves: &[Move]) {
    let mut m = Model::new();
    let mut images = Images::new(wide, moves);
    let mut previous = None;
    for &k in keys {
        let near = loop {
            let Some(image) = images.next(previous) else { break None };
            let near = k.abs_diff(image) <= NEAR;
            e.put(&mut m.near[m.history], near);
            if near {
                m.note(0);
                break Some(image);
            }
            e.put(&mut m.skip[m.history], image < k);
            if image > k {
                m.note(2);
                break None;
            }
            m.note(1);
            images.skip(image.saturating_add(NEAR));
        };
        if let Some(image) = near {
            e.put_number(&mut m.differences, zigzag(k.wrapping_sub(image) as i64));
        } else {
            let d = previous.map_or(k, |p: u64| k - p - 1);
            if let Some(steps) = m.steps.get_mut(m.last) {
                e.put_number(steps, d);
            }
            m.last = 64 - d.leading_zeros() as usize;
        }
        images.push(k);
        previous = Some(k);
    }
}

/// Inverse of [`put_ascending`].
fn get_ascending(d: &mut binary::Decoder<'_>, n: usize, wide: bool, moves: &[Move]) -> Result<Vec<u64>> {
    const OVERFLOW: Error = Error::Corrupt("distinct values overflow");
    let mut m = Model::new();
    let mut images = Images::new(wide, moves);
    let mut keys = Vec::with_capacity(n);
    let mut previous = None;
    for _ in 0..n {
        let near = loop {
            let Some(image) = images.next(previous) else { break None };
            if d.get(&mut m.near[m.history]) {
                m.note(0);
                break Some(image);
            }
            if !d.get(&mut m.skip[m.history]) {
                m.note(2);
                break None;
            }
            m.note(1);
            images.skip(image.saturating_add(NEAR));
        };
        let key = if let Some(image) = near {
            let z = d.get_number(&mut m.differences).ok_or(Error::Corrupt("distinct values"))?;
            image.checked_add_signed(unzigzag(z)).filter(|&k| previous.is_none_or(|p| k > p))
        } else {
            let step =
                m.steps.get_mut(m.last).and_then(|m| d.get_number(m)).ok_or(Error::Corrupt("distinct values"))?;
            m.last = 64 - step.leading_zeros() as usize;
            match previous {
                None => Some(step),
                Some(p) => step.checked_add(1).and_then(|s| s.checked_add(p)),
            }
        }
        .ok_or(OVERFLOW)?;
        images.push(key);
        previous = Some(key);
        keys.push(key);
    }
    Ok(keys)
}

/// Writes the sorted distinct values. Those of floats are magnitudes with the signs that occur, because coordinates
/// are often symmetric.
pub(crate) fn write_keys(dtype: DType, keys: &[u64], out: &mut Vec<u8>) {
    if dtype.is_float() {
        let sign = 1u64 << (dtype.size() * 8 - 1);
        let mut m: Vec<(u64, bool)> =
            keys.iter().map(|&k| unordered(dtype, k)).map(|v| (v & !sign, v & sign != 0)).collect();
        m.sort_unstable();
        let groups: Vec<(u64, bool, bool)> =
            m.chunk_by(|a, b| a.0 == b.0).map(|c| (c[0].0, c.iter().any(|v| !v.1), c.iter().any(|v| v.1))).collect();
        put_varint(out, groups.len() as u64);
        let magnitudes: Vec<u64> = groups.iter().map(|g| g.0).collect();
        let wide = dtype == DType::F64;
        let code = |moves: &[Move]| {
            let mut e = binary::Encoder::new();
            put_ascending(&mut e, &magnitudes, wide, moves);
            e
        };
        let mut e = code(&[]);
        let mut moves = symmetry::find(wide, &magnitudes);
        if moves.is_empty() {
            out.push(0);
        } else {
            let other = code(&moves);
            if other.len() + 9 * moves.len() < e.len() {
                e = other;
            } else {
                moves.clear();
            }
            out.push(moves.len() as u8);
            for m in &moves {
                out.push(u8::from(m.mirrored));
                put_f64(out, m.by);
            }
        }
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
        put_section(out, &e.finish());
    } else {
        put_varint(out, keys.len() as u64);
        let mut e = binary::Encoder::new();
        put_ascending(&mut e, keys, false, &[]);
        put_section(out, &e.finish());
    }
}

/// Inverse of [`write_keys`]; at most `max` keys.
pub(crate) fn read_keys(dtype: DType, c: &mut Cursor<'_>, max: usize) -> Result<Vec<u64>> {
    let n = c.bounded(max, "more distinct values than elements")?;
    let mut moves = Vec::new();
    if dtype.is_float() {
        for _ in 0..c.bounded(MOVES, "symmetries of the distinct values")? {
            moves.push(Move { mirrored: c.u8()? == 1, by: c.f64()? });
        }
    }
    let mut d = binary::Decoder::new(c.section()?);
    let mut keys = get_ascending(&mut d, n, dtype == DType::F64, &moves)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        let floats = [-2.5f32, -1.0, -0.0, 0.0, 1.0, 2.5, 1e30, f32::MAX];
        let keys: Vec<u64> = floats.iter().map(|f| ordered(DType::F32, u64::from(f.to_bits()))).collect();
        for (dtype, keys) in [
            (DType::F32, keys),
            (DType::U64, vec![0, 1, 7, u64::MAX - 1, u64::MAX]),
            (DType::I16, vec![5]),
            (DType::U8, vec![]),
        ] {
            let mut out = Vec::new();
            write_keys(dtype, &keys, &mut out);
            assert_eq!(read_keys(dtype, &mut Cursor::new(&out), keys.len()).unwrap(), keys);
        }
    }
}
