//! Restarts from steps that the nodes have: they are read there, on any number of ranks, and come to the directory of sets later.

use std::time::{Duration, Instant};

use knarr_array::array::DType;
use knarr_array::comm::{Comm, Threads};
use knarr_array::region::Region;
use knarr_array::request::Share;
use knarr_checkpoint::levels::{Every, LevelOptions, Protection};
use knarr_checkpoint::library::Session;
use knarr_checkpoint::sets;

use crate::common::Dir;
use crate::levels::{
    NODES, SHAPE, damage, flushed, local, never, open, own, place, program_on, restart_with, stores, write,
};
use crate::library::{all, check_region, put};

/// Ranks on the same three nodes, but others.
const MORE: [usize; 8] = [0, 0, 2, 2, 4, 4, 4, 4];
const FEWER: [usize; 5] = [0, 0, 2, 4, 4];

fn number(rank: usize) -> u8 {
    rank.try_into().unwrap()
}

fn alone(levels: &mut LevelOptions) {
    levels.protection = Protection::None;
    never(levels);
}

/// Calls the session until this step is in the directory of sets.
fn until_brought<C: Comm>(dir: &Dir, session: &mut Session<C>, step: u64) {
    let begin = Instant::now();
    // Ranks make the same calls: what they see at one time may differ.
    for _ in 0..200 {
        session.need().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(sets::of_step(&dir.join("sets"), step).exists(), "not within {:?}", begin.elapsed());
}

#[test]
fn any_number_of_ranks_goes_on_without_the_directory_of_sets() {
    for protection in [Protection::None, Protection::Partner, Protection::Parity { nodes: 3, losses: 1 }] {
        let dir = Dir::new();
        let change = |levels: &mut LevelOptions| {
            levels.protection = protection;
            never(levels);
        };
        assert!(program_on(&dir, &NODES, 1..4, false, change).is_empty());
        for nodes in [&NODES[..], &MORE, &FEWER] {
            all(Threads::run(Threads::on_nodes(nodes), |comm| {
                let region = own(comm.rank(), comm.size());
                let mut session = open(&dir, comm, change)?;
                let restart = session.restart(None, true)?.unwrap();
                assert_eq!(restart.step(), 3);
                // What is its own, and what others have.
                check_region(&restart, 3, &region)?;
                check_region(&restart, 3, &Region::whole(&SHAPE))?;
                session.need()?;
                assert!(flushed(&dir).is_empty() && session.take_warnings().is_empty());
                // The program is killed again.
                Ok(())
            }));
        }
        assert_eq!(restart_with(&dir, &NODES, Some(2), change), (Some(2), vec![]));
        // That one had no newer step when the program closed.
        assert_eq!(flushed(&dir), [2]);
    }
}

#[test]
fn own_arrays_and_files_come_back_from_the_nodes() {
    let dir = Dir::new();
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let rank = comm.rank();
        let mut session = open(&dir, comm, alone)?;
        session.begin(7)?;
        put(&mut session, "state", &[number(rank); 1000], DType::U8, Share::Own(vec![1000]))?;
        let path = dir.join(&format!("restart-{rank}.dat"));
        std::fs::write(&path, format!("of rank {rank}").repeat(100)).unwrap();
        session.add_file(&path, "restart.dat")?;
        session.commit()?;
        session.wait()
    }));
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, alone)?;
        let restart = session.restart(None, false)?.unwrap();
        // Another node's, too.
        for rank in [rank, (rank + 3) % ranks] {
            let mut found = [0xAA; 1000];
            restart.read_own("state", rank as u64, &mut found)?;
            assert_eq!(found, [number(rank); 1000]);
            let (out, name) = (dir.join(&format!("out-{}-{rank}", session.ranks().0)), "restart.dat");
            restart.restore_files(&out, (rank as u64, ranks as u64), false)?;
            assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), format!("of rank {rank}").repeat(100));
        }
        assert!(flushed(&dir).is_empty());
        // Nodes answer until all ranks have read.
        session.need().map(drop)
    }));
}

