//! zfp's stream header, which H5Z-ZFP keeps in cd_values: 32 bits of magic and codec version, 52 bits of type and
//! extents, 12 bits of mode (`zfp_write_header`, `zfp_field_metadata`, `zfp_stream_mode`).

use knarr_array::{Error, Result};

use super::scalar::Scalar;

/// "zfp" and the codec version 5.
const MAGIC: u32 = u32::from_le_bytes([b'z', b'f', b'p', 5]);
/// Bits per extent by the number of dimensions, less one.
const EXTENT_BITS: [u32; 4] = [48, 24, 16, 12];

/// Short forms of the modes.
const FIRST_PRECISION: u32 = 2048;
const REVERSIBLE: u32 = 2176;
const FIRST_ACCURACY: u32 = 2177;
const LAST_ACCURACY: u32 = 4094;
/// `ZFP_MIN_EXP`
const SMALLEST_EXPONENT: i32 = -1074;
/// `ZFP_MAX_PREC` planes are all there are, which is another mode in zfp's eyes.
const MOST_PLANES: f64 = 63.0;

/// What a stream keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Every bit.
    Reversible,
    /// So many bit planes of each block.
    Precision(u8),
    /// Bit planes down to this power of two.
    Accuracy(i16),
}

impl Mode {
    /// The mode that keeps absolute errors within `tolerance`: the power of two at or below it.
    pub(super) fn accuracy(tolerance: f64) -> Result<Self> {
        // The exponent field of the number; subnormal numbers are far below what zfp's short form can state.
        let exponent = i32::try_from((tolerance.to_bits() >> 52) & 0x7FF).unwrap_or(0) - 1023;
        let range = SMALLEST_EXPONENT + 1..=SMALLEST_EXPONENT + (LAST_ACCURACY - FIRST_ACCURACY).cast_signed();
        match i16::try_from(exponent) {
            Ok(short) if tolerance.is_normal() && tolerance > 0.0 && range.contains(&exponent) => {
                Ok(Self::Accuracy(short))
            }
            _ => Err(Error::usage(format!("zfp: {tolerance:?} is not an absolute error that it can bound"))
                .hint("give 'value' a number from 1e-300 to 1e250, in the unit of the variable")),
        }
    }

