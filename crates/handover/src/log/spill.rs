//! Values that found no room in memory go to a file on a disk. A disk is slow, and may be full: the rank that puts values
//! packs them for itself where that takes it less time, or where the disk has less than half of the room left that it had. If there
//! are several tiers below memory and one is full, the file moves on to the next one.
//!
//! A part that is packed lies where it would lie as it is, and the rest of its place is a hole in the file. So what a log says
//! of values holds for both, and `PackedParts` says which parts are packed.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_tier::{Purpose, Space, Tier, TierFile};

use crate::log::packed_parts::{MOST, Part, name_of_parts};
use crate::remote::packed::frame_of;
use crate::remote::wire_codec::{Way, WireCodecTuner};

/// Fewer bytes are not worth a part of their own.
const LEAST: usize = 1 << 16;

/// What the file is called beside the first one: a link to it.
const MORE: &str = ".more";

/// The name by which the file is found beside the first one.
pub(crate) fn name_of_more(values: &Path) -> PathBuf {
    let mut name = values.as_os_str().to_owned();
    name.push(MORE);
    name.into()
}

/// Writes the file. Each write is behind those before it.
pub(crate) struct Spill {
    file: Box<dyn TierFile>,
    /// Where the first file of values is.
    values: PathBuf,
    /// The list of what is packed, and its bytes so far; none if nothing is.
    list: Option<(Box<dyn TierFile>, u64)>,
    tuner: WireCodecTuner,
    /// Where the list lies.
    memory: Arc<dyn Tier>,
    /// Where the values lie, and at which path; behind it the tiers that are left if that has no room.
    below: VecDeque<(Arc<dyn Tier>, PathBuf)>,
    /// Bytes that the tier had free at the beginning.
    had: u64,
    /// Bytes that are there, as the values count.
    end: u64,
    /// What follows and is not written yet: where it begins, its type, and the values.
    next: (u64, DType, Vec<u8>),
}

impl Spill {
    /// Makes the file in the first of these tiers that has room for one, each with the path there. A link beside the values, which
    /// lie in memory, leads to the first path.
    ///
    /// # Errors
    /// `Write`, that of the last one.
    pub(crate) fn create(memory: Arc<dyn Tier>, below: Vec<(Arc<dyn Tier>, PathBuf)>, values: &Path) -> Result<Self> {
        let mut below = VecDeque::from(below);
        loop {
            let Some((tier, path)) = below.front() else { return Err(Error::internal("values without a tier")) };
            let made = tier.create(path, Purpose::Values).and_then(|file| {
                // Other tiers than the first one have no link yet.
                let link = name_of_more(values);
                if fs::read_link(&link).is_ok_and(|there| there != *path) { relink(&link, path) } else { Ok(()) }?;
                Ok((file, tier.left().bytes))
            });
            match made {
                Ok((file, had)) => {
                    let (values, next) = (values.to_owned(), (0, DType::U8, Vec::new()));
                    return Ok(Self {
                        file,
                        values,
                        list: None,
                        tuner: WireCodecTuner::default(),
                        memory,
                        below,
                        had,
                        end: 0,
                        next,
                    });
                }
                Err(error) if below.len() == 1 => return Err(Error::write(path, &error)),
                Err(_) => drop(below.pop_front()),
            }
        }
    }

    fn error(&self, error: &io::Error) -> Error {
        Error::write(self.below.front().map_or(&self.values, |(_, path)| path), error)
    }

    /// What is there goes to the next tier that takes it, with all that follows. False if there is none. Whoever has opened the file
    /// has all of it that a log spoke of.
    fn move_on(&mut self) -> bool {
        let link = name_of_more(&self.values);
        let mut tried = 1;
        while let Some((tier, path)) = self.below.get(tried) {
            let copied = copy_to(&*self.file, self.end, &**tier, path).and_then(|file| {
                relink(&link, path).inspect_err(|_| drop(tier.free(path)))?;
                Ok((file, tier.left().bytes))
            });
            if let Ok((file, had)) = copied {
                (self.file, self.had) = (file, had);
                for (tier, path) in self.below.drain(..tried) {
                    // It was never made in some of them. What cannot be removed goes with the run.
                    let _ = tier.free(&path);
                }
                return true;
            }
            tried += 1;
        }
        false
    }

