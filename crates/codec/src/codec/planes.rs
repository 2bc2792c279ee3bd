//! Byte planes: the transposition behind `shuffle`, `bitshuffle` and every codec that stores
//! the bytes of like significance together.
//!
//! Elements of 2, 4 and 8 bytes are split by halving: a pass parts even from odd bytes, so
//! that `log2(size)` passes over a block that stays in the first-level cache do the work.
//! Each pass is a loop that the compiler turns into vector instructions; [`pulp::Arch`] picks
//! the widest set the processor has.

use pulp::Arch;

/// Elements per block: all passes over it stay within the first-level cache.
const BLOCK: usize = 1024;

/// Writes byte `k` of every element of `size` bytes to plane `k` of `out`, planes one after the
/// other, as HDF5's shuffle does. Bytes that do not fill an element are copied to the end.
///
/// Both slices have the same length; the shorter one limits what is written.
pub fn split(input: &[u8], size: usize, out: &mut [u8]) {
    let count = input.len().checked_div(size).unwrap_or(0);
    let (whole, rest) = input.split_at(count * size);
    let (planes, tail) = out.split_at_mut(whole.len().min(out.len()));
    match size {
        0 | 1 => planes.copy_from_slice(whole),
        2 => Arch::new().dispatch(
            #[inline(always)]
            || split2(whole, planes, count),
        ),
        4 => Arch::new().dispatch(
            #[inline(always)]
            || split4(whole, planes, count),
        ),
        8 => Arch::new().dispatch(
            #[inline(always)]
            || split8(whole, planes, count),
        ),
        _ => split_any(whole, size, planes, count),
    }
    tail.copy_from_slice(rest);
}

/// Inverse of [`split`].
pub fn join(input: &[u8], size: usize, out: &mut [u8]) {
    let count = input.len().checked_div(size).unwrap_or(0);
    let (planes, rest) = input.split_at(count * size);
    let (whole, tail) = out.split_at_mut(planes.len().min(out.len()));
    match size {
        0 | 1 => whole.copy_from_slice(planes),
        2 => Arch::new().dispatch(
            #[inline(always)]
            || join2(planes, whole, count),
        ),
        4 => Arch::new().dispatch(
            #[inline(always)]
            || join4(planes, whole, count),
        ),
        8 => Arch::new().dispatch(
            #[inline(always)]
            || join8(planes, whole, count),
        ),
        _ => join_any(planes, size, whole, count),
    }
    tail.copy_from_slice(rest);
}

/// Parts even from odd bytes.
#[inline(always)]
fn part(pairs: &[u8], even: &mut [u8], odd: &mut [u8]) {
    for ((pair, even), odd) in pairs.as_chunks::<2>().0.iter().zip(even).zip(odd) {
        let pair = u16::from_le_bytes(*pair);
        [*even, *odd] = [(pair & 0xFF) as u8, (pair >> 8) as u8];
    }
}

/// Inverse of [`part`].
#[inline(always)]
fn merge(even: &[u8], odd: &[u8], pairs: &mut [u8]) {
    for ((pair, even), odd) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
        *pair = (u16::from(*even) | u16::from(*odd) << 8).to_le_bytes();
    }
}

#[inline(always)]
fn split2(input: &[u8], out: &mut [u8], count: usize) {
    let (even, odd) = out.split_at_mut(count);
    part(input, even, odd);
}

#[inline(always)]
fn join2(input: &[u8], out: &mut [u8], count: usize) {
    let (even, odd) = input.split_at(count);
    merge(even, odd, out);
}

#[inline(always)]
fn split4(input: &[u8], out: &mut [u8], count: usize) {
    let (low, high) = out.split_at_mut(2 * count);
    let ((p0, p1), (p2, p3)) = (low.split_at_mut(count), high.split_at_mut(count));
    let [mut even, mut odd] = [[0; 2 * BLOCK]; 2];
    let planes = p0.chunks_mut(BLOCK).zip(p1.chunks_mut(BLOCK)).zip(p2.chunks_mut(BLOCK)).zip(p3.chunks_mut(BLOCK));
    for (block, (((p0, p1), p2), p3)) in input.chunks(4 * BLOCK).zip(planes) {
        part(block, &mut even, &mut odd);
        part(&even, p0, p2);
        part(&odd, p1, p3);
    }
}

