//! Steps that are complete in the memory of nodes first: which of them come to the disks, what a lost node or full memory costs, and what
//! is left when programs end.

use std::path::PathBuf;

use knarr_array::comm::{Comm, Threads};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_checkpoint::levels::{Every, LevelOptions, Protection, Scavenged, scavenge};
use knarr_checkpoint::library::{Options, Session};
use knarr_checkpoint::sets;
use knarr_flow::engine::Silent;

use crate::common::{Dir, engine};
use crate::levels::{NODES, SHAPE, damage, flushed, local, never, own, write};
use crate::library::{all, check_region, options, put_region};

fn memory(dir: &Dir, node: usize) -> PathBuf {
    dir.join(&format!("memory-{node}"))
}

fn open<C: Comm>(dir: &Dir, comm: C, change: impl Fn(&mut LevelOptions)) -> Result<Session<C>> {
    let mut levels = LevelOptions {
        memory: Some(memory(dir, comm.node())),
        local: Some(local(dir, comm.node())),
        ..LevelOptions::default()
    };
    change(&mut levels);
    Session::open(comm, &dir.join("sets"), Ok((engine(1), Options { levels, ..options(dir) })))
}

/// A program that writes steps and ends well, or is gone before it closes. Returns the warnings of rank 0.
fn program(
    dir: &Dir,
    steps: std::ops::Range<u64>,
    ends: bool,
    change: impl Fn(&mut LevelOptions) + Send + Sync,
) -> Vec<Error> {
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = open(dir, comm, &change)?;
        write(&mut session, place, steps.clone())?;
        let warnings = session.take_warnings();
        if ends {
            session.close()?;
        } else {
            until_settled(&mut session)?;
        }
        Ok(warnings)
    }))
    .swap_remove(0)
}

/// Waits until what is on its way has come.
fn until_settled<C: Comm>(session: &mut Session<C>) -> Result<()> {
    for _ in 0..50 {
        session.need()?;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(())
}

/// Restarts on these nodes, without the end of the program. Returns the step, with the warnings of rank 0.
fn restart(dir: &Dir, nodes: &[usize], change: impl Fn(&mut LevelOptions) + Send + Sync) -> (Option<u64>, Vec<String>) {
    all(Threads::run(Threads::on_nodes(nodes), |comm| {
        let mut session = open(dir, comm, &change)?;
        let restart = session.restart(None, true)?;
        if let Some(restart) = &restart {
            check_region(restart, restart.step(), &Region::whole(&SHAPE))?;
        }
        until_settled(&mut session)?;
        let warnings = session.take_warnings().iter().map(ToString::to_string).collect();
        Ok((restart.map(|restart| restart.step()), warnings))
    }))
    .swap_remove(0)
}

/// Steps below a directory of a node.
fn steps(directory: PathBuf) -> Vec<u64> {
    let mut found = Vec::new();
    for place in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        found.extend(sets::completed(&place.path()).unwrap().iter().filter_map(|path| sets::step(path)));
    }
    found.sort_unstable();
    found
}

fn remove(path: PathBuf) {
    std::fs::remove_dir_all(path).unwrap();
}

/// Files of frames of a step below a directory of a node.
fn stores(directory: PathBuf, step: u64) -> Vec<PathBuf> {
    let place = std::fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let entries = std::fs::read_dir(sets::of_step(&place, step)).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("group-"));
    found
}

fn every_second(levels: &mut LevelOptions) {
    levels.local_every = Every::Sets(2);
    levels.local_keep = 1;
    never(levels);
}

#[test]
fn each_level_has_its_own_period_and_its_own_number_of_sets() {
    for protection in [Protection::None, Protection::Partner, Protection::Parity { nodes: 3, losses: 1 }] {
        let dir = Dir::new();
        let change = |levels: &mut LevelOptions| {
            levels.protection = protection;
            (levels.memory_keep, levels.local_keep) = (2, 3);
            (levels.local_every, levels.flush) = (Every::Sets(2), Every::Sets(5));
        };
        assert!(program(&dir, 1..12, false, change).is_empty());
        for node in [0, 2, 4] {
            assert_eq!(steps(memory(&dir, node)), [10, 11], "node {node}");
            assert_eq!(steps(local(&dir, node)), [6, 8, 10], "node {node}");
        }
        assert_eq!(flushed(&dir), [5, 10]);
        assert_eq!(restart(&dir, &NODES, change), (Some(11), vec![]));
        // A step from which a program went on is on the disks, too.
        assert_eq!(steps(local(&dir, 2)), [8, 10, 11]);
        // Step 10 may have been on its way when step 11 was handed over: then that comes at once.
        assert!([&[5, 10][..], &[5, 10, 11]].contains(&&flushed(&dir)[..]));
        assert!(program(&dir, 12..13, true, change).is_empty());
        assert_eq!(flushed(&dir).last(), Some(&12));
        // Nothing stays in memory when the program ends well.
        assert_eq!([0, 2, 4].map(|node| steps(memory(&dir, node)).len()), [0, 0, 0]);
    }
}

