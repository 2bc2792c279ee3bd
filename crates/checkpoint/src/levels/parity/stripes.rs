//! How the bytes of a group of nodes are divided for parity. It has no files and no clock.
//!
//! All files of a node, one after another and with zeros at the end, are cut into as many segments as nodes stay when the most are
//! lost. A stripe has one segment of each of so many nodes, and the parity of these lies on the others. There is a stripe for each
//! node, so that all nodes keep the same amount of parity.

/// Segments are a multiple of this long. The code takes so many bytes at a time, so that each piece of a segment that begins and ends
/// there can be encoded and decoded without the others.
pub(in crate::levels) const ALIGNED: u64 = 64;

/// The division of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::levels) struct Stripes {
    /// Nodes of the group, and as many stripes.
    pub(in crate::levels) nodes: usize,
    /// Of which so many may be lost.
    pub(in crate::levels) losses: usize,
    /// Bytes of a segment.
    pub(in crate::levels) segment: u64,
}

/// A segment of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::levels) enum Shard {
    /// Of the files of a node.
    Data { node: usize, segment: usize },
    /// Of the parity that a node keeps.
    Parity { node: usize, segment: usize },
}

impl Stripes {
    /// Of `nodes` nodes of which the largest one has `longest` bytes. `losses` are fewer than `nodes`.
    pub(in crate::levels) fn new(nodes: usize, losses: usize, longest: u64) -> Self {
        let segment = longest.div_ceil((nodes - losses) as u64).next_multiple_of(ALIGNED);
        Self { nodes, losses, segment }
    }

    /// Segments of files in a stripe, and of a node.
    pub(in crate::levels) fn data(&self) -> usize {
        self.nodes - self.losses
    }

    /// Bytes of parity that a node keeps.
    pub(in crate::levels) fn parity(&self) -> u64 {
        self.losses as u64 * self.segment
    }

    /// The segments of a stripe: first those of files, then those of parity. Each is on another node.
    pub(in crate::levels) fn shards(self, stripe: usize) -> impl Iterator<Item = Shard> {
        let data = (0..self.data())
            .map(move |segment| Shard::Data { node: (stripe + self.losses + segment) % self.nodes, segment });
        let parity =
            (0..self.losses).map(move |segment| Shard::Parity { node: (stripe + segment) % self.nodes, segment });
        data.chain(parity)
    }

    /// The stripe of a segment of a node's files.
    pub(in crate::levels) fn of_data(&self, node: usize, segment: usize) -> usize {
        (node + 2 * self.nodes - self.losses - segment) % self.nodes
    }

    /// The stripe of a segment of the parity of a node.
    pub(in crate::levels) fn of_parity(&self, node: usize, segment: usize) -> usize {
        (node + self.nodes - segment) % self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_stripe_has_one_segment_of_each_node_and_each_segment_is_in_one_stripe() {
        for (nodes, losses) in (2..12).flat_map(|nodes| (1..nodes).map(move |losses| (nodes, losses))) {
            let stripes = Stripes::new(nodes, losses, 1000);
            let mut seen = 0;
            for stripe in 0..nodes {
                let mut on = BTreeSet::new();
                for shard in stripes.shards(stripe) {
                    let (node, of) = match shard {
                        Shard::Data { node, segment } => (node, stripes.of_data(node, segment)),
                        Shard::Parity { node, segment } => (node, stripes.of_parity(node, segment)),
                    };
                    assert_eq!(of, stripe);
                    on.insert(node);
                    seen += 1;
                }
                assert_eq!(on.len(), nodes);
            }
            assert_eq!(seen, nodes * nodes);
        }
    }

    #[test]
    fn parity_is_a_fraction_of_a_copy() {
        assert_eq!(Stripes::new(4, 1, 300 * 64).parity(), 100 * 64);
        assert_eq!(Stripes::new(8, 2, 600 * 64).parity(), 200 * 64);
        assert_eq!((Stripes::new(4, 1, 0).segment, Stripes::new(4, 1, 1).segment), (0, 64));
    }
}
