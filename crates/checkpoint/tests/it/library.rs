//! Programs that hand over arrays: what any number of ranks put, any other number reads.

#![allow(clippy::host_endian_bytes, reason = "memory as a program has it")]
#![allow(clippy::panic, reason = "tests report by panicking")]

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use knarr_array::array::{ArraySpec, ArrayView, DType};
use knarr_array::comm::{Comm, Solo, Threads};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_array::request::Share;
use knarr_checkpoint::library::{Options, Restart, Session};
use knarr_checkpoint::measured::{self, By};
use knarr_checkpoint::{PackOptions, Scheme, sets};
use knarr_handover::Resources;
use knarr_testing::data::Random;

use crate::common::{Dir, engine};

pub(crate) fn options(dir: &Dir) -> Options {
    // What is chosen does not matter here, only that it comes back.
    let pack = PackOptions { scheme: Scheme::Aware, goal: "speed".parse().unwrap(), ..PackOptions::default() };
    let resources = Resources { spool: Some(dir.join("")), jobs: 1, ..Resources::default() };
    Options { pack, resources, ..Options::default() }
}

fn open<C: Comm>(dir: &Dir, comm: C) -> Result<Session<C>> {
    Session::open(comm, &dir.join("sets"), Ok((engine(1), options(dir))))
}

/// The element at `index` of a global array, for each array another one.
fn element(seed: u64, index: &[u64]) -> f32 {
    let mixed = index.iter().fold(seed, |hash, &at| (hash ^ at).wrapping_mul(0x100_0000_01B3));
    (mixed % 4001) as f32 / 8.0
}

fn indices(region: &Region) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for (&start, &count) in region.start.iter().zip(&region.count) {
        all = all.iter().flat_map(|index| (start..start + count).map(move |at| [&index[..], &[at]].concat())).collect();
    }
    all
}

fn values(seed: u64, region: &Region) -> Vec<u8> {
    indices(region).iter().flat_map(|index| element(seed, index).to_ne_bytes()).collect()
}

pub(crate) fn put<C: Comm>(
    session: &mut Session<C>,
    name: &str,
    bytes: &[u8],
    dtype: DType,
    share: Share,
) -> Result<()> {
    let shape: Vec<usize> = share.count().iter().map(|&n| usize::try_from(n).unwrap()).collect();
    let spec = ArraySpec { endian: native(), ..ArraySpec::new(dtype, shape) };
    session.put(name, &ArrayView::new(&spec, bytes)?, share)
}

fn native() -> knarr_array::array::Endian {
    if cfg!(target_endian = "big") { knarr_array::array::Endian::Big } else { knarr_array::array::Endian::Little }
}

pub(crate) fn put_region<C: Comm>(session: &mut Session<C>, seed: u64, shape: &[u64], region: &Region) -> Result<()> {
    let share = Share::Global { shape: shape.to_vec(), region: region.clone() };
    put(session, &format!("field {seed}"), &values(seed, region), DType::F32, share)
}

pub(crate) fn check_region(restart: &Restart, seed: u64, region: &Region) -> Result<()> {
    let wanted = values(seed, region);
    let mut found = vec![0xAA; wanted.len()];
    restart.read(&format!("field {seed}"), region, &mut found)?;
    assert!(found == wanted, "array {seed}, {region:?}");
    Ok(())
}

/// Cuts a region into others, at random places along random axes.
fn divide(region: Region, parts: usize, random: &mut Random) -> Vec<Region> {
    let mut regions = vec![region];
    for _ in 1..parts {
        let whole = regions.swap_remove(random.below(regions.len()));
        let axis = random.below(whole.count.len().max(1));
        let Some(&extent) = whole.count.get(axis) else {
            // A scalar has no parts: others get a region of nothing of something else.
            regions.push(whole);
            continue;
        };
        let cut = random.below(usize::try_from(extent).unwrap() + 1) as u64;
        let (mut low, mut high) = (whole.clone(), whole);
        low.count[axis] = cut;
        high.start[axis] += cut;
        high.count[axis] -= cut;
        regions.extend([low, high]);
    }
    regions
}

