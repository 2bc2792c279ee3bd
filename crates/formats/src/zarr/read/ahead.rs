//! Objects of a store that lies elsewhere, of which whoever reads part after part is given more at a time.
//!
//! A request to a server costs about as much for a small part as for a large one, and chunks in shards are small parts. Who
//! reads them one after the other asks for parts that lie beside each other. So what follows is fetched with a part: more
//! each time, as long as parts follow each other; whole objects, if all values will be read; and nothing more where parts
//! are read here and there.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use knarr_array::error::Result;
use knarr_flow::read_store::{Entry, Part, ReadStore};

/// Bytes that are fetched at once for the second part of an object, and the most that this grows to: objects of 16 MiB of
/// values that did not become smaller, as Knarr writes them, have an index, too.
const FIRST: u64 = 512 << 10;
const MOST: u64 = 18 << 20;
/// Bytes that an object may have that nobody has asked for yet.
const GUESSED: u64 = 4 << 20;
/// Objects of which it is known how far they were read.
const KNOWN: usize = 64;
/// Bytes that are kept, when nothing else is asked for.
const KEPT: u64 = 32 << 20;

/// A store that is read ahead.
#[derive(Debug)]
pub(in crate::zarr) struct Ahead {
    store: Arc<dyn ReadStore>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The oldest first.
    windows: VecDeque<Window>,
    /// The one that was begun first comes first.
    reading: VecDeque<Reading>,
    /// Bytes that windows may take together.
    limit: u64,
    /// Whether all values will be read, so that whole objects are fetched if they are not too long.
    is_all: bool,
    /// Number of the next window.
    next: u64,
}

/// Bytes of an object that are here, or on their way.
#[derive(Debug)]
struct Window {
    number: u64,
    key: String,
    offset: u64,
    length: u64,
    /// `None` while somebody fetches them.
    bytes: Option<Arc<Vec<u8>>>,
}

/// How far an object was read.
#[derive(Debug)]
struct Reading {
    key: String,
    /// Bytes of the object, and where its values end: behind them is what was asked for as its last bytes. `None` until a
    /// request has told.
    known: Option<(u64, u64)>,
    /// Where the next part begins if it follows, and how much was fetched at once for the last one.
    until: u64,
    together: u64,
}

/// What brings a part to whoever wants it.
enum Step {
    /// It lies in this window of the object of so many bytes, at this offset and so long.
    Copy((Arc<Vec<u8>>, u64), (u64, u64), u64),
    /// Somebody fetches it.
    Wait,
    /// To fetch this, into the window of this number.
    Fetch(u64, Part),
    /// To ask for it alone.
    Alone,
}