    /// The mode that keeps so many bit planes.
    pub(super) fn precision(planes: f64) -> Result<Self> {
        if planes.fract() != 0.0 || !(1.0..=MOST_PLANES).contains(&planes) {
            return Err(Error::usage(format!("zfp: {planes:?} is not a number of bit planes"))
                .hint("give 'value' a whole number from 1 to 63"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number from 1 to 63")]
        Ok(Self::Precision(planes as u8))
    }

    fn short_form(self) -> u32 {
        match self {
            Self::Reversible => REVERSIBLE,
            Self::Precision(planes) => FIRST_PRECISION + u32::from(planes) - 1,
            Self::Accuracy(exponent) => FIRST_ACCURACY.wrapping_add_signed(i32::from(exponent) - SMALLEST_EXPONENT),
        }
    }

    fn from_short_form(form: u32) -> Option<Self> {
        match form {
            REVERSIBLE => Some(Self::Reversible),
            FIRST_PRECISION..REVERSIBLE => u8::try_from(form - FIRST_PRECISION + 1)
                .ok()
                .filter(|planes| f64::from(*planes) <= MOST_PLANES)
                .map(Self::Precision),
            // A tolerance of 0, with the smallest exponent, is not one of this codec's modes.
            FIRST_ACCURACY..=LAST_ACCURACY if form > FIRST_ACCURACY => {
                i16::try_from((form - FIRST_ACCURACY).cast_signed() + SMALLEST_EXPONENT).ok().map(Self::Accuracy)
            }
            _ => None,
        }
    }
}

/// The extents that zfp sees, slowest first: those above 1, with the slowest ones merged until there are at most four
/// and the header has room for them. `None` for less than two elements.
pub(super) fn extents(shape: &[usize]) -> Option<Vec<usize>> {
    if shape.contains(&0) {
        return None;
    }
    let mut extents: Vec<usize> = shape.iter().copied().filter(|extent| *extent > 1).collect();
    loop {
        let bits = *EXTENT_BITS.get(extents.len().checked_sub(1)?).unwrap_or(&0);
        let fits = |extent: &usize| bits > 0 && (*extent as u64 - 1) >> bits == 0;
        if extents.iter().all(fits) {
            return Some(extents);
        }
        let [first, second, ..] = extents.as_slice() else { return None };
        let merged = first.checked_mul(*second)?;
        extents.splice(..2, [merged]);
    }
}

/// The header as 32-bit words.
pub(super) fn words(scalar: Scalar, extents: &[usize], mode: Mode) -> [u32; 3] {
    let rank = extents.len().clamp(1, EXTENT_BITS.len());
    let bits = EXTENT_BITS.get(rank - 1).copied().unwrap_or(12);
    let extents = extents.iter().fold(0u64, |meta, extent| (meta << bits) | (*extent as u64).wrapping_sub(1));
    let meta = (extents << 4) | ((rank as u64 - 1) << 2) | u64::from(scalar.code() - 1);
    let [a, b, c, d, e, f, g, h] = meta.to_le_bytes();
    let (low, high) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    [MAGIC, low, high | (mode.short_form() << 20)]
}

/// Type, extents and mode of a header; `None` for what this codec does not write.
pub(super) fn parse(words: &[u32]) -> Option<(Scalar, Vec<usize>, Mode)> {
    let [magic, low, high] = *words else { return None };
    let meta = u64::from(low) | (u64::from(high & 0x000F_FFFF) << 32);
    let mode = Mode::from_short_form(high >> 20)?;
    let scalar = Scalar::from_code((meta & 3) as u8 + 1)?;
    let rank = ((meta >> 2) & 3) as usize + 1;
    let bits = *EXTENT_BITS.get(rank - 1)?;
    let mut packed = meta >> 4;
    let mut extents = Vec::with_capacity(rank);
    for _ in 0..rank {
        extents.insert(0, usize::try_from(packed & ((1 << bits) - 1)).ok()? + 1);
        packed >>= bits;
    }
    (magic == MAGIC).then_some((scalar, extents, mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_filter() {
        // As H5Z-ZFP 1.1.1 wrote them.
        let f32_reversible = [91_252_346, 30_409_338, 2_281_701_680];
        assert_eq!(words(Scalar::F32, &[20, 30, 40], Mode::Reversible), f32_reversible);
        assert_eq!(words(Scalar::F64, &[20, 30, 40], Mode::Reversible)[1], 30_409_339);
        assert_eq!(words(Scalar::F32, &[20, 30, 40], Mode::accuracy(1e-3).unwrap())[2], 3_398_435_120);
        assert_eq!(words(Scalar::F32, &[20, 30, 40], Mode::precision(12.0).unwrap())[2], 2_159_018_288);
        assert_eq!(words(Scalar::F32, &[24000], Mode::Reversible), [91_252_346, 383_986, 2_281_701_376]);
        for mode in
            [Mode::Reversible, Mode::Precision(1), Mode::Precision(63), Mode::Accuracy(-10), Mode::Accuracy(843)]
        {
            for extents in [vec![9], vec![2, 1 << 24], vec![3, 4, 65536], vec![2, 3, 4, 4096]] {
                let parsed = parse(&words(Scalar::I64, &extents, mode));
                assert_eq!(parsed, Some((Scalar::I64, extents, mode)));
            }
        }
    }

    #[test]
    fn extents_are_merged_until_they_fit() {
        assert_eq!(extents(&[1, 1]), None);
        assert_eq!(extents(&[4, 0]), None);
        assert_eq!(extents(&[20, 1, 30, 1, 40]), Some(vec![20, 30, 40]));
        assert_eq!(extents(&[2, 3, 4, 5, 6]), Some(vec![6, 4, 5, 6]));
        assert_eq!(extents(&[2, 3, 4, 5000]), Some(vec![6, 4, 5000]));
        assert_eq!(extents(&[3, 70000, 2]), Some(vec![210_000, 2]));
    }
}