#[test]
fn memory_survives_a_lost_node_and_disks_survive_lost_memory() {
    for protection in [Protection::Partner, Protection::Parity { nodes: 3, losses: 1 }] {
        let dir = Dir::new();
        let change = |levels: &mut LevelOptions| {
            levels.protection = protection;
            every_second(levels);
        };
        program(&dir, 1..4, false, change);
        assert_eq!((steps(memory(&dir, 2)), steps(local(&dir, 2))), (vec![3], vec![2]));
        // One node is replaced.
        remove(memory(&dir, 2));
        remove(local(&dir, 2));
        let (step, warnings) = restart(&dir, &NODES, change);
        assert!(step == Some(3) && warnings.is_empty(), "{step:?} {warnings:?}");
        // It is brought, because nobody has it twice.
        assert_eq!(flushed(&dir), [3]);

        // All nodes were started anew: what was in memory only is lost, and one disk, too.
        let dir = Dir::new();
        program(&dir, 1..4, false, change);
        [0, 2, 4].iter().for_each(|node| remove(memory(&dir, *node)));
        remove(local(&dir, 4));
        assert_eq!(restart(&dir, &NODES, change).0, Some(2));
    }
}

#[test]
fn what_is_damaged_in_memory_is_read_on_disks() {
    let dir = Dir::new();
    program(&dir, 1..3, false, every_second);
    for node in [0, 2, 4] {
        stores(memory(&dir, node), 2).iter().for_each(|store| damage(store));
    }
    let (step, warnings) = restart(&dir, &NODES, every_second);
    let text = warnings.concat();
    assert!(step == Some(2) && text.contains("CRC-32C") && text.contains("cannot be read in 'memory'"), "{text}");
}

#[test]
fn other_ranks_go_on_from_memory() {
    let dir = Dir::new();
    program(&dir, 1..4, false, every_second);
    for nodes in [&[0, 0, 2, 2, 4, 4, 4, 4][..], &[0, 0, 2, 4, 4]] {
        assert_eq!(restart(&dir, nodes, every_second), (Some(3), vec![]));
    }
    assert!(flushed(&dir).is_empty());
    // Without options for memory, what is on disks serves.
    let only = |levels: &mut LevelOptions| {
        levels.memory = None;
        never(levels);
    };
    assert_eq!(restart(&dir, &NODES, only).0, Some(3));
    let dir = Dir::new();
    program(&dir, 1..4, false, every_second);
    assert_eq!(restart(&dir, &NODES, only).0, Some(2));
}

#[test]
fn memory_alone_is_a_level() {
    let dir = Dir::new();
    let alone = |levels: &mut LevelOptions| {
        levels.local = None;
        levels.flush = Every::Sets(3);
    };
    assert!(program(&dir, 1..5, false, alone).is_empty());
    assert_eq!((steps(memory(&dir, 0)), flushed(&dir)), (vec![4], vec![3]));
    remove(memory(&dir, 4));
    assert_eq!(restart(&dir, &NODES, alone).0, Some(4));
    assert!(program(&dir, 5..7, true, alone).is_empty());
    assert_eq!((steps(memory(&dir, 0)), flushed(&dir).last().copied()), (vec![], Some(6)));
}