impl Ahead {
    pub(in crate::zarr) fn new(store: Arc<dyn ReadStore>) -> Self {
        let state = State { windows: VecDeque::new(), reading: VecDeque::new(), limit: KEPT, is_all: false, next: 0 };
        Self { store, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Says that all values will be read.
    pub(in crate::zarr) fn will_read_all(&self) {
        self.state().is_all = true;
    }

    /// Limits the bytes that are kept.
    pub(in crate::zarr) fn set_limit(&self, bytes: u64) {
        let mut state = self.state();
        state.limit = bytes;
        state.has_room(0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a window, to find `asked` in it. `None` if there is no such object; the window, if the object has it.
    fn fetch(&self, number: u64, key: &str, wanted: Part, asked: Part) -> Result<Option<Fetched>> {
        let mut bytes = Vec::new();
        let answer = self.store.get(key, wanted, &mut bytes);
        let mut state = self.state();
        let window = answer.as_ref().ok().copied().flatten().and_then(|held| {
            state.note(key, held, asked);
            let (offset, length) = wanted.within(held)?;
            let bytes = Arc::new(bytes);
            let window = state.windows.iter_mut().find(|window| window.number == number)?;
            (window.offset, window.length, window.bytes) = (offset, length, Some(bytes.clone()));
            Some((bytes, offset))
        });
        if window.is_none() {
            state.windows.retain(|window| window.number != number);
        }
        self.changed.notify_all();
        answer.map(|held| held.map(|held| Fetched { held, window }))
    }
}

/// What came of an object.
struct Fetched {
    /// Bytes of the object.
    held: u64,
    /// Bytes that begin at this one of the object.
    window: Option<(Arc<Vec<u8>>, u64)>,
}

/// Replaces the contents of `out` by a part of an object that lies in a window.
fn copy((bytes, from): &(Arc<Vec<u8>>, u64), (offset, length): (u64, u64), out: &mut Vec<u8>) {
    out.clear();
    let place = |at: u64| usize::try_from(at.saturating_sub(*from)).unwrap_or(usize::MAX);
    out.extend_from_slice(bytes.get(place(offset)..place(offset.saturating_add(length))).unwrap_or_default());
}

impl State {
    fn reading(&mut self, key: &str) -> Option<&mut Reading> {
        self.reading.iter_mut().find(|reading| reading.key == key)
    }

    /// Notes how long an object is, as the answer to what was asked of it told.
    fn note(&mut self, key: &str, held: u64, asked: Part) {
        let Some(reading) = self.reading(key) else { return };
        let before = reading.known.filter(|(known, _)| *known == held).map(|(_, end)| end);
        let end = match asked {
            Part::Last { length } => held.saturating_sub(length),
            _ => before.unwrap_or(held),
        };
        reading.known = Some((held, end));
    }

    /// What to do for a part of an object.
    fn step(&mut self, key: &str, part: Part) -> Step {
        if self.reading(key).is_none() {
            if self.reading.len() >= KNOWN {
                self.reading.pop_front();
            }
            self.reading.push_back(Reading { key: key.to_owned(), known: None, until: 0, together: 0 });
        }
        let Some(reading) = self.reading.iter().find(|reading| reading.key == key) else { return Step::Alone };
        let Some((held, end)) = reading.known else {
            // Who fetches the first part learns how long the object is.
            if self.windows.iter().any(|window| window.key == key && window.bytes.is_none()) {
                return Step::Wait;
            }
            return match part {
                _ if self.is_all => self.begin(key, (0, GUESSED), Part::Whole { most: MOST }),
                Part::At { offset, length } => self.begin(key, (offset, length), part),
                Part::Last { length } => self.begin(key, (0, length), part),
                Part::Whole { .. } => Step::Alone,
            };
        };
        let Some((offset, length)) = part.within(held) else { return Step::Alone };
        let has = |window: &&Window| {
            window.key == key && window.offset <= offset && offset + length <= window.offset + window.length
        };
        if let Some(window) = self.windows.iter().find(has) {
            let there = window.bytes.clone();
            return there.map_or(Step::Wait, |bytes| Step::Copy((bytes, window.offset), (offset, length), held));
        }
        if self.is_all && held <= MOST {
            return self.begin(key, (0, held), Part::At { offset: 0, length: held });
        }
        // Threads that read part after part do not ask in quite that order.
        let follows = offset <= reading.until.saturating_add(reading.together) && offset + length > reading.until;
        let together = match reading.together {
            _ if self.is_all => MOST,
            last if follows && last > 0 => (2 * last).clamp(FIRST, MOST),
            _ => 0,
        };
        let together = together.min(end.saturating_sub(offset)).max(length);
        match part {
            // An index is not where values are read on.
            Part::Last { .. } => self.begin(key, (offset, length), part),
            _ => self.begin(key, (offset, together), Part::At { offset, length: together }),
        }
    }

    /// True if there is room for so many bytes more; for them, the oldest windows go.
    fn has_room(&mut self, bytes: u64) -> bool {
        while self.windows.iter().map(|window| window.length).sum::<u64>() + bytes > self.limit {
            let Some(oldest) = self.windows.iter().position(|window| window.bytes.is_some()) else { return false };
            self.windows.remove(oldest);
        }
        true
    }

    /// Begins a window of about this offset and length, if there is room for it.
    fn begin(&mut self, key: &str, (offset, length): (u64, u64), part: Part) -> Step {
        if !self.has_room(length) {
            return Step::Alone;
        }
        if let Some(reading) = self.reading(key) {
            match part {
                Part::At { .. } => (reading.until, reading.together) = (offset + length, length),
                Part::Whole { most } => (reading.until, reading.together) = (most, most),
                Part::Last { .. } => {}
            }
        }
        let number = self.next;
        self.next += 1;
        self.windows.push_back(Window { number, key: key.to_owned(), offset, length, bytes: None });
        Step::Fetch(number, part)
    }
}

impl ReadStore for Ahead {
    fn place(&self) -> String {
        self.store.place()
    }

    fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>> {
        if matches!(part, Part::Whole { .. } | Part::At { length: 0, .. } | Part::Last { length: 0 }) {
            return self.store.get(key, part, out);
        }
        let mut state = self.state();
        loop {
            match state.step(key, part) {
                Step::Copy(window, place, held) => {
                    drop(state);
                    copy(&window, place, out);
                    return Ok(Some(held));
                }
                Step::Wait => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Step::Fetch(number, wanted) => {
                    drop(state);
                    out.clear();
                    let Some(Fetched { held, window }) = self.fetch(number, key, wanted, part)? else {
                        return Ok(None);
                    };
                    match (part.within(held), window) {
                        (Some(place), Some(window)) => copy(&window, place, out),
                        // The object is longer than is fetched at once, or shorter than it was.
                        (Some(_), None) if wanted != part => {
                            state = self.state();
                            continue;
                        }
                        _ => {}
                    }
                    return Ok(Some(held));
                }
                Step::Alone => {
                    drop(state);
                    return self.store.get(key, part, out);
                }
            }
        }
    }

    fn has(&self, key: &str) -> Result<bool> {
        self.store.has(key)
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>> {
        self.store.list(folder)
    }

    fn is_remote(&self) -> bool {
        self.store.is_remote()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_flow::read_store::entries_of;
    use knarr_testing::suites::read_store::check;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Objects = BTreeMap<String, Vec<u8>>;

    /// Objects in memory, and how often they were asked for.
    #[derive(Debug, Default)]
    struct Counted {
        objects: Mutex<Objects>,
        asked: AtomicUsize,
    }

    impl ReadStore for Counted {
        fn place(&self) -> String {
            "memory".to_owned()
        }

        fn get(&self, key: &str, part: Part, out: &mut Vec<u8>) -> Result<Option<u64>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            out.clear();
            let objects = self.objects.lock().unwrap();
            let Some(object) = objects.get(key) else { return Ok(None) };
            if let Some((offset, length)) = part.within(object.len() as u64) {
                let (offset, length) = (usize::try_from(offset).unwrap(), usize::try_from(length).unwrap());
                out.extend_from_slice(&object[offset..offset + length]);
            }
            Ok(Some(object.len() as u64))
        }

        fn has(&self, key: &str) -> Result<bool> {
            Ok(self.objects.lock().unwrap().contains_key(key))
        }

        fn list(&self, folder: &str) -> Result<Option<Vec<Entry>>> {
            let objects = self.objects.lock().unwrap();
            Ok(Some(entries_of(objects.iter().map(|(key, bytes)| (key.as_str(), bytes.len() as u64)), folder)))
        }
    }

    const BYTES: usize = 100 << 10;
    const CHUNK: u64 = BYTES as u64;
    const INDEX: u64 = 64;

    /// A store of `shards` objects of `chunks` chunks and an index each, and it read ahead.
    fn store(shards: usize, chunks: u64) -> (Arc<Counted>, Ahead) {
        let bytes = |shard: usize| {
            (0..chunks * CHUNK + INDEX).map(|at| u8::try_from((at * 7 / 64 + shard as u64) % 251).unwrap()).collect()
        };
        let objects = (0..shards).map(|shard| (format!("c/{shard:03}"), bytes(shard))).collect();
        let counted = Arc::new(Counted { objects: Mutex::new(objects), asked: AtomicUsize::new(0) });
        (counted.clone(), Ahead::new(counted))
    }

    /// Checks one part of an object, and returns how often it was asked for.
    fn part(counted: &Counted, ahead: &Ahead, shard: usize, part: Part) -> usize {
        let key = format!("c/{shard:03}");
        let (mut expected, mut out) = (Vec::new(), b"before".to_vec());
        let held = counted.get(&key, part, &mut expected).unwrap();
        let asked = counted.asked.load(Ordering::Relaxed);
        assert_eq!(ahead.get(&key, part, &mut out).unwrap(), held);
        assert!(out == expected, "{key} {part:?}");
        counted.asked.load(Ordering::Relaxed) - asked
    }

    fn chunk(number: u64) -> Part {
        Part::At { offset: number * CHUNK, length: CHUNK }
    }

    #[test]
    fn it_is_a_store_like_the_one_beneath() {
        let object = |length: usize| vec![7; length];
        let objects: Objects = [("zarr.json", 10), ("a/c/0", 1), ("a/c/1", 0), ("b/zarr.json", 5000)]
            .map(|(key, n)| (key.to_owned(), object(n)))
            .into();
        let counted = Counted { objects: Mutex::new(objects.clone()), asked: AtomicUsize::new(0) };
        let ahead = Ahead::new(Arc::new(counted));
        check(&ahead, &objects);
        check(&ahead, &objects);
    }

    /// Reads the index and all chunks of each shard, and returns how often each was asked for.
    fn read_all(counted: &Counted, ahead: &Ahead, shards: usize, chunks: u64) -> Vec<usize> {
        let asked = |shard| {
            let index = part(counted, ahead, shard, Part::Last { length: INDEX });
            index + (0..chunks).map(|number| part(counted, ahead, shard, chunk(number))).sum::<usize>()
        };
        (0..shards).map(asked).collect()
    }

    #[test]
    fn who_reads_part_after_part_asks_less_and_less_often() {
        let (counted, ahead) = store(3, 50);
        assert_eq!(read_all(&counted, &ahead, 3, 50), [6; 3]);
    }

    #[test]
    fn who_reads_all_asks_once_for_each_object_or_for_what_is_fetched_at_once() {
        let (counted, ahead) = store(3, 50);
        ahead.will_read_all();
        assert_eq!(read_all(&counted, &ahead, 3, 50), [1; 3]);
        let (counted, ahead) = store(2, 400);
        ahead.set_limit(64 << 20);
        ahead.will_read_all();
        // That it is too long, its index, and three windows.
        assert_eq!(read_all(&counted, &ahead, 2, 400), [5; 2]);
    }

    #[test]
    fn what_was_looked_at_here_and_there_comes_once_when_all_is_read() {
        let (counted, ahead) = store(1, 50);
        ahead.will_read_all();
        for number in [30, 7, 44] {
            part(&counted, &ahead, 0, chunk(number));
        }
        ahead.set_limit(0);
        ahead.set_limit(KEPT);
        assert_eq!(read_all(&counted, &ahead, 1, 50), [1]);
    }

    #[test]
    fn who_reads_here_and_there_is_given_no_more() {
        let (counted, ahead) = store(20, 30);
        for round in 0..3 {
            for shard in 0..20 {
                part(&counted, &ahead, shard, Part::Last { length: INDEX });
                part(&counted, &ahead, shard, chunk((11 * round + 3 * shard as u64) % 30));
            }
        }
        let windows = &ahead.state().windows;
        assert!(windows.iter().all(|window| window.length <= CHUNK), "{windows:?}");
    }

    #[test]
    fn what_is_kept_stays_within_its_limit() {
        let (counted, ahead) = store(8, 30);
        for limit in [0, 50 << 10, 150 << 10, 1 << 20] {
            ahead.set_limit(limit);
            for shard in 0..8 {
                for number in 0..30 {
                    part(&counted, &ahead, shard, chunk(number));
                    let kept: u64 = ahead.state().windows.iter().map(|window| window.length).sum();
                    assert!(kept <= limit, "{kept} of {limit}");
                }
            }
        }
    }

    #[test]
    fn threads_get_what_they_ask_for() {
        let (counted, ahead) = store(12, 30);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= 12 * 30 {
                            return;
                        }
                        let (key, mut out) = (format!("c/{:03}", number / 30), Vec::new());
                        ahead.get(&key, Part::Last { length: INDEX }, &mut out).unwrap();
                        let begin = number % 30 * BYTES;
                        ahead.get(&key, chunk(number as u64 % 30), &mut out).unwrap();
                        let objects = counted.objects.lock().unwrap();
                        assert!(out == objects[&key][begin..begin + BYTES], "{number}");
                    }
                });
            }
        });
        let asked = counted.asked.load(Ordering::Relaxed);
        assert!(asked < 12 * 20, "{asked} requests for 360 chunks and 12 indices");
    }

    #[test]
    fn objects_that_change_or_go_are_seen() {
        let (counted, ahead) = store(4, 4);
        for number in 0..2 {
            part(&counted, &ahead, 0, chunk(number));
        }
        counted.objects.lock().unwrap().get_mut("c/000").unwrap().truncate(3 * BYTES);
        // What is kept may be given; what is not is asked for.
        ahead.set_limit(0);
        part(&counted, &ahead, 0, chunk(2));
        part(&counted, &ahead, 0, chunk(3));
        ahead.set_limit(KEPT);
        counted.objects.lock().unwrap().remove("c/001");
        assert_eq!(ahead.get("c/001", chunk(0), &mut Vec::new()).unwrap(), None);
        counted.objects.lock().unwrap().get_mut("c/002").unwrap().truncate(BYTES / 2);
        part(&counted, &ahead, 2, chunk(0));
        part(&counted, &ahead, 2, Part::Last { length: CHUNK });
    }
}
