//! What one rank puts into one file: a file of values, and a log that says what they are. `docs/format.md` describes both.
//!
//! An [`Index`](crate::Index) is written when a step is complete. A program that writes a file through its own library
//! says only at the end that it is complete, and may be killed before. So each put leaves a record of its own behind its
//! values, and whoever reads the log finds every put that was complete.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::adjoining::joined;
use crate::memory::{Memory, OpenMemory};
use crate::put::{MOST_BOXES, Put};
use crate::spill::Spill;
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::request::AXES;

/// First bytes of a log; the last one is the version.
const MAGIC: [u8; 8] = *b"KNARRPL\x02";
/// Bytes before the first record: behind the magic, the number of bytes of values that lie in the first file.
const BEGIN: usize = 16;
/// Bytes before the payload of a record: its length and its CRC-32C.
const HEAD: usize = 8;
/// Longest payload that can be: two numbers an axis for each box, one an axis for strides, and a few more.
const LONGEST: usize = 10 * (2 * AXES * (MOST_BOXES + 1) + AXES + 8);
/// Memory is taken in such steps: programs put many small values.
const STEP: u64 = 1 << 20;
/// Values begin at multiples of this.
const ALIGNMENT: u64 = 8;

/// Where the values of a rank may lie.
#[derive(Debug, Clone)]
pub struct Room {
    /// The files of the rank lie here, in memory.
    pub directory: PathBuf,
    /// Files of values that were of use before: one of them is taken, because its memory is there already.
    pub free: PathBuf,
    /// Bytes that the first file may have. Further values go to another one, which is on a disk.
    pub most: u64,
    /// Path of that other file.
    pub more: PathBuf,
}

/// Writes the puts of one rank into one file.
pub struct PutLog {
    room: Room,
    path: PathBuf,
    /// The first file of values, and how it is written.
    file: File,
    values: Box<dyn Memory>,
    /// Bytes of the first file that have memory.
    had: u64,
    /// Bytes of values that lie in the first file, at most.
    most: u64,
    more: Option<Box<Spill>>,
    log: File,
    /// First byte of the values that no put has, and of the log.
    end: u64,
    logged: u64,
}

impl PutLog {
    /// Makes the two files `values` and `log` in the directory. The first one is written by what `open` gives.
    ///
    /// # Errors
    /// `Write`.
    pub fn create(room: Room, values: &str, log: &str, open: OpenMemory) -> Result<Self> {
        let write_error = |error: io::Error| Error::write(&room.directory, &error);
        let path = room.directory.join(values);
        take_free(&room.free, &path);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(write_error)?;
        let had = file.metadata().map_err(write_error)?.len();
        let values = file.try_clone().and_then(open).map_err(write_error)?;
        let log = options.truncate(true).open(room.directory.join(log)).map_err(write_error)?;
        // Whoever waits for this rank knows by the lock that it lives.
        log.lock().map_err(write_error)?;
        let made =
            Self { path, file, values, had, most: room.most, more: None, log, end: 0, logged: BEGIN as u64, room };
        made.write_head()?;
        Ok(made)
    }

    /// True as long as the rank that writes the log at `path` lives and has the file open.
    pub fn is_held(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
    }

    fn write_head(&self) -> Result<()> {
        let head = [MAGIC, self.most.to_le_bytes()].concat();
        self.log.write_all_at(&head, 0).map_err(|error| self.write_error(&error))
    }

    /// Room for `bytes` bytes of values. Returns the offset of the first one.
    ///
    /// # Errors
    /// `Write` if there is none, neither in memory nor on the disk.
    pub fn reserve(&mut self, bytes: u64) -> Result<u64> {
        let offset = self.end.next_multiple_of(ALIGNMENT);
        let end = offset.saturating_add(bytes);
        if self.more.is_none() && end > self.had.min(self.most) && bytes > 0 {
            let ahead = end.checked_next_multiple_of(STEP).unwrap_or(end).min(self.most);
            // Where there is no memory ahead there may be enough for these.
            let fits = end <= self.most && (self.has(ahead)? || self.has(end)?);
            if !fits {
                self.most = offset;
                self.write_head()?;
                self.begin_more()?;
            }
        }
        self.end = offset.saturating_add(bytes);
        Ok(offset)
    }

    /// Gives the first file memory up to byte `end`. False if there is none.
    fn has(&mut self, end: u64) -> Result<bool> {
        self.allocate(end).map_err(|error| self.write_error(&error))
    }

