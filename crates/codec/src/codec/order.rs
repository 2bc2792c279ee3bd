//! Elements as integers: machine words, the order-preserving form of floats, zigzag.
//!
//! Filters that predict values work on these integers modulo 2^n, so that they are exact for every bit
//! pattern, NaN payloads and −0 included.

use knarr_array::array::DType;

/// An unsigned integer as wide as an element. Slices of bytes are seen as slices of its byte arrays, so
/// that loops over them need no alignment and still become vector instructions.
pub trait Word: Copy + Eq + Ord + Default + Send + Sync + 'static {
    /// The little-endian bytes of a word.
    type Bytes: Copy + Default;
    /// Bits of a word.
    const BITS: u32;

    /// The whole words in `bytes`.
    fn words(bytes: &[u8]) -> &[Self::Bytes];
    /// The whole words in `bytes`, to be changed.
    fn words_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    /// From little-endian bytes.
    fn from_le(bytes: Self::Bytes) -> Self;
    /// To little-endian bytes.
    fn to_le(self) -> Self::Bytes;
    /// Sum modulo 2^n.
    fn plus(self, other: Self) -> Self;
    /// Difference modulo 2^n.
    fn minus(self, other: Self) -> Self;
    /// Product with a small factor modulo 2^n.
    fn times(self, factor: i8) -> Self;
    /// The order-preserving form of a float's bits as a signed integer: positive floats are themselves, the
    /// magnitude bits of negative ones are inverted. Its own inverse; +0 is 0 and −0 is −1.
    fn float_order(self) -> Self;
    /// Signed to unsigned so that small magnitudes are small: 0, −1, 1, −2, 2 become 0, 1, 2, 3, 4.
    fn zigzag(self) -> Self;
    /// Inverse of [`Word::zigzag`].
    fn unzigzag(self) -> Self;
    /// Bits that are set in either.
    fn with(self, other: Self) -> Self;
    /// Zero bits at the low end.
    fn trailing_zeros(self) -> u32;
    /// Shifted towards the low end, by less than [`Word::BITS`].
    fn down(self, bits: u32) -> Self;
    /// Shifted towards the high end, by less than [`Word::BITS`].
    fn up(self, bits: u32) -> Self;
    /// Zero-extended.
    fn to_u64(self) -> u64;
    /// The low bits.
    fn from_u64(bits: u64) -> Self;
}

macro_rules! word {
    ($unsigned:ty, $signed:ty, $size:literal) => {
        impl Word for $unsigned {
            type Bytes = [u8; $size];
            const BITS: u32 = <$unsigned>::BITS;

            #[inline(always)]
            fn words(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn words_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }

            #[inline(always)]
            fn from_le(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn to_le(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn times(self, factor: i8) -> Self {
                self.wrapping_mul(<$signed>::from(factor).cast_unsigned())
            }

            #[inline(always)]
            fn float_order(self) -> Self {
                let sign = (self.cast_signed() >> (Self::BITS - 1)).cast_unsigned();
                self ^ (sign >> 1)
            }

            #[inline(always)]
            fn zigzag(self) -> Self {
                (self << 1) ^ (self.cast_signed() >> (Self::BITS - 1)).cast_unsigned()
            }

            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }

            #[inline(always)]
            fn with(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn trailing_zeros(self) -> u32 {
                self.trailing_zeros()
            }

            #[inline(always)]
            fn down(self, bits: u32) -> Self {
                self >> bits
            }

            #[inline(always)]
            fn up(self, bits: u32) -> Self {
                self << bits
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are asked for")]
            fn from_u64(bits: u64) -> Self {
                bits as Self
            }
        }
    };
}

word!(u8, i8, 1);
word!(u16, i16, 2);
word!(u32, i32, 4);
word!(u64, i64, 8);

/// How elements of a type become integers that compare like the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Integers: as they are.
    Integer,
    /// Floats: [`Word::float_order`].
    Float,
}

impl Order {
    /// The order of a type with values.
    pub fn of(dtype: DType) -> Self {
        if dtype.is_float() { Self::Float } else { Self::Integer }
    }

    /// To the integer, or back.
    #[inline(always)]
    pub fn map<W: Word>(self, word: W) -> W {
        match self {
            Self::Integer => word,
            Self::Float => word.float_order(),
        }
    }
}

/// `$body` with `$W` standing for the word as wide as `$dtype`, which has 1, 2, 4 or 8 bytes; otherwise the
/// error that codec `$codec` does not serve the type.
macro_rules! with_word {
    ($codec:expr, $dtype:expr, $W:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $W = u8;
                Ok($body)
            }
            2 => {
                type $W = u16;
                Ok($body)
            }
            4 => {
                type $W = u32;
                Ok($body)
            }
            8 => {
                type $W = u64;
                Ok($body)
            }
            _ => Err(knarr_array::error::Error::unsupported(format!(
                "{} does not take elements of type {}",
                $codec, $dtype
            ))),
        }
    };
}
pub(super) use with_word;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_order_is_monotonic_and_its_own_inverse() {
        let values = [f32::NEG_INFINITY, -1e30, -1.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, 1e30, f32::INFINITY];
        let ordered: Vec<i32> = values.iter().map(|v| v.to_bits().float_order().cast_signed()).collect();
        assert!(ordered.is_sorted_by(|a, b| a < b), "{ordered:?}");
        for bits in [0, 1, 0x7FC0_1234, 0xFFC0_1234, 0x8000_0000u32, u32::MAX] {
            assert_eq!(bits.float_order().float_order(), bits);
        }
    }

    #[test]
    fn zigzag_keeps_magnitudes_small_and_inverts() {
        for (signed, unsigned) in [(0i16, 0u16), (-1, 1), (1, 2), (i16::MAX, u16::MAX - 1), (i16::MIN, u16::MAX)] {
            assert_eq!(signed.cast_unsigned().zigzag(), unsigned);
            assert_eq!(unsigned.unzigzag(), signed.cast_unsigned());
        }
    }
}
