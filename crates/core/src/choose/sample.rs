//! Which parts of a variable are looked at: whole chunks, spread over the variable, seeded.

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
    fn large_variables_give_little_time_to_trials() {
        assert_eq!(trial_share(1 << 30), 0.04);
        assert_eq!(trial_share(1 << 26), 0.04);
        assert_eq!(trial_share(1000), 1.0);
    }
}