/// All that failed, or the values.
pub(crate) fn all<T>(results: Vec<Result<T>>) -> Vec<T> {
    results.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn any_decomposition_is_read_by_any_other() {
    for seed in 0..12 {
        let dir = Dir::new();
        let mut random = Random::new(seed);
        let shapes: Vec<Vec<u64>> = (0..3)
            .map(|_| (0..random.below(4)).map(|_| 1 + random.below(40) as u64).collect())
            .chain([vec![3, 200, 300], vec![70_000]])
            .collect();
        let ranks = 1 + random.below(8);
        let written: Vec<Vec<Region>> =
            shapes.iter().map(|shape| divide(Region::whole(shape), ranks, &mut random)).collect();
        all(Threads::run(Threads::on_nodes(&vec![0; ranks]), |comm| {
            let rank = comm.rank();
            let mut session = open(&dir, comm)?;
            session.begin(seed)?;
            for (number, (shape, regions)) in shapes.iter().zip(&written).enumerate() {
                // Ranks take turns, so that some have several regions and some none.
                let mine = regions.iter().enumerate().filter(|(at, _)| (at / 2 + number) % ranks == rank);
                mine.map(|(_, region)| region)
                    .try_for_each(|region| put_region(&mut session, number as u64, shape, region))?;
            }
            session.commit()?;
            session.close()
        }));
        let readers = 1 + random.below(8);
        let read: Vec<Vec<Region>> =
            shapes.iter().map(|shape| divide(Region::whole(shape), readers, &mut random)).collect();
        all(Threads::run(Threads::new(readers), |comm| {
            let rank = comm.rank();
            let restart = open(&dir, comm)?.restart(None, rank == 0)?.unwrap();
            assert_eq!((restart.step(), restart.ranks()), (seed, ranks as u64));
            for (number, regions) in read.iter().enumerate() {
                regions.get(rank).map_or(Ok(()), |region| check_region(&restart, number as u64, region))?;
                check_region(&restart, number as u64, &Region::whole(&shapes[number]))?;
            }
            Ok(())
        }));
    }
}

#[test]
fn ranks_have_arrays_and_files_of_their_own() {
    let dir = Dir::new();
    let write = |rank: u64| format!("file of {rank}").repeat(1000);
    all(Threads::run(Threads::on_nodes(&[0, 0, 2]), |comm| {
        let rank = comm.rank() as u64;
        let path = dir.join(&format!("restart_{rank}.dat"));
        std::fs::write(&path, write(rank)).unwrap();
        let mut session = open(&dir, comm)?;
        session.begin(7)?;
        let state: Vec<u8> = (0..8 * (rank + 1)).map(|byte| u8::try_from(byte + rank).unwrap()).collect();
        put(&mut session, "state", &state, DType::U64, Share::Own(vec![rank + 1]))?;
        session.add_file(&path, "model/restart.dat")?;
        session.commit()?;
        session.wait()?;
        assert_eq!(session.last().map(|set| set.step), Some(7));
        let restart = session.restart(Some(7), true)?.unwrap();
        assert_eq!(restart.own_shape("state", rank)?, [rank + 1]);
        let mut found = vec![0; state.len()];
        restart.read_own("state", rank, &mut found)?;
        assert_eq!(found, state);
        let out = dir.join(&format!("out-{rank}"));
        assert_eq!(restart.restore_files(&out, (rank, 3), false)?, [out.join("model/restart.dat")]);
        assert_eq!(std::fs::read_to_string(out.join("model/restart.dat")).unwrap(), write(rank));
        assert_eq!(restart.restore_files(&out, (rank, 3), false).unwrap_err().kind(), ErrorKind::Exists);
        session.close()
    }));
    let restart = open(&dir, Solo).unwrap().restart(None, false).unwrap().unwrap();
    let error = restart.read_own("state", 3, &mut []).unwrap_err();
    assert!(error.to_string().contains("made on 3 ranks"), "{error}");
    let error = restart.restore_files(&dir.join("out"), (0, 1), false).unwrap_err();
    assert!(error.to_string().contains("1 ranks ask for the files of 3"), "{error}");
}

#[test]
fn a_step_is_given_up_by_all_ranks_if_one_fails_and_the_last_set_stays() {
    let dir = Dir::new();
    let results = Threads::run(Threads::new(3), |comm| {
        let rank = comm.rank() as u64;
        let mut session = open(&dir, comm)?;
        let region = Region::new([rank * 10], [10]);
        session.begin(1)?;
        put_region(&mut session, 0, &[30], &region)?;
        session.commit()?;
        // The program writes on while the first step is packed; the second one waits for it.
        session.begin(2)?;
        put_region(&mut session, 0, &[30], &region)?;
        if rank == 1 {
            put_region(&mut session, 0, &[30], &Region::new([25], [10])).unwrap_err();
        }
        let error = session.commit().unwrap_err();
        assert!(error.to_string().contains("rank 1 of 3: array 'field 0'"), "{error}");
        // A type that differs.
        session.begin(3)?;
        let dtype = if rank == 2 { DType::I32 } else { DType::F32 };
        put(&mut session, "a", &[0; 40], dtype, Share::Global { shape: vec![30], region: region.clone() })?;
        let error = session.commit().unwrap_err();
        assert!(error.to_string().contains("array 'a' is f32"), "{error}");
        // A file that goes away while it is packed.
        session.begin(4)?;
        let path = dir.join(&format!("lost-{rank}"));
        std::fs::write(&path, [1; 100]).unwrap();
        session.add_file(&path, "lost")?;
        if rank == 2 {
            std::fs::remove_file(&path).unwrap();
        }
        session.commit()?;
        let error = session.wait().unwrap_err();
        assert!(error.to_string().contains("lost-2"), "{error}");
        session.begin(5)?;
        put_region(&mut session, 0, &[30], &region)?;
        session.commit()?;
        while !session.test()? {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        session.close()
    });
    all(results);
    assert_eq!(dir.names("sets"), ["step_1", "step_5"]);
}

#[test]
fn ranks_that_do_different_things_all_learn_of_it() {
    let dir = Dir::new();
    let results = Threads::run(Threads::new(3), |comm| {
        let rank = comm.rank();
        let mut session = open(&dir, comm)?;
        session.begin(1)?;
        put_region(&mut session, 0, &[1], &Region::new([0], [1]))?;
        // Rank 1 never delivers.
        let error = if rank == 1 { session.wait() } else { session.commit() }.unwrap_err();
        assert!(error.to_string().contains("rank 1 calls wait, rank 0 commit"), "{error}");
        assert!(session.begin(2).is_err());
        Ok(())
    });
    all(results);
    let results = Threads::run(Threads::new(2), |comm| {
        let rank = comm.rank() as u64;
        let mut session = open(&dir, comm)?;
        session.begin(10 + rank)
    });
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.message().contains("step 11"))));
    // A rank that is gone.
    let results = Threads::run(Threads::new(2), |comm| {
        let rank = comm.rank();
        let mut session = open(&dir, comm)?;
        session.begin(20)?;
        if rank == 1 { Err(Error::usage("enough")) } else { session.commit() }
    });
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(dir.names("sets").is_empty());
}