    /// Takes values to byte `at`; they are there when [`Spill::flush`] has returned.
    ///
    /// # Errors
    /// `Write`.
    pub(crate) fn write(&mut self, at: u64, dtype: DType, mut values: &[u8]) -> Result<()> {
        let (begin, of, next) = &self.next;
        if *of != dtype || begin + next.len() as u64 != at {
            self.flush()?;
            self.next = (at, dtype, std::mem::take(&mut self.next.2));
        }
        while !values.is_empty() {
            let has = self.next.2.len();
            let (here, behind) = values.split_at(values.len().min(MOST - has));
            if has == 0 && here.len() == MOST {
                self.part(self.next.0, dtype, here)?;
                self.next.0 += here.len() as u64;
            } else {
                self.next.2.extend_from_slice(here);
                if self.next.2.len() == MOST {
                    self.flush()?;
                }
            }
            values = behind;
        }
        Ok(())
    }

    /// Writes what was taken. What cannot be written is tried again by the next call.
    ///
    /// # Errors
    /// `Write`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let (at, dtype, values) = std::mem::replace(&mut self.next, (0, DType::U8, Vec::new()));
        let written = if values.is_empty() { Ok(()) } else { self.part(at, dtype, &values) };
        self.next = match written {
            Ok(()) => (at + values.len() as u64, dtype, cleared(values)),
            Err(_) => (at, dtype, values),
        };
        written
    }

    fn part(&mut self, at: u64, dtype: DType, values: &[u8]) -> Result<()> {
        loop {
            let written = if self.has_room(values.len() as u64) {
                self.written(at, dtype, values)
            } else {
                Err(io::ErrorKind::StorageFull.into())
            };
            match written {
                Ok(()) => return Ok(()),
                Err(error) if !self.move_on() => return Err(self.error(&error)),
                Err(_) => {}
            }
        }
    }

    /// False if the account of the tier has no room for so many bytes, and another tier may have.
    fn has_room(&self, bytes: u64) -> bool {
        let Some((tier, _)) = self.below.front().filter(|_| self.below.len() > 1) else { return true };
        let has = tier.account().take(Space::bytes(bytes));
        if has {
            tier.account().give_back(Space::bytes(bytes));
        }
        has
    }

    fn written(&mut self, at: u64, dtype: DType, values: &[u8]) -> io::Result<()> {
        let left = self.below.front().map_or(0, |(tier, _)| tier.left().bytes);
        let is_scarce = left < self.had / 2;
        let way = match values.len() < LEAST {
            true => Way::Plain,
            false if is_scarce => Way::Packed,
            false => self.tuner.way(),
        };
        let begin = Instant::now();
        if way == Way::Plain || !self.packed(at, dtype, values)? {
            self.file.write_all_at(values, at)?;
        }
        if !is_scarce {
            self.tuner.took(way, values, (Some(dtype), None), begin.elapsed());
        }
        self.end = self.end.max(at + values.len() as u64);
        Ok(())
    }

    /// False if the values are no shorter when they are packed, or if there is no room for the list.
    fn packed(&mut self, at: u64, dtype: DType, values: &[u8]) -> io::Result<bool> {
        let Some(frame) = frame_of(values, dtype) else { return Ok(false) };
        let (Ok(bytes), Ok(stored)) = (u32::try_from(values.len()), u32::try_from(frame.len())) else {
            return Ok(false);
        };
        self.file.write_all_at(&frame, at)?;
        // Its place is as long as that of the values.
        self.file.set_len(self.end.max(at + values.len() as u64))?;
        Ok(self.note(Part { at, bytes, stored }).is_ok())
    }

    fn note(&mut self, part: Part) -> io::Result<()> {
        let (list, end) = match &mut self.list {
            Some(list) => list,
            None => {
                let list = self.memory.create(&name_of_parts(&self.values), Purpose::Log)?;
                self.list.insert((list, 0))
            }
        };
        let record = part.to_bytes();
        list.write_all_at(&record, *end)?;
        *end += record.len() as u64;
        Ok(())
    }
}

