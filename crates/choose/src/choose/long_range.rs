//! Whether a sample repeats itself at distances that parts of it do not show: mirrored fields, coordinates repeated over a grid,
//! seasons. Signs are ignored: after a shuffle, values of opposite signs share all but one byte in four or eight.

use knarr_array::array::ArraySpec;

/// Elements that must occur again in a row.
const RUN: usize = 8;
/// Bytes from one occurrence to the next that parts of samples hide.
const LONG_RANGE: usize = 16 << 10;
/// Slots of the table of what occurred, as a power of two.
const TABLE_BITS: u32 = 14;
/// One run in so many is looked for, chosen by what it holds.
const ONE_IN: u64 = 32;

/// Share of the runs looked at that occurred before, and last so far away.
#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
pub(super) fn repeats_at_long_range(spec: &ArraySpec, bytes: &[u8]) -> f64 {
    let size = spec.dtype.size().max(1);
    // Of two elements or of one, read with the first byte on top.
    let signs: u64 = match size {
        4 => 0x80 << 32 | 0x80,
        8 => 0x80,
        _ => 0,
    };
    let mut found = Found { slots: vec![(0, 0); 1 << TABLE_BITS], unsigned: !signs, runs: 0, again: 0 };
    let mut look = |at: usize, first: u64| {
        if (mixed(first) >> 32).is_multiple_of(ONE_IN)
            && let Some(run) = bytes.get(at * size..(at + RUN) * size)
        {
            found.put(run, at * size);
        }
    };
    match size {
        4 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .enumerate()
            .for_each(|(at, &b)| look(at, (u32::from_le_bytes(b) << 1).into())),
        8 => bytes.as_chunks::<8>().0.iter().enumerate().for_each(|(at, &b)| look(at, u64::from_le_bytes(b) << 1)),
        _ => bytes.chunks_exact(size).enumerate().for_each(|(at, element)| look(at, word(element))),
    }
    found.again as f64 / found.runs.max(1) as f64
}

struct Found {
    /// Tag and place of the last run of each slot.
    slots: Vec<(u32, u32)>,
    /// The bits of eight bytes that are no signs.
    unsigned: u64,
    runs: u64,
    again: u64,
}

impl Found {
    #[expect(clippy::cast_possible_truncation, reason = "a slot, a tag, and a place in a sample below 4 GiB")]
    fn put(&mut self, run: &[u8], place: usize) {
        let key = run.chunks(8).fold(0u64, |key, part| mixed(word(part) & self.unsigned ^ key.rotate_left(23)));
        let Some(kept) = self.slots.get_mut((key >> (64 - TABLE_BITS)) as usize) else { return };
        let (tag, place) = (key as u32 | 1, place as u32);
        let (before, last) = std::mem::replace(kept, (tag, place));
        self.runs += 1;
        self.again += u64::from(before == tag && (place - last) as usize > LONG_RANGE);
    }
}

/// Up to eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn mixed(word: u64) -> u64 {
    let once = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (once ^ (once >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;

    fn share(values: impl Iterator<Item = f32>) -> f64 {
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        repeats_at_long_range(&ArraySpec::new(DType::F32, [bytes.len() / 4]), &bytes)
    }

    #[test]
    fn what_comes_again_far_away_is_found_and_nothing_else() {
        let noise = |i: u32| f32::from_bits(0x4000_0000 | (i.wrapping_mul(2_654_435_761) >> 9));
        assert_eq!(share((0..200_000).map(noise)), 0.0);
        let (rows, columns) = (400, 500);
        let mirrored = (0..rows).flat_map(|y: u32| (0..columns).map(move |x| noise(y.min(rows - 1 - y) * columns + x)));
        let found = share(mirrored);
        assert!((0.3..0.6).contains(&found), "{found}");
        let opposed = |y: u32, x| noise(y.min(rows - 1 - y) * columns + x) * if y < rows / 2 { 1.0 } else { -1.0 };
        assert_eq!(share((0..rows).flat_map(|y| (0..columns).map(move |x| opposed(y, x)))), found);
        // Rows of 2000 bytes that are alike are near.
        assert_eq!(share((0..200_000).map(|i| noise(i % 500))), 0.0);
        assert_eq!(share(std::iter::empty()), 0.0);
    }
}
