//! Deterministic arrays that cover what codecs meet: smooth, noisy, decimal, masked, special, tiny, odd.

use knarr_array::array::{ArraySpec, DType};

/// A pseudo-random generator (xorshift64*), so that suites need no dependency and repeat exactly.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Seeds the generator; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Whole number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.bits() >> 11).unwrap_or(0).checked_rem(n).unwrap_or(0)
    }

    /// Uniform in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A named test array.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What it stands for.
    pub name: String,
    /// Type and shape.
    pub spec: ArraySpec,
    /// Elements, little-endian.
    pub bytes: Vec<u8>,
}

/// Types the samples are made in.
pub const DTYPES: [DType; 12] = {
    let mut all = [DType::Opaque(3); 12];
    let (numbers, _) = all.split_at_mut(DType::NUMBERS.len());
    numbers.copy_from_slice(&DType::NUMBERS);
    all
};

/// Shapes that have gone wrong in other libraries: empty, single, odd, size-1 axes, high rank.
pub const SHAPES: [&[usize]; 13] = [
    &[],
    &[0],
    &[3, 0, 5],
    &[1],
    &[7],
    &[1000],
    &[1, 1, 17],
    &[1, 64, 33],
    &[13, 1, 31],
    &[5, 37, 41],
    &[2, 3, 4, 5, 6],
    &[4096],
    &[33, 129],
];

/// How values are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All elements equal.
    Constant,
    /// Slow waves.
    Smooth,
    /// Slow waves rounded to two decimals.
    Decimal,
    /// Slow waves with a third of the elements a fill value.
    Masked,
    /// Random bits.
    Noise,
    /// NaN with payloads, infinities, −0, subnormals among waves; extreme integers.
    Special,
}

/// All patterns.
pub const PATTERNS: [Pattern; 6] =
    [Pattern::Constant, Pattern::Smooth, Pattern::Decimal, Pattern::Masked, Pattern::Noise, Pattern::Special];

/// Makes the sample of this type, shape and pattern.
pub fn sample(dtype: DType, shape: &[usize], pattern: Pattern, seed: u64) -> Sample {
    let mut spec = ArraySpec::new(dtype, shape);
    let mut random = Random::new(seed);
    let fill = element(dtype, 1e20);
    if pattern == Pattern::Masked && dtype.is_number() {
        spec.fills.push(fill);
    }
    let size = dtype.size();
    let mut bytes = Vec::with_capacity(spec.byte_len());
    let row = shape.last().copied().unwrap_or(1).max(1);
    for index in 0..spec.len() {
        let value = wave(index / row, index % row);
        let bits = match pattern {
            Pattern::Constant => element(dtype, 42.0),
            Pattern::Smooth => element(dtype, value),
            Pattern::Decimal => element(dtype, (value * 100.0).round() / 100.0),
            Pattern::Masked if (index / 5) % 3 == 0 => fill,
            Pattern::Masked => element(dtype, value),
            Pattern::Noise => random.bits(),
            Pattern::Special if random.below(4) == 0 => special(dtype, random.below(8), &mut random),
            Pattern::Special => element(dtype, value),
        };
        let mut element = bits.to_le_bytes().to_vec();
        element.resize(size, 0x5A);
        bytes.extend_from_slice(element.get(..size).unwrap_or(&[]));
    }
    Sample { name: format!("{pattern:?} {dtype} {shape:?}"), spec, bytes }
}

/// Every type, shape and pattern: the full matrix of the suites.
pub fn samples() -> impl Iterator<Item = Sample> {
    DTYPES.into_iter().flat_map(|dtype| {
        SHAPES.into_iter().flat_map(move |shape| {
            PATTERNS.into_iter().enumerate().map(move |(seed, pattern)| sample(dtype, shape, pattern, seed as u64 + 1))
        })
    })
}

#[expect(clippy::cast_precision_loss, reason = "indices of samples are small")]
fn wave(row: usize, column: usize) -> f64 {
    let (y, x) = (row as f64, column as f64);
    40.0 + 30.0 * (0.05 * x + 0.02 * y).sin() + 12.0 * (0.11 * y).cos() + 0.001 * x * y
}

/// Bits, zero-extended, of `value` in type `dtype`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "test values saturate by intention")]
pub fn element(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::I8 => u64::from((value as i8) as u8),
        DType::I16 => u64::from((value as i16) as u16),
        DType::I32 => u64::from((value as i32) as u32),
        DType::I64 => (value as i64) as u64,
        DType::U8 => u64::from(value as u8),
        DType::U16 | DType::F16 => u64::from(value as u16),
        DType::U32 | DType::Opaque(_) => u64::from(value as u32),
        DType::U64 => value as u64,
        DType::F32 => u64::from((value as f32).to_bits()),
        DType::F64 => value.to_bits(),
    }
}

fn special(dtype: DType, which: usize, random: &mut Random) -> u64 {
    let payload = random.bits();
    match (dtype, which) {
        (DType::F32, 0) => u64::from(0x7F80_0000u32) | (payload & 0x007F_FFFF) | 1,
        (DType::F32, 1) => u64::from(f32::NEG_INFINITY.to_bits()),
        (DType::F32, 2) => u64::from(f32::INFINITY.to_bits()),
        (DType::F32, 3) => u64::from((-0.0f32).to_bits()),
        (DType::F32, 4) => payload & 0x007F_FFFF,
        (DType::F32, 5) => u64::from(f32::MAX.to_bits()),
        (DType::F64, 0) => 0x7FF0_0000_0000_0000 | (payload >> 12) | 1,
        (DType::F64, 1) => f64::NEG_INFINITY.to_bits(),
        (DType::F64, 2) => f64::INFINITY.to_bits(),
        (DType::F64, 3) => (-0.0f64).to_bits(),
        (DType::F64, 4) => payload >> 12,
        (DType::F64, 5) => f64::MAX.to_bits(),
        (_, 0) => u64::MAX,
        (_, 1) => 1u64 << (dtype.size().min(8) * 8 - 1),
        (_, 2) => (1u64 << (dtype.size().min(8) * 8 - 1)) - 1,
        (_, 3) => 0,
        _ => payload,
    }
}

/// Bytes in so many parts of every kind, in random order and lengths: noise, skewed bytes, runs, repeats, constants.
pub fn mixed(random: &mut Random, parts: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..parts {
        let length = (random.bits() % 90_000) as usize + 1;
        let kind = random.bits() % 5;
        let period = (random.bits() % 4000) as usize + 2;
        let begin = bytes.len();
        for at in 0..length {
            let noise = random.bits().to_le_bytes()[5];
            bytes.push(match kind {
                0 => noise,
                1 => noise & (noise >> 3),
                2 => (at / period).to_le_bytes()[0],
                3 if at >= period => bytes[begin + at - period],
                3 => noise,
                _ => 7,
            });
        }
    }
    bytes
}
