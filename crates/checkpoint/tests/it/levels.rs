//! Steps that are complete on disks of nodes first: which of them reach the directory of sets, and what a lost node costs.

#![allow(clippy::panic, reason = "tests report by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use knarr_array::comm::{Comm, Threads};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_checkpoint::levels::{Every, LevelOptions, Protection, Scavenged, scavenge};
use knarr_checkpoint::library::{Options, Session};
use knarr_checkpoint::{Set, sets, verify};
use knarr_flow::engine::Silent;

use crate::common::{Dir, engine};
use crate::library::{all, check_region, options, put_region};

pub(crate) const SHAPE: [u64; 2] = [60, 700];
/// Three nodes, the last one with one rank.
pub(crate) const NODES: [usize; 5] = [0, 0, 2, 2, 4];

/// Options of a rank on the node `node`.
pub(crate) fn on_node(dir: &Dir, node: usize, change: impl Fn(&mut LevelOptions)) -> Options {
    let mut levels = LevelOptions { local: Some(local(dir, node)), ..LevelOptions::default() };
    change(&mut levels);
    Options { levels, ..options(dir) }
}

pub(crate) fn local(dir: &Dir, node: usize) -> PathBuf {
    dir.join(&format!("node-{node}"))
}

pub(crate) fn open<C: Comm>(dir: &Dir, comm: C, change: impl Fn(&mut LevelOptions)) -> Result<Session<C>> {
    let options = on_node(dir, comm.node(), change);
    Session::open(comm, &dir.join("sets"), Ok((engine(1), options)))
}

/// The part of the global array that a rank has.
pub(crate) fn own(rank: usize, ranks: usize) -> Region {
    let rows = SHAPE[0] / ranks as u64;
    Region { start: vec![rank as u64 * rows, 0], count: vec![rows, SHAPE[1]] }
}

/// Writes steps. Values of step n are those of the array n.
pub(crate) fn write<C: Comm>(
    session: &mut Session<C>,
    (rank, ranks): (usize, usize),
    steps: std::ops::Range<u64>,
) -> Result<()> {
    for step in steps {
        session.begin(step)?;
        put_region(session, step, &SHAPE, &own(rank, ranks))?;
        session.commit()?;
        session.wait()?;
    }
    Ok(())
}

/// A program that writes steps and ends well, or is gone before it closes. Returns the warnings of rank 0.
fn program(
    dir: &Dir,
    steps: std::ops::Range<u64>,
    ends: bool,
    change: impl Fn(&mut LevelOptions) + Send + Sync,
) -> Vec<Error> {
    program_on(dir, &NODES, steps, ends, change)
}

/// As [`program`], on the node of each rank.
pub(crate) fn program_on(
    dir: &Dir,
    nodes: &[usize],
    steps: std::ops::Range<u64>,
    ends: bool,
    change: impl Fn(&mut LevelOptions) + Send + Sync,
) -> Vec<Error> {
    all(Threads::run(Threads::on_nodes(nodes), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = open(dir, comm, &change)?;
        write(&mut session, place, steps.clone())?;
        let warnings = session.take_warnings();
        if ends {
            session.close()?;
        }
        Ok(warnings)
    }))
    .swap_remove(0)
}

/// Restarts on `ranks` ranks of one node, or with the disks of all nodes. Returns the step, with the warnings of rank 0.
fn restart(dir: &Dir, nodes: &[usize], step: Option<u64>) -> (Option<u64>, Vec<Error>) {
    restart_with(dir, nodes, step, |_| {})
}

/// As [`restart`], with other options.
pub(crate) fn restart_with(
    dir: &Dir,
    nodes: &[usize],
    step: Option<u64>,
    change: impl Fn(&mut LevelOptions) + Send + Sync,
) -> (Option<u64>, Vec<Error>) {
    all(Threads::run(Threads::on_nodes(nodes), |comm| {
        let mut session = open(dir, comm, &change)?;
        let restart = session.restart(step, true)?;
        if let Some(restart) = &restart {
            check_region(restart, restart.step(), &Region::whole(&SHAPE))?;
        }
        let warnings = session.take_warnings();
        session.close()?;
        Ok((restart.map(|restart| restart.step()), warnings))
    }))
    .swap_remove(0)
}

