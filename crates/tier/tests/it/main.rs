//! All tiers pass one suite, and all accounts another one.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use knarr_testing::Faulty;
use knarr_testing::suites::{account_suite, tier_suite};
use knarr_tier::{
    Account, Bucket, Directory, NodeAccount, Purpose, Reach, SharedMemory, Space, Throttled, Tier, copy_file,
};

const LIMIT: Space = Space { bytes: 8 << 20, inodes: 3 };

/// An empty directory on a disk, or in memory where there is such a file system.
fn folder(name: &str, in_memory: bool) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if in_memory && memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = parent.join(format!("knarr-tier-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(SharedMemory::reusable(&folder)).unwrap();
    folder
}

fn memory(folder: &Path) -> SharedMemory {
    SharedMemory::new(folder, Account::of(LIMIT))
}

fn directory(folder: &Path) -> Directory {
    Directory::new(folder, Account::of(LIMIT), Reach::AllNodes)
}

#[test]
fn all_tiers_do_the_same() {
    for in_memory in [true, false] {
        let check = |name: &str, make: &dyn Fn(&Path) -> Arc<dyn Tier>| {
            let folder = folder(name, in_memory);
            tier_suite(&make(&folder), &folder);
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
            fs::remove_dir_all(folder).unwrap();
        };
        check("memory", &|folder| Arc::new(memory(folder)));
        check("directory", &|folder| Arc::new(directory(folder)));
        check("throttled", &|folder| {
            Arc::new(Throttled::new(memory(folder), Bucket::new(1e9, Account::of(Space::UNLIMITED))))
        });
        check("faulty", &|folder| Arc::new(Faulty::new(directory(folder)).0));
    }
}

#[test]
fn accounts_count_alike_whether_a_process_or_a_node_keeps_them() {
    let limit = Space { bytes: 1 << 20, inodes: 7 };
    account_suite(&Account::of(limit), limit);
    let path = std::env::temp_dir().join(format!("knarr-account-{}", std::process::id()));
    let first = NodeAccount::create(&path, &[Space::bytes(5), limit]).unwrap();
    account_suite(&first.tier(1), limit);
    assert!(first.tier(1).most_bytes() >= 1 << 20);
    // Processes that open it have the same account.
    let second = NodeAccount::open(&path).unwrap().tier(1);
    drop(first);
    let third = NodeAccount::open(&path).unwrap();
    assert!(second.take(Space { bytes: 1000, inodes: 1 }));
    assert_eq!((third.tier(1).taken(), third.tier(1).limit()), (Space { bytes: 1000, inodes: 1 }, limit));
    assert_eq!((third.tier(0).taken(), third.tier(0).limit()), (Space::default(), Space::bytes(5)));
    second.correct(Space::bytes(999), Space::default());
    assert_eq!(second.taken(), Space { bytes: 1000, inodes: 1 });
    second.correct(Space { bytes: 1000, inodes: 1 }, Space::bytes(7));
    assert_eq!(third.tier(1).taken(), Space::bytes(7));
    fs::remove_file(&path).unwrap();
    assert!(NodeAccount::open(&path).is_err());
    fs::write(&path, vec![0; 4096]).unwrap();
    assert!(NodeAccount::open(&path).is_err(), "an account that is being made");
    fs::remove_file(path).unwrap();
}

#[test]
fn generations_grow() {
    let path = std::env::temp_dir().join(format!("knarr-generations-{}", std::process::id()));
    let account = NodeAccount::create(&path, &[]).unwrap();
    let first = account.next_generation(0);
    let second = account.next_generation(first + 1_000_000_000_000);
    let third = account.next_generation(0);
    assert!(first < second && second < third && second > first + 1_000_000_000_000);
    fs::remove_file(path).unwrap();
}

#[test]
fn what_files_in_memory_take_is_what_they_are_long() {
    let folder = folder("taken", true);
    let memory = SharedMemory::new(&folder, Account::of(Space { bytes: 1 << 20, inodes: 9 }));
    let taken = || memory.account().taken().bytes;
    let mut first = memory.create(&folder.join("a"), Purpose::Values).unwrap();
    assert!(first.reserve(10) && taken() == 1 << 16 && first.takes() == 1 << 16);
    assert!(first.reserve((1 << 16) + 1));
    let mut second = memory.create(&folder.join("b"), Purpose::Values).unwrap();
    assert!(!second.reserve(1 << 20), "the other one has some of it");
    assert!(second.reserve((1 << 20) - taken()), "all that is left, and nothing ahead");
    assert_eq!(taken(), 1 << 20);
    second.set_len(1000).unwrap();
    first.set_len(5).unwrap();
    assert_eq!(taken(), 1005);
    assert_eq!(fs::metadata(folder.join("b")).unwrap().len(), 1000);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_largest_unused_file_is_used_again_and_others_make_room() {
    let folder = folder("reused", true);
    let memory = SharedMemory::new(&folder, Account::of(Space { bytes: 5000, inodes: 9 }));
    let unused = SharedMemory::reusable(&folder);
    for (name, length) in [("a", 10u64), ("b", 4000), ("c", 100)] {
        let path = folder.join(name);
        fs::File::create(&path).unwrap().set_len(length).unwrap();
        SharedMemory::reuse(&folder, &path, Path::new(name)).unwrap();
        assert!(memory.account().take(Space { bytes: length, inodes: 1 }));
    }
    let mut values = memory.create(&folder.join("values"), Purpose::Values).unwrap();
    assert!(!unused.join("b").exists() && values.takes() == 4000);
    assert!(values.reserve(4900), "there are 890 bytes more, and 100 of a file that is not used");
    assert!(unused.join("a").exists() && !unused.join("c").exists());
    assert!(values.reserve(4990) && memory.account().taken() == Space { bytes: 5000, inodes: 2 });
    assert!(values.reserve(5000) && !values.reserve(5001) && !unused.join("a").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_written_is_in_the_file_whatever_its_length_was() {
    for in_memory in [true, false] {
        let folder = folder("lengths", in_memory);
        let memory = SharedMemory::new(&folder, Account::of(Space::UNLIMITED));
        let mut file = memory.create(&folder.join("values"), Purpose::Values).unwrap();
        // Longer, shorter and longer than what is mapped at first.
        for (step, length) in [(1u8, 100_000usize), (2, 3_000), (3, 5_000_000), (4, 70 << 20)] {
            let values: Vec<u8> = (0..=250u8).cycle().take(length).map(|byte| byte ^ step).collect();
            let (first, rest) = values.split_at(length / 3);
            file.write_all_at(first, 0).unwrap();
            file.write_all_at(rest, first.len() as u64).unwrap();
            file.set_len(length as u64).unwrap();
            assert!(fs::read(folder.join("values")).unwrap() == values);
        }
        assert!(file.write_all_at(b"far", 1 << 60).is_err(), "no room is an error and no signal");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn tiers_that_share_a_bucket_share_a_device() {
    let folder = folder("slow", true);
    let page = folder.join("bucket");
    // As two processes have it.
    let mut buckets = [(); 2].map(|()| {
        let accounts = NodeAccount::open_or_create(&page, &[Space::UNLIMITED]).unwrap();
        Bucket::new(10e6, accounts.tier(0))
    });
    let tiers = [(); 2].map(|()| SharedMemory::new(&folder, Account::of(Space::UNLIMITED)));
    let mut bucket = buckets.iter_mut();
    let tiers = tiers.map(|tier| Throttled::new(tier, bucket.next().unwrap().clone()));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for (number, tier) in tiers.iter().enumerate() {
            let path = folder.join(format!("values-{number}"));
            scope.spawn(move || {
                let mut file = tier.create(&path, Purpose::Values).unwrap();
                for piece in 0..5 {
                    file.write_all_at(&[7; 100_000], piece * 100_000).unwrap();
                }
            });
        }
    });
    let took = begin.elapsed().as_secs_f64();
    assert!((0.1..1.0).contains(&took), "1 MB at 10 MB/s took {took} s");
    let rate = tiers[0].account().bytes_per_second().unwrap();
    assert!(rate < 11e6, "{rate}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_copy_that_fails_at_any_call_leaves_nothing() {
    let folder = folder("copies", false);
    let from = folder.join("from");
    let values: Vec<u8> = (0..=250u8).cycle().take(2_500_000).collect();
    fs::write(&from, &values).unwrap();
    let (tier, faults) = Faulty::new(directory(&folder));
    let mut failed = 0;
    loop {
        faults.fail_at(failed, 1);
        let to = folder.join("to");
        let copied = copy_file(&from, &tier, &to);
        if copied.is_ok() {
            assert!(fs::read(&to).unwrap() == values);
            break;
        }
        assert!(!to.exists() && tier.account().taken() == Space::default(), "call {failed}");
        failed += 1;
    }
    assert!(failed >= 6, "create, reserve, three writes, a length and a sync");
    fs::remove_dir_all(folder).unwrap();
}
