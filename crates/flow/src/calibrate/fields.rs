//! Generated fields that codecs are measured on: three classes of compressibility, the same on every machine.

use knarr_array::array::{ArraySpec, DType};

/// Extents of a field; 1 MiB, the size that new chunks come close to.
const EXTENTS: [u16; 3] = [64, 64, 64];
/// Those of half a field: an upper part of it, whose speeds and ratios are much the same.
const HALF: [u16; 3] = [32, 64, 64];

/// How far a byte shuffle with zstd shrinks a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// About 1.1 times: full mantissas of values of all sizes and both signs.
    Hard,
    /// About 2 times: smooth waves with noise in the middle bits, as of a model's temperature.
    Middle,
    /// About 8 times: few decimals and a land mask.
    Easy,
}

pub(super) const CLASSES: [Class; 3] = [Class::Hard, Class::Middle, Class::Easy];

impl Class {
    /// The field, or half of it, as a chunk of `f32`, with its type and shape.
    pub(super) fn field(self, is_half: bool) -> (ArraySpec, Vec<u8>) {
        let fill = 1e20f32;
        let extents = if is_half { HALF } else { EXTENTS };
        let mut spec = ArraySpec::new(DType::F32, extents.map(usize::from));
        spec.fills.push(u64::from(fill.to_bits()));
        let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
        let mut bytes = Vec::with_capacity(spec.byte_len());
        for z in 0..extents[0] {
            for y in 0..extents[1] {
                for x in 0..extents[2] {
                    let (z, y, x) = (f64::from(z), f64::from(y), f64::from(x));
                    let wave = 12.0 * (0.05 * x + 0.02 * y + 0.03 * z).sin() + 7.0 * (0.11 * y - 0.04 * z).cos();
                    let unit = noise.unit();
                    let value = match self {
                        Self::Hard => 2f64.powf(30.0 * unit - 20.0) * if noise.unit() < 0.5 { -1.0 } else { 1.0 },
                        Self::Middle => multiple(280.0 + wave + unit, 1.0 / 2048.0),
                        Self::Easy if (0.07 * x).sin() + (0.09 * y).cos() > 0.5 => f64::from(fill),
                        Self::Easy => multiple(15.0 + 0.5 * wave + 0.3 * unit, 0.0625),
                    };
                    #[expect(clippy::cast_possible_truncation, reason = "the field is made of 32-bit numbers")]
                    bytes.extend_from_slice(&(value as f32).to_le_bytes());
                }
            }
        }
        (spec, bytes)
    }
}

fn multiple(value: f64, step: f64) -> f64 {
    (value / step).round() * step
}

/// xorshift64*, seeded.
struct Noise(u64);

impl Noise {
    /// Uniform in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }
}