#[test]
fn an_option_that_one_rank_gets_wrong_is_an_error_on_all() {
    let dir = Dir::new();
    let results = Threads::run(Threads::new(3), |comm| {
        let mut made = options(&dir);
        let set = if comm.rank() == 1 { made.set("keep", "0") } else { Ok(()) };
        Session::open(comm, &dir.join("sets"), set.map(|()| (engine(1), made))).map(drop)
    });
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.to_string().contains("keep=0"))));
}

fn checkpoint(dir: &Dir, options: Options, steps: std::ops::Range<u64>) -> Vec<Error> {
    let mut session = Session::open(Solo, &dir.join("sets"), Ok((engine(2), options))).unwrap();
    for step in steps {
        session.begin(step).unwrap();
        put_region(&mut session, step, &[50, 60], &Region::whole(&[50, 60])).unwrap();
        session.commit().unwrap();
    }
    session.wait().unwrap();
    let warnings = session.take_warnings();
    session.close().unwrap();
    warnings
}

#[test]
fn old_sets_go_and_steps_that_are_there_are_not_replaced_unawares() {
    let dir = Dir::new();
    assert!(checkpoint(&dir, Options { keep: Some(2), ..options(&dir) }, 8..12).is_empty());
    assert_eq!(dir.names("sets"), ["step_10", "step_11"]);
    let mut session = open(&dir, Solo).unwrap();
    let error = session.begin(11).unwrap_err();
    assert!(error.kind() == ErrorKind::Exists && error.to_string().contains("step 11"), "{error}");
    // One program at a time.
    session.begin(12).unwrap();
    let error = open(&dir, Solo).unwrap().begin(13).unwrap_err();
    assert!(error.to_string().contains("a program that makes checkpoints"), "{error}");
    drop(session);
    let replacing = Options { pack: PackOptions { force: true, ..options(&dir).pack }, ..options(&dir) };
    checkpoint(&dir, replacing, 10..11);
    let restart = open(&dir, Solo).unwrap().restart(None, false).unwrap().unwrap();
    assert_eq!(restart.step(), 10);
    let error = open(&dir, Solo).unwrap().restart(Some(9), false).err().unwrap();
    assert!(error.to_string().contains("has those of steps: 11, 10"), "{error}");
    assert!(
        Session::open(Solo, &dir.join("sets"), Ok((engine(1), Options { keep: Some(0), ..options(&dir) }))).is_err()
    );
}