/// Steps in the directory of sets, each of them whole.
pub(crate) fn flushed(dir: &Dir) -> Vec<u64> {
    let paths = sets::completed(&dir.join("sets")).unwrap();
    for path in &paths {
        let set = Set::open(path, &engine(1).codecs).unwrap();
        assert!(verify(&engine(1), &set, &Silent).unwrap().damage.is_empty());
        assert!(!path.join("parts.json").exists());
    }
    let mut steps: Vec<u64> = paths.iter().filter_map(|path| sets::step(path)).collect();
    steps.sort_unstable();
    steps
}

/// Where a node has its sets.
pub(crate) fn place(dir: &Dir, node: usize) -> PathBuf {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(local(dir, node)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.swap_remove(0)
}

/// Files of frames that lie on a node of a step.
pub(crate) fn stores(dir: &Dir, node: usize, step: u64) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sets::of_step(&place(dir, node), step)).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("group-"));
    found.sort();
    found
}

pub(crate) fn never(levels: &mut LevelOptions) {
    levels.flush = Every::Sets(1000);
}

#[test]
fn some_steps_reach_the_directory_of_sets_and_the_last_one_always() {
    let dir = Dir::new();
    let every = |levels: &mut LevelOptions| levels.flush = Every::Sets(3);
    assert!(program(&dir, 1..6, true, every).is_empty());
    assert_eq!(flushed(&dir), [3, 5]);
    for node in [0, 2, 4] {
        // Its own file, and that of the node before.
        assert_eq!((stores(&dir, node, 4).len(), stores(&dir, node, 5).len()), (2, 2));
        assert!(!sets::of_step(&place(&dir, node), 3).exists());
    }
    assert_eq!(restart(&dir, &[0, 0, 0], None), (Some(5), vec![]));
    assert_eq!(restart(&dir, &NODES, Some(3)).0, Some(3));
    let time = |levels: &mut LevelOptions| levels.flush = Every::Time(Duration::from_secs(3600));
    assert!(program(&dir, 6..8, true, time).is_empty());
    assert_eq!(flushed(&dir), [3, 5, 7]);
}

#[test]
fn a_set_that_was_brought_is_the_one_that_is_packed_without_levels() {
    let dir = Dir::new();
    program(&dir, 7..8, true, |_| {});
    let brought = dir.join("brought");
    std::fs::rename(dir.join("sets"), &brought).unwrap();
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = Session::open(comm, &dir.join("sets"), Ok((engine(1), options(&dir))))?;
        write(&mut session, place, 7..8)?;
        session.close()
    }));
    let bytes = |name: &str| crate::common::bytes(&dir, &format!("{name}/step_7"));
    assert!(bytes("brought") == bytes("sets"));
}

#[test]
fn a_program_that_was_killed_loses_no_step_that_was_complete() {
    let dir = Dir::new();
    program(&dir, 1..4, false, never);
    assert!(flushed(&dir).is_empty());
    assert_eq!(restart(&dir, &NODES, None), (Some(3), vec![]));
    assert_eq!(flushed(&dir), [3]);
    // It goes on with other steps, and stops again.
    program(&dir, 4..6, false, never);
    assert_eq!(restart(&dir, &NODES, Some(4)).0, Some(4));
    assert_eq!(restart(&dir, &NODES, None).0, Some(5));
}

