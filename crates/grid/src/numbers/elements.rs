//! Elements as 64-bit patterns: reading, writing, and the integer that sorts like each.

use crate::DType;
use crate::numbers::domain::{order32, order64};

/// Reads the elements, each zero-extended to 64 bits.
pub(crate) fn load(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    match dtype.size() {
        1 => bytes.iter().map(|&b| u64::from(b)).collect(),
        2 => bytes.as_chunks::<2>().0.iter().map(|&b| u64::from(u16::from_le_bytes(b))).collect(),
        4 => bytes.as_chunks::<4>().0.iter().map(|&b| u64::from(u32::from_le_bytes(b))).collect(),
        _ => bytes.as_chunks::<8>().0.iter().map(|&b| u64::from_le_bytes(b)).collect(),
    }
}

/// Appends the elements.
pub(crate) fn store(dtype: DType, values: &[u64], out: &mut Vec<u8>) {
    out.reserve(values.len() * dtype.size());
    match dtype.size() {
        1 => out.extend(values.iter().map(|&v| v as u8)),
        2 => out.extend(values.iter().flat_map(|&v| (v as u16).to_le_bytes())),
        4 => out.extend(values.iter().flat_map(|&v| (v as u32).to_le_bytes())),
        _ => out.extend(values.iter().flat_map(|&v| v.to_le_bytes())),
    }
}

/// Number an element stands for (floats only).
#[inline(always)]
pub(crate) fn number(wide: bool, bits: u64) -> f64 {
    if wide { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) }
}

/// Integer that sorts like the element.
#[inline(always)]
pub(crate) fn ordered(dtype: DType, bits: u64) -> u64 {
    match dtype {
        DType::F32 => u64::from(order32(bits as u32)),
        DType::F64 => order64(bits),
        _ if dtype.is_signed() => bits ^ 1 << (dtype.size() * 8 - 1),
        _ => bits,
    }
}

/// Inverse of [`ordered`].
#[inline(always)]
pub(crate) fn unordered(dtype: DType, key: u64) -> u64 {
    match dtype {
        DType::F32 => {
            let k = key as u32;
            u64::from(k ^ (((!k as i32) >> 31) as u32 | 0x8000_0000))
        }
        DType::F64 => key ^ (((!key as i64) >> 63) as u64 | 1 << 63),
        _ if dtype.is_signed() => key ^ 1 << (dtype.size() * 8 - 1),
        _ => key,
    }
}

/// About `want` indices spread evenly with jitter.
pub(crate) fn spread(n: usize, want: usize) -> impl Iterator<Item = usize> {
    let count = want.min(n);
    let mut jitter = 0x9e37_79b9u64;
    (0..count).map(move |i| {
        jitter = jitter.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (lo, hi) = (i * n / count, (i + 1) * n / count);
        lo + (jitter >> 33) as usize % (hi - lo).max(1)
    })
}