/// Has the link lead to `path`, in one step.
fn relink(link: &Path, path: &Path) -> io::Result<()> {
    let mut new = link.as_os_str().to_owned();
    new.push(".new");
    let _ = fs::remove_file(&new);
    symlink(path, &new).and_then(|()| fs::rename(&new, link))
}

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// Copies the first `end` bytes of a file to a new one in a tier. Nothing is there if that fails.
fn copy_to(file: &dyn TierFile, end: u64, tier: &dyn Tier, path: &Path) -> io::Result<Box<dyn TierFile>> {
    let mut there = tier.create(path, Purpose::Values)?;
    let mut copy = || {
        let mut at = 0;
        while at < end {
            let mut piece = vec![0; usize::try_from(PIECE.min(end - at)).unwrap_or(0)];
            file.read_exact_at(&mut piece, at)?;
            there.write_all_at(&piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    };
    match copy() {
        Ok(()) => Ok(there),
        Err(error) => {
            let _ = tier.free(path);
            Err(error)
        }
    }
}

fn cleared(mut values: Vec<u8>) -> Vec<u8> {
    values.clear();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::rank_values::Values;
    use knarr_tier::{Account, Directory, Reach, SharedMemory};

    /// `bytes` bytes of a field, and as many of noise.
    fn field_and_noise(bytes: usize) -> [Vec<u8>; 2] {
        let numbers = 0..u32::try_from(bytes / 4).unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "any float will do")]
        let field = numbers.clone().flat_map(|n| ((f64::from(n) / 9000.0).sin() as f32).to_le_bytes()).collect();
        let noise = numbers.flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(n % 32).to_le_bytes()).collect();
        [field, noise]
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("knarr-spill-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A file whose disk looks so slow that everything is packed, or so fast that nothing is.
    fn spill(folder: &Path, is_slow: bool) -> Spill {
        let (more, values) = (folder.join("disk/more"), folder.join("values"));
        symlink(&more, name_of_more(&values)).unwrap();
        let account = || Account::of(Space::UNLIMITED);
        let memory = SharedMemory::new(folder, account());
        let disk = Directory::new(&folder.join("disk"), account(), Reach::AllNodes);
        let spill = Spill::create(Arc::new(memory), vec![(Arc::new(disk), more)], &values).unwrap();
        let (values, seconds) = (vec![0; MOST], if is_slow { 1e9 } else { 1e-9 });
        spill.tuner.took(Way::Plain, &values, (Some(DType::F32), None), std::time::Duration::from_secs_f64(seconds));
        spill
    }

    /// The values of the second file, by whoever reads it.
    fn read(folder: &Path, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let values = Values::spilled(&folder.join("values")).unwrap().unwrap();
        let mut out = vec![0; bytes];
        values.read_exact_at(&mut out, at).map(|()| out)
    }

    #[test]
    fn pieces_of_any_length_are_there_packed_or_not() {
        for is_slow in [true, false] {
            let folder = folder(&format!("pieces-{is_slow}"));
            let [field, noise] = field_and_noise(3 * MOST);
            let mut spill = spill(&folder, is_slow);
            let mut all = Vec::new();
            let lengths = [8, MOST - 8, 2 * MOST + 4096, 12, LEAST, LEAST - 4, 40_000, MOST / 2];
            for (number, length) in lengths.into_iter().cycle().take(40).enumerate() {
                let values = if number % 5 == 3 { &noise[..length] } else { &field[..length] };
                // Each put begins at a multiple of eight, and some bytes are nobody's.
                all.resize(all.len().next_multiple_of(8) + if number % 7 == 0 { 80_000 } else { 0 }, 0);
                let dtype = if number % 3 == 0 { DType::Opaque(4) } else { DType::F32 };
                for (part, piece) in values.chunks(if number % 2 == 0 { 30_000 } else { usize::MAX }).enumerate() {
                    spill.write((all.len() + part * 30_000) as u64, dtype, piece).unwrap();
                }
                all.extend_from_slice(values);
                spill.flush().unwrap();
                assert_eq!(read(&folder, 0, all.len()).unwrap().len(), all.len());
            }
            let found = read(&folder, 0, all.len()).unwrap();
            let different = found.iter().zip(&all).position(|(found, put)| found != put);
            assert_eq!(different, None);
            for at in (0..all.len() - 70_000).step_by(65_521) {
                for bytes in [1, 4, 5000, 70_000] {
                    assert!(read(&folder, at as u64, bytes).unwrap() == all[at..at + bytes], "{at}");
                }
            }
            assert!(read(&folder, all.len() as u64 - 3, 4).is_err());
            let (more, parts) =
                (fs::metadata(folder.join("disk/more")).unwrap(), name_of_parts(&folder.join("values")));
            let taken = std::os::unix::fs::MetadataExt::blocks(&more) * 512;
            assert_eq!(more.len(), all.len() as u64);
            assert!(!is_slow || parts.exists() && taken < more.len() * 3 / 5, "{taken} of {}", more.len());
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn a_tier_that_is_full_gives_its_values_to_the_next_one() {
        for (capacity, inodes) in [(100_000, 9), (0, 9), (100_000, 0)] {
            let folder = folder(&format!("full-{capacity}-{inodes}"));
            let (fast, slow, values) = (folder.join("fast/more"), folder.join("slow/more"), folder.join("values"));
            symlink(&fast, name_of_more(&values)).unwrap();
            let (small, large) = (Account::of(Space { bytes: capacity, inodes }), Account::of(Space::UNLIMITED));
            let tier = |path: &Path, account: &Account| -> Arc<dyn Tier> {
                Arc::new(Directory::new(path.parent().unwrap(), account.clone(), Reach::Node))
            };
            let memory = Arc::new(SharedMemory::new(&folder, Account::of(Space::UNLIMITED)));
            let below = vec![(tier(&fast, &small), fast.clone()), (tier(&slow, &large), slow.clone())];
            let mut spill = Spill::create(memory, below, &values).unwrap();
            let [_, noise] = field_and_noise(1 << 18);
            for (number, piece) in noise.chunks(50_000).enumerate() {
                spill.write((number * 50_000) as u64, DType::U8, piece).unwrap();
                spill.flush().unwrap();
                let all = (number * 50_000 + piece.len()).min(noise.len());
                assert!(read(&folder, 0, all).unwrap() == noise[..all], "piece {number}");
                assert!(small.taken().bytes <= capacity);
            }
            assert!(!fast.exists() && small.taken() == Space::default() && large.taken().inodes == 1);
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn damage_is_noticed() {
        let folder = folder("damage");
        let [field, _] = field_and_noise(2 * MOST);
        let mut spill = spill(&folder, true);
        spill.write(0, DType::F32, &field).unwrap();
        spill.flush().unwrap();
        assert!(read(&folder, 0, field.len()).unwrap() == field);
        let (more, list) = (folder.join("disk/more"), name_of_parts(&folder.join("values")));
        let (stored, parts) = (fs::read(&more).unwrap(), fs::read(&list).unwrap());
        let frame = u32::from_le_bytes(parts[12..16].try_into().unwrap()) as usize;
        for place in (0..frame).step_by(97) {
            let mut damaged = stored.clone();
            damaged[place] ^= 4;
            fs::write(&more, &damaged).unwrap();
            assert!(read(&folder, 0, 100).is_err(), "byte {place}");
            assert!(read(&folder, MOST as u64, 100).is_ok(), "the next part is whole");
        }
        fs::write(&more, &stored).unwrap();
        for place in 0..parts.len() {
            let mut damaged = parts.clone();
            damaged[place] ^= 16;
            fs::write(&list, &damaged).unwrap();
            assert!(Values::spilled(&folder.join("values")).is_err(), "byte {place}");
        }
        // The rank was killed as it noted the last part, of which no log says anything.
        fs::write(&list, &parts[..parts.len() - 1]).unwrap();
        assert!(read(&folder, 0, MOST).unwrap() == field[..MOST]);
        fs::remove_dir_all(folder).unwrap();
    }
}
