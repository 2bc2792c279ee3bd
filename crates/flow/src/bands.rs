//! Blocks of a variable, read in order, many at a time where the stored chunks lie across them.
//!
//! A block that crosses many stored chunks needs all of them, and so does the next one. Decoded chunks are kept
//! ([`crate::cache`]); where memory holds fewer than lie between two uses of a chunk, each would be decoded anew for
//! every row of blocks. There a *band* of blocks is read at once, as many as memory holds: each of its stored chunks
//! once, by all threads together, which spread the elements over the blocks.

mod plan;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::store::Source;
use crate::threads::engine::Engine;
use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_array::region::{Placed, Region, copy_region, each_chunk};
use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use plan::{Plan, exceeds_cache};

/// The blocks of one variable. Each is to be read or passed over once, in about the order of the numbers.
pub struct Bands<'a> {
    engine: &'a Engine,
    source: &'a dyn Source,
    index: usize,
    variable: &'a Variable,
    block: &'a [u64],
    plan: Option<Plan>,
    open: Mutex<HashMap<u64, Arc<Band>>>,
    /// The source keeps no chunks meanwhile.
    cache_disabled: bool,
}

impl Drop for Bands<'_> {
    fn drop(&mut self) {
        if self.cache_disabled {
            self.engine.bound(self.source);
        }
    }
}

/// A band being read, or read and not used up.
struct Band {
    /// Number of its first block, and its place in the variable.
    first: u64,
    region: Region,
    blocks: Vec<Mutex<Vec<u8>>>,
    /// Blocks that are still to be read or passed over.
    left: AtomicU64,
    reading: Mutex<Reading>,
    changed: Condvar,
}

#[derive(Default)]
struct Reading {
    /// Pieces that were begun, that are done, and that there are.
    begun: u64,
    done: u64,
    pieces: u64,
    failed: Option<Error>,
}

impl<'a> Bands<'a> {
    /// Blocks of the shape `block` of a variable. They take about `memory` bytes, and what the source would take to keep
    /// chunks.
    ///
    /// # Errors
    /// `Internal` if there is no such variable.
    pub fn new(
        engine: &'a Engine,
        source: &'a dyn Source,
        index: usize,
        block: &'a [u64],
        memory: u64,
    ) -> Result<Self> {
        let mut all = Self::of_several(engine, source, &[(index, block)], memory)?;
        all.pop().ok_or_else(|| Error::internal("no blocks"))
    }

    /// As [`Bands::new`] for variables, with the shapes of their blocks, that are read one after another.
    ///
    /// # Errors
    /// As for [`Bands::new`].
    pub fn of_several(
        engine: &'a Engine,
        source: &'a dyn Source,
        wanted: &[(usize, &'a [u64])],
        memory: u64,
    ) -> Result<Vec<Self>> {
        let cache = engine.cache();
        let variables = wanted.iter().map(|(index, _)| source.model().variable(*index)).collect::<Result<Vec<_>>>()?;
        let cache_disabled =
            variables.iter().zip(wanted).any(|(variable, (_, block))| exceeds_cache(variable, block, cache));
        let (cache, memory) = if cache_disabled { (0, memory.saturating_add(cache)) } else { (cache, memory) };
        if cache_disabled {
            source.limit_cache(0);
        }
        let make = |(variable, &(index, block)): (&'a Variable, &(usize, &'a [u64]))| Self {
            engine,
            source,
            index,
            variable,
            block,
            plan: Plan::of(variable, block, cache, memory, engine.jobs as u64),
            open: Mutex::default(),
            cache_disabled,
        };
        Ok(variables.into_iter().zip(wanted).map(make).collect())
    }

    /// Where the values are read.
    pub fn source(&self) -> &'a dyn Source {
        self.source
    }