#[test]
fn a_lost_node_costs_no_step_if_another_one_keeps_copies() {
    for lost in [0, 2, 4] {
        let dir = Dir::new();
        program(&dir, 1..3, false, never);
        std::fs::remove_dir_all(local(&dir, lost)).unwrap();
        assert_eq!(restart(&dir, &NODES, None), (Some(2), vec![]), "node {lost}");
    }
    // Without them: the step that had reached the directory of sets.
    let dir = Dir::new();
    program(&dir, 1..2, true, |levels| levels.protection = Protection::None);
    program(&dir, 2..4, false, |levels| {
        levels.protection = Protection::None;
        never(levels);
    });
    assert_eq!(stores(&dir, 2, 3).len(), 1);
    std::fs::remove_dir_all(local(&dir, 2)).unwrap();
    let (step, warnings) = restart(&dir, &NODES, None);
    assert!(step == Some(1) && warnings[0].to_string().contains("step 3 lacks 1 of 3 files"), "{warnings:?}");
}

#[test]
fn two_neighbours_that_are_lost_cost_the_newest_steps_and_no_more() {
    let dir = Dir::new();
    program(&dir, 1..2, true, |_| {});
    program(&dir, 2..4, false, never);
    for lost in [0, 2] {
        std::fs::remove_dir_all(local(&dir, lost)).unwrap();
    }
    assert_eq!(restart(&dir, &NODES, None).0, Some(1));
}

/// Changes a byte in the middle of a file.
pub(crate) fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    // Steps share files by links.
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_file_is_taken_from_the_node_that_has_a_copy() {
    let dir = Dir::new();
    program(&dir, 1..3, false, never);
    for node in [0, 2, 4] {
        // Of two files one is that of the node before.
        damage(&stores(&dir, node, 2)[usize::from(node != 0)]);
    }
    let (step, warnings) = restart(&dir, &NODES, None);
    let text = warnings.iter().map(ToString::to_string).collect::<String>();
    assert_eq!(step, Some(2), "{text}");
    assert_eq!(flushed(&dir), [2]);
}

#[test]
fn a_step_of_which_no_copy_can_be_read_is_named_and_an_older_one_serves() {
    let dir = Dir::new();
    program(&dir, 1..3, false, never);
    for node in [0, 2, 4] {
        stores(&dir, node, 2).iter().for_each(|store| damage(store));
    }
    let (step, warnings) = restart(&dir, &NODES, None);
    assert_eq!(step, Some(1));
    let text = warnings.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("step 2 is on the nodes") && text.contains("CRC-32C") && text.contains("group-"), "{text}");
    assert_eq!(flushed(&dir), [1]);
    assert!(dir.names("sets").iter().all(|name| name == "step_1"), "{:?}", dir.names("sets"));
    // The program goes on from there.
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, |_| {})?;
        assert_eq!(session.restart(None, true)?.unwrap().step(), 1);
        write(&mut session, place, 2..4)?;
        session.close()
    }));
    assert_eq!(flushed(&dir), [1, 2, 3]);
}

#[test]
fn a_part_of_a_step_that_is_no_checkpoint_blocks_nothing() {
    let dir = Dir::new();
    let alone = |levels: &mut LevelOptions| {
        levels.protection = Protection::None;
        never(levels);
    };
    program(&dir, 1..4, false, alone);
    // As if the program had been killed while the nodes gave the step its name.
    std::fs::remove_dir_all(sets::of_step(&place(&dir, 2), 3)).unwrap();
    let (step, warnings) = restart(&dir, &NODES, None);
    assert_eq!(step, Some(2));
    assert!(warnings[0].to_string().contains("step 3 lacks 1 of 3 files on the nodes"), "{warnings:?}");
    program(&dir, 3..5, true, alone);
    assert_eq!(flushed(&dir), [2, 4]);
}

#[test]
fn a_step_that_cannot_be_brought_is_on_the_nodes_and_told() {
    let dir = Dir::new();
    program(&dir, 1..2, true, |_| {});
    program(&dir, 2..3, false, never);
    std::fs::write(dir.join("sets/step_2"), b"not a set").unwrap();
    for _ in 0..2 {
        for result in Threads::run(Threads::on_nodes(&NODES), |comm| {
            let mut session = open(&dir, comm, |_| {})?;
            assert_eq!(session.restart(None, false)?.unwrap().step(), 2);
            session.close()
        }) {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("step 2 is on the nodes"), "{error}");
        }
    }
    std::fs::remove_file(dir.join("sets/step_2")).unwrap();
    assert_eq!(restart(&dir, &NODES, None).0, Some(2));
    assert_eq!(flushed(&dir), [1, 2]);
}

