//! What one rank puts into one file: a file of values, and a log that says what they are. `docs/format.md` describes both.
//!
//! An [`Index`](crate::Index) is written when a step is complete. A program that writes a file through its own library
//! says only at the end that it is complete, and may be killed before. So each put leaves a record of its own behind its
//! values, and whoever reads the log finds every put that was complete.

use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::log::adjoining::joined;
use crate::log::log_file::LogFile;
use crate::log::put::Put;
use crate::log::records::{BEGIN, add_record, beginning};
use crate::log::spill::{Spill, name_of_more};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_tier::{Account, Directory, Purpose, Reach, SharedMemory, Space, Tier, TierFile};

/// Values begin at multiples of this.
const ALIGNMENT: u64 = 8;

/// Where the values of a rank may lie.
#[derive(Debug, Clone)]
pub struct Room {
    /// Memory.
    pub memory: Arc<dyn Tier>,
    /// The files of the rank lie here, in memory.
    pub directory: PathBuf,
    /// Tiers for values that find no memory, the fastest first, each with the path of the file for them there, which is the rank's
    /// alone. The last one takes what the others have no room for.
    pub below: Vec<(Arc<dyn Tier>, PathBuf)>,
}

impl Room {
    /// That of a process which counts for itself: it may take `bytes` of memory, and what the disk of the file `more` has.
    pub fn of_process(directory: &Path, bytes: u64, more: PathBuf) -> Self {
        let memory = SharedMemory::new(directory, Account::of(Space { bytes, ..Space::UNLIMITED }));
        let disk = more.parent().unwrap_or(directory);
        let disk: Arc<dyn Tier> = Arc::new(Directory::new(disk, Account::of(Space::UNLIMITED), Reach::AllNodes));
        Self { memory: Arc::new(memory), directory: directory.to_owned(), below: vec![(disk, more)] }
    }

    /// The last tier, and the path there.
    fn last(&self) -> Result<&(Arc<dyn Tier>, PathBuf)> {
        self.below.last().ok_or_else(|| Error::internal("no tier for values that find no memory"))
    }
}

/// Writes the puts of one rank into one file.
pub struct PutLog {
    room: Room,
    values: Box<dyn TierFile>,
    /// Where the first file of values is.
    path: PathBuf,
    /// Bytes of values that lie in the first file, at most.
    most: u64,
    more: Option<Box<Spill>>,
    log: LogFile,
    /// First byte of the values that no put has.
    end: u64,
}

impl PutLog {
    /// Makes the two files `values` and `log` in the directory.
    ///
    /// # Errors
    /// `Write`.
    pub fn create(room: Room, values: &str, log: &str) -> Result<Self> {
        let write_error = |error: io::Error| Error::write(&room.directory, &error);
        let path = room.directory.join(values);
        let (disk, more) = room.last()?;
        let mut there = more.as_os_str().to_owned();
        there.push(".log");
        let tiers = [Arc::clone(&room.memory), Arc::clone(disk)];
        let mut log = LogFile::create(tiers, &room.directory.join(log), Path::new(&there)).map_err(write_error)?;
        log.append(&beginning(u64::MAX)).map_err(write_error)?;
        // When there is no memory left there is none for a link.
        let first = room.below.first().map_or(more, |(_, first)| first);
        symlink(first, name_of_more(&path)).map_err(write_error)?;
        let values = room.memory.create(&path, Purpose::Values).map_err(write_error)?;
        Ok(Self { values, path, most: u64::MAX, more: None, log, end: 0, room })
    }

