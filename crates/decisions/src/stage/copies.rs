//! Copies of files that are in their places: what waited in a tier stays there, and is read in place of the file, which is slower to
//! read. [`Copies`] promises that
//!
//! 1. a copy never costs anybody room: a tier has as much for others as if there were none, and copies go as soon as that, or the
//!    memory in which they lie, gets scarce, those first that nobody has read for longest;
//! 2. a copy is never the only one: only a file that is in its place has one;
//! 3. a copy is never older than the file: it goes when the file may have changed, or another one has its name;
//! 4. no copy stays when the program has ended, or when all is to end soon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes that the file system of a tier has to have left beside copies: so much is not written between two looks at it.
const SLACK: u64 = 1 << 30;
/// Copies take no more than this part of what is free: half of the file system, and a quarter of memory.
const PART_OF_DISK: u64 = 2;
const PART_OF_MEMORY: u64 = 4;
/// More copies are not kept: each is looked at now and then.
const MOST: usize = 1000;

/// What there is of a tier, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What it may hold.
    pub limit: u64,
    /// What it holds beside copies.
    pub taken: u64,
    /// What is about to be made there.
    pub expected: u64,
    /// What its file system has left beside all that, and beside copies.
    pub left: u64,
    /// Memory that is available, if it lies in memory.
    pub memory: Option<u64>,
}

/// Bytes a second that a tier takes and that the place of the files takes, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speeds {
    /// Of the tier.
    pub tier: Option<f64>,
    /// Of the last one.
    pub last: Option<f64>,
    /// Both are the same device, and none of them stands for another one.
    pub are_one: bool,
}

impl Speeds {
    /// False if reading a copy would be no faster. Tiers are named in their order.
    fn has_faster_tier(&self) -> bool {
        !self.are_one && self.tier.zip(self.last).is_none_or(|(tier, last)| tier > last)
    }
}

#[derive(Debug, Clone)]
struct Copy {
    name: PathBuf,
    tier: usize,
    bytes: u64,
    /// When it was last read.
    used: u128,
}

/// The copies of a launcher, by the generations of their files.
#[derive(Debug, Clone, Default)]
pub struct Copies {
    copies: BTreeMap<u64, Copy>,
    has_ended: bool,
    most_bytes: u64,
    kept: u64,
}

impl Copies {
    /// True if a file of so many bytes that is about to move to its place from this tier is to stay there as a copy.
    pub fn may_stay(&self, tier: usize, bytes: u64, room: &Room, speeds: &Speeds) -> bool {
        // It lies there already, and counts for what it is then.
        let (taken, left) = (room.taken.saturating_sub(bytes), room.left.saturating_add(bytes));
        let memory = room.memory.map(|memory| memory.saturating_add(bytes));
        let room = Room { taken, left, memory, ..*room };
        !self.has_ended && speeds.has_faster_tier() && bytes <= self.most_in(tier, &room)
    }

    /// The file `name` is in its place, and a copy is in the tier, since `used`: when, by the clock of those that read. Returns copies
    /// that go: those of older versions; or this one, if no copy is to stay any more.
    pub fn stays(&mut self, generation: u64, name: &Path, (tier, bytes, used): (usize, u64, u128)) -> Vec<u64> {
        let mut gone = self.replaced(name, generation);
        let is_older = self.copies.iter().any(|(of, copy)| *of > generation && copy.name == name);
        self.copies.insert(generation, Copy { name: name.to_owned(), tier, bytes, used });
        self.kept += 1;
        if self.has_ended || is_older {
            self.copies.remove(&generation);
            gone.push(generation);
        }
        while self.copies.len() > MOST {
            gone.extend(self.take_oldest(|_| true));
        }
        let all = self.copies.values().fold(0_u64, |sum, copy| sum.saturating_add(copy.bytes));
        self.most_bytes = self.most_bytes.max(all);
        gone
    }

    /// A version of the file `name` is in its place: copies of older ones go.
    pub fn replaced(&mut self, name: &Path, generation: u64) -> Vec<u64> {
        let is_older = |(of, copy): (&u64, &Copy)| (*of < generation && copy.name == name).then_some(*of);
        let older: Vec<u64> = self.copies.iter().filter_map(is_older).collect();
        older.iter().for_each(|of| drop(self.copies.remove(of)));
        older
    }

    /// When a copy was last read.
    pub fn was_read(&mut self, generation: u64, used: u128) {
        if let Some(copy) = self.copies.get_mut(&generation) {
            copy.used = used;
        }
    }

    /// The file of a copy may have changed: that goes. False if there is none.
    pub fn changed(&mut self, generation: u64) -> bool {
        self.copies.remove(&generation).is_some()
    }

    /// True if copies in a tier have to go now: when they were read is to be said before that.
    pub fn are_to_go(&self, tier: usize, room: &Room) -> bool {
        self.bytes_in(tier) > self.most_in(tier, room)
    }

    /// Copies in a tier that have to go now.
    pub fn to_go(&mut self, tier: usize, room: &Room) -> Vec<u64> {
        let mut gone = Vec::new();
        while self.are_to_go(tier, room) {
            gone.extend(self.take_oldest(|copy| copy.tier == tier));
        }
        gone
    }

