//! Which parts of a variable are looked at: whole chunks, spread over the variable, seeded.

use crate::array::ArraySpec;
use crate::plan::Candidate;

/// Samples of more than this many bytes are cut along the slowest axes of the chunk.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Regions (start, count) to sample from a variable of `shape` with chunks of shape `chunk`: up to `most` full
/// chunks at positions spread over the variable, the middle first, cut to about 1 MiB along the slowest axes.
/// Equal inputs give equal regions.
pub fn sample_regions(shape: &[u64], chunk: &[u64], element: u64, most: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
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
        shrink(&mut count, element);
        if !regions.contains(&(start.clone(), count.clone())) {
            regions.push((start, count));
        }
    }
    regions
}

/// Cuts the slowest axes until the region is about [`SAMPLE_BYTES`].
fn shrink(count: &mut [u64], element: u64) {
    for axis in 0..count.len() {
        let bytes = count.iter().product::<u64>().saturating_mul(element);
        if bytes <= SAMPLE_BYTES {
            return;
        }
        let excess = bytes.div_ceil(SAMPLE_BYTES);
        count[axis] = (count[axis] / excess).max(1);
    }
}

/// Candidates that a sample should be small enough to be tried with.
const WANTED_TRIES: usize = 8;
/// Samples are not cut below this many bytes: short ones mislead.
const SMALLEST_SAMPLE: usize = 128 << 10;

/// A shorter sample, if within `budget` seconds the samples are too large for [`WANTED_TRIES`] of the predicted
/// candidates: more candidates on less data choose better than fewer on more. `None` if they fit.
pub fn cut_samples(
    predicted: &[Candidate],
    samples: &[(ArraySpec, Vec<u8>)],
    budget: f64,
) -> Option<Vec<(ArraySpec, Vec<u8>)>> {
    let total: usize = samples.iter().map(|(_, bytes)| bytes.len()).sum();
    let seconds_per_megabyte: f64 =
        predicted.iter().take(WANTED_TRIES).map(|candidate| 1.0 / candidate.merits.encode).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; a size in bytes")]
    let fitting = (budget / seconds_per_megabyte * 1e6) as usize;
    if fitting >= total {
        return None;
    }
    let (spec, bytes) = samples.first()?;
    Some(vec![cut(spec, bytes, fitting.max(SMALLEST_SAMPLE))])
}

/// The front of an array along its slowest axes that are not of extent 1, of about `most` bytes.
fn cut(spec: &ArraySpec, bytes: &[u8], most: usize) -> (ArraySpec, Vec<u8>) {
    let mut spec = spec.clone();
    for axis in 0..spec.shape.len() {
        let size = spec.byte_len();
        if size <= most || spec.shape[axis] <= 1 {
            continue;
        }
        spec.shape[axis] = (spec.shape[axis] * most / size).max(1);
    }
    let bytes = bytes.get(..spec.byte_len()).unwrap_or(bytes).to_vec();
    (spec, bytes)
}

/// Share of a variable's own encoding time that trials may take: 4 % for 64 MiB and more, growing for smaller
/// variables, where a wrong choice costs little time and few bytes either way, up to the whole time.
pub fn trial_share(raw_bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    let size = raw_bytes.max(1) as f64;
    (0.04 * (64.0 * 1024.0 * 1024.0) / size).clamp(0.04, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_chunks_within_the_variable() {
        let regions = sample_regions(&[100, 180, 360], &[1, 180, 360], 4, 3);
        assert_eq!(regions.len(), 3);
        assert_eq!(regions[0], (vec![50, 0, 0], vec![1, 180, 360]));
        for (start, count) in &regions {
            assert!(start.iter().zip(count).zip([100, 180, 360]).all(|((s, c), n)| s + c <= n && *c > 0));
        }
    }

    #[test]
    fn large_chunks_are_cut_and_edges_clipped() {
        let regions = sample_regions(&[3, 4000, 4000], &[2, 4000, 4000], 8, 5);
        assert!(regions.iter().all(|(_, count)| count.iter().product::<u64>() * 8 <= SAMPLE_BYTES));
        assert_eq!(regions.len(), 2);
        assert_eq!(sample_regions(&[], &[], 8, 3), vec![(vec![], vec![])]);
        assert!(sample_regions(&[0, 5], &[1, 5], 8, 3).is_empty());
    }

    #[test]
    fn a_cut_sample_is_a_front_of_the_array() {
        let spec = ArraySpec::new(crate::array::DType::F32, [1, 100, 50]);
        let bytes: Vec<u8> = (0..20_000u32).map(|i| i.to_le_bytes()[0]).collect();
        let (short, front) = cut(&spec, &bytes, 5000);
        assert_eq!(short.shape, [1, 25, 50]);
        assert_eq!(front, bytes[..5000]);
        assert_eq!(cut(&spec, &bytes, 100).0.shape, [1, 1, 25]);
    }

    #[test]
    fn large_variables_give_little_time_to_trials() {
        assert_eq!(trial_share(1 << 30), 0.04);
        assert_eq!(trial_share(1 << 26), 0.04);
        assert_eq!(trial_share(1000), 1.0);
    }
}
