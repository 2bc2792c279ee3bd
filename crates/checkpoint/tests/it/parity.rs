//! Parity that groups of nodes keep: what lost nodes and damaged files cost.

#![allow(clippy::panic, reason = "tests report by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knarr_array::comm::{Comm, Threads};
use knarr_array::error::Error;
use knarr_array::region::Region;
use knarr_checkpoint::levels::{LevelOptions, Protection, Scavenged, scavenge};
use knarr_checkpoint::library::Session;
use knarr_checkpoint::sets;
use knarr_flow::engine::Silent;
use knarr_testing::data::Random;

use crate::common::{Dir, engine};
use crate::levels::{
    NODES, SHAPE, damage, flushed, local, never, on_node, open, own, place, program_on, restart_with, stores, write,
};
use crate::library::{all, options, put_region};

/// Four nodes; the last two have one rank each.
const FOUR: [usize; 6] = [0, 0, 2, 2, 4, 5];

fn keeps(losses: usize) -> impl Fn(&mut LevelOptions) + Send + Sync {
    move |levels| {
        levels.protection = Protection::Parity { nodes: 8, losses };
        never(levels);
    }
}

/// A directory in which a program on these nodes wrote steps, and was killed.
fn killed(nodes: &[usize], steps: std::ops::Range<u64>, losses: usize) -> Dir {
    let dir = Dir::new();
    assert_eq!(program_on(&dir, nodes, steps, false, keeps(losses)), []);
    dir
}

fn lose(dir: &Dir, node: usize) {
    std::fs::remove_dir_all(local(dir, node)).unwrap();
}

/// The file with the parity of a node.
fn parity(dir: &Dir, node: usize, step: u64) -> PathBuf {
    sets::of_step(&place(dir, node), step).join(format!("parity-{node}.knarr"))
}

fn makers(nodes: &[usize]) -> Vec<usize> {
    let mut makers = nodes.to_vec();
    makers.dedup();
    makers
}

fn text(warnings: &[Error]) -> String {
    warnings.iter().map(|error| format!("{error}\n")).collect()
}

/// Files of sets that something was on the way in.
fn leftovers(dir: &Dir) -> Vec<PathBuf> {
    let places = std::fs::read_dir(dir.join("")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    let mut rest: Vec<PathBuf> = places.filter(|path| path.is_dir()).collect();
    while let Some(path) = rest.pop() {
        for entry in std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with(".step_") || name.starts_with(".group-") || name.starts_with(".parity-") {
                found.push(entry.clone());
            }
            if entry.is_dir() {
                rest.push(entry);
            }
        }
    }
    found
}

#[test]
fn each_lost_node_costs_no_step() {
    for nodes in [&NODES[..], &FOUR] {
        for lost in makers(nodes) {
            let dir = killed(nodes, 1..3, 1);
            lose(&dir, lost);
            assert_eq!(restart_with(&dir, nodes, None, keeps(1)), (Some(2), vec![]), "node {lost}");
            assert_eq!((flushed(&dir), leftovers(&dir)), (vec![2], vec![]));
        }
    }
    // Also if nothing is to be kept from now on, or in another way, or the program goes on on fewer nodes.
    for protection in [Protection::None, Protection::Partner] {
        let dir = killed(&FOUR, 1..3, 1);
        lose(&dir, 2);
        let (step, warnings) = restart_with(&dir, &FOUR, None, |levels| levels.protection = protection);
        assert_eq!((step, warnings), (Some(2), vec![]));
    }
    let dir = killed(&[0, 1], 1..3, 1);
    lose(&dir, 1);
    assert_eq!(restart_with(&dir, &[0], None, keeps(1)), (Some(2), vec![]));
}

#[test]
fn two_lost_nodes_cost_no_step_if_two_may_be_lost() {
    for (one, other) in [(0, 2), (0, 4), (0, 5), (2, 4), (2, 5), (4, 5)] {
        let dir = killed(&FOUR, 1..3, 2);
        lose(&dir, one);
        lose(&dir, other);
        assert_eq!(restart_with(&dir, &FOUR, None, keeps(2)), (Some(2), vec![]), "{one} and {other}");
    }
    let dir = Dir::new();
    program_on(&dir, &FOUR, 1..2, true, keeps(1));
    program_on(&dir, &FOUR, 2..4, false, keeps(1));
    lose(&dir, 0);
    lose(&dir, 2);
    let (step, warnings) = restart_with(&dir, &FOUR, None, keeps(1));
    assert!(step == Some(1) && text(&warnings).contains("step 3 lacks 2 of 4 files"), "{warnings:?}");
}