#[test]
fn a_step_that_lost_its_copies_is_brought_while_the_program_goes_on() {
    for protection in [Protection::Partner, Protection::Parity { nodes: 3, losses: 1 }] {
        let dir = Dir::new();
        let change = |levels: &mut LevelOptions| {
            levels.protection = protection;
            never(levels);
        };
        program_on(&dir, &NODES, 1..3, false, change);
        std::fs::remove_dir_all(local(&dir, 2)).unwrap();
        all(Threads::run(Threads::on_nodes(&NODES), |comm| {
            let mut session = open(&dir, comm, change)?;
            let restart = session.restart(None, true)?.unwrap();
            assert_eq!(restart.step(), 2);
            check_region(&restart, 2, &Region::whole(&SHAPE))?;
            until_brought(&dir, &mut session, 2);
            Ok(())
        }));
        assert_eq!(flushed(&dir), [2]);
    }
    // On fewer nodes, with a copy of what the lost one had.
    let dir = Dir::new();
    program_on(&dir, &NODES, 1..3, false, never);
    let (step, warnings) = restart_with(&dir, &[0, 0, 2], None, never);
    assert_eq!((step, warnings), (Some(2), vec![]));
    assert_eq!(flushed(&dir), [2]);
}

#[test]
fn what_waited_in_earlier_runs_counts() {
    let dir = Dir::new();
    let third = |levels: &mut LevelOptions| levels.flush = Every::Sets(3);
    program_on(&dir, &NODES, 1..3, false, third);
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, third)?;
        assert_eq!(session.restart(None, false)?.unwrap().step(), 2);
        assert!(flushed(&dir).is_empty());
        write(&mut session, place, 3..4)?;
        until_brought(&dir, &mut session, 3);
        Ok(())
    }));
    assert_eq!(flushed(&dir), [3]);
    // One that was due when the program was killed is brought at the next start.
    let dir = Dir::new();
    program_on(&dir, &NODES, 1..2, false, |_| {});
    if flushed(&dir).is_empty() {
        all(Threads::run(Threads::on_nodes(&NODES), |comm| {
            let mut session = open(&dir, comm, |_| {})?;
            assert_eq!(session.restart(None, false)?.unwrap().step(), 1);
            until_brought(&dir, &mut session, 1);
            Ok(())
        }));
    }
    assert_eq!(flushed(&dir), [1]);
}

#[test]
fn a_step_stays_on_the_nodes_as_long_as_it_is_read() {
    let dir = Dir::new();
    let one = |levels: &mut LevelOptions| {
        levels.local_keep = 1;
        never(levels);
    };
    program_on(&dir, &NODES, 1..3, false, one);
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let here = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, one)?;
        let restart = session.restart(None, false)?.unwrap();
        write(&mut session, here, 3..6)?;
        check_region(&restart, 2, &Region::whole(&SHAPE))?;
        drop(restart);
        write(&mut session, here, 6..8)
    }));
    let steps: Vec<Option<u64>> =
        sets::completed(&place(&dir, 2)).unwrap().iter().map(|path| sets::step(path)).collect();
    assert_eq!(steps, [Some(7)]);
}

#[test]
fn a_damaged_file_is_read_on_another_node_and_told() {
    let dir = Dir::new();
    program_on(&dir, &NODES, 1..3, false, never);
    // The node's own file: of two, the first one on the first node.
    damage(&stores(&dir, 0, 2)[0]);
    damage(&stores(&dir, 4, 2)[1]);
    let warnings = all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let mut session = open(&dir, comm, never)?;
        let restart = session.restart(None, false)?.unwrap();
        assert_eq!(restart.step(), 2);
        check_region(&restart, 2, &Region::whole(&SHAPE))?;
        let warnings = session.take_warnings();
        session.close()?;
        Ok(warnings)
    }));
    let text: String = warnings[0].iter().map(ToString::to_string).collect();
    assert!(text.contains("CRC-32C") && text.contains("step 2 on the node of rank"), "{text}");
    assert_eq!(flushed(&dir), [2]);
}

#[test]
fn a_program_that_goes_on_from_an_older_set_still_finds_newer_ones_of_the_directory_first() {
    let dir = Dir::new();
    program_on(&dir, &NODES, 1..3, true, |_| {});
    // The nodes have both steps, the directory has them, too: nothing is read on nodes.
    for node in [0, 2, 4] {
        stores(&dir, node, 2).iter().for_each(|store| damage(store));
    }
    assert_eq!(restart_with(&dir, &NODES, None, never), (Some(2), vec![]));
    assert_eq!(restart_with(&dir, &NODES, Some(1), never), (Some(1), vec![]));
}
