//! What a tier has to do, whatever it is.

use std::fs::metadata;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use knarr_tier::{Purpose, Room, Space, Tier};

/// Bytes of a block, as no file system has longer ones.
const BLOCK: u64 = 1 << 16;

/// Checks an empty tier whose files lie in `directory`. It may hold 8 MiB and three files.
///
/// # Panics
/// If it does not do what it has to.
#[expect(clippy::unwrap_used, reason = "test code")]
pub fn tier_suite(tier: &Arc<dyn Tier>, directory: &Path) {
    let account = tier.account();
    let limit = account.limit();
    assert_eq!((limit, account.taken()), (Space { bytes: 8 << 20, inodes: 3 }, Space::default()));
    assert!(tier.left().bytes > 0 && tier.left().inodes > 0);
    let path = directory.join("values");
    let mut file = tier.create(&path, Purpose::Values).unwrap();
    assert_eq!(account.taken().inodes, 1);

    // What was written is there, in any order.
    let values: Vec<u8> = (0..3 * BLOCK).map(|byte| (byte % 251).to_le_bytes()[0]).collect();
    let (first, rest) = values.split_at(100_000);
    file.write_all_at(rest, first.len() as u64).unwrap();
    file.write_all_at(first, 0).unwrap();
    file.write_all_at(&[7], 5).unwrap();
    let mut found = vec![0; values.len()];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found[5] == 7 && found[..5] == values[..5] && found[6..] == values[6..]);
    assert_eq!(file.read_exact_at(&mut [0; 2], file_length(&path) - 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    file.sync().unwrap();
    assert!(account.taken().bytes >= values.len() as u64 && file.takes() == account.taken().bytes);
    assert!(tier.counts(&metadata(&path).unwrap(), Purpose::Values) <= file.takes());
    assert!(account.bytes_per_second().is_some_and(|rate| rate > 0.0));

    // Another one who opens it sees the same bytes, and that its writer lives.
    file.lock().unwrap();
    let other = tier.open(&path, Purpose::Values).unwrap();
    other.read_exact_at(&mut found, 0).unwrap();
    assert!(found[6..] == values[6..]);
    assert!(std::fs::File::open(&path).unwrap().try_lock_shared().is_err());

    // Space is reserved as long as there is some, and a refusal leaves the file as it was.
    assert!(file.reserve(4 << 20));
    assert!(!file.reserve(limit.bytes + 1) && !file.reserve(u64::MAX));
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found[6..] == values[6..]);

    // A hole reads as zeros, and takes nothing.
    let before = account.taken().bytes;
    match file.punch(BLOCK, BLOCK) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
        Ok(()) => {
            file.read_exact_at(&mut found, 0).unwrap();
            let (from, to) = (usize::try_from(BLOCK).unwrap(), usize::try_from(2 * BLOCK).unwrap());
            assert!(found[from..to].iter().all(|&byte| byte == 0) && found[to..] == values[to..]);
            assert_eq!(account.taken().bytes, before - BLOCK);
            file.write_all_at(&values[from..to], BLOCK).unwrap();
            assert_eq!(
                (account.taken().bytes, file.takes()),
                (before, before),
                "what is written again is counted again"
            );
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found[6..] == values[6..]);
        }
    }

    // A shorter file takes less; what is written behind it later has zeros before it.
    file.set_len(10).unwrap();
    assert!(account.taken().bytes <= BLOCK);
    file.write_all_at(&[1], 20).unwrap();
    let mut end = [9; 11];
    file.read_exact_at(&mut end, 10).unwrap();
    assert_eq!(end, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    // Files are counted. A log is made in any case in memory, and is as long as what was written.
    let mut log = tier.create(&directory.join("log"), Purpose::Log).unwrap();
    log.write_all_at(b"record", 0).unwrap();
    assert_eq!(file_length(&directory.join("log")), 6);
    drop(tier.create(&directory.join("third"), Purpose::Values).unwrap());
    assert_eq!(tier.create(&directory.join("fourth"), Purpose::Values).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(!directory.join("fourth").exists());
    drop((file, other, log));
    for name in ["values", "log", "third"] {
        tier.free(&directory.join(name)).unwrap();
    }
    assert_eq!(account.taken(), Space::default());
    assert_eq!(tier.free(&path).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(account.taken(), Space::default());
    // What cannot be made takes nothing.
    tier.create(&directory.join("\0"), Purpose::Values).unwrap_err();
    assert_eq!(account.taken(), Space::default());
    room_suite(tier, directory);
}

/// Room for files that are not written through the tier.
#[expect(clippy::unwrap_used, reason = "test code")]
fn room_suite(tier: &Arc<dyn Tier>, directory: &Path) {
    let (account, path) = (tier.account(), directory.join("room"));
    let limit = account.limit();
    let room = Room::take(tier, limit.bytes - 5, 0).unwrap();
    assert_eq!(account.taken(), Space { bytes: limit.bytes - 5, inodes: 1 });
    assert!(Room::take(tier, 6, 0).is_none() && Room::take(tier, 5, u64::MAX).is_none());
    assert_eq!(account.taken(), Space { bytes: limit.bytes - 5, inodes: 1 }, "what is refused takes nothing");
    drop(room);
    assert_eq!(account.taken(), Space::default());
    // What the file takes is counted, be it more or less than was taken for it, and no more when it is removed.
    for taken in [0, 5 << 20] {
        let room = Room::take(tier, taken, 0).unwrap();
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        room.filled(&metadata(&path).unwrap());
        let counts = tier.counts(&metadata(&path).unwrap(), Purpose::Values);
        assert_eq!(account.taken(), Space { bytes: counts, inodes: 1 });
        assert!((1 << 20..(1 << 20) + BLOCK).contains(&counts));
        tier.free(&path).unwrap();
        assert_eq!(account.taken(), Space::default());
    }
    // What is left stays taken until somebody else gives it back.
    Room::take(tier, 77, 0).unwrap().leave();
    assert_eq!(account.taken(), Space { bytes: 77, inodes: 1 });
    drop(Room::taken(tier, 77));
    assert_eq!(account.taken(), Space::default());
}

fn file_length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}