/// One line for each step and restart, of rank 0, however many ranks there are.
#[test]
fn what_calls_take_is_noted_beside_the_sets() {
    const NAP: Duration = Duration::from_millis(40);
    let dir = Dir::new();
    let whole = Region::whole(&[3, 30]);
    let begin = Instant::now();
    all(Threads::run(Threads::on_nodes(&[0, 0, 0]), |comm| {
        let rank = comm.rank() as u64;
        let mut session = open(&dir, comm)?;
        let mine = Region::new([rank, 0], [1, 30]);
        for step in 1..4 {
            session.begin(step)?;
            put_region(&mut session, 9, &whole.count, &mine)?;
            session.commit()?;
            // The program computes.
            std::thread::sleep(NAP);
            session.wait()?;
        }
        let restart = session.restart(Some(2), false)?.unwrap();
        check_region(&restart, 9, &whole)?;
        session.close()
    }));
    let passed = begin.elapsed().as_secs_f64();
    let measured = measured::read(&dir.join("sets")).unwrap();
    assert!(measured.iter().all(|one| one.by == By::Library), "{measured:?}");
    let stopped: Vec<f64> = measured.iter().filter_map(|one| one.stopped_s).collect();
    assert!(stopped.len() == 3 && stopped.iter().all(|&seconds| seconds > 0.0), "{measured:?}");
    assert!(stopped.iter().sum::<f64>() < passed - 3.0 * NAP.as_secs_f64(), "{measured:?} in {passed}");
    let restarts: Vec<f64> = measured.iter().filter_map(|one| one.restart_s).collect();
    assert!(restarts.len() == 1 && restarts[0] > 0.0 && restarts[0] < passed, "{measured:?}");
}