#[test]
fn a_step_that_is_written_again_is_the_one_that_is_read() {
    let dir = Dir::new();
    let again = |comm: Threads, value: u64| -> Result<()> {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut levels = LevelOptions {
            memory: Some(memory(&dir, comm.node())),
            local: Some(local(&dir, comm.node())),
            ..LevelOptions::default()
        };
        never(&mut levels);
        let mut options = Options { levels, ..options(&dir) };
        options.pack.force = true;
        let mut session = Session::open(comm, &dir.join("sets"), Ok((engine(1), options)))?;
        session.begin(2)?;
        put_region(&mut session, value, &SHAPE, &own(rank, ranks))?;
        session.commit()?;
        session.wait()?;
        until_settled(&mut session)
    };
    all(Threads::run(Threads::on_nodes(&NODES), |comm| again(comm, 2)));
    all(Threads::run(Threads::on_nodes(&NODES), |comm| again(comm, 102)));
    for lost in [None, Some(())] {
        lost.iter().for_each(|()| {
            [0, 2, 4].iter().for_each(|node| remove(memory(&dir, *node)));
        });
        all(Threads::run(Threads::on_nodes(&NODES), |comm| {
            let mut session = open(&dir, comm, never)?;
            let restart = session.restart(None, true)?.unwrap();
            check_region(&restart, 102, &Region::whole(&SHAPE))?;
            session.need().map(drop)
        }));
    }
}

#[test]
fn a_step_that_exists_on_some_level_is_refused() {
    let dir = Dir::new();
    program(&dir, 1..3, false, every_second);
    [0, 2, 4].iter().for_each(|node| remove(memory(&dir, *node)));
    for result in Threads::run(Threads::on_nodes(&NODES), |comm| open(&dir, comm, every_second)?.begin(2)) {
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::Exists && error.to_string().contains("'memory' and 'local'"), "{error}");
    }
}

#[test]
fn memory_and_disk_are_brought_without_the_program() {
    let dir = Dir::new();
    program(&dir, 1..4, false, |levels| {
        every_second(levels);
        levels.protection = Protection::None;
    });
    let bring = |node| {
        let places = [memory(&dir, node), local(&dir, node)];
        scavenge(&engine(1), &places, &dir.join("sets"), &Silent).unwrap().0
    };
    let steps_of = |found: &[Scavenged]| match found {
        [Scavenged::Waits(3, _), Scavenged::Waits(2, _)] => 2,
        other => panic!("{other:?}"),
    };
    assert_eq!((steps_of(&bring(0)), steps_of(&bring(4))), (2, 2));
    assert_eq!(bring(2), [Scavenged::Complete(3)]);
    assert_eq!(flushed(&dir), [3]);
    // The memory of one node is lost, and the disks have an older step.
    let dir = Dir::new();
    program(&dir, 1..4, false, |levels| {
        every_second(levels);
        levels.protection = Protection::None;
    });
    remove(memory(&dir, 2));
    let bring = |node| {
        let places = [memory(&dir, node), local(&dir, node)];
        scavenge(&engine(1), &places, &dir.join("sets"), &Silent).unwrap().0
    };
    bring(0);
    bring(2);
    assert!(matches!(&bring(4)[..], [Scavenged::Waits(3, _), Scavenged::Complete(2)]));
    assert_eq!(flushed(&dir), [2]);
}

/// Takes away the place of a node in memory, so that nothing can be written there.
fn block(dir: &Dir, node: usize) {
    let place = std::fs::read_dir(memory(dir, node)).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(place, b"").unwrap();
}

#[test]
fn a_step_that_cannot_be_written_to_memory_goes_to_the_next_level() {
    for has_local in [true, false] {
        let dir = Dir::new();
        let change = |levels: &mut LevelOptions| {
            never(levels);
            levels.protection = Protection::None;
            if !has_local {
                levels.local = None;
            }
        };
        let warnings = all(Threads::run(Threads::on_nodes(&NODES), |comm| {
            let place = (comm.rank(), comm.size());
            let mut session = open(&dir, comm, change)?;
            write(&mut session, place, 1..3)?;
            until_settled(&mut session)?;
            if place.0 == 2 {
                block(&dir, 2);
            }
            write(&mut session, place, 3..5)?;
            Ok(session.take_warnings())
        }));
        let text: String = warnings[0].iter().map(ToString::to_string).collect();
        assert!(text.contains("step 3 and those that follow go to") && text.contains("memory-2"), "{text}");
        if has_local {
            assert_eq!((steps(local(&dir, 0)), flushed(&dir)), (vec![3, 4], vec![]));
        } else {
            assert_eq!(flushed(&dir), [3, 4]);
        }
        std::fs::remove_dir_all(memory(&dir, 2)).unwrap();
        assert_eq!(restart(&dir, &NODES, change).0, Some(4));
    }
}
