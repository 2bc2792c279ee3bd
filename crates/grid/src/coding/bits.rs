//! Bit and byte plumbing: LEB128 integers, a forward bit stream, a bounds-checked byte cursor.

use crate::{Error, Result};

/// Appends `v` as an unsigned LEB128 integer.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v & 0x7f) as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends the eight bytes of a double.
pub(crate) fn put_f64(out: &mut Vec<u8>, v: f64) {
    out.extend_from_slice(&v.to_bits().to_le_bytes());
}

/// Base-2 logarithm by linear interpolation between powers of two: within 0.09, the same on every machine.
#[inline(always)]
pub(crate) fn log2(x: f64) -> f64 {
    (x.to_bits() as i64 - (1023i64 << 52)) as f64 * (1.0 / (1u64 << 52) as f64)
}

/// Maps a signed integer to an unsigned one, small magnitudes first.
#[inline(always)]
pub(crate) fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

/// Inverse of [`zigzag`].
#[inline(always)]
pub(crate) fn unzigzag(z: u64) -> i64 {
    ((z >> 1) as i64) ^ -((z & 1) as i64)
}

/// Reads a byte slice front to back; every read is checked.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Error::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        let (&b, tail) = self.rest.split_first().ok_or(Error::Truncated)?;
        self.rest = tail;
        Ok(b)
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        let mut b = [0u8; 8];
        b.copy_from_slice(self.take(8)?);
        Ok(f64::from_bits(u64::from_le_bytes(b)))
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut v = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.u8()?;
            let part = u64::from(b & 0x7f);
            if shift == 63 && part > 1 {
                return Err(Error::Corrupt("integer longer than 64 bits"));
            }
            v |= part << shift;
            if b & 0x80 == 0 {
                return Ok(v);
            }
        }
        Err(Error::Corrupt("integer longer than 64 bits"))
    }

    /// A varint that must not exceed `max`.
    pub(crate) fn bounded(&mut self, max: usize, what: &'static str) -> Result<usize> {
        let v = self.varint()?;
        match usize::try_from(v) {
            Ok(v) if v <= max => Ok(v),
            _ => Err(Error::Corrupt(what)),
        }
    }

    /// A byte string with its length in front.
    pub(crate) fn section(&mut self) -> Result<&'a [u8]> {
        let n = self.bounded(self.remaining(), "section longer than the stream")?;
        self.take(n)
    }
}

/// Appends a byte string with its length in front.
pub(crate) fn put_section(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes fields of up to 64 bits, least significant bit first.
#[derive(Default)]
pub(crate) struct BitWriter {
    out: Vec<u8>,
    acc: u64,
    used: u32,
}

impl BitWriter {
    /// Appends the low `n` bits of `v` (`n` ≤ 64; the higher bits of `v` must be zero).
    #[inline(always)]
    pub(crate) fn put(&mut self, v: u64, n: u32) {
        self.acc |= v << self.used;
        let total = self.used + n;
        if total >= 64 {
            self.out.extend_from_slice(&self.acc.to_le_bytes());
            let taken = 64 - self.used;
            self.acc = if taken < 64 { v >> taken } else { 0 };
            self.used = total - 64;
        } else {
            self.used = total;
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let n = self.used.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.acc.to_le_bytes()[..n]);
        self.out
    }
}

#[derive(Clone, Copy)]
/// Reads what [`BitWriter`] wrote. Reading past the end yields zeros and is reported by [`BitReader::check`].
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline(always)]
    fn window(&self, byte: usize) -> u64 {
        match self.bytes.get(byte..).and_then(|t| t.first_chunk::<8>()) {
            Some(b) => u64::from_le_bytes(*b),
            None => self.window_slow(byte),
        }
    }

    #[cold]
    fn window_slow(&self, byte: usize) -> u64 {
        let mut b = [0u8; 8];
        if let Some(t) = self.bytes.get(byte..) {
            for (d, s) in b.iter_mut().zip(t) {
                *d = *s;
            }
        }
        u64::from_le_bytes(b)
    }

    /// The next `n` bits, `n` ≤ 64.
    #[inline(always)]
    pub(crate) fn get(&mut self, n: u32) -> u64 {
        let (byte, bit) = (self.at >> 3, (self.at & 7) as u32);
        self.at += n as usize;
        let low = self.window(byte) >> bit;
        if n <= 56 {
            low & ((1u64 << n) - 1)
        } else {
            // At most 57 bits are certain in one window; fetch the rest from the next bytes.
            let high = self.window(byte + 7) >> bit;
            let v = (low & ((1u64 << 56) - 1)) | (high << 56);
            if n == 64 { v } else { v & ((1u64 << n) - 1) }
        }
    }

    /// Fails when more bits were read than the stream has.
    pub(crate) fn check(&self) -> Result<()> {
        if self.at.div_ceil(8) > self.bytes.len() { Err(Error::Truncated) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip_in_every_width() {
        let mut w = BitWriter::default();
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        let mut want = Vec::new();
        for i in 0..4000u32 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let n = i % 65;
            let v = if n == 64 { x } else { x & ((1u64 << n) - 1) };
            w.put(v, n);
            want.push((v, n));
        }
        let bytes = w.finish();
        let mut r = BitReader::new(&bytes);
        for (v, n) in want {
            assert_eq!(r.get(n), v, "{n} bits");
        }
        assert!(r.check().is_ok());
        r.get(9);
        assert!(r.check().is_err());
    }

    #[test]
    fn varints_round_trip() {
        for v in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut b = Vec::new();
            put_varint(&mut b, v);
            assert_eq!(Cursor::new(&b).varint().unwrap(), v);
        }
        assert!(Cursor::new(&[0xff; 11]).varint().is_err());
    }
}
