//! Numbers as integers: their order, and their differences.

use knarr_array::array::ArraySpec;

/// How the bits of a type map to values and to order-preserving integers.
pub enum NumberOrder {
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed {
        /// The sign bit.
        sign: u64,
    },
    /// Floating point.
    Float {
        /// The sign bit.
        sign: u64,
        /// Of 64 bits.
        wide: bool,
    },
}

impl NumberOrder {
    /// That of the elements of `spec`, which are numbers.
    pub fn of(spec: &ArraySpec) -> Self {
        let sign = 1u64 << (spec.dtype.size() * 8 - 1);
        if spec.dtype.is_float() {
            Self::Float { sign, wide: spec.dtype.size() == 8 }
        } else if spec.dtype.is_signed() {
            Self::Signed { sign }
        } else {
            Self::Unsigned
        }
    }

    /// Integer whose unsigned order is the order of the values.
    pub fn rank(&self, word: u64) -> u64 {
        match *self {
            Self::Unsigned => word,
            Self::Signed { sign } => word ^ sign,
            Self::Float { sign, .. } if word & sign != 0 => !word & (sign | (sign - 1)),
            Self::Float { sign, .. } => word | sign,
        }
    }

    /// The value that the bits stand for.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_wrap, reason = "ranges of 64-bit integers are shown")]
    pub fn value(&self, word: u64) -> f64 {
        match *self {
            Self::Unsigned => word as f64,
            Self::Signed { sign } => (word ^ sign).wrapping_sub(sign) as i64 as f64,
            Self::Float { wide: true, .. } => f64::from_bits(word),
            Self::Float { wide: false, .. } => f64::from(f32::from_bits(u32::try_from(word).unwrap_or(0))),
        }
    }
}

/// A difference of numbers of `size` bytes as an integer that is small where the difference is, whatever its sign.
pub fn zigzag(delta: u64, size: usize) -> u64 {
    let unused = 64 - u32::try_from(size * 8).unwrap_or(64).min(64);
    let delta = (delta << unused).cast_signed() >> unused;
    ((delta << 1) ^ (delta >> 63)).cast_unsigned()
}
