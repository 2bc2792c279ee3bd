//! Small signed corrections in units in the last place, for lattices that are not quite exact.

use crate::coding::binary::{Bit, Decoder, Encoder};
use crate::{Error, Result};

/// Codes small signed corrections, most of them zero.
pub(crate) fn encode(values: &[i8]) -> Vec<u8> {
    let mut e = Encoder::new();
    let mut m = [Bit::default(); 4 * 64];
    let mut zero = [Bit::default(); 16];
    let mut c = 0usize;
    let mut sign = [Bit::default(); 3];
    let mut last = 0usize;
    for &v in values {
        e.put(&mut zero[c], v != 0);
        if v != 0 {
            e.put(&mut sign[last], v < 0);
            last = 1 + usize::from(v < 0);
            e.put_number(&mut m[..64], u64::from(v.unsigned_abs()) - 1);
        }
        c = (c << 1 | usize::from(v != 0)) & 15;
    }
    e.finish()
}

/// Inverse of [`encode`] for `n` values.
pub(crate) fn decode(bytes: &[u8], n: usize) -> Result<Vec<i8>> {
    let mut d = Decoder::new(bytes);
    let mut m = [Bit::default(); 4 * 64];
    let mut zero = [Bit::default(); 16];
    let mut c = 0usize;
    let mut sign = [Bit::default(); 3];
    let mut last = 0usize;
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        let some = d.get(&mut zero[c]);
        let mut v = 0i64;
        if some {
            let negative = d.get(&mut sign[last]);
            last = 1 + usize::from(negative);
            let magnitude =
                d.get_number(&mut m[..64]).filter(|&v| v < 127).ok_or(Error::Corrupt("correction out of range"))?;
            v = magnitude as i64 + 1;
            if negative {
                v = -v;
            }
        }
        out.push(v as i8);
        c = (c << 1 | usize::from(some)) & 15;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_round_trip() {
        let v: Vec<i8> = (0..3000i32).map(|i| if i % 5 == 0 { (i % 15 - 7) as i8 } else { 0 }).collect();
        assert_eq!(decode(&encode(&v), v.len()).unwrap(), v);
    }
}