#[inline(always)]
fn join4(input: &[u8], out: &mut [u8], count: usize) {
    let (low, high) = input.split_at(2 * count);
    let ((p0, p1), (p2, p3)) = (low.split_at(count), high.split_at(count));
    let [mut even, mut odd] = [[0; 2 * BLOCK]; 2];
    let planes = p0.chunks(BLOCK).zip(p1.chunks(BLOCK)).zip(p2.chunks(BLOCK)).zip(p3.chunks(BLOCK));
    for (block, (((p0, p1), p2), p3)) in out.chunks_mut(4 * BLOCK).zip(planes) {
        merge(p0, p2, &mut even);
        merge(p1, p3, &mut odd);
        merge(&even, &odd, block);
    }
}

#[inline(always)]
fn split8(input: &[u8], out: &mut [u8], count: usize) {
    let mut planes: [&mut [u8]; 8] = Default::default();
    for (plane, bytes) in planes.iter_mut().zip(out.chunks_exact_mut(count.max(1))) {
        *plane = bytes;
    }
    let [mut even, mut odd] = [[0; 4 * BLOCK]; 2];
    let [mut a, mut b] = [[0; 2 * BLOCK]; 2];
    for (index, block) in input.chunks(8 * BLOCK).enumerate() {
        let start = index * BLOCK;
        let end = start + block.len() / 8;
        let [p0, p1, p2, p3, p4, p5, p6, p7] =
            planes.each_mut().map(|plane| plane.get_mut(start..end).unwrap_or_default());
        part(block, &mut even, &mut odd);
        part(&even, &mut a, &mut b);
        part(&a, p0, p4);
        part(&b, p2, p6);
        part(&odd, &mut a, &mut b);
        part(&a, p1, p5);
        part(&b, p3, p7);
    }
}

#[inline(always)]
fn join8(input: &[u8], out: &mut [u8], count: usize) {
    let mut planes: [&[u8]; 8] = Default::default();
    for (plane, bytes) in planes.iter_mut().zip(input.chunks_exact(count.max(1))) {
        *plane = bytes;
    }
    let [mut even, mut odd] = [[0; 4 * BLOCK]; 2];
    let [mut a, mut b] = [[0; 2 * BLOCK]; 2];
    for (index, block) in out.chunks_mut(8 * BLOCK).enumerate() {
        let start = index * BLOCK;
        let end = start + block.len() / 8;
        let [p0, p1, p2, p3, p4, p5, p6, p7] = planes.map(|plane| plane.get(start..end).unwrap_or_default());
        merge(p0, p4, &mut a);
        merge(p2, p6, &mut b);
        merge(&a, &b, &mut even);
        merge(p1, p5, &mut a);
        merge(p3, p7, &mut b);
        merge(&a, &b, &mut odd);
        merge(&even, &odd, block);
    }
}

fn split_any(input: &[u8], size: usize, out: &mut [u8], count: usize) {
    for (block_index, block) in input.chunks(size * BLOCK).enumerate() {
        for (k, plane) in out.chunks_exact_mut(count).enumerate() {
            let plane = plane.get_mut(block_index * BLOCK..).unwrap_or_default();
            for (byte, element) in plane.iter_mut().zip(block.chunks_exact(size)) {
                *byte = element.get(k).copied().unwrap_or_default();
            }
        }
    }
}

fn join_any(input: &[u8], size: usize, out: &mut [u8], count: usize) {
    for (block_index, block) in out.chunks_mut(size * BLOCK).enumerate() {
        for (k, plane) in input.chunks_exact(count).enumerate() {
            let plane = plane.get(block_index * BLOCK..).unwrap_or_default();
            for (byte, element) in plane.iter().zip(block.chunks_exact_mut(size)) {
                if let Some(place) = element.get_mut(k) {
                    *place = *byte;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, byte by byte.
    fn reference(input: &[u8], size: usize) -> Vec<u8> {
        let count = input.len() / size;
        let mut out = input.to_vec();
        for (index, element) in input.chunks_exact(size).enumerate() {
            for (k, byte) in element.iter().enumerate() {
                out[k * count + index] = *byte;
            }
        }
        out
    }

    #[test]
    fn every_size_and_tail_matches_the_definition() {
        for size in [1, 2, 3, 4, 5, 7, 8, 12, 16] {
            for count in [0, 1, 2, 31, 1023, 1024, 1025, 3000] {
                for tail in 0..size {
                    let input: Vec<u8> = (0..count * size + tail).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
                    let mut planes = vec![0; input.len()];
                    split(&input, size, &mut planes);
                    assert_eq!(planes, reference(&input, size), "{size} {count} {tail}");
                    let mut back = vec![0; input.len()];
                    join(&planes, size, &mut back);
                    assert_eq!(back, input, "{size} {count} {tail}");
                }
            }
        }
    }
}
