//! What a symbol means to the predictor: floats in their numeric order, integers, or points of a lattice.
//!
//! Floats are predicted as numbers and compared as order-preserving integers (Lindstrom and Isenburg 2006, fpzip), so
//! that residuals count representable numbers and every bit pattern survives.

use crate::coding::bits::{unzigzag, zigzag};
use crate::fields::predict::Unit;

/// How an element's symbol relates to the number that is predicted.
pub(crate) trait Domain: Copy + Unit {
    /// Prepares for plane `p`.
    fn plane(&mut self, p: usize);
    /// The number a symbol stands for.
    fn value(&self, symbol: u64) -> f64;
    /// Zigzagged residual of a symbol against a prediction.
    fn split(&self, prediction: f64, symbol: u64) -> u64;
    /// Inverse of [`Domain::split`].
    fn join(&self, prediction: f64, z: u64) -> u64;
    /// Prediction brought into the range of the data where residuals need it.
    #[inline(always)]
    fn limit(&self, prediction: f64, low: f64, high: f64) -> f64 {
        // Written so that a NaN becomes the lower limit.
        let p = if prediction > low { prediction } else { low };
        if p < high { p } else { high }
    }
    /// Binary exponent of the code step near a number, relative to the largest; never above zero.
    fn exponent(&self, near: f64) -> i32;
}

/// Symbols are the bits of single-precision numbers, compared in their numeric order.
#[derive(Clone, Copy)]
pub(crate) struct Float32 {
    top: i32,
}

/// Binary exponent field of a double.
#[inline(always)]
fn exponent_of(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32
}

impl Float32 {
    /// For numbers of at most the given magnitude.
    pub(crate) fn new(top: f64) -> Self {
        Self { top: exponent_of(top) }
    }
}

/// Order-preserving integer of a single-precision number.
#[inline(always)]
pub(crate) fn order32(b: u32) -> u32 {
    b ^ (((b as i32) >> 31) as u32 | 0x8000_0000)
}

#[inline(always)]
fn unorder32(o: u32) -> u32 {
    o ^ (((!o as i32) >> 31) as u32 | 0x8000_0000)
}

/// Order-preserving integer of a double.
#[inline(always)]
pub(crate) fn order64(b: u64) -> u64 {
    b ^ (((b as i64) >> 63) as u64 | 1 << 63)
}

#[inline(always)]
fn unorder64(o: u64) -> u64 {
    o ^ (((!o as i64) >> 63) as u64 | 1 << 63)
}

impl Unit for Float32 {
    fn unit(&self, _: usize, value: f64) -> f64 {
        let e = ((value as f32).to_bits() >> 23 & 0xff).max(24);
        f64::from(f32::from_bits((e - 23) << 23))
    }
}

impl Domain for Float32 {
    fn plane(&mut self, _: usize) {}
    #[inline(always)]
    fn value(&self, symbol: u64) -> f64 {
        f64::from(f32::from_bits(symbol as u32))
    }
    #[inline(always)]
    fn split(&self, prediction: f64, symbol: u64) -> u64 {
        let e = order32(symbol as u32).wrapping_sub(order32((prediction as f32).to_bits())) as i32;
        u64::from(((e << 1) ^ (e >> 31)) as u32)
    }
    #[inline(always)]
    fn join(&self, prediction: f64, z: u64) -> u64 {
        let z = z as u32;
        let e = (z >> 1) ^ (z & 1).wrapping_neg();
        u64::from(unorder32(order32((prediction as f32).to_bits()).wrapping_add(e)))
    }
    #[inline(always)]
    fn exponent(&self, near: f64) -> i32 {
        (exponent_of(near) - self.top).min(0)
    }
}

/// Symbols are the bits of doubles.
#[derive(Clone, Copy)]
pub(crate) struct Float64 {
    top: i32,
}

impl Float64 {
    /// For numbers of at most the given magnitude.
    pub(crate) fn new(top: f64) -> Self {
        Self { top: exponent_of(top) }
    }
}

impl Unit for Float64 {
    fn unit(&self, _: usize, value: f64) -> f64 {
        let e = (value.to_bits() >> 52 & 0x7ff).max(53);
        f64::from_bits((e - 52) << 52)
    }
}