    fn allocate(&mut self, end: u64) -> io::Result<bool> {
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&self.file, flags, self.had, end - self.had) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) => return Ok(false),
            // Where nothing can be had ahead, writing tells.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        self.had = end;
        Ok(true)
    }

    fn begin_more(&mut self) -> Result<()> {
        let more = &self.room.more;
        let spill = Spill::create(more, &self.path).map_err(|error| Error::write(more, &error))?;
        self.more = Some(Box::new(spill));
        Ok(())
    }

    /// Bytes of all values so far.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Copies values of a type to a place that [`PutLog::reserve`] gave. Those behind the first file may still be written when
    /// they are [pushed](PutLog::push).
    ///
    /// # Errors
    /// `Write`, for a full file system among others.
    pub fn write(&mut self, offset: u64, dtype: DType, values: &[u8]) -> Result<()> {
        match (&mut self.more, offset.checked_sub(self.most)) {
            (Some(more), Some(behind)) => {
                more.write(behind, dtype, values).map_err(|error| Error::write(&self.room.more, &error))
            }
            _ => self.values.write(offset, values).map_err(|error| Error::write(&self.room.directory, &error)),
        }
    }

    /// Adds puts whose values are all there. Those that adjoin become one.
    ///
    /// # Errors
    /// `Write`.
    pub fn push(&mut self, puts: &[Put]) -> Result<()> {
        if let Some(more) = &mut self.more {
            more.flush().map_err(|error| Error::write(&self.room.more, &error))?;
        }
        let mut records = Vec::with_capacity(64 * puts.len());
        for put in joined(puts, self.more.as_ref().map(|_| self.most)) {
            put.payloads(|payload| {
                records.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
                records.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
                records.extend_from_slice(payload);
            });
        }
        self.log.write_all_at(&records, self.logged).map_err(|error| self.write_error(&error))?;
        self.logged += records.len() as u64;
        Ok(())
    }

    fn write_error(&self, error: &io::Error) -> Error {
        Error::write(&self.room.directory, error)
    }
}

/// Takes the largest file of `free`, if there is one, as `path`.
fn take_free(free: &Path, path: &Path) {
    let entries = fs::read_dir(free).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path()))).collect();
    found.sort_unstable();
    // Others take them, too: each of them once.
    while let Some((_, one)) = found.pop() {
        if fs::rename(one, path).is_ok() {
            return;
        }
    }
}

/// The puts of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puts {
    /// Bytes of values that lie in the first file; those behind lie in the second one.
    pub first: u64,
    /// In their order.
    pub puts: Vec<Put>,
}

/// Reads the puts of a log, in their order. A last record that is not complete is left out: its writer was killed.
///
/// # Errors
/// `NotFound` or `Read`; `Corrupt` for what is no log, or a damaged one.
pub fn read_puts(path: &Path) -> Result<Puts> {
    let bytes = fs::read(path).map_err(|error| Error::read(path, &error))?;
    parse_puts(&bytes).map_err(|error| error.at(path.display().to_string()))
}

/// As [`read_puts`], from the bytes of a log.
///
/// # Errors
/// `Corrupt`.
pub fn parse_puts(bytes: &[u8]) -> Result<Puts> {
    let (first, records) = records(bytes)?;
    let puts = records.into_iter().map(|record| Put::parse(bytes.get(record).unwrap_or_default()));
    Ok(Puts { first, puts: puts.collect::<Result<_>>()? })
}

