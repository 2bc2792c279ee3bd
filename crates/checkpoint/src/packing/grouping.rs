//! Which ranks of the application share a file of frames, and which process packs them.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::files::names;
use crate::packing::input::Input;
use knarr_array::comm::{self, Comm};
use knarr_array::error::{Error, Result};
use knarr_array::wire::{Reader, put_bytes, put_number};

/// Ranks of a group, at most: their files are open together.
pub const LARGEST_GROUP: usize = 512;

/// Which ranks share a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// Ranks whose numbers follow each other. Every process must be able to read every file.
    #[default]
    RankOrder,
    /// Ranks whose files were named by processes of one node, where one of these packs them: files may lie in memory or
    /// on a disk of that node.
    Node,
}

/// A rank of the application with its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Number of the rank in the set, from 0.
    pub rank: usize,
    /// Its file.
    pub input: Input,
}

/// Ranks that share a file of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Number of the group in the set, from 0.
    pub number: usize,
    /// Its ranks, at least one.
    pub members: Vec<Member>,
}

/// Deals all ranks' files to the processes: returns the groups that this one is to pack, which may be none. Every file is
/// named by one process, whichever; all together name those of the ranks 0, 1, … Collective.
///
/// # Errors
/// The same one on all processes: `Usage` for no files, a rank or a name twice, missing ranks, names that a restore could
/// not use, groups of impossible size; as for [`comm::gather`].
pub fn deal(comm: &dyn Comm, own: &[Member], grouping: Grouping, group_size: usize) -> Result<Vec<Group>> {
    check_size(group_size)?;
    let own = comm::agree(comm, own.iter().try_for_each(|member| check_name(&member.input)).map(|()| own))?;
    let nodes = comm::nodes(comm)?;
    // By rank: the node of the process that named it, and its file.
    let mut found: BTreeMap<usize, (usize, Input)> = BTreeMap::new();
    for (bytes, node) in comm::all_gather(comm, &written(own))?.iter().zip(&nodes) {
        for Member { rank, input } in read(bytes)? {
            if let Some((_, other)) = found.insert(rank, (*node, input)) {
                return Err(Error::usage(format!("rank {rank} has two files, one of them '{}'", other.path.display()))
                    .hint("name the file of each rank once, on one process"));
            }
        }
    }
    check_ranks(&found)?;
    let ranks: Vec<usize> =
        found.values().map(|(node, _)| if grouping == Grouping::Node { *node } else { 0 }).collect();
    let groups = grouped(&ranks, group_size);
    let mine: Vec<(usize, &Vec<usize>)> = dealt(&groups, &ranks, &nodes, grouping)
        .into_iter()
        .zip(groups.iter().enumerate())
        .filter_map(|(process, group)| (process == comm.rank()).then_some(group))
        .collect();
    let member = |&rank: &usize| Some(Member { rank, input: found.get(&rank)?.1.clone() });
    let group =
        |(number, ranks): (usize, &Vec<usize>)| Group { number, members: ranks.iter().filter_map(member).collect() };
    Ok(mine.into_iter().map(group).collect())
}

/// Checks how many ranks a group may have, and how many bytes a block.
///
/// # Errors
/// `Usage`.
pub fn check_sizes(group_size: usize, block_size: u64) -> Result<()> {
    check_size(group_size)?;
    if block_size == 0 {
        return Err(Error::usage("blocks of 0 bytes").hint("ask for 1 byte or more"));
    }
    Ok(())
}

/// Checks the number of ranks that a group may have.
///
/// # Errors
/// `Usage`.
fn check_size(group_size: usize) -> Result<()> {
    match group_size {
        1..=LARGEST_GROUP => Ok(()),
        _ => Err(Error::usage(format!("a group of {group_size} ranks"))
            .hint(format!("groups have 1 to {LARGEST_GROUP} ranks"))),
    }
}

