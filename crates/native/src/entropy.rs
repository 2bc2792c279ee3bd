//! How often bytes occur, and what that costs a prefix or arithmetic code.

/// How often each byte occurs.
pub(crate) struct Histogram([[u32; 256]; 4]);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self([[0; 256]; 4])
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        // Four histograms keep equal neighbours from waiting for each other.
        let (quads, rest) = bytes.as_chunks::<4>();
        for quad in quads {
            for (histogram, &byte) in self.0.iter_mut().zip(quad) {
                histogram[usize::from(byte)] += 1;
            }
        }
        for &byte in rest {
            self.0[0][usize::from(byte)] += 1;
        }
    }

    pub(crate) fn counts(&self) -> [u32; 256] {
        std::array::from_fn(|byte| self.0.iter().map(|histogram| histogram[byte]).sum())
    }
}

/// Base-2 logarithm of a normal number of at least 1, right to 0.00015: a polynomial that is exact at powers of two.
/// It needs no call, so that loops of it run in vectors, and is the same on every machine.
#[inline]
pub(crate) fn log2(x: f32) -> f32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let m = f32::from_bits(bits & 0x007F_FFFF | 0x3F80_0000);
    let q = -0.755_074 + m * (0.397_308 - 0.080_307_3 * m);
    exponent as f32 + (m - 1.0) * (1.0 + (m - 2.0) * q)
}