#[test]
fn a_step_that_is_written_again_reaches_the_directory_of_sets() {
    for every in [1, 2, 1000] {
        let dir = Dir::new();
        all(Threads::run(Threads::on_nodes(&NODES), |comm| {
            let (rank, ranks) = (comm.rank(), comm.size());
            let mut options = on_node(&dir, comm.node(), |levels| levels.flush = Every::Sets(every));
            options.pack.force = true;
            let mut session = Session::open(comm, &dir.join("sets"), Ok((engine(1), options)))?;
            write(&mut session, (rank, ranks), 1..3)?;
            session.begin(2)?;
            put_region(&mut session, 102, &SHAPE, &own(rank, ranks))?;
            session.commit()?;
            session.close()
        }));
        let restart = all(Threads::run(Threads::on_nodes(&[0]), |comm| {
            let restart =
                Session::open(comm, &dir.join("sets"), Ok((engine(1), options(&dir))))?.restart(None, true)?;
            let restart = restart.unwrap();
            assert_eq!(restart.step(), 2);
            check_region(&restart, 102, &Region::whole(&SHAPE))
        }));
        assert_eq!(restart.len(), 1, "every {every}");
    }
}

#[test]
fn a_step_that_could_not_be_brought_does_not_outlive_the_next_one() {
    let dir = Dir::new();
    all(Threads::run(Threads::on_nodes(&[0]), |comm| {
        let mut session = open(&dir, comm, |levels| {
            levels.local_keep = 1;
            levels.flush = Every::Sets(2);
        })?;
        write(&mut session, (0, 1), 1..2)?;
        session.begin(2)?;
        put_region(&mut session, 2, &SHAPE, &own(0, 1))?;
        std::fs::write(dir.join("sets/step_2"), b"in the way").unwrap();
        session.commit()?;
        session.wait()?;
        std::fs::remove_file(dir.join("sets/step_2")).unwrap();
        write(&mut session, (0, 1), 3..4)?;
        session.close()
    }));
    assert_eq!(flushed(&dir), [3]);
}

#[test]
fn steps_before_one_that_fails_are_brought_when_the_program_closes() {
    let dir = Dir::new();
    let results = Threads::run(Threads::on_nodes(&NODES), |comm| {
        let place = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, never)?;
        write(&mut session, place, 1..3)?;
        session.begin(3)?;
        let path = dir.join(&format!("restart_{}.dat", place.0));
        std::fs::write(&path, b"values").unwrap();
        session.add_file(&path, "restart.dat")?;
        std::fs::remove_file(&path).unwrap();
        session.commit()?;
        session.close()
    });
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.to_string().contains("step 3"))));
    assert_eq!(flushed(&dir), [2]);
}

#[test]
fn a_step_stays_on_the_nodes_until_a_newer_one_survives_a_lost_node() {
    let dir = Dir::new();
    let one = |levels: &mut LevelOptions| {
        levels.local_keep = 1;
        never(levels);
    };
    program(&dir, 1..4, false, one);
    assert!(!sets::of_step(&place(&dir, 0), 2).exists() && sets::of_step(&place(&dir, 0), 3).exists());
    all(Threads::run(Threads::on_nodes(&NODES), |comm| {
        let (rank, ranks) = (comm.rank(), comm.size());
        let mut session = open(&dir, comm, one)?;
        session.begin(4)?;
        put_region(&mut session, 4, &SHAPE, &own(rank, ranks))?;
        // It is packed, and then killed: nobody has waited for copies.
        session.commit()
    }));
    std::fs::remove_dir_all(local(&dir, 2)).unwrap();
    assert!([Some(3), Some(4)].contains(&restart(&dir, &NODES, None).0));
}

