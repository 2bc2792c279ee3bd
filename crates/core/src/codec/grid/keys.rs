//! The table of distinct values of a block that is coded by ranks.

use super::binary::{self, Bit};
use super::bits::{Cursor, put_section, put_varint};
use super::elements::{ordered, unordered};
use super::{DType, Error, Result};

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
pub(super) fn write_keys(dtype: DType, keys: &[u64], out: &mut Vec<u8>) {
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
pub(super) fn read_keys(dtype: DType, c: &mut Cursor<'_>, max: usize) -> Result<Vec<u64>> {
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
