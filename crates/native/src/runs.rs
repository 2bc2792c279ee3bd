//! Equal bytes in a row, found eight bytes at a time.

/// Places that are looked at together, in vector registers.
const WIDE: usize = 32;
/// Bytes without a run from which on that is worth it.
const SPARSE: usize = 64;

/// Bytes that equal the one before.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// Gives `each` the runs of `bytes[begin..end]` that are at least `shortest` (3 or more) bytes long, in order. A run
/// may begin at `begin`, where the byte before is the same.
pub(crate) fn find(bytes: &[u8], begin: usize, end: usize, shortest: usize, mut each: impl FnMut(Run)) {
    let mut free = begin;
    let mut at = begin;
    while at + 8 <= end {
        // Far from the last run, most bytes are in none.
        if at - free >= SPARSE && bytes[at..end].first_chunk().is_some_and(|bytes| !four_equal(bytes)) {
            at += WIDE;
            continue;
        }
        let Some(skip) = run_in(&bytes[at..at + 8]) else {
            at += 5;
            continue;
        };
        at += skip;
        let byte = bytes[at];
        let mut start = at;
        while start > free && bytes[start - 1] == byte {
            start -= 1;
        }
        let stop = at + equal_to(byte, &bytes[at..end]);
        // The first of equal bytes is no part of the run, unless the byte before all is the same.
        if start == 0 || bytes[start - 1] != byte {
            start += 1;
        }
        at = stop;
        if stop - start >= shortest {
            free = stop;
            each(Run { start, length: stop - start });
        }
    }
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

/// Whether four bytes in a row are equal.
#[inline]
fn four_equal(bytes: &[u8; WIDE + 3]) -> bool {
    (0..WIDE).fold(false, |any, at| {
        any | ((bytes[at] == bytes[at + 1]) & (bytes[at + 1] == bytes[at + 2]) & (bytes[at + 2] == bytes[at + 3]))
    })
}

/// Where the first four equal bytes in a row begin among these eight.
#[inline]
fn run_in(eight: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let word = u64::from_le_bytes(eight.try_into().ok()?);
    let differs = (word ^ (word >> 8)) | 0xFF << 56;
    // The high bit of each byte that equals the next.
    let equal = !(((differs & LOW) + LOW) | differs | LOW);
    let three = equal & equal >> 8 & equal >> 16;
    (three != 0).then_some(three.trailing_zeros() as usize / 8)
}