    /// Whose blocks they are.
    pub fn variable(&self) -> &'a Variable {
        self.variable
    }

    /// True if many blocks are read at once: other orders than that of the numbers would have many of them wait.
    pub fn is_banded(&self) -> bool {
        self.plan.is_some()
    }

    /// The elements of a block, clipped to the variable.
    pub fn region(&self, number: u64) -> Region {
        let shape = &self.variable.shape;
        chunk_region(shape, self.block, &chunk_position(shape, self.block, number))
    }

    /// Replaces the contents of `out` by the elements of the block, clipped to the variable, as
    /// [`Source::read_region`] gives them.
    ///
    /// # Errors
    /// As for [`Source::read_region`], about any block of the band.
    pub fn read(&self, number: u64, out: &mut Vec<u8>) -> Result<()> {
        let Some(plan) = &self.plan else {
            return self.source.read_region(self.index, &self.region(number), out);
        };
        let (key, band) = self.band(plan, number);
        self.fill(plan, &band)?;
        *out = std::mem::take(&mut *locked(band.place(number)?));
        self.used(key, &band);
        Ok(())
    }

    /// Says that the block will not be read.
    pub fn pass(&self, number: u64) {
        if let Some(plan) = &self.plan {
            let (key, band) = self.band(plan, number);
            self.used(key, &band);
        }
    }

    fn band(&self, plan: &Plan, number: u64) -> (u64, Arc<Band>) {
        let (key, first, count) = plan.band(&self.variable.shape, self.block, number);
        let make = || Arc::new(Band::new(&self.variable.shape, self.block, plan, first, count));
        (key, Arc::clone(locked(&self.open).entry(key).or_insert_with(make)))
    }

    fn used(&self, key: u64, band: &Band) {
        if band.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            locked(&self.open).remove(&key);
        }
    }

    /// Takes part in reading the band, and returns when it is read.
    fn fill(&self, plan: &Plan, band: &Band) -> Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut reading = locked(&band.reading);
            while reading.failed.is_none() && reading.begun < reading.pieces && reading.under_way() >= plan.at_once {
                reading = band.changed.wait(reading).unwrap_or_else(PoisonError::into_inner);
            }
            if reading.failed.is_some() || reading.begun == reading.pieces {
                while reading.failed.is_none() && reading.under_way() > 0 {
                    reading = band.changed.wait(reading).unwrap_or_else(PoisonError::into_inner);
                }
                return reading.failed.clone().map_or(Ok(()), Err);
            }
            let number = reading.begun;
            reading.begun += 1;
            drop(reading);
            let under_way = ReadGuard(band);
            let outcome = self.engine.check_cancelled().and_then(|()| self.read_piece(plan, band, number, &mut bytes));
            if let Err(error) = outcome {
                locked(&band.reading).failed.get_or_insert(error);
            }
            drop(under_way);
        }
    }

    /// Reads one piece of the band and spreads it over the blocks.
    fn read_piece(&self, plan: &Plan, band: &Band, number: u64, bytes: &mut Vec<u8>) -> Result<()> {
        let (shape, size) = (&self.variable.shape, self.variable.dtype.size());
        let piece = band.piece(&plan.piece, number);
        // What is encoded is decoded as a whole, which fits into what is read here as well as into the cache.
        let read = match self.variable.chain.as_str() {
            "raw" => piece.clone(),
            _ => {
                let position: Vec<u64> = piece.start.iter().zip(&plan.piece).map(|(at, piece)| at / piece).collect();
                chunk_region(shape, &plan.piece, &position)
            }
        };
        self.source.read_region(self.index, &read, bytes)?;
        each_chunk(&piece, self.block, |position| {
            let whole = chunk_region(shape, self.block, position);
            let Some(common) = piece.intersection(&whole) else { return Ok(()) };
            let number =
                position.iter().zip(shape.iter().zip(self.block)).fold(0, |at, (p, (n, c))| at * n.div_ceil(*c) + p);
            let mut block = locked(band.place(number)?);
            if block.is_empty() {
                let len = whole.volume().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
                block.resize(len * size, 0);
            }
            let from = Placed { shape: &read.count, start: &common.start_in(&read) };
            let to = Placed { shape: &whole.count, start: &common.start_in(&whole) };
            copy_region(bytes, from, &mut block, to, &common.count, size);
            Ok(())
        })
    }
}

impl Band {
    /// The band that begins with the block `first` and has `along` blocks along the axis of the plan.
    fn new(shape: &[u64], block: &[u64], plan: &Plan, first: u64, along: u64) -> Self {
        let mut region = chunk_region(shape, block, &chunk_position(shape, block, first));
        let axis = plan.axis;
        region.count[axis] = (along * block[axis]).min(shape[axis] - region.start[axis]);
        region.count[axis + 1..].copy_from_slice(&shape[axis + 1..]);
        let blocks = along * chunk_count(&shape[axis + 1..], &block[axis + 1..]);
        let mut pieces = 1;
        for axis in 0..shape.len() {
            pieces *= region.end(axis).div_ceil(plan.piece[axis]) - region.start[axis] / plan.piece[axis];
        }
        Self {
            first,
            region,
            blocks: (0..blocks).map(|_| Mutex::default()).collect(),
            left: AtomicU64::new(blocks),
            reading: Mutex::new(Reading { pieces, ..Reading::default() }),
            changed: Condvar::new(),
        }
    }