/// Ranks of each group: those of one node in their order, `size` at most; groups in the order of their first ranks.
fn grouped(nodes: &[usize], size: usize) -> Vec<Vec<usize>> {
    let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    nodes.iter().enumerate().for_each(|(rank, &node)| by_node.entry(node).or_default().push(rank));
    let mut groups: Vec<Vec<usize>> =
        by_node.values().flat_map(|ranks| ranks.chunks(size)).map(<[usize]>::to_vec).collect();
    groups.sort_unstable();
    groups
}

/// The process of each group: evenly, and near to the ranks where processes are those of the application.
fn dealt(groups: &[Vec<usize>], nodes: &[usize], processes: &[usize], grouping: Grouping) -> Vec<usize> {
    let node_of = |group: &Vec<usize>| group.first().and_then(|&rank| nodes.get(rank)).copied().unwrap_or(0);
    let mut of_node: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    groups.iter().for_each(|group| of_node.entry(node_of(group)).or_default().1 += 1);
    let process = |group| {
        let node = node_of(group);
        let there: Vec<usize> = (0..processes.len())
            .filter(|&process| grouping == Grouping::RankOrder || processes.get(process) == Some(&node))
            .collect();
        let (next, all) = of_node.get_mut(&node)?;
        let place = *next * there.len() / (*all).max(1);
        *next += 1;
        there.get(place).copied()
    };
    groups.iter().map(process).map(|process| process.unwrap_or(comm::ROOT)).collect()
}

fn check_name(input: &Input) -> Result<()> {
    names::check(&input.name).map_err(|error| Error::usage(error.message()).at(input.path.display().to_string()))
}

fn check_ranks(found: &BTreeMap<usize, (usize, Input)>) -> Result<()> {
    if found.is_empty() {
        return Err(no_files());
    }
    if let Some(missing) = (0..).zip(found.keys()).find_map(|(expected, &rank)| (rank != expected).then_some(expected))
    {
        return Err(Error::usage(format!("there is no file of rank {missing}")).hint("name the files of all ranks"));
    }
    let mut seen = std::collections::HashSet::new();
    match found.values().find(|(_, input)| !seen.insert(&input.name)) {
        None => Ok(()),
        Some((_, input)) => Err(Error::usage(format!("two files are called '{}'", input.name.escape_ascii()))
            .hint("pack them from a directory that holds both, or give them different names")),
    }
}

/// The error for a set of nothing.
pub(crate) fn no_files() -> Error {
    Error::usage("there are no files to pack").hint("name files, or a directory that holds some")
}

fn written(members: &[Member]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, members.len() as u64);
    for Member { rank, input } in members {
        put_number(&mut out, *rank as u64);
        put_bytes(&mut out, input.path.as_os_str().as_bytes());
        put_bytes(&mut out, &input.name);
        put_number(&mut out, input.number);
    }
    out
}

fn read(bytes: &[u8]) -> Result<Vec<Member>> {
    let mut reader = Reader::new("message", bytes);
    let count = reader.number()?;
    let mut member = || {
        let rank = usize::try_from(reader.number()?).map_err(|_| reader.impossible("rank"))?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(reader.bytes()?.to_vec()));
        Ok(Member { rank, input: Input { path, name: reader.bytes()?.to_vec(), number: reader.number()? } })
    };
    (0..count).map(|_| member()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_ranks_of_one_node_in_their_order() {
        assert_eq!(grouped(&[0; 5], 2), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(grouped(&[0, 1, 0, 1, 0], 2), [vec![0, 2], vec![1, 3], vec![4]]);
    }

    #[test]
    fn groups_are_dealt_evenly() {
        let processes = [0, 0, 2, 2];
        let by_rank =
            |groups: usize| dealt(&grouped(&vec![0; groups], 1), &vec![0; groups], &processes, Grouping::RankOrder);
        assert_eq!(by_rank(8), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(by_rank(5), [0, 0, 1, 2, 3]);
        assert_eq!(by_rank(2), [0, 2]);
        let nodes = [0, 0, 2, 2, 0, 2];
        assert_eq!(dealt(&grouped(&nodes, 1), &nodes, &processes, Grouping::Node), [0, 0, 2, 2, 1, 3]);
        assert_eq!(dealt(&grouped(&nodes, 3), &nodes, &processes, Grouping::Node), [0, 2]);
    }
}