#[test]
fn nodes_of_several_groups_may_be_lost_together() {
    let nodes: Vec<usize> = (0..5).collect();
    let pairs = |levels: &mut LevelOptions| {
        levels.protection = Protection::Parity { nodes: 2, losses: 1 };
        never(levels);
    };
    let dir = Dir::new();
    program_on(&dir, &nodes, 1..3, false, pairs);
    // The groups have three and two nodes.
    lose(&dir, 1);
    lose(&dir, 4);
    assert_eq!(restart_with(&dir, &nodes, None, pairs), (Some(2), vec![]));
}

#[test]
fn parity_takes_a_fraction_of_a_copy() {
    let (dir, shape) = (Dir::new(), [240, 4000]);
    all(Threads::run(Threads::on_nodes(&FOUR), |comm| {
        let rows = shape[0] / comm.size() as u64;
        let (rank, mut session) = (comm.rank(), open(&dir, comm, keeps(1))?);
        session.begin(1)?;
        let start = vec![rank as u64 * rows, 0];
        put_region(&mut session, 1, &shape, &Region { start, count: vec![rows, shape[1]] })?;
        session.commit()?;
        session.wait()
    }));
    let length = |path: &PathBuf| path.metadata().unwrap().len();
    let own = |node| stores(&dir, node, 1).iter().map(length).sum::<u64>();
    let kept: Vec<u64> = makers(&FOUR).into_iter().map(|node| length(&parity(&dir, node, 1))).collect();
    let largest = makers(&FOUR).into_iter().map(own).max().unwrap();
    // A third of the largest node, and the head.
    assert!(kept.iter().all(|&kept| kept >= largest / 3 && kept < largest / 3 + 1500), "{kept:?} of {largest}");
    assert!(largest > 50_000, "{largest}");
}

#[test]
fn damaged_files_count_as_lost() {
    // Nothing else is lost.
    let dir = killed(&FOUR, 1..3, 1);
    damage(&stores(&dir, 2, 2)[0]);
    let (step, warnings) = restart_with(&dir, &FOUR, None, keeps(1));
    let said = text(&warnings);
    assert!(step == Some(2) && said.contains("step 2 on the node of rank 2") && said.contains("CRC-32C"), "{said}");
    // With a lost node that is one too many, but not for two.
    for losses in [1, 2] {
        let dir = Dir::new();
        program_on(&dir, &FOUR, 1..2, true, keeps(losses));
        program_on(&dir, &FOUR, 2..3, false, keeps(losses));
        lose(&dir, 0);
        damage(&stores(&dir, 4, 2)[0]);
        let (step, warnings) = restart_with(&dir, &FOUR, None, keeps(losses));
        let said = text(&warnings);
        assert_eq!(step, Some(losses as u64), "{said}");
        assert!(said.contains("step 2 on the node of rank 4") && said.contains("CRC-32C"), "{said}");
        assert_eq!((flushed(&dir).last().copied(), leftovers(&dir)), (step, vec![]));
    }
}

/// Takes away or damages the parity of step 2 on these nodes.
fn spoil(dir: &Dir, nodes: &[usize], is_gone: bool) {
    for path in nodes.iter().map(|&node| parity(dir, node, 2)) {
        if is_gone { std::fs::remove_file(path).unwrap() } else { damage(&path) }
    }
}

