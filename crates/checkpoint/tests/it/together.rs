//! Sets that several processes pack are those of one, and the error of one is that of all.

use std::path::Path;

use knarr_array::comm::{Comm, Solo, Threads};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::layout::FileLayout;
use knarr_checkpoint::{Group, Grouping, PackOptions, Packed, Part, Set, Together, deal};
use knarr_flow::engine::Silent;

use crate::common::{Dir, Files, bytes, engine, program, quick};

/// What a process does before it packs.
type Before<'a> = &'a (dyn Fn(&Threads) -> Result<()> + Sync);

/// Every process names the files of some ranks, and packs its groups in a thread that has no communicator.
fn pack_by(
    files: &Files,
    nodes: &[usize],
    target: &Path,
    (options, grouping): (&PackOptions, Grouping),
    before: Before<'_>,
) -> Vec<Result<Option<Packed>>> {
    Threads::run(Threads::on_nodes(nodes), |comm| {
        let mut own = files.members();
        own.retain(|member| member.rank % comm.size() == comm.rank());
        let groups = deal(&comm, &own, grouping, options.group_size)?;
        let together = Together::begin(&engine(1), &comm, target, options)?;
        let find = |path: &Path| Ok(files.layouts[path].clone());
        let pack = |groups: &[Group]| together.pack_groups(groups, &find, &Silent);
        let part =
            before(&comm).and_then(|()| std::thread::scope(|scope| scope.spawn(|| pack(&groups)).join().unwrap()));
        together.finish(&comm, part)
    })
}

const NOTHING: Before<'static> = &|_| Ok(());

#[test]
fn any_number_of_processes_makes_the_same_bytes() {
    let dir = Dir::new();
    let mut files = program(&dir, 11, 11);
    let options = |base: Option<&str>| PackOptions { group_size: 3, base: base.map(|base| dir.join(base)), ..quick() };
    files.pack(&engine(2), &dir.join("one"), &options(None)).unwrap();
    // For the second set some files are as before, some changed, and groups use each other's earlier content.
    for rank in [1, 4, 5] {
        let (input, other) = (files.inputs[rank].clone(), files.inputs[rank + 5].clone());
        let layout = files.layouts[&other.path].clone();
        std::fs::copy(&other.path, &input.path).unwrap();
        files.layouts.insert(input.path, layout);
    }
    let noise: Vec<u8> = (0..200_000u64).map(|i| ((i * i) >> 7).to_le_bytes()[0]).collect();
    std::fs::write(&files.inputs[8].path, &noise).unwrap();
    files.layouts.insert(files.inputs[8].path.clone(), FileLayout::opaque(noise.len() as u64));
    let first = files.pack(&engine(2), &dir.join("two"), &options(Some("one"))).unwrap();
    assert!(first.reused_bytes > 0 && first.repeated_bytes > 0);
    for processes in [1, 2, 3, 8] {
        for base in [None, Some("one")] {
            let single = format!("single-{}", base.unwrap_or("none"));
            if !dir.join(&single).exists() {
                files.pack(&engine(2), &dir.join(&single), &options(base)).unwrap();
            }
            let name = format!("by{processes}-{}", base.unwrap_or("none"));
            let how = (&options(base), Grouping::RankOrder);
            let packed = pack_by(&files, &vec![0; processes], &dir.join(&name), how, NOTHING);
            for (rank, packed) in packed.into_iter().enumerate() {
                let packed = packed.unwrap();
                assert_eq!(packed.is_some(), rank == 0);
                if let (Some(packed), Some(_)) = (packed, base) {
                    assert_eq!(
                        (packed.raw_bytes, packed.packed_bytes, packed.repeated_bytes, packed.reused_bytes),
                        (first.raw_bytes, first.packed_bytes, first.repeated_bytes, first.reused_bytes)
                    );
                }
            }
            assert!(bytes(&dir, &name) == bytes(&dir, &single), "{processes} processes, base {base:?}");
        }
    }
    // The earlier set may go.
    std::fs::remove_dir_all(dir.join("one")).unwrap();
    files.check(&engine(2), &dir.join("by8-one"), &dir);
}

/// What a group uses of the earlier set depends on no other group.
#[test]
fn damage_of_the_earlier_set_costs_its_group_alone() {
    let dir = Dir::new();
    let files = program(&dir, 6, 5);
    let options = PackOptions { group_size: 2, ..quick() };
    files.pack(&engine(2), &dir.join("one"), &options).unwrap();
    let options = PackOptions { base: Some(dir.join("one")), ..options };
    let whole = files.pack(&engine(2), &dir.join("whole"), &options).unwrap();
    let store = dir.names("one").into_iter().find(|name| name.starts_with("group-00001")).unwrap();
    let mut damaged = std::fs::read(dir.join("one").join(&store)).unwrap();
    // In every frame that is longer than that.
    damaged.iter_mut().skip(60).step_by(60).for_each(|byte| *byte ^= 0x10);
    // The file itself is that of the set above, too.
    std::fs::remove_file(dir.join("one").join(&store)).unwrap();
    std::fs::write(dir.join("one").join(&store), damaged).unwrap();
    let packed = files.pack(&engine(2), &dir.join("two"), &options).unwrap();
    assert!(packed.reused_bytes > 0 && packed.reused_bytes < whole.reused_bytes);
    assert!(!dir.names("two").contains(&store), "what is damaged is not taken over");
    let by_three = pack_by(&files, &[0; 3], &dir.join("three"), (&options, Grouping::RankOrder), NOTHING);
    by_three.into_iter().for_each(|packed| drop(packed.unwrap()));
    assert!(bytes(&dir, "three") == bytes(&dir, "two"));
    std::fs::remove_dir_all(dir.join("one")).unwrap();
    files.check(&engine(2), &dir.join("three"), &dir);
}

