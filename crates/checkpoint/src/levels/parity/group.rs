//! What nodes keep parity of together, and what can be rebuilt of it. It has no files and no clock.

use serde::{Deserialize, Serialize};

use super::groups::losses_of;
use super::stripes::{Shard, Stripes};
use crate::disk::manifest::Manifest;
use crate::disk::parts::Parts;
use crate::disk::set::is_group;
use knarr_array::error::{Error, Result};

/// Bytes that the nodes of a group may have in all. No sum of lengths is too large then.
const MOST_BYTES: u64 = 1 << 56;

/// Of which files the nodes of a group keep parity. All of them know the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::levels) struct ParityGroup {
    /// What tells the set from all others.
    pub(in crate::levels) set: String,
    /// Nodes that may be lost together.
    losses: usize,
    pub(in crate::levels) nodes: Vec<Member>,
}

/// The files of frames that a node uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::levels) struct Member {
    /// The lowest rank on it.
    pub(in crate::levels) node: usize,
    /// Names and lengths.
    pub(in crate::levels) files: Vec<(String, u64)>,
}

/// From where bytes can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::levels) enum Source<'a> {
    /// The file of frames of this name.
    File(&'a str),
    /// The parity of this node.
    Parity(usize),
}

/// A piece of a file of frames.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::levels) struct Piece<'a> {
    pub(in crate::levels) name: &'a str,
    pub(in crate::levels) at: u64,
    pub(in crate::levels) length: u64,
}

impl Member {
    fn length(&self) -> u64 {
        self.files.iter().map(|(_, length)| length).sum()
    }
}

impl ParityGroup {
    /// The `nodes`, each known by its lowest rank, with what they have of the set with this `id`. `losses` of them may be lost,
    /// but one.
    pub(in crate::levels) fn new(
        id: String,
        manifest: &Manifest,
        parts: &Parts,
        nodes: &[usize],
        losses: usize,
    ) -> Self {
        let files = |node: usize| {
            let used = manifest.stores.iter().filter(|store| parts.has(node, &store.name));
            used.map(|store| (store.name.clone(), store.length)).collect()
        };
        let losses = losses_of(nodes.len(), losses);
        Self { set: id, losses, nodes: nodes.iter().map(|&node| Member { node, files: files(node) }).collect() }
    }

    /// Checks what was read.
    ///
    /// # Errors
    /// `Corrupt` for what no group is.
    pub(in crate::levels) fn check(&self) -> Result<()> {
        let files = || self.nodes.iter().flat_map(|node| &node.files);
        let bytes = files().try_fold(0_u64, |sum, (_, length)| sum.checked_add(*length));
        let is_possible = (1..self.nodes.len()).contains(&self.losses)
            && files().all(|(name, _)| is_group(name) && !name.contains('/'))
            && bytes.is_some_and(|bytes| bytes <= MOST_BYTES);
        if is_possible { Ok(()) } else { Err(Error::corrupt("an impossible group of nodes")) }
    }

    /// How its bytes are divided.
    pub(in crate::levels) fn stripes(&self) -> Stripes {
        let longest = self.nodes.iter().map(Member::length).max().unwrap_or(0);
        Stripes::new(self.nodes.len(), self.losses, longest)
    }

    /// The number in the group of the node with this lowest rank.
    pub(in crate::levels) fn number(&self, node: usize) -> Option<usize> {
        self.nodes.iter().position(|other| other.node == node)
    }