#[test]
fn parity_that_is_damaged_or_gone_makes_no_other_values() {
    for is_gone in [false, true] {
        // It is not needed.
        let dir = killed(&NODES, 1..3, 1);
        spoil(&dir, &[0, 2, 4], is_gone);
        assert_eq!(restart_with(&dir, &NODES, None, keeps(1)), (Some(2), vec![]));
        // It is, and the step before serves, and the program writes the lost one again.
        let dir = killed(&NODES, 1..3, 1);
        spoil(&dir, &[0, 4], is_gone);
        lose(&dir, 2);
        let said = starts_again_from_the_first(&dir, 2..4);
        assert!(said.contains(if is_gone { "step 2 lacks 1 of 3 files" } else { "CRC-32C" }), "{said}");
        assert_eq!((flushed(&dir), leftovers(&dir)), (vec![1, 3], vec![]));
    }
}

/// A restart from step 1, as the newer one cannot be had, that writes these steps. Returns what it warns of.
fn starts_again_from_the_first(dir: &Dir, steps: std::ops::Range<u64>) -> String {
    let warnings = all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = open(dir, comm, keeps(1))?;
        assert_eq!(session.restart(None, true)?.unwrap().step(), 1);
        let warnings = session.take_warnings();
        write(&mut session, place, steps.clone())?;
        session.close()?;
        Ok(warnings)
    }));
    text(&warnings[0])
}

/// Changes the parity in a file, and its checksum with it: so it would be if a file had been damaged before it was computed.
fn forge(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let start = 12 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize + 4;
    let end = bytes.len() - 4;
    bytes[start..end].iter_mut().for_each(|byte| *byte ^= 1);
    let sum = crc32c::crc32c(&bytes[start..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn parity_of_other_bytes_than_were_packed_is_noticed() {
    let dir = killed(&NODES, 1..3, 1);
    [0, 4].iter().for_each(|&node| forge(&parity(&dir, node, 2)));
    lose(&dir, 2);
    // What could not be rebuilt is no checkpoint, and the step is written again.
    let said = starts_again_from_the_first(&dir, 2..3);
    assert!(said.contains("rebuilding step 2 of parity") && said.contains("not") && said.contains("group-"), "{said}");
    assert_eq!((flushed(&dir), leftovers(&dir)), (vec![1, 2], vec![]));
}

#[test]
fn whatever_is_lost_and_damaged_makes_no_other_values_and_costs_no_more_steps_than_it_must() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let losses = 1 + random.below(3);
        let dir = Dir::new();
        program_on(&dir, &FOUR, 1..2, true, keeps(losses));
        program_on(&dir, &FOUR, 2..3, false, keeps(losses));
        let mut touched = BTreeSet::new();
        for _ in 0..=random.below(3) {
            let node = makers(&FOUR)[random.below(4)];
            if !touched.insert(node) {
                continue;
            }
            match random.below(4) {
                0 => damage(&stores(&dir, node, 2)[0]),
                1 => damage(&parity(&dir, node, 2)),
                2 => std::fs::remove_file(&stores(&dir, node, 2)[0]).unwrap(),
                _ => lose(&dir, node),
            }
        }
        // All values of the step are compared.
        let (step, warnings) = restart_with(&dir, &FOUR, None, keeps(losses));
        assert!(step == Some(2) || step == Some(1) && touched.len() > losses, "seed {seed}: {touched:?}, {warnings:?}");
        assert_eq!(leftovers(&dir), [] as [PathBuf; 0]);
    }
}

#[test]
fn a_program_goes_on_after_a_lost_node_and_may_lose_another_one() {
    let dir = killed(&NODES, 1..4, 1);
    for (lost, step) in [(2, 3), (0, 5), (4, 7), (2, 9)] {
        lose(&dir, lost);
        all(Threads::run(Threads::on_nodes(&NODES), |comm| {
            let place = (comm.rank(), comm.size());
            let mut session = open(&dir, comm, keeps(1))?;
            assert_eq!(session.restart(None, true)?.unwrap().step(), step);
            write(&mut session, place, step + 1..step + 3)?;
            assert_eq!(session.take_warnings(), []);
            Ok(())
        }));
    }
}

#[test]
fn a_step_that_is_written_again_has_parity_of_its_own() {
    let dir = Dir::new();
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut options = on_node(&dir, comm.node(), keeps(1));
        options.pack.force = true;
        let mut session = Session::open(comm, &dir.join("sets"), Ok((engine(1), options)))?;
        session.begin(2)?;
        put_region(&mut session, 102, &SHAPE, &own(rank, ranks))?;
        session.commit()?;
        session.wait()?;
        write(&mut session, (rank, ranks), 2..3)?;
        assert_eq!(session.take_warnings(), []);
        Ok(())
    }));
    lose(&dir, 4);
    assert_eq!(restart_with(&dir, &NODES, None, keeps(1)), (Some(2), vec![]));
}