impl Domain for Float64 {
    fn plane(&mut self, _: usize) {}
    #[inline(always)]
    fn value(&self, symbol: u64) -> f64 {
        f64::from_bits(symbol)
    }
    #[inline(always)]
    fn split(&self, prediction: f64, symbol: u64) -> u64 {
        zigzag(order64(symbol).wrapping_sub(order64(prediction.to_bits())) as i64)
    }
    #[inline(always)]
    fn join(&self, prediction: f64, z: u64) -> u64 {
        unorder64(order64(prediction.to_bits()).wrapping_add(unzigzag(z) as u64))
    }
    #[inline(always)]
    fn exponent(&self, near: f64) -> i32 {
        (exponent_of(near) - self.top).min(0)
    }
}

/// Symbols are integers, predicted as they are.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    /// Whether predictions are limited, which whole residuals as tokens need. It lengthens the chain of dependent
    /// operations from one element to the next, so it is left out where it does not matter.
    pub(crate) limited: bool,
}

impl Unit for Whole {
    fn unit(&self, _: usize, _: f64) -> f64 {
        1.0
    }
}

impl Domain for Whole {
    fn plane(&mut self, _: usize) {}
    #[inline(always)]
    fn value(&self, symbol: u64) -> f64 {
        symbol as i64 as f64
    }
    #[inline(always)]
    fn split(&self, prediction: f64, symbol: u64) -> u64 {
        zigzag((symbol as i64).wrapping_sub(nearest(prediction)))
    }
    #[inline(always)]
    fn join(&self, prediction: f64, z: u64) -> u64 {
        nearest(prediction).wrapping_add(unzigzag(z)) as u64
    }
    #[inline(always)]
    fn limit(&self, prediction: f64, low: f64, high: f64) -> f64 {
        if self.limited {
            let p = if prediction > low { prediction } else { low };
            if p < high { p } else { high }
        } else {
            prediction
        }
    }
    #[inline(always)]
    fn exponent(&self, _: f64) -> i32 {
        0
    }
}

/// Nearest integer of a number below 2^51; beyond, some integer, the same on both sides.
#[inline(always)]
fn nearest(x: f64) -> i64 {
    ((x + ROUND).to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64)
}

/// Symbols are integers `k`; the predicted number is `offset + k * step`, per plane.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    /// Offset and step per plane.
    planes: &'a [(f64, f64)],
    offset: f64,
    step: f64,
    inverse: f64,
    top: i32,
    exponent: i32,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(planes: &'a [(f64, f64)]) -> Self {
        let top = planes.iter().map(|p| exponent_of(p.1)).max().unwrap_or(0);
        Self { planes, offset: 0.0, step: 1.0, inverse: 1.0, top, exponent: 0 }
    }
}

/// Adding and subtracting this rounds a double below 2^51 to an integer, ties to even.
const ROUND: f64 = 6_755_399_441_055_744.0;

impl Unit for Steps<'_> {
    fn unit(&self, p: usize, _: f64) -> f64 {
        self.planes.get(p).map_or(1.0, |l| l.1)
    }
}

impl Domain for Steps<'_> {
    fn plane(&mut self, p: usize) {
        if let Some(&(offset, step)) = self.planes.get(p) {
            (self.offset, self.step) = (offset, step);
            self.inverse = 1.0 / step;
            self.exponent = exponent_of(step) - self.top;
        }
    }
    #[inline(always)]
    fn value(&self, symbol: u64) -> f64 {
        self.offset + symbol as i64 as f64 * self.step
    }
    #[inline(always)]
    fn split(&self, prediction: f64, symbol: u64) -> u64 {
        zigzag((symbol as i64).wrapping_sub(self.nearest(prediction)))
    }
    #[inline(always)]
    fn join(&self, prediction: f64, z: u64) -> u64 {
        self.nearest(prediction).wrapping_add(unzigzag(z)) as u64
    }
    #[inline(always)]
    fn exponent(&self, _: f64) -> i32 {
        self.exponent
    }
}

impl Steps<'_> {
    #[inline(always)]
    fn nearest(&self, prediction: f64) -> i64 {
        nearest((prediction - self.offset) * self.inverse)
    }
}