#[test]
fn the_newest_whole_set_is_found_and_damage_is_told() {
    let dir = Dir::new();
    checkpoint(&dir, options(&dir), 1..5);
    let damage = |path: &Path, place: usize| {
        let mut bytes = std::fs::read(path).unwrap();
        let place = place % bytes.len();
        bytes[place] ^= 4;
        std::fs::write(path, bytes).unwrap();
    };
    let store = |step: u64| {
        let set = sets::of_step(&dir.join("sets"), step);
        let mut files = std::fs::read_dir(set).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("group-")).unwrap()
    };
    damage(&dir.join("sets/step_4/manifest.knarr"), 50);
    damage(&dir.join("sets/step_4/manifest-copy.knarr"), 50);
    std::fs::remove_file(store(3)).unwrap();
    std::fs::create_dir(dir.join("sets/step_9")).unwrap();
    let mut session = open(&dir, Solo).unwrap();
    let restart = session.restart(None, false).unwrap().unwrap();
    assert_eq!(restart.step(), 2);
    let warnings: Vec<String> = session.take_warnings().iter().map(ToString::to_string).collect();
    assert!(warnings.len() == 2 && warnings[0].contains("step_4") && warnings[1].contains("step_3"), "{warnings:?}");
    // Damage among the values is found when they are read, or before if that is asked for.
    let path = store(2);
    let length = std::fs::metadata(&path).unwrap().len();
    damage(&path, usize::try_from(length / 2).unwrap());
    let restart = session.restart(Some(2), false).unwrap().unwrap();
    let error = check_region(&restart, 2, &Region::whole(&[50, 60])).unwrap_err();
    assert!(error.to_string().contains("array 'field 2'") && error.to_string().contains("step_2"), "{error}");
    assert_eq!(session.restart(None, true).unwrap().unwrap().step(), 1);
    for step in 1..5 {
        std::fs::remove_dir_all(sets::of_step(&dir.join("sets"), step)).unwrap();
    }
    assert!(session.restart(None, false).unwrap().is_none());
}

#[test]
fn reading_what_is_not_there_says_what_is() {
    let dir = Dir::new();
    let mut session = open(&dir, Solo).unwrap();
    session.begin(1).unwrap();
    put_region(&mut session, 0, &[10, 10], &Region::new([0, 0], [10, 4])).unwrap();
    put_region(&mut session, 0, &[10, 10], &Region::new([2, 3], [2, 7])).unwrap();
    put(&mut session, "own", &[1], DType::U8, Share::Own(vec![])).unwrap();
    session.commit().unwrap();
    let restart = session.restart(None, true).unwrap().unwrap();
    check_region(&restart, 0, &Region::new([2, 0], [2, 10])).unwrap();
    let error = check_region(&restart, 0, &Region::new([1, 0], [3, 10])).unwrap_err();
    assert!(error.to_string().contains("the region [1, 4] + [1, 6]"), "{error}");
    for (name, region) in [
        ("field 1", Region::new([0, 0], [1, 1])),
        ("field 0", Region::new([5, 0], [6, 1])),
        ("own", Region::new([], [])),
    ] {
        let error = restart.read(name, &region, &mut [0; 400]).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.advice().is_some(), "{error}");
    }
    assert!(restart.read("field 0", &Region::new([0, 0], [1, 1]), &mut [0; 5]).is_err());
    assert!(restart.read_own("field 0", 0, &mut [0; 5]).is_err());
    let mut one = [0];
    restart.read_own("own", 0, &mut one).unwrap();
    assert_eq!(one, [1]);
    let names: Vec<String> = restart.arrays().into_iter().map(|array| array.name).collect();
    assert_eq!(names, ["field 0", "own"]);
    session.close().unwrap();
    let mut session = open(&dir, Solo).unwrap();
    assert!(session.commit().is_err() && put_region(&mut session, 0, &[1], &Region::whole(&[1])).is_err());
    session.begin(2).unwrap();
    assert!(session.close().unwrap_err().to_string().contains("begun and not committed"));
}

#[test]
fn where_regions_overlap_the_highest_rank_counts() {
    let dir = Dir::new();
    let read = Mutex::new(Vec::new());
    all(Threads::run(Threads::new(3), |comm| {
        let rank = u8::try_from(comm.rank()).unwrap();
        let mut session = open(&dir, comm)?;
        session.begin(1)?;
        let region = Region::new([u64::from(rank)], [3]);
        put(&mut session, "a", &[rank; 3], DType::U8, Share::Global { shape: vec![5], region })?;
        session.commit()?;
        let restart = session.restart(None, false)?.unwrap();
        let mut found = vec![9; 5];
        restart.read("a", &Region::whole(&[5]), &mut found)?;
        read.lock().unwrap().push(found);
        session.close()
    }));
    assert_eq!(*read.lock().unwrap(), vec![vec![0, 1, 2, 2, 2]; 3]);
}