#[test]
fn old_steps_go_with_their_parity_but_not_before_a_newer_one_has_it() {
    let dir = Dir::new();
    let one = |levels: &mut LevelOptions| {
        keeps(1)(levels);
        levels.local_keep = 1;
    };
    program_on(&dir, &NODES, 1..4, false, one);
    for node in [0, 2, 4] {
        assert!(!sets::of_step(&place(&dir, node), 2).exists() && parity(&dir, node, 3).exists());
        assert_eq!(stores(&dir, node, 3).len(), 1);
    }
    // A program that keeps no parity writes the next one.
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, |levels| {
            levels.protection = Protection::None;
            levels.local_keep = 2;
            never(levels);
        })?;
        write(&mut session, (rank, ranks), 4..5)
    }));
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, one)?;
        session.begin(5)?;
        put_region(&mut session, 5, &SHAPE, &own(rank, ranks))?;
        // It is packed, and then killed: nobody has waited for parity.
        session.commit()
    }));
    lose(&dir, 2);
    assert!([Some(3), Some(5)].contains(&restart_with(&dir, &NODES, None, keeps(1)).0));
}

#[test]
fn nodes_that_are_left_bring_their_parts_and_parity() {
    let dir = killed(&FOUR, 1..3, 1);
    let plain = Dir::new();
    all(Threads::run(Threads::on_nodes(&FOUR), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = Session::open(comm, &plain.join("sets"), Ok((engine(1), options(&plain))))?;
        write(&mut session, place, 1..3)?;
        session.close()
    }));
    lose(&dir, 2);
    let bring = |node| scavenge(&engine(1), &[local(&dir, node)], &dir.join("sets"), &Silent).unwrap();
    let (found, damaged) = bring(0);
    assert!(matches!(&found[0], Scavenged::Waits(2, missing) if missing.len() == 3) && damaged.is_empty(), "{found:?}");
    assert!(matches!(&bring(5).0[0], Scavenged::Waits(2, missing) if missing.len() == 2));
    assert!(flushed(&dir).is_empty());
    assert_eq!(bring(4), (vec![Scavenged::Complete(2)], vec![]));
    assert_eq!((flushed(&dir), leftovers(&dir)), (vec![2], vec![]));
    let names = dir.names("sets/step_2");
    assert_eq!(names, plain.names("sets/step_2"));
    // All nodes are there again: nothing changes.
    assert_eq!(bring(0).0, [Scavenged::There(2)]);
    // With damaged parity it waits.
    let dir = killed(&NODES, 1..2, 1);
    lose(&dir, 2);
    damage(&parity(&dir, 4, 1));
    let bring = |node| scavenge(&engine(1), &[local(&dir, node)], &dir.join("sets"), &Silent).unwrap();
    let (_, none) = bring(0);
    let (found, damaged) = bring(4);
    assert!(none.is_empty() && damaged.len() == 1 && damaged[0].to_string().contains("CRC-32C"), "{damaged:?}");
    assert!(matches!(&found[0], Scavenged::Waits(1, missing) if missing.len() == 1), "{found:?}");
}

#[test]
fn nodes_that_are_left_may_bring_their_parts_at_the_same_time() {
    for _ in 0..20 {
        let dir = killed(&FOUR, 1..2, 2);
        lose(&dir, 0);
        std::thread::scope(|scope| {
            let bring = |node| {
                let (dir, local) = (dir.join("sets"), local(&dir, node));
                scope.spawn(move || scavenge(&engine(1), &[local], &dir, &Silent).unwrap().0)
            };
            let running: Vec<_> = [2, 4, 5].map(bring).into_iter().collect();
            running.into_iter().for_each(|thread| drop(thread.join().unwrap()));
        });
        assert_eq!((flushed(&dir), leftovers(&dir)), (vec![1], vec![]));
    }
}