    /// The program has ended, or all ends soon: all copies go.
    pub fn end(&mut self) -> Vec<u64> {
        self.has_ended = true;
        std::mem::take(&mut self.copies).into_keys().collect()
    }

    /// The files that have one.
    pub fn all(&self) -> Vec<u64> {
        self.copies.keys().copied().collect()
    }

    /// Bytes of copies in a tier.
    pub fn bytes_in(&self, tier: usize) -> u64 {
        let here = self.copies.values().filter(|copy| copy.tier == tier);
        here.fold(0, |sum, copy| sum.saturating_add(copy.bytes))
    }

    /// How many there were by now, and the most bytes that they took at a time.
    pub fn totals(&self) -> (u64, u64) {
        (self.kept, self.most_bytes)
    }

    /// The most bytes that copies may take in a tier: of what is free if they are not counted.
    fn most_in(&self, tier: usize, room: &Room) -> u64 {
        let Room { limit, taken, expected, left, memory } = *room;
        let own = self.bytes_in(tier);
        let by_limit = limit.saturating_sub(taken).saturating_sub(expected);
        let free = left.saturating_add(own);
        let by_disk = free.saturating_sub(SLACK).saturating_sub(expected) / PART_OF_DISK;
        let by_memory = memory.map_or(u64::MAX, |memory| {
            memory.saturating_add(own).saturating_sub(SLACK).saturating_sub(expected) / PART_OF_MEMORY
        });
        by_limit.min(by_disk).min(by_memory)
    }

    /// Takes out the one that nobody has read for longest.
    fn take_oldest(&mut self, is_one: impl Fn(&Copy) -> bool) -> Option<u64> {
        let candidates = self.copies.iter().filter(|(_, copy)| is_one(copy));
        let oldest = candidates.min_by_key(|(generation, copy)| (copy.used, **generation)).map(|(of, _)| *of)?;
        self.copies.remove(&oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { limit: 100, taken: 0, expected: 0, left: u64::MAX, memory: None };
    const SPEEDS: Speeds = Speeds { tier: Some(700.0), last: Some(29.0), are_one: false };

    fn three() -> Copies {
        let mut copies = Copies::default();
        for (generation, used) in [(1, 30), (2, 10), (3, 20)] {
            let name = PathBuf::from(format!("{generation}"));
            assert!(copies.stays(generation, &name, (0, 30, used)).is_empty());
        }
        copies
    }

    #[test]
    fn what_was_not_read_for_longest_goes_first_and_as_little_as_is_needed() {
        let mut copies = three();
        assert!(copies.to_go(0, &ROOM).is_empty());
        assert_eq!(copies.to_go(0, &Room { taken: 20, ..ROOM }), [2]);
        assert!(copies.to_go(1, &Room { taken: 100, ..ROOM }).is_empty(), "another tier");
        copies.was_read(3, 40);
        assert_eq!(copies.to_go(0, &Room { taken: 30, expected: 40, ..ROOM }), [1]);
        assert_eq!((copies.to_go(0, &Room { taken: 200, ..ROOM }), copies.totals()), (vec![3], (3, 90)));
    }

    #[test]
    fn copies_leave_a_file_system_and_memory_as_much_as_they_take() {
        let plenty = |left| Room { limit: u64::MAX, left, ..ROOM };
        let mut copies = three();
        assert!(copies.to_go(0, &plenty(SLACK + 90)).is_empty());
        assert_eq!(copies.to_go(0, &plenty(SLACK + 89)), [2]);
        let in_memory = |memory| Room { memory: Some(memory), ..plenty(u64::MAX) };
        assert!(copies.to_go(0, &in_memory(SLACK + 180)).is_empty());
        assert_eq!(copies.to_go(0, &in_memory(SLACK + 179)), [3]);
        assert_eq!(copies.to_go(0, &in_memory(100)), [1]);
    }

    #[test]
    fn a_copy_is_kept_where_that_helps_and_there_is_room() {
        let copies = three();
        let may = |bytes, speeds| copies.may_stay(0, bytes, &ROOM, &speeds);
        assert!(may(100, SPEEDS) && !may(101, SPEEDS));
        assert!(copies.may_stay(0, 90, &Room { taken: 100, ..ROOM }, &SPEEDS), "it is counted until then");
        assert!(!may(1, Speeds { are_one: true, ..SPEEDS }) && !may(1, Speeds { last: Some(700.0), ..SPEEDS }));
        assert!(may(1, Speeds { tier: None, last: None, are_one: false }));
        let mut ended = copies.clone();
        assert_eq!(ended.end(), [1, 2, 3]);
        assert!(!ended.may_stay(0, 1, &ROOM, &SPEEDS));
        assert_eq!(ended.stays(4, Path::new("4"), (0, 1, 1)), [4], "it came too late");
    }

    #[test]
    fn of_versions_of_a_file_the_newest_has_a_copy() {
        let mut copies = Copies::default();
        let name = Path::new("a");
        assert!(copies.stays(2, name, (0, 1, 1)).is_empty());
        assert_eq!(copies.stays(3, name, (0, 1, 1)), [2]);
        assert_eq!(copies.stays(1, name, (0, 1, 2)), [1]);
        assert_eq!(copies.replaced(name, 4), [3]);
        assert!(!copies.changed(3) && copies.all().is_empty());
    }
}