#[test]
fn groups_by_node_keep_the_numbers_of_ranks() {
    let dir = Dir::new();
    let files = program(&dir, 7, 3);
    let how = (&PackOptions { group_size: 2, ..quick() }, Grouping::Node);
    let packed = pack_by(&files, &[0, 1, 0], &dir.join("set"), how, NOTHING);
    packed.into_iter().for_each(|packed| drop(packed.unwrap()));
    let set = Set::open(&dir.join("set"), &engine(1).codecs).unwrap();
    // Ranks 0, 2, 3, 5, 6 are named on the first node, 1 and 4 on the second.
    let groups: Vec<usize> = set.manifest().ranks.iter().map(|rank| rank.group).collect();
    assert_eq!(groups, [0, 1, 0, 2, 1, 2, 3]);
    files.check(&engine(2), &dir.join("set"), &dir);
}

#[test]
fn the_error_of_one_process_is_that_of_all_and_nothing_is_left() {
    let dir = Dir::new();
    let files = program(&dir, 6, 7);
    let options = PackOptions { group_size: 1, force: true, ..quick() };
    files.pack(&engine(2), &dir.join("sets").join("last"), &options).unwrap();
    let before = bytes(&dir, "sets/last");
    let missing = &|comm: &Threads| match comm.rank() {
        1 => std::fs::remove_file(&files.inputs[2].path).map_err(|error| Error::read(&files.inputs[2].path, &error)),
        _ => Ok(()),
    };
    let stopped = &|comm: &Threads| match comm.rank() {
        2 => Err(Error::usage("no more")),
        _ => Ok(()),
    };
    let gone = &|comm: &Threads| match comm.rank() {
        2 => std::panic::resume_unwind(Box::new("gone")),
        _ => Ok(()),
    };
    let cases: [(Before<'_>, ErrorKind, &str); 3] = [
        (stopped, ErrorKind::Usage, "rank 2 of 3: no more"),
        (gone, ErrorKind::Interrupted, "rank 2 of 3 is gone"),
        (missing, ErrorKind::NotFound, "rank 1 of 3: "),
    ];
    for (before_packing, kind, says) in cases {
        let how = (&options, Grouping::RankOrder);
        let packed = pack_by(&files, &[0; 3], &dir.join("sets").join("last"), how, before_packing);
        for (rank, packed) in packed.into_iter().enumerate() {
            let error = packed.unwrap_err();
            if rank == 2 && kind == ErrorKind::Interrupted {
                continue;
            }
            assert_eq!(error.kind(), kind, "{error}");
            // Who waits for rank 0, which left because another one did, names rank 0.
            assert!(error.to_string().contains(says) || kind == ErrorKind::Interrupted, "{error}");
        }
        assert_eq!(dir.names("sets"), ["last"]);
        assert!(bytes(&dir, "sets/last") == before);
    }
}

#[test]
fn processes_that_do_not_ask_for_the_same_are_refused() {
    let dir = Dir::new();
    let files = program(&dir, 4, 2);
    let refused = |options: &(dyn Fn(usize) -> PackOptions + Sync), own: &(dyn Fn(usize, usize) -> bool + Sync)| {
        let packed = Threads::run(Threads::new(2), |comm| {
            let mut members = files.members();
            members.retain(|member| own(comm.rank(), member.rank));
            let options = options(comm.rank());
            let groups = deal(&comm, &members, Grouping::RankOrder, options.group_size)?;
            let together = Together::begin(&engine(1), &comm, &dir.join("set"), &options)?;
            let find = |path: &Path| Ok(files.layouts[path].clone());
            let part = together.pack_groups(&groups, &find, &Silent);
            together.finish(&comm, part)
        });
        assert_eq!(dir.names(""), ["in"]);
        packed.into_iter().map(|packed| packed.unwrap_err().to_string()).collect::<Vec<_>>()
    };
    let same = |_| quick();
    for (found, says) in [
        (refused(&|rank| PackOptions { verify: rank == 0, ..quick() }, &|rank, _| rank == 0), "those of rank 0"),
        (refused(&same, &|_, _| false), "no files to pack"),
        (refused(&same, &|_, _| true), "rank 0 has two files"),
        (refused(&same, &|process, rank| process == 0 && rank != 2), "no file of rank 2"),
    ] {
        assert!(found.iter().all(|error| error.contains(says)), "{found:?}");
    }
}

#[test]
fn groups_that_are_missing_or_packed_twice_are_noticed() {
    let dir = Dir::new();
    let files = program(&dir, 4, 2);
    let options = PackOptions { group_size: 2, ..quick() };
    let all = deal(&Solo, &files.members(), Grouping::RankOrder, 2).unwrap();
    let moved = Group { number: 1, members: all[0].members.clone() };
    for groups in [&[all[1].clone()][..], &[all[0].clone(), moved], &[]] {
        let together = Together::begin(&engine(1), &Solo, &dir.join("set"), &options).unwrap();
        let part = together.pack_groups(groups, &|path| Ok(files.layouts[path].clone()), &Silent);
        let error = together.finish(&Solo, part).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Usage), "{error}");
        assert_eq!(dir.names(""), ["in"]);
    }
}

#[test]
fn a_part_can_be_made_by_another_thread() {
    fn crosses<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    crosses::<Result<Part>>();
    is_shared::<Together>();
}