/// Bytes of values in the first file, and where in the bytes of a log the payload of each record is that is complete.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn records(bytes: &[u8]) -> Result<(u64, Vec<Range<usize>>)> {
    let head = bytes.strip_prefix(&MAGIC).and_then(|behind| behind.split_first_chunk::<8>());
    let Some((first, mut rest)) = head else {
        return Err(Error::corrupt("not a log of puts, or one of another version"));
    };
    let mut records = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > LONGEST {
            return Err(Error::corrupt("a record that is too long, in a log of puts"));
        }
        let Some((payload, next)) = behind.split_at_checked(length) else { break };
        if crc32c::crc32c(payload) != u32::from_le_bytes([e, f, g, h]) {
            return Err(Error::corrupt("a record has another checksum than it says, in a log of puts"));
        }
        let begin = bytes.len() - behind.len();
        records.push(begin..begin + length);
        rest = next;
    }
    Ok((u64::from_le_bytes(*first), records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::write_calls;
    use crate::spill::name_of_more;
    use knarr_array::error::ErrorKind;
    use knarr_array::region::{Region, Regions};

    fn put(order: u64, stride: &[u64]) -> Put {
        let boxes = Regions::from(&Region::new([order, 4], [2, 3]));
        Put { variable: 3, dtype: DType::F32, boxes, stride: stride.to_vec(), order, offset: 24 * order }
    }

    fn room(folder: &Path, most: u64) -> Room {
        Room { directory: folder.to_owned(), free: folder.join("free"), most, more: folder.join("disk/more") }
    }

    #[test]
    fn values_beyond_the_limit_go_to_a_second_file_and_files_are_used_again() {
        let folder = std::env::temp_dir().join(format!("knarr-puts-room-{}", std::process::id()));
        fs::create_dir_all(folder.join("free")).unwrap();
        for (name, length) in [("a", 10u64), ("b", 4000), ("c", 100)] {
            File::create(folder.join("free").join(name)).unwrap().set_len(length).unwrap();
        }
        let mut log = PutLog::create(room(&folder, 100), "values", "log", write_calls).unwrap();
        assert!(!folder.join("free/b").exists() && log.had == 4000);
        assert!(PutLog::is_held(&folder.join("log")) && !PutLog::is_held(&folder.join("values")));
        let offsets: Vec<u64> = [40, 40, 40, 8].map(|bytes| log.reserve(bytes).unwrap()).to_vec();
        assert_eq!(offsets, [0, 40, 80, 120]);
        assert_eq!(read_puts(&folder.join("log")).unwrap().first, 80);
        log.write(80, DType::U8, &[1; 40]).unwrap();
        log.write(120, DType::U8, &[2; 8]).unwrap();
        log.push(&[]).unwrap();
        let more = fs::read(name_of_more(&folder.join("values"))).unwrap();
        assert_eq!(more, [[1; 40].as_slice(), &[2; 8]].concat());
        drop(log);
        assert!(!PutLog::is_held(&folder.join("log")));
        fs::remove_dir_all(folder).unwrap();
    }

    fn written(puts: &[Put]) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("knarr-puts-{}-{:p}", std::process::id(), puts.as_ptr()));
        fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, u64::MAX), "values", "log", write_calls).unwrap();
        for put in puts {
            let offset = log.reserve(put.byte_len()).unwrap();
            log.write(offset, DType::F32, &[7; 24]).unwrap();
            assert_eq!(offset, put.offset);
            log.push(std::slice::from_ref(put)).unwrap();
        }
        assert_eq!(read_puts(&folder.join("log")).unwrap().puts, puts);
        let bytes = fs::read(folder.join("log")).unwrap();
        fs::remove_dir_all(folder).unwrap();
        bytes
    }

    #[test]
    fn a_log_ends_with_the_last_complete_put() {
        let puts = [put(0, &[]), put(1, &[1, 2]), put(2, &[])];
        let bytes = written(&puts);
        let mut complete = 0;
        for end in BEGIN..=bytes.len() {
            let found = parse_puts(&bytes[..end]).unwrap().puts;
            assert!(puts.starts_with(&found) && found.len() >= complete, "{end}");
            complete = found.len();
        }
        assert_eq!(complete, 3);
    }

    #[test]
    fn damage_is_noticed() {
        let bytes = written(&[put(0, &[3, 2]), put(1, &[])]);
        // A wrong number of bytes in the first file leads to values that are not there.
        for place in (0..MAGIC.len()).chain(BEGIN..bytes.len()) {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                // A length that leads beyond the end looks like a writer that was killed.
                let found = parse_puts(&damaged);
                assert!(found.is_err() || found.unwrap().puts.len() < 2, "byte {place}");
            }
        }
    }

    #[test]
    fn puts_that_cannot_be_are_refused() {
        let refuse = |change: fn(&mut Put)| {
            let mut put = put(0, &[2, 2]);
            change(&mut put);
            let mut payload = Vec::new();
            put.payloads(|bytes| payload.extend_from_slice(bytes));
            assert_eq!(Put::parse(&payload).unwrap_err().kind(), ErrorKind::Corrupt, "{put:?}");
        };
        refuse(|put| put.stride[0] = 0);
        fn of(start: [u64; 2], count: [u64; 2]) -> Regions {
            Regions::from(&Region::new(start, count))
        }
        refuse(|put| put.boxes = of([u64::MAX, 4], [2, 3]));
        refuse(|put| put.boxes = of([0, 4], [2, u64::MAX]));
        // Strides are those of one box.
        refuse(|put| put.boxes.push(&[0, 0], &[1, 1]));
        refuse(|put| put.stride[1] = u64::MAX);
        refuse(|put| put.offset = u64::MAX - 3);
    }

    #[test]
    fn strides_reach_as_far_as_their_last_element() {
        assert_eq!(put(1, &[3, 2]).extent(), Region::new([1, 4], [4, 5]));
        assert_eq!(put(1, &[]).extent(), Region::new([1, 4], [2, 3]));
    }

    #[test]
    fn a_put_of_very_many_boxes_becomes_records_that_follow_each_other() {
        let mut many = put(0, &[]);
        let len = 2 * MOST_BOXES as u64 + 5;
        (1..len).for_each(|n| many.boxes.push(&[2 * n, n % 3], &[1, 1 + n % 4]));
        let folder = std::env::temp_dir().join(format!("knarr-puts-many-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, u64::MAX), "values", "log", write_calls).unwrap();
        many.offset = log.reserve(many.byte_len()).unwrap();
        log.push(std::slice::from_ref(&many)).unwrap();
        let found = read_puts(&folder.join("log")).unwrap().puts;
        assert_eq!(found.iter().map(|put| put.boxes.len()).collect::<Vec<_>>(), [MOST_BOXES, MOST_BOXES, 5]);
        let boxes = |puts: &[Put]| -> Vec<(Vec<u64>, Vec<u64>)> {
            puts.iter().flat_map(|put| put.boxes.iter().map(|(a, b)| (a.to_vec(), b.to_vec()))).collect()
        };
        assert_eq!(boxes(&found), boxes(&[many]));
        for pair in found.windows(2) {
            assert_eq!(pair[0].offset + pair[0].byte_len(), pair[1].offset);
        }
        // A few bytes for each.
        assert!(fs::metadata(folder.join("log")).unwrap().len() < 5 * len);
        fs::remove_dir_all(folder).unwrap();
    }
}
