//! Adaptive binary arithmetic coder for masks, corrections and tables.
//!
//! A carry-less 32-bit coder in the style of Mahoney's lpaq; each context keeps two probabilities that adapt at
//! different speeds and codes with their mean, which follows both stable and changing statistics.

/// Probability state of one binary context.
#[derive(Clone, Copy)]
pub(crate) struct Bit {
    fast: u16,
    slow: u16,
}

impl Default for Bit {
    fn default() -> Self {
        Self { fast: 1 << 15, slow: 1 << 15 }
    }
}

impl Bit {
    /// Probability of a one in 1/65536, kept off both ends.
    #[inline(always)]
    fn p(self) -> u32 {
        ((u32::from(self.fast) + u32::from(self.slow)) >> 1).clamp(24, 65536 - 24)
    }

    #[inline(always)]
    fn update(&mut self, bit: bool) {
        if bit {
            self.fast += (65535 - self.fast) >> 4;
            self.slow += (65535 - self.slow) >> 7;
        } else {
            self.fast -= self.fast >> 4;
            self.slow -= self.slow >> 7;
        }
    }
}

/// Where the code of what was coded so far lies: both halves narrow it alike.
#[derive(Clone, Copy)]
struct Interval {
    low: u32,
    high: u32,
}

impl Interval {
    const WHOLE: Self = Self { low: 0, high: u32::MAX };

    /// Last number of the part that stands for a one.
    #[inline(always)]
    fn split(self, ctx: &Bit) -> u32 {
        self.low + ((u64::from(self.high - self.low) * u64::from(ctx.p())) >> 16) as u32
    }

    #[inline(always)]
    fn narrow(&mut self, ctx: &mut Bit, mid: u32, bit: bool) {
        if bit {
            self.high = mid;
        } else {
            self.low = mid + 1;
        }
        ctx.update(bit);
    }

    /// Takes the first byte off if it can no longer change.
    #[inline(always)]
    fn settled(&mut self) -> Option<u8> {
        if (self.low ^ self.high) >> 24 != 0 {
            return None;
        }
        let byte = (self.high >> 24) as u8;
        self.low <<= 8;
        self.high = (self.high << 8) | 0xff;
        Some(byte)
    }
}

/// Encoder half.
pub(crate) struct Encoder {
    interval: Interval,
    out: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { interval: Interval::WHOLE, out: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, ctx: &mut Bit, bit: bool) {
        let mid = self.interval.split(ctx);
        self.interval.narrow(ctx, mid, bit);
        while let Some(byte) = self.interval.settled() {
            self.out.push(byte);
        }
    }

    /// Codes a number by the Elias-gamma scheme with adaptive bits; `ctx` needs 64 entries.
    pub(crate) fn put_number(&mut self, ctx: &mut [Bit], v: u64) {
        let v1 = u128::from(v) + 1;
        let n = 127 - v1.leading_zeros();
        for i in 0..n {
            if let Some(c) = ctx.get_mut(i as usize) {
                self.put(c, true);
            } else {
                self.put(&mut Bit::default(), true);
            }
        }
        if let Some(c) = ctx.get_mut(n as usize) {
            self.put(c, false);
        } else {
            self.put(&mut Bit::default(), false);
        }
        for i in (0..n).rev() {
            self.put(&mut Bit::default(), (v1 >> i) & 1 == 1);
        }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let Interval { low, high } = self.interval;
        // One byte inside the interval is enough when its zero continuation is also inside.
        let b = (low >> 24) + 1;
        if low == 0 {
            // An empty tail reads as zeros, which is in the interval.
        } else if b <= 0xff && (b << 24) <= high {
            self.out.push(b as u8);
        } else {
            self.out.extend_from_slice(&high.to_be_bytes());
        }
        self.out
    }
}

/// Decoder half. Past the end of the stream it reads zeros.
pub(crate) struct Decoder<'a> {
    interval: Interval,
    x: u32,
    rest: std::slice::Iter<'a, u8>,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut rest = bytes.iter();
        let mut x = 0;
        for _ in 0..4 {
            x = (x << 8) | u32::from(rest.next().copied().unwrap_or(0));
        }
        Self { interval: Interval::WHOLE, x, rest }
    }

    #[inline(always)]
    pub(crate) fn get(&mut self, ctx: &mut Bit) -> bool {
        let mid = self.interval.split(ctx);
        let bit = self.x <= mid;
        self.interval.narrow(ctx, mid, bit);
        while self.interval.settled().is_some() {
            self.x = (self.x << 8) | u32::from(self.rest.next().copied().unwrap_or(0));
        }
        bit
    }

    /// Inverse of [`Encoder::put_number`]; `None` when the number does not fit 64 bits.
    pub(crate) fn get_number(&mut self, ctx: &mut [Bit]) -> Option<u64> {
        let mut n = 0u32;
        loop {
            let more = match ctx.get_mut(n as usize) {
                Some(c) => self.get(c),
                None => self.get(&mut Bit::default()),
            };
            if !more {
                break;
            }
            n += 1;
            if n > 64 {
                return None;
            }
        }
        let mut v = 1u128;
        for _ in 0..n {
            v = (v << 1) | u128::from(self.get(&mut Bit::default()));
        }
        u64::try_from(v - 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_numbers_round_trip() {
        for seed in 0..50u64 {
            let mut x = seed;
            let mut next = || {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                x >> 33
            };
            let items: Vec<(bool, u64)> =
                (0..300).map(|_| (next() % (seed + 2) == 0, next() >> (next() % 31))).collect();
            let (mut c, mut n) = ([Bit::default(); 1], [Bit::default(); 64]);
            let mut e = Encoder::new();
            for &(b, v) in &items {
                e.put(&mut c[0], b);
                e.put_number(&mut n, v);
            }
            e.put_number(&mut n, u64::MAX);
            let bytes = e.finish();
            let (mut c, mut n) = ([Bit::default(); 1], [Bit::default(); 64]);
            let mut d = Decoder::new(&bytes);
            for &(b, v) in &items {
                assert_eq!(d.get(&mut c[0]), b);
                assert_eq!(d.get_number(&mut n), Some(v));
            }
            assert_eq!(d.get_number(&mut n), Some(u64::MAX));
        }
    }
}