    /// What the band has of its piece `number`.
    fn piece(&self, piece: &[u64], number: u64) -> Region {
        let whole = &self.region;
        let mut part = whole.clone();
        let mut rest = number;
        for axis in (0..piece.len()).rev() {
            let end = whole.end(axis);
            let first = whole.start[axis] / piece[axis];
            let pieces = end.div_ceil(piece[axis]) - first;
            let at = (first + rest % pieces) * piece[axis];
            rest /= pieces;
            part.start[axis] = at.max(whole.start[axis]);
            part.count[axis] = (at + piece[axis]).min(end) - part.start[axis];
        }
        part
    }

    fn place(&self, number: u64) -> Result<&Mutex<Vec<u8>>> {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.blocks.get(at)).ok_or_else(|| Error::internal("a block is not in its band"))
    }
}

impl Reading {
    fn under_way(&self) -> u64 {
        self.begun - self.done
    }
}

/// A piece being read. A thread that panics must not be waited for.
struct ReadGuard<'a>(&'a Band);

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let mut reading = locked(&self.0.reading);
        reading.done += 1;
        if std::thread::panicking() {
            reading.failed.get_or_insert_with(|| Error::internal("a thread that read values broke off"));
        }
        drop(reading);
        self.0.changed.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::path::Path;

    use super::*;
    use knarr_array::array::DType;
    use knarr_array::error::ErrorKind;
    use knarr_array::model::{Model, StorageLayout, Variable};
    use knarr_array::region::volume;
    use knarr_codec::codec::CodecList;

    /// Elements are their numbers. Counts how often each stored chunk is decoded, keeping none.
    struct Counted {
        model: Model,
        chunk: Vec<u64>,
        /// An element that cannot be read.
        damaged: Option<u64>,
        decoded: Mutex<HashMap<Vec<u64>, u64>>,
        limits: Mutex<Vec<usize>>,
    }

    impl Counted {
        fn new(shape: &[u64], chunk: &[u64]) -> Self {
            let variable = Variable {
                layout: StorageLayout::Chunked(chunk.to_vec()),
                chain: "deflate:1".to_owned(),
                stored_bytes: volume(shape).map(|elements| 4 * elements),
                ..Variable::plain("/v", DType::U32, shape.to_vec())
            };
            let model = Model { variables: vec![variable], ..Model::default() };
            Self { model, chunk: chunk.to_vec(), damaged: None, decoded: Mutex::default(), limits: Mutex::default() }
        }

        fn values(&self, region: &Region, out: &mut Vec<u8>) -> Result<()> {
            out.clear();
            let shape = &self.model.variables[0].shape;
            for index in 0..volume(&region.count).unwrap() {
                let (mut rest, mut element, mut stride) = (index, 0, 1);
                for axis in (0..shape.len()).rev() {
                    element += (region.start[axis] + rest % region.count[axis]) * stride;
                    rest /= region.count[axis];
                    stride *= shape[axis];
                }
                if self.damaged == Some(element) {
                    return Err(Error::corrupt("damaged on purpose"));
                }
                out.extend(u32::try_from(element).unwrap().to_le_bytes());
            }
            Ok(())
        }

        fn most_decoded(&self) -> u64 {
            locked(&self.decoded).values().copied().max().unwrap_or(0)
        }
    }

    impl Source for Counted {
        fn model(&self) -> &Model {
            &self.model
        }

        fn path(&self) -> &Path {
            Path::new("counted")
        }

        fn format(&self) -> &str {
            "counted"
        }

        fn read_region(&self, _variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
            each_chunk(region, &self.chunk, |position| {
                *locked(&self.decoded).entry(position.to_vec()).or_insert(0) += 1;
                Ok::<_, Error>(())
            })?;
            self.values(region, out)
        }

        fn is_written(&self, _variable: usize, _region: &Region) -> bool {
            true
        }

        fn limit_cache(&self, bytes: usize) {
            locked(&self.limits).push(bytes);
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    fn engine(max_mem: u64, jobs: usize) -> Engine {
        Engine { jobs, max_mem, ..Engine::new(CodecList::pure()) }
    }

    /// Reads all blocks and compares them with what the source gives for them. Every seventh is passed over.
    fn read_all(engine: &Engine, source: &Counted, block: &[u64], memory: u64) {
        let bands = Bands::new(engine, source, 0, block, memory).unwrap();
        let shape = &source.model().variables[0].shape;
        let count = usize::try_from(chunk_count(shape, block)).unwrap();
        engine
            .parallel(count, |number| {
                let number = number as u64;
                if number % 7 == 6 {
                    bands.pass(number);
                    return Ok(());
                }
                let (mut found, mut expected) = (vec![1, 2, 3], Vec::new());
                bands.read(number, &mut found)?;
                source.values(&bands.region(number), &mut expected)?;
                assert_eq!(found, expected, "block {number} of {block:?}");
                Ok(())
            })
            .unwrap();
        assert!(locked(&bands.open).is_empty(), "what was read is given up");
    }

    #[test]
    fn blocks_are_what_the_source_gives_whatever_the_shapes() {
        let mut seed = 7u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most + 1
        };
        let mut banded = 0;
        for round in 0..400 {
            let rank = random(4);
            let shape: Vec<u64> = (0..rank).map(|_| random(13)).collect();
            let chunk: Vec<u64> = shape.iter().map(|n| random(*n + 2)).collect();
            let block: Vec<u64> = shape.iter().map(|n| random(*n + 2)).collect();
            let source = Counted::new(&shape, &chunk);
            let engine = engine(random(400), 1 + round % 3);
            read_all(&engine, &source, &block, random(20_000));
            banded += u32::from(!locked(&source.limits).is_empty());
        }
        assert!(banded > 100, "{banded} of 400 were read in bands");
    }

    #[test]
    fn each_stored_chunk_is_decoded_once_for_each_band() {
        // Maps become series, in memory for all of them, a half and a fifth.
        let (shape, maps, series) = ([40, 20, 30], [1, 20, 30], [40, 4, 3]);
        let bytes = 4 * 40 * 20 * 30;
        for (memory, most) in [(2 * bytes, 1), (bytes / 2 + 20_000, 3), (bytes / 5 + 20_000, 5)] {
            for (chunk, block) in [(maps, series), (series, maps)] {
                let source = Counted::new(&shape, &chunk);
                read_all(&engine(4000, 2), &source, &block, memory);
                let decoded = source.most_decoded();
                assert!(decoded <= most, "{chunk:?} to {block:?} in {memory}: {decoded} times");
                assert_eq!(*locked(&source.limits), [0, 1000], "the cache is given up meanwhile");
            }
        }
    }

    #[test]
    fn what_follows_the_stored_chunks_or_fits_the_cache_is_read_block_by_block() {
        for (chunk, block, max_mem) in [
            ([1, 20, 30], [4, 20, 30], 100),
            ([4, 5, 30], [8, 10, 30], 100),
            ([4, 20, 30], [1, 20, 30], 100),
            ([1, 20, 30], [40, 4, 3], 1 << 20),
        ] {
            let source = Counted::new(&[40, 20, 30], &chunk);
            read_all(&engine(max_mem, 2), &source, &block, 1 << 20);
            assert!(locked(&source.limits).is_empty(), "{chunk:?} to {block:?}");
        }
    }

    #[test]
    fn damage_is_heard_of_by_all_who_wait_for_the_band() {
        let mut source = Counted::new(&[40, 20, 30], &[1, 20, 30]);
        source.damaged = Some(7777);
        for jobs in [1, 4] {
            let engine = engine(4000, jobs);
            let bands = Bands::new(&engine, &source, 0, &[40, 4, 3], 1 << 20).unwrap();
            for number in 0..3 {
                let error = bands.read(number, &mut Vec::new()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
            let error = engine.parallel(50, |number| bands.read(number as u64, &mut Vec::new())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let engine = engine(4000, 2);
        engine.cancel.store(true, Ordering::Relaxed);
        let bands = Bands::new(&engine, &source, 0, &[40, 4, 3], 1 << 20).unwrap();
        assert_eq!(bands.read(0, &mut Vec::new()).unwrap_err().kind(), ErrorKind::Interrupted);
    }
}
