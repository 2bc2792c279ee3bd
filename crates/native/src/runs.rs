//! Equal bytes in a row, found 64 places at a time.
#![expect(clippy::cast_possible_truncation, reason = "halves of words, and a bit for each of 16 bytes")]

/// Places that are looked at together.
const WIDE: usize = 64;

/// Bytes that equal the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// Gives `each` the runs of `bytes[begin..end]` that are at least `shortest` (3 or more) bytes long, in order. A run
/// may begin at `begin`, where the byte before is the same.
pub(crate) fn find(bytes: &[u8], begin: usize, end: usize, shortest: usize, mut each: impl FnMut(Run)) {
    let mut each = |start: usize, stop: usize| {
        if stop - start >= shortest {
            each(Run { start, length: stop - start });
        }
    };
    // Where the run began that reaches the place looked at.
    let mut open: Option<usize> = None;
    let mut at = begin.max(1);
    while at < end {
        let stop = (at + WIDE).min(end);
        let mut same = same_as_before(&bytes[at - 1..stop - 1], &bytes[at..stop]);
        if let Some(start) = open {
            let more = same.trailing_ones() as usize;
            if more == WIDE {
                at = stop;
                continue;
            }
            each(start, at + more);
            same &= !0 << more;
        }
        // What reaches the last place is not over.
        let last = WIDE - (same.leading_ones() as usize);
        open = (last < WIDE).then_some(at + last);
        same &= below(last);
        // Where at least three begin.
        let mut three = same & same >> 1 & same >> 2;
        while three != 0 {
            let from = three.trailing_zeros() as usize;
            let to = from + (same >> from).trailing_ones() as usize;
            each(at + from, at + to);
            three &= !below(to);
        }
        at = stop;
    }
    if let Some(start) = open {
        each(start, end);
    }
}

/// The bits below `count`.
fn below(count: usize) -> u64 {
    if count < WIDE { (1 << count) - 1 } else { !0 }
}

/// A bit for each place, from the lowest on, where `bytes` are `before`; at most 64.
#[inline]
fn same_as_before(before: &[u8], bytes: &[u8]) -> u64 {
    let mut same = 0;
    let (words, rest) = bytes.as_chunks::<16>();
    let (words_before, rest_before) = before.as_chunks::<16>();
    for (place, (word, before)) in words.iter().zip(words_before).enumerate() {
        same |= u64::from(equal_bytes(*word, *before)) << (16 * place);
    }
    for (place, (byte, before)) in rest.iter().zip(rest_before).enumerate() {
        same |= u64::from(byte == before) << (16 * words.len() + place);
    }
    same
}

/// A bit for each byte that is the same in both: two instructions where SSE2 is part of the architecture.
#[cfg(target_arch = "x86_64")]
#[inline]
fn equal_bytes(a: [u8; 16], b: [u8; 16]) -> u16 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x};
    let halves = |bytes| (u128::from_le_bytes(bytes) as i64, (u128::from_le_bytes(bytes) >> 64) as i64);
    let ((a_low, a_high), (b_low, b_high)) = (halves(a), halves(b));
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        let equal = _mm_cmpeq_epi8(_mm_set_epi64x(a_high, a_low), _mm_set_epi64x(b_high, b_low));
        _mm_movemask_epi8(equal) as u16
    }
}

/// A bit for each byte that is the same in both.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn equal_bytes(a: [u8; 16], b: [u8; 16]) -> u16 {
    let different = u128::from_le_bytes(a) ^ u128::from_le_bytes(b);
    (zero_bytes(different as u64) | zero_bytes((different >> 64) as u64) << 8) as u16
}

/// The lowest eight bits say which bytes are zero.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    // The high bit of each byte that is zero.
    let zero = !(((word & LOW) + LOW) | word | LOW);
    // The product collects them in its highest byte.
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// How many bytes from the front on are `byte`.
pub(crate) fn equal_to(byte: u8, bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ (u64::from(byte) * 0x0101_0101_0101_0101);
        if differs != 0 {
            return 8 * at + differs.trailing_zeros() as usize / 8;
        }
    }
    8 * words.len() + rest.iter().take_while(|&&other| other == byte).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::data::Random;

    #[test]
    fn runs_are_those_that_a_look_at_each_byte_finds() {
        let mut random = Random::new(7);
        for case in 0..500usize {
            let mut bytes = Vec::new();
            while bytes.len() < case {
                let noise = random.bits();
                let most = [2, 5, 90, 300][case % 4];
                bytes.extend(std::iter::repeat_n(noise.to_le_bytes()[0] & 3, (noise >> 8) as usize % most));
            }
            let mut place = |places: usize| usize::try_from(random.bits() >> 40).unwrap() % (places + 1);
            let begin = place(bytes.len());
            let end = begin + place(bytes.len() - begin);
            let shortest = 3 + case % 3;
            let mut expected = Vec::new();
            let mut at = begin;
            while at < end {
                let length = if at == 0 { 0 } else { equal_to(bytes[at - 1], &bytes[at..end]) };
                if length >= shortest {
                    expected.push(Run { start: at, length });
                }
                at += length.max(1);
            }
            let mut found = Vec::new();
            find(&bytes, begin, end, shortest, |run| found.push(run));
            assert_eq!(found, expected, "case {case}: {begin}..{end} of {bytes:?}");
        }
    }
}