    /// What the bytes from `from` up to `to` of a node's files are pieces of. Those after the last file are zeros.
    pub(in crate::levels) fn pieces(&self, number: usize, from: u64, to: u64) -> Vec<Piece<'_>> {
        let (mut pieces, mut start) = (Vec::new(), 0);
        for (name, length) in self.nodes.get(number).iter().flat_map(|node| &node.files) {
            let (first, last) = (from.max(start), to.min(start + length));
            if first < last {
                pieces.push(Piece { name, at: first - start, length: last - first });
            }
            start += length;
        }
        pieces
    }

    /// Where a file begins in all files of its node, that node's number in the group, and the file's length.
    pub(in crate::levels) fn find(&self, name: &str) -> Option<(usize, u64, u64)> {
        self.nodes.iter().enumerate().find_map(|(number, node)| {
            let index = node.files.iter().position(|(other, _)| other == name)?;
            let (before, rest) = node.files.split_at_checked(index)?;
            let start = before.iter().map(|(_, length)| length).sum();
            Some((number, start, rest.first()?.1))
        })
    }

    /// True if a segment can be had.
    pub(in crate::levels) fn has(&self, shard: Shard, has: &dyn Fn(Source<'_>) -> bool) -> bool {
        let segment = self.stripes().segment;
        match shard {
            Shard::Data { node, segment: number } => {
                let from = number as u64 * segment;
                self.pieces(node, from, from + segment).iter().all(|piece| has(Source::File(piece.name)))
            }
            Shard::Parity { node, .. } => self.nodes.get(node).is_some_and(|node| has(Source::Parity(node.node))),
        }
    }

    /// True if a file that is missing can be rebuilt of what there is.
    pub(in crate::levels) fn can_rebuild(&self, name: &str, has: &dyn Fn(Source<'_>) -> bool) -> bool {
        let stripes = self.stripes();
        let Some((number, start, length)) = self.find(name) else { return false };
        let is_of_file = |segment: &usize| {
            let from = *segment as u64 * stripes.segment;
            from.max(start) < (from + stripes.segment).min(start + length)
        };
        let enough = |segment: usize| {
            let shards = stripes.shards(stripes.of_data(number, segment));
            shards.filter(|shard| self.has(*shard, has)).count() >= stripes.data()
        };
        (0..stripes.data()).filter(is_of_file).all(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three nodes of which one may be lost: segments are 64 bytes.
    fn group() -> ParityGroup {
        let files = |files: &[(&str, u64)]| files.iter().map(|(name, length)| ((*name).to_owned(), *length)).collect();
        let node = |node, of: &[(&str, u64)]| Member { node, files: files(of) };
        let nodes = vec![
            node(0, &[("group-a.knarr", 10), ("group-b.knarr", 0), ("group-c.knarr", 90)]),
            node(2, &[("group-d.knarr", 65)]),
            node(5, &[]),
        ];
        ParityGroup { set: String::new(), losses: 1, nodes }
    }

    #[test]
    fn bytes_of_a_node_are_those_of_its_files_one_after_another() {
        let group = group();
        let piece = |name, at, length| Piece { name, at, length };
        assert_eq!(group.pieces(0, 0, 64), [piece("group-a.knarr", 0, 10), piece("group-c.knarr", 0, 54)]);
        assert_eq!(group.pieces(0, 64, 128), [piece("group-c.knarr", 54, 36)]);
        assert_eq!(group.pieces(2, 0, 64), []);
        assert_eq!(group.find("group-c.knarr"), Some((0, 10, 90)));
        assert_eq!(group.find("group-z.knarr"), None);
        assert_eq!((group.number(5), group.number(1)), (Some(2), None));
    }

    #[test]
    fn a_file_can_be_rebuilt_while_enough_of_its_stripes_is_left() {
        let group = group();
        assert!(group.check().is_ok());
        let lost = |files: &'static [&'static str], parity: &'static [usize]| {
            move |source: Source<'_>| match source {
                Source::File(name) => !files.contains(&name),
                Source::Parity(node) => !parity.contains(&node),
            }
        };
        assert!(group.can_rebuild("group-c.knarr", &lost(&["group-a.knarr", "group-c.knarr"], &[0])));
        assert!(!group.can_rebuild("group-c.knarr", &lost(&["group-c.knarr", "group-d.knarr"], &[])));
        assert!(!group.can_rebuild("group-c.knarr", &lost(&["group-c.knarr"], &[2])));
        // The first file is in one stripe, of which node 5 keeps the parity.
        assert!(group.can_rebuild("group-a.knarr", &lost(&["group-a.knarr"], &[2])));
        assert!(!group.can_rebuild("group-a.knarr", &lost(&["group-a.knarr"], &[5])));
        assert!(group.can_rebuild("group-b.knarr", &|_| false));
        assert!(!group.can_rebuild("group-z.knarr", &|_| true));
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let change = |change: fn(&mut ParityGroup)| {
            let mut group = group();
            change(&mut group);
            group.check().is_err()
        };
        assert!(change(|group| group.losses = 0) && change(|group| group.losses = 3));
        assert!(change(|group| group.nodes[0].files[0].0 = "group-/../x.knarr".to_owned()));
        assert!(change(|group| group.nodes[1].files[0].1 = u64::MAX));
    }
}
