//! Which nodes keep parity together. It has no files and no clock.

use std::ops::Range;

/// Divides `nodes` nodes, in their order, in groups of about equal size: of at most `most` nodes, but always of more than `losses`,
/// so that a group survives the loss of so many. Only if there are no more nodes than that in all, one group has them.
pub(in crate::levels) fn groups(nodes: usize, most: usize, losses: usize) -> Vec<Range<usize>> {
    let mut count = nodes.div_ceil(most.max(1)).max(1);
    while count > 1 && nodes / count <= losses {
        count -= 1;
    }
    let start = |group: usize| group * (nodes / count) + group.min(nodes % count);
    (0..count).map(|group| start(group)..start(group + 1)).collect()
}

/// How many nodes of a group may be lost together: `wanted`, but one stays.
pub(in crate::levels) fn losses_of(nodes: usize, wanted: usize) -> usize {
    wanted.min(nodes.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(nodes: usize, most: usize, losses: usize) -> Vec<usize> {
        groups(nodes, most, losses).iter().map(ExactSizeIterator::len).collect()
    }

    #[test]
    fn no_node_is_alone() {
        assert_eq!(sizes(9, 8, 1), [5, 4]);
        assert_eq!(sizes(16, 8, 1), [8, 8]);
        assert_eq!(sizes(3, 8, 1), [3]);
        assert_eq!(sizes(7, 3, 1), [3, 2, 2]);
        // Rather a larger group than a node without parity, or one that survives less.
        assert_eq!(sizes(5, 2, 1), [3, 2]);
        assert_eq!(sizes(4, 3, 2), [4]);
        assert_eq!(sizes(2, 8, 2), [2]);
        assert_eq!((losses_of(2, 2), losses_of(5, 2)), (1, 2));
    }

    #[test]
    fn every_node_is_in_one_group() {
        for (nodes, most, losses) in (2..60).flat_map(|n| (2..10).flat_map(move |m| (1..m).map(move |l| (n, m, l)))) {
            let groups = groups(nodes, most, losses);
            assert!(groups.iter().cloned().flatten().eq(0..nodes), "{groups:?}");
            assert!(groups.len() == 1 || groups.iter().all(|group| group.len() > losses), "{groups:?}");
            assert!(groups.iter().all(|group| group.len() >= 2 && group.len() < 2 * most), "{groups:?}");
        }
    }
}