#[test]
fn a_place_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    program(&dir, 1..2, true, |_| {});
    assert_eq!(place(&dir, 2).metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(place(&dir, 2), std::fs::Permissions::from_mode(0o777)).unwrap();
    for result in Threads::run(Threads::on_nodes(&NODES), |comm| open(&dir, comm, |_| {}).map(drop)) {
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("only this user can write"), "{error}");
    }
}

#[test]
fn nodes_that_are_given_back_bring_their_parts_one_by_one() {
    let dir = Dir::new();
    program(&dir, 1..4, false, |levels| {
        levels.protection = Protection::None;
        never(levels);
    });
    let bring = |node| scavenge(&engine(1), &[local(&dir, node)], &dir.join("sets"), &Silent).unwrap().0;
    let waits = |found: &[Scavenged]| match found {
        [Scavenged::Waits(3, of_third), Scavenged::Waits(2, _)] => of_third.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((waits(&bring(0)), waits(&bring(4)), waits(&bring(4))), (2, 1, 1));
    assert!(flushed(&dir).is_empty());
    assert_eq!(bring(2), [Scavenged::Complete(3)]);
    assert_eq!(bring(0), [Scavenged::There(3)]);
    assert_eq!(flushed(&dir), [3]);
    assert_eq!(restart(&dir, &[0], None).0, Some(3));
    let nothing = scavenge(&engine(1), &[dir.join("other")], &dir.join("sets"), &Silent).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
    // With copies on other nodes not all have to.
    let dir = Dir::new();
    program(&dir, 1..4, false, never);
    let bring = |node| scavenge(&engine(1), &[local(&dir, node)], &dir.join("sets"), &Silent).unwrap().0;
    assert_eq!(waits(&bring(4)), 1);
    assert_eq!(bring(0), [Scavenged::Complete(3)]);
    assert_eq!(flushed(&dir), [3]);
}

#[test]
fn nodes_may_bring_their_parts_at_the_same_time() {
    for protection in [Protection::None, Protection::Partner].repeat(20) {
        let dir = Dir::new();
        program(&dir, 1..3, false, |levels| {
            levels.protection = protection;
            never(levels);
        });
        let brought: Vec<Vec<Scavenged>> = std::thread::scope(|scope| {
            let bring = |node| {
                let (dir, local) = (dir.join("sets"), local(&dir, node));
                scope.spawn(move || scavenge(&engine(1), &[local], &dir, &Silent).unwrap().0)
            };
            let running: Vec<_> = [0, 2, 4].map(bring).into_iter().collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(flushed(&dir), [2], "{brought:?}");
        assert!(brought.iter().any(|found| found[0] == Scavenged::Complete(2)), "{brought:?}");
    }
}

#[test]
fn nodes_that_have_one_directory_are_refused() {
    let dir = Dir::new();
    for result in Threads::run(Threads::on_nodes(&NODES), |comm| {
        let options = on_node(&dir, 0, |_| {});
        Session::open(comm, &dir.join("sets"), Ok((engine(1), options))).map(drop)
    }) {
        let error = result.unwrap_err().to_string();
        // Where the file system has locks these say so.
        assert!(
            error.contains("several nodes have one directory") || error.contains("writes its sets there"),
            "{error}"
        );
    }
}

#[test]
fn ranks_that_are_told_other_things_all_learn_of_it() {
    let dir = Dir::new();
    let results = Threads::run(Threads::on_nodes(&NODES), |comm| {
        let rank = comm.rank();
        open(&dir, comm, |levels| levels.local_keep = 2 + rank / 3).map(drop)
    });
    for result in results {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("options of levels are not those of rank 0"), "{error}");
    }
}

#[test]
fn a_node_without_a_disk_is_an_error_on_all_ranks() {
    let dir = Dir::new();
    std::fs::write(local(&dir, 2), b"no directory").unwrap();
    for result in Threads::run(Threads::on_nodes(&NODES), |comm| open(&dir, comm, |_| {}).map(drop)) {
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::Write && error.to_string().contains("node-2"), "{error}");
    }
}