    /// True as long as the rank that writes the log at `path` lives and has the file open, or nobody can tell.
    pub fn is_held(path: &Path) -> bool {
        match File::open(path) {
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Room for `bytes` bytes of values. Returns the offset of the first one.
    ///
    /// # Errors
    /// `Write` if there is none, neither in memory nor on the disk. Later values may find some.
    pub fn reserve(&mut self, bytes: u64) -> Result<u64> {
        let offset = self.end.next_multiple_of(ALIGNMENT);
        let end = offset.checked_add(bytes).ok_or_else(|| self.write_error(&io::ErrorKind::FileTooLarge.into()))?;
        if bytes > 0 && self.more.is_none() && !self.values.reserve(end) {
            self.begin_more(offset)?;
        }
        self.end = end;
        Ok(offset)
    }

    /// Values from `offset` on go to the disk.
    fn begin_more(&mut self, offset: u64) -> Result<()> {
        let (memory, below) = (Arc::clone(&self.room.memory), self.room.below.clone());
        let spill = Spill::create(memory, below, &self.path)?;
        self.log.rewrite(&beginning(offset), 0).map_err(|error| self.write_error(&error))?;
        self.most = offset;
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
            (Some(more), Some(behind)) => more.write(behind, dtype, values),
            _ => self.values.write_all_at(values, offset).map_err(|error| Error::write(&self.room.directory, &error)),
        }
    }

    /// Adds puts whose values are all there. Those that adjoin become one.
    ///
    /// # Errors
    /// `Write`. None of them is there then.
    pub fn push(&mut self, puts: &[Put]) -> Result<()> {
        if let Some(more) = &mut self.more {
            more.flush()?;
        }
        let mut records = Vec::with_capacity(64 * puts.len());
        for put in joined(puts, self.more.as_ref().map(|_| self.most)) {
            put.payloads(|payload| add_record(&mut records, payload));
        }
        self.log.append(&records).map_err(|error| self.write_error(&error))
    }

    /// Nothing is put any more: memory that was taken ahead is given back. Returns the bytes of all records, by which readers
    /// know that none is missing.
    pub fn close(&mut self) -> u64 {
        // If it cannot be given back the file stays as long as it is.
        let _ = self.values.set_len(self.end.min(self.most));
        self.log.cut();
        self.log.length() - BEGIN as u64
    }

    fn write_error(&self, error: &io::Error) -> Error {
        Error::write(&self.room.directory, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::put::{MOST_BOXES, Part};
    use crate::log::records::{parse_puts, read_puts};
    use knarr_array::error::ErrorKind;
    use knarr_array::region::{Region, Regions};
    use std::fs;

    fn put(order: u64, stride: &[u64]) -> Put {
        let boxes = Regions::from(&Region::new([order, 4], [2, 3]));
        Put {
            variable: 3,
            dtype: DType::F32,
            boxes,
            stride: stride.to_vec(),
            parts: Vec::new(),
            order,
            offset: 24 * order,
        }
    }

    fn room(folder: &Path, most: u64) -> Room {
        Room::of_process(folder, most, folder.join("disk/more"))
    }

    #[test]
    fn values_that_find_no_memory_go_to_a_second_file() {
        let folder = std::env::temp_dir().join(format!("knarr-puts-room-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, 4096 + 100), "values", "log").unwrap();
        assert!(PutLog::is_held(&folder.join("log")) && !PutLog::is_held(&folder.join("values")));
        let offsets: Vec<u64> = [40, 40, 40, 8].map(|bytes| log.reserve(bytes).unwrap()).to_vec();
        assert_eq!(offsets, [0, 40, 80, 120]);
        assert_eq!(read_puts(&folder.join("log")).unwrap().first, 80);
        log.write(80, DType::U8, &[1; 40]).unwrap();
        log.write(120, DType::U8, &[2; 8]).unwrap();
        log.push(&[]).unwrap();
        let more = fs::read(name_of_more(&folder.join("values"))).unwrap();
        assert_eq!(more, [[1; 40].as_slice(), &[2; 8]].concat());
        assert_eq!(log.close(), 0);
        drop(log);
        assert!(!PutLog::is_held(&folder.join("log")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_put_that_finds_no_room_leaves_those_before_and_behind_it() {
        let folder = std::env::temp_dir().join(format!("knarr-puts-none-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, 4096 + 100), "values", "log").unwrap();
        // There is no directory for the second file.
        fs::write(folder.join("disk"), b"").unwrap();
        let add = |log: &mut PutLog, order: u64| {
            let offset = log.reserve(24)?;
            log.write(offset, DType::F32, &[7; 24])?;
            log.push(&[Put { offset, ..put(order, &[]) }])
        };
        add(&mut log, 0).unwrap();
        assert_eq!(log.reserve(80).unwrap_err().kind(), ErrorKind::Write);
        add(&mut log, 1).unwrap();
        fs::remove_file(folder.join("disk")).unwrap();
        let offset = log.reserve(80).unwrap();
        log.write(offset, DType::F32, &[8; 80]).unwrap();
        add(&mut log, 2).unwrap();
        let found = read_puts(&folder.join("log")).unwrap();
        assert_eq!(
            found.puts.iter().map(|put| (put.order, put.offset)).collect::<Vec<_>>(),
            [(0, 0), (1, 24), (2, 128)]
        );
        assert_eq!(found.first, offset);
        fs::remove_dir_all(folder).unwrap();
    }

    fn written(puts: &[Put]) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("knarr-puts-{}-{:p}", std::process::id(), puts.as_ptr()));
        fs::create_dir_all(&folder).unwrap();
        let mut log = PutLog::create(room(&folder, u64::MAX), "values", "log").unwrap();
        for put in puts {
            let offset = log.reserve(put.byte_len()).unwrap();
            log.write(offset, put.lies_as(), &vec![7; usize::try_from(put.byte_len()).unwrap()]).unwrap();
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
        let parts = vec![Part { at: 0, len: 1 }, Part { at: 2, len: 2 }];
        let puts = [put(0, &[]), put(1, &[1, 2]), Put { parts, ..put(2, &[2, 1]) }];
        let bytes = written(&puts);
        let mut complete = 0;
        for end in 0..=bytes.len() {
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
        for place in (0..8).chain(BEGIN..bytes.len()) {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                assert_eq!(parse_puts(&damaged).unwrap_err().kind(), ErrorKind::Corrupt, "byte {place}");
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
        let part = |at, len| Part { at, len };
        for parts in [vec![part(0, 0)], vec![part(2, 3)], vec![part(0, 2), part(1, 1)], vec![part(1, u32::MAX)]] {
            let mut payload = Vec::new();
            Put { parts, ..put(0, &[]) }.payloads(|bytes| payload.extend_from_slice(bytes));
            assert_eq!(Put::parse(&payload).unwrap_err().kind(), ErrorKind::Corrupt);
        }
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
        let mut log = PutLog::create(room(&folder, u64::MAX), "values", "log").unwrap();
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
