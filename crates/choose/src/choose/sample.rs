//! Which parts of a variable are looked at: whole chunks, spread over the variable, seeded.

use knarr_array::array::ArraySpec;
use knarr_array::region::Region;
use std::borrow::Cow;

/// Samples of more than this many bytes are cut along the slowest axes of the chunk.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Regions to sample from a variable of `shape` with chunks of shape `chunk`: up to `most` full
/// chunks at positions spread over the variable, the middle first, cut to about 1 MiB along the slowest axes.
/// Equal inputs give equal regions.
pub fn sample_regions(shape: &[u64], chunk: &[u64], element: u64, most: usize) -> Vec<Region> {
    let grid: Vec<u64> = shape.iter().zip(chunk).map(|(&n, &c)| n.div_ceil(c.max(1))).collect();
    let chunks: u64 = grid.iter().product();
    let mut regions = Vec::new();
    for index in 0..chunks.min(most as u64) {
        // Golden-ratio steps from the middle spread any number of positions evenly.
        let position = (chunks / 2 + (index * (chunks * 618 / 1000).max(1))) % chunks;
        let mut rest = position;
        let mut start = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            start[axis] = rest % grid[axis] * chunk[axis];
            rest /= grid[axis];
        }
        let mut count: Vec<u64> = start.iter().zip(shape).zip(chunk).map(|((&s, &n), &c)| c.min(n - s)).collect();
        shrink(&mut count, element, SAMPLE_BYTES);
        let region = Region { start, count };
        if !regions.contains(&region) {
            regions.push(region);
        }
    }
    regions
}

/// About `most` bytes from the middle of a region whose elements have `element` bytes.
pub fn middle(region: Region, element: u64, most: u64) -> Region {
    let Region { mut start, mut count } = region;
    let whole = count.clone();
    shrink(&mut count, element, most);
    start.iter_mut().zip(whole.iter().zip(&count)).for_each(|(start, (whole, count))| *start += (whole - count) / 2);
    Region { start, count }
}

/// Cuts the slowest axes until the region is about `most` bytes.
fn shrink(count: &mut [u64], element: u64, most: u64) {
    for axis in 0..count.len() {
        let bytes = count.iter().product::<u64>().saturating_mul(element);
        if bytes <= most {
            return;
        }
        let excess = bytes.div_ceil(most);
        count[axis] = (count[axis] / excess).max(1);
    }
}

/// The samples, of about `most` bytes together: as many of them as give pieces of `smallest` bytes, each cut to an
/// equal share.
pub fn cut_samples(samples: &[(ArraySpec, Vec<u8>)], most: usize, smallest: usize) -> Vec<(ArraySpec, Vec<u8>)> {
    let pieces = (most / smallest).clamp(1, samples.len().max(1));
    let share = (most / pieces).max(smallest);
    samples.iter().take(pieces).map(|(spec, bytes)| cut(spec, bytes, share)).collect()
}

/// Bands of an array that a cut keeps: its parts often differ, as coasts, poles and levels do.
const BANDS: usize = 4;

/// About `most` bytes of an array: bands spread over its slowest axes that are not of extent 1.
pub fn cut(spec: &ArraySpec, bytes: &[u8], most: usize) -> (ArraySpec, Vec<u8>) {
    let (mut spec, mut bytes) = (spec.clone(), Cow::Borrowed(bytes));
    for axis in 0..spec.shape.len() {
        let (size, extent) = (spec.byte_len(), spec.shape[axis]);
        if size > most && extent > 1 {
            let kept = (extent * most / size).max(1);
            bytes = Cow::Owned(bands(&spec, &bytes, axis, kept));
            spec.shape[axis] = kept;
        }
    }
    (spec, bytes.into_owned())
}

/// `kept` positions along `axis` in bands of neighbours, evenly spread.
fn bands(spec: &ArraySpec, bytes: &[u8], axis: usize, kept: usize) -> Vec<u8> {
    let extent = spec.shape[axis];
    let count = kept.min(BANDS);
    let inner = spec.shape[axis + 1..].iter().product::<usize>() * spec.dtype.size();
    let mut out = Vec::with_capacity(bytes.len() / extent.max(1) * kept);
    for outer in bytes.chunks_exact((extent * inner).max(1)) {
        for band in 0..count {
            let length = kept * (band + 1) / count - kept * band / count;
            // Bands lie in the middle of equal parts.
            let begin = ((2 * band + 1) * extent / (2 * count)).saturating_sub(length / 2).min(extent - length);
            out.extend_from_slice(&outer[begin * inner..(begin + length) * inner]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_chunks_within_the_variable() {
        let regions = sample_regions(&[100, 180, 360], &[1, 180, 360], 4, 3);
        assert_eq!(regions.len(), 3);
        assert_eq!(regions[0], Region::new([50, 0, 0], [1, 180, 360]));
        for region in &regions {
            assert!(region.check_inside(&[100, 180, 360]).is_ok() && !region.is_empty());
        }
    }

    #[test]
    fn the_middle_of_a_region_lies_in_it() {
        let region = || Region::new([10, 0, 5], [6, 145, 192]);
        assert_eq!(middle(region(), 4, u64::MAX), region());
        assert_eq!(middle(region(), 4, 8192), Region::new([12, 67, 5], [1, 10, 192]));
        assert_eq!(middle(region(), 4, 1), Region::new([12, 72, 100], [1, 1, 1]));
        assert_eq!(middle(Region::whole(&[]), 4, 1), Region::whole(&[]));
    }

    #[test]
    fn large_chunks_are_cut_and_edges_clipped() {
        let regions = sample_regions(&[3, 4000, 4000], &[2, 4000, 4000], 8, 5);
        assert!(regions.iter().all(|region| region.volume().unwrap() * 8 <= SAMPLE_BYTES));
        assert_eq!(regions.len(), 2);
        assert_eq!(sample_regions(&[], &[], 8, 3), vec![Region::whole(&[])]);
        assert!(sample_regions(&[0, 5], &[1, 5], 8, 3).is_empty());
    }

    #[test]
    fn a_cut_sample_is_bands_of_the_array() {
        let spec = ArraySpec::new(knarr_array::array::DType::U8, [1, 100, 50]);
        let bytes: Vec<u8> = (0..5000u32).map(|i| u8::try_from(i / 50).unwrap()).collect();
        let (short, kept) = cut(&spec, &bytes, 1000);
        assert_eq!(short.shape, [1, 20, 50]);
        let rows: Vec<u8> = kept.chunks(50).map(|row| row[0]).collect();
        assert_eq!(rows, [10, 11, 12, 13, 14, 35, 36, 37, 38, 39, 60, 61, 62, 63, 64, 85, 86, 87, 88, 89]);
        let (one, kept) = cut(&spec, &bytes, 60);
        assert_eq!((one.shape.as_ref(), kept), (&[1, 1, 50][..], vec![50; 50]));
        assert_eq!(cut(&spec, &bytes, 5000).1, bytes);
        let (narrow, kept) = cut(&spec, &bytes, 10);
        assert_eq!((narrow.shape.as_ref(), kept), (&[1, 1, 10][..], vec![50; 10]));
    }
}
