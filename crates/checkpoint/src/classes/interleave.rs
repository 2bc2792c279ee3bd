//! Merging lanes in blocks, and taking them apart again.

use std::ops::Range;

/// Calls `take` with lane and range of each run, in the order of the merged bytes: `block` bytes of every lane in turn,
/// less where a lane ends; all of one and then all of the next if `block` is 0.
pub(crate) fn runs(lanes: &[usize], block: u64, mut take: impl FnMut(usize, Range<usize>)) {
    let longest = lanes.iter().copied().max().unwrap_or(0);
    let block = match usize::try_from(block) {
        Ok(block) if block > 0 => block.min(longest.max(1)),
        _ => longest.max(1),
    };
    let mut begin = 0;
    // Only lanes that still hold something are looked at: a forged set may have a million that hold nothing.
    let mut left: Vec<(usize, usize)> = lanes.iter().copied().enumerate().filter(|&(_, length)| length > 0).collect();
    while !left.is_empty() {
        for &(lane, length) in &left {
            take(lane, begin..length.min(begin.saturating_add(block)));
        }
        begin = begin.saturating_add(block);
        left.retain(|&(_, length)| length > begin);
    }
}

/// Replaces `out` by the lanes merged. Lanes follow each other in `bytes`, and `lanes` are their lengths.
pub(crate) fn merge(bytes: &[u8], lanes: &[usize], block: u64, out: &mut Vec<u8>) {
    let starts = starts(lanes);
    out.clear();
    out.reserve(bytes.len());
    runs(lanes, block, |lane, range| {
        let start = starts.get(lane).copied().unwrap_or(0);
        out.extend_from_slice(bytes.get(start + range.start..start + range.end).unwrap_or_default());
    });
}

/// Replaces `out` by the lanes one after the other: the inverse of [`merge`].
pub(crate) fn split(merged: &[u8], lanes: &[usize], block: u64, out: &mut Vec<u8>) {
    let starts = starts(lanes);
    out.clear();
    out.resize(merged.len(), 0);
    let mut rest = merged;
    runs(lanes, block, |lane, range| {
        let (run, left) = rest.split_at(range.len().min(rest.len()));
        rest = left;
        let start = starts.get(lane).copied().unwrap_or(0);
        if let Some(place) =
            out.get_mut(start + range.start..start + range.end).filter(|place| place.len() == run.len())
        {
            place.copy_from_slice(run);
        }
    });
}

fn starts(lanes: &[usize]) -> Vec<usize> {
    lanes
        .iter()
        .scan(0usize, |at, &length| {
            let start = *at;
            *at = at.saturating_add(length);
            Some(start)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_any_length_come_back() {
        let cases: [&[usize]; 6] = [&[], &[0], &[5], &[4, 4, 4], &[1, 7, 0, 3], &[100, 1]];
        for lanes in cases {
            let total: usize = lanes.iter().sum();
            let bytes: Vec<u8> = (0..total).map(|i| u8::try_from(i % 251).unwrap()).collect();
            for block in [0, 1, 2, 3, 8, 1000, u64::MAX] {
                let (mut merged, mut back) = (Vec::new(), Vec::new());
                merge(&bytes, lanes, block, &mut merged);
                split(&merged, lanes, block, &mut back);
                assert_eq!(back, bytes, "{lanes:?} {block}");
            }
        }
        let mut merged = Vec::new();
        merge(b"aaaabbcccccc", &[4, 2, 6], 2, &mut merged);
        assert_eq!(merged, b"aabbccaacccc");
    }
}
