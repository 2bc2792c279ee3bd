//! How fast a directory takes and gives bytes, and what would become of them: what is to be known of a tier before it is used.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::counters::Space;
use crate::space::left_in;
use crate::tier::Reach;

/// Bytes that are written at a time.
const PIECE: usize = 4 << 20;
/// Writing ends after so long, or so many bytes: caches of devices take much before they show how slow they are.
const LONG: Duration = Duration::from_secs(2);
const MOST: u64 = 1 << 30;
/// The part of what is free that a measurement may take.
const PART: u64 = 20;
/// Synced writes of a small record.
const RECORDS: usize = 15;

/// What was measured of a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Bytes a second that are written and synced.
    pub write: f64,
    /// Bytes a second that are read; of a network or a device where the system can be made to forget what it has.
    pub read: f64,
    /// Seconds until 4 KiB are synced, the median.
    pub sync: f64,
    /// What is left there for this user.
    pub left: Space,
    /// The kind of file system, as mount(8) calls it, and who reaches it.
    pub kind: &'static str,
    /// The same, of files.
    pub reach: Reach,
    /// Files are gone after a restart.
    pub is_memory: bool,
}

/// Kinds of file systems by the numbers of statfs(2) and of the headers of Lustre, GPFS, BeeGFS and OrangeFS.
const KINDS: [(u32, &str, Reach); 18] = [
    (0x0102_1994, "tmpfs", Reach::Node),
    (0x8584_58F6, "ramfs", Reach::Node),
    (0xEF53, "ext4", Reach::Node),
    (0x5846_5342, "xfs", Reach::Node),
    (0x9123_683E, "btrfs", Reach::Node),
    (0x2FC1_2FC1, "zfs", Reach::Node),
    (0xF2F5_2010, "f2fs", Reach::Node),
    (0x794C_7630, "overlay", Reach::Node),
    (0x6969, "nfs", Reach::AllNodes),
    (0x0BD0_0BD0, "lustre", Reach::AllNodes),
    (0x4750_4653, "gpfs", Reach::AllNodes),
    (0x1983_0326, "beegfs", Reach::AllNodes),
    (0x00C3_6400, "ceph", Reach::AllNodes),
    (0x2003_0528, "pvfs2", Reach::AllNodes),
    (0x0102_1997, "9p", Reach::AllNodes),
    (0xFF53_4D42, "cifs", Reach::AllNodes),
    (0xFE53_4D42, "smb2", Reach::AllNodes),
    (0x6573_5546, "fuse", Reach::AllNodes),
];

/// Measures the directory, for a few seconds. What is written there is removed.
///
/// # Errors
/// Those of the file system; `StorageFull` if there is hardly anything left.
pub fn measure(directory: &Path) -> io::Result<Measured> {
    let left = left_in(directory);
    let most = (left.bytes / PART).min(MOST);
    if most < PIECE as u64 || left.inodes == 0 {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "too little is left there to measure it"));
    }
    let path = directory.join(format!(".knarr-measure-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    // It goes with its descriptor.
    fs::remove_file(&path)?;
    let number = rustix::fs::fstatfs(&file).ok().and_then(|found| u32::try_from(found.f_type).ok());
    let found = KINDS.iter().find(|(known, ..)| Some(*known) == number);
    let (kind, reach) = found.map_or(("unknown", Reach::Node), |(_, kind, reach)| (*kind, *reach));
    let (bytes, write) = timed_write(&file, most)?;
    let read = timed_read(&file, bytes)?;
    let sync = timed_sync(&file)?;
    Ok(Measured { write, read, sync, left, kind, reach, is_memory: matches!(kind, "tmpfs" | "ramfs") })
}

/// Writes up to so many bytes, which no device can make smaller, and syncs them. Returns how many, and how many in a second.
fn timed_write(file: &File, most: u64) -> io::Result<(u64, f64)> {
    let mut piece = noise();
    let (begin, mut at) = (Instant::now(), 0);
    while at + PIECE as u64 <= most && begin.elapsed() < LONG {
        // No two pieces are equal.
        piece.iter_mut().step_by(512).for_each(|byte| *byte = byte.wrapping_add(1));
        file.write_all_at(&piece, at)?;
        at += PIECE as u64;
    }
    file.sync_data()?;
    Ok((at, at as f64 / begin.elapsed().as_secs_f64()))
}

fn timed_read(file: &File, bytes: u64) -> io::Result<f64> {
    // It is advice: where it is not heeded, memory is measured.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let (begin, mut at, mut piece) = (Instant::now(), 0, vec![0; PIECE]);
    while at < bytes && begin.elapsed() < LONG {
        file.read_exact_at(&mut piece, at)?;
        at += PIECE as u64;
    }
    Ok(at as f64 / begin.elapsed().as_secs_f64())
}

fn timed_sync(file: &File) -> io::Result<f64> {
    let mut times = Vec::with_capacity(RECORDS);
    for number in 0..RECORDS {
        let begin = Instant::now();
        file.write_all_at(&[1; 4096], number as u64 * 4096)?;
        file.sync_data()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(RECORDS / 2).copied().unwrap_or_default())
}

/// A piece without structure.
fn noise() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).take(PIECE / 8).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_and_nothing_stays() {
        let directory = Path::new("/dev/shm").join(format!("knarr-measured-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let measured = measure(&directory).unwrap();
        assert!(measured.write > 1e6 && measured.read > 1e6 && measured.sync < 1.0, "{measured:?}");
        assert!(measured.is_memory && measured.kind == "tmpfs" && measured.reach == Reach::Node);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(&directory).unwrap();
        assert_eq!(measure(&directory).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
