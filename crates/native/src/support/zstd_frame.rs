//! Zstandard frames whose blocks are each coded the way that suits them: with the matches that [`super::matches`]
//! finds worth their bits, or by libzstd's own search where that gains more.
//!
//! libzstd asks a *sequence producer* for the matches of each block; ours gives them, or leaves the block to libzstd.
//! Blocks end where planes of shuffled numbers do, so that each has the prefix code of one kind of bytes. What comes
//! out is an ordinary frame (RFC 8878).

use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use knarr_array::{Error, Result};
use zstd_safe::zstd_sys::{
    self, ZSTD_CCtx, ZSTD_EndDirective, ZSTD_Sequence, ZSTD_cParameter, ZSTD_inBuffer, ZSTD_outBuffer,
};

use super::append;
use super::matches::{Bits, Finder, Match};
use crate::runs;

/// Most bytes of a block (RFC 8878, 3.1.1.2.4).
const BLOCK: usize = 128 << 10;
/// RFC 8878, 3.1.1.3.2.1.1.
const SHORTEST: usize = 3;
/// Fewest bytes of a plane that get blocks of their own.
const SMALLEST: usize = 8 << 10;
/// Levels from here on are left to libzstd: their search weighs bits itself.
const PLAIN: i32 = 13;
/// Inputs of whole numbers with more bytes than this are searched for repeats over their whole length: the windows of
/// most levels are shorter.
const LONG: usize = 8 << 20;
/// Levels that search for those too: it would take the fastest ones twice as long.
const LONG_LEVELS: std::ops::RangeFrom<i32> = 3..;
/// Levels that search so where numbers are shuffled, too, and leave the whole input to libzstd for it: at lower ones the
/// planes gain more by blocks of their own.
const LONG_LEVELS_OF_PLANES: std::ops::RangeFrom<i32> = 10..;
/// Log2 of the longest window: more than every decoder takes.
const LONGEST_WINDOW: u32 = 27;
/// Shortest repeat that is looked for at any distance, log2 of the share of places looked at, and of the places that
/// are remembered.
const LONG_MATCH: c_int = 32;
const LONG_RATE: c_int = 4;
const LONG_TABLE: c_int = 22;
/// Inputs whose positions the finder can't count are left to libzstd as well.
const LARGEST: usize = 1 << 31;
/// Bits per byte below which headers of blocks count: a plane is one.
const LITTLE: f32 = 0.2;
/// `ZSTD_ParamSwitch_e`.
const ENABLE: c_int = 1;
const DISABLE: c_int = 2;
/// What a producer returns to leave a block to libzstd's own search (`ZSTD_SEQUENCE_PRODUCER_ERROR`).
const SEARCH: usize = usize::MAX;

/// The part of a plane by which our matches must shrink it for libzstd's deeper search to be worth its time.
fn least_gain(level: i32) -> f32 {
    match level {
        ..=2 => f32::INFINITY,
        3..=5 => 0.5,
        _ => 0.002,
    }
}

/// A compression context of one level.
pub(crate) struct Encoder {
    context: NonNull<ZSTD_CCtx>,
    level: i32,
    finder: Finder,
    /// Memory of the last parse.
    blocks: Vec<Block>,
    matches: Vec<Match>,
}

// SAFETY: a context belongs to no thread; it is only used through `&mut self`.
unsafe impl Send for Encoder {}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: made by `ZSTD_createCCtx` and freed once.
        unsafe { zstd_sys::ZSTD_freeCCtx(self.context.as_ptr()) };
    }
}

impl Encoder {
    /// # Errors
    /// `Unsupported` without memory.
    pub(crate) fn new(level: i32) -> Result<Self> {
        // SAFETY: takes nothing; null is checked.
        let context = NonNull::new(unsafe { zstd_sys::ZSTD_createCCtx() })
            .ok_or_else(|| Error::unsupported("no memory for a compression context"))?;
        let encoder = Self { context, level, finder: Finder::new(), blocks: Vec::new(), matches: Vec::new() };
        encoder.set(ZSTD_cParameter::ZSTD_c_compressionLevel, level)?;
        // Numbers as in zstd.h, where they have names: stable input and output buffers, which save copies.
        encoder.set(ZSTD_cParameter::ZSTD_c_experimentalParam9, 1)?;
        encoder.set(ZSTD_cParameter::ZSTD_c_experimentalParam10, 1)?;
        Ok(encoder)
    }

    fn set(&self, parameter: ZSTD_cParameter, value: c_int) -> Result<()> {
        // SAFETY: the context is alive; libzstd checks parameter and value.
        checked(unsafe { zstd_sys::ZSTD_CCtx_setParameter(self.context.as_ptr(), parameter, value) }).map(drop)
    }

    /// The level that it was made for.
    pub(crate) fn level(&self) -> i32 {
        self.level
    }

    /// Sets how far back an input of whole numbers is searched.
    fn look_back(&self, length: usize) -> Result<()> {
        let is_long = length > LONG && LONG_LEVELS.contains(&self.level);
        let window = length.next_power_of_two().ilog2().min(LONGEST_WINDOW);
        // 0 stands for what belongs to the level.
        for (parameter, value) in [
            (ZSTD_cParameter::ZSTD_c_windowLog, window.cast_signed()),
            (ZSTD_cParameter::ZSTD_c_enableLongDistanceMatching, ENABLE),
            (ZSTD_cParameter::ZSTD_c_ldmMinMatch, LONG_MATCH),
            (ZSTD_cParameter::ZSTD_c_ldmHashRateLog, LONG_RATE),
            (ZSTD_cParameter::ZSTD_c_ldmHashLog, LONG_TABLE),
        ] {
            self.set(parameter, if is_long { value } else { 0 })?;
        }
        Ok(())
    }

    /// Appends the frame of `input`, which has `planes` equal parts that differ in kind; without, its bytes are left
    /// to libzstd's search, which suits those of whole numbers.
    ///
    /// # Errors
    /// `Unsupported` without memory, `Internal` if libzstd fails.
    pub(crate) fn append(&mut self, input: &[u8], planes: Option<usize>, out: &mut Vec<u8>) -> Result<()> {
        let bound = zstd_safe::compress_bound(input.len());
        // SAFETY: `write` stays within `room` bytes, which libzstd is told, and returns how many it set.
        unsafe { append(out, bound, |start, room| self.write(input, planes, start, room)) }
    }

    fn write(&mut self, input: &[u8], planes: Option<usize>, start: *mut u8, room: usize) -> Result<usize> {
        let context = self.context.as_ptr();
        let mut source = ZSTD_inBuffer { src: input.as_ptr().cast(), size: 0, pos: 0 };
        let mut target = ZSTD_outBuffer { dst: start.cast(), size: room, pos: 0 };
        // `source` and `target` are the same buffers for the whole frame, as stable buffers must be.
        let mut write_to = |end: usize| {
            let last = end == input.len();
            let directive = if last { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_flush };
            source.size = end;
            // SAFETY: `source` is the start of `input`, `target` the room that the caller gives.
            let left = unsafe { zstd_sys::ZSTD_compressStream2(context, &raw mut target, &raw mut source, directive) };
            match checked(left)? {
                0 => Ok(target.pos),
                _ => Err(Error::internal("zstd: a frame does not fit its bound")),
            }
        };
        // SAFETY: the context is alive.
        unsafe {
            checked(zstd_sys::ZSTD_CCtx_reset(context, zstd_sys::ZSTD_ResetDirective::ZSTD_reset_session_only))?;
            checked(zstd_sys::ZSTD_CCtx_setPledgedSrcSize(context, input.len() as u64))?;
        }
        let is_long = input.len() > LONG && LONG_LEVELS_OF_PLANES.contains(&self.level);
        let planes = planes.filter(|_| !is_long);
        self.look_back(if planes.is_none() { input.len() } else { 0 })?;
        let Some(planes) = planes.filter(|_| self.level < PLAIN && (1..LARGEST).contains(&input.len())) else {
            return write_to(input.len());
        };
        let mut parse = Parse { input, blocks: mem::take(&mut self.blocks), matches: mem::take(&mut self.matches) };
        parse.find(planes, self.level, &mut self.finder);
        // Either fall back to the own search or code matches of a recent distance as such: libzstd 1.5.7 forgets the
        // third last distance in its search and would then code ours wrong.
        let searches = parse.blocks.iter().any(|block| block.matches.is_none());
        self.set(ZSTD_cParameter::ZSTD_c_experimentalParam17, c_int::from(searches))?;
        self.set(ZSTD_cParameter::ZSTD_c_experimentalParam19, if searches { DISABLE } else { ENABLE })?;
        // SAFETY: `parse` outlives its registration, which ends below, and is only read until then.
        unsafe {
            zstd_sys::ZSTD_registerSequenceProducer(context, (&raw const parse).cast_mut().cast(), Some(produce));
        }
        let written = parse.blocks.iter().try_fold(0, |_, block| write_to(block.end));
        // SAFETY: the context is alive; no producer is registered afterwards.
        unsafe { zstd_sys::ZSTD_registerSequenceProducer(context, std::ptr::null_mut(), None) };
        (self.blocks, self.matches) = (parse.blocks, parse.matches);
        written
    }
}

fn checked(code: usize) -> Result<usize> {
    // SAFETY: a pure function of a number.
    if unsafe { zstd_sys::ZSTD_isError(code) } == 0 {
        return Ok(code);
    }
    Err(Error::internal(format!("zstd: {}", zstd_safe::get_error_name(code))))
}

/// How an input is cut into blocks, and the matches of those that libzstd need not search.
struct Parse<'a> {
    input: &'a [u8],
    blocks: Vec<Block>,
    matches: Vec<Match>,
}

struct Block {
    end: usize,
    /// Places in `Parse::matches`; none for what libzstd searches.
    matches: Option<Range<usize>>,
}

impl Parse<'_> {
    /// Parses the input, which has `planes` equal parts that differ in kind.
    fn find(&mut self, planes: usize, level: i32, finder: &mut Finder) {
        let input = self.input;
        self.blocks.clear();
        self.matches.clear();
        finder.reset();
        // SAFETY: a pure function of numbers.
        let parameters = unsafe { zstd_sys::ZSTD_getCParams(level, input.len() as u64, 0) };
        let window = 1 << parameters.windowLog;
        let plane = input.len().div_ceil(planes.max(1)).max(SMALLEST);
        for begin in (0..input.len()).step_by(plane) {
            let end = (begin + plane).min(input.len());
            let (blocks, matches) = (self.blocks.len(), self.matches.len());
            let bits = self.plane(begin, end, window, finder);
            if bits.saved > least_gain(level) * bits.total {
                // A search finds nothing in blocks that it did not see before, so it gets whole planes.
                self.blocks.truncate(blocks);
                self.matches.truncate(matches);
                self.blocks.push(Block { end, matches: None });
            } else if bits.total < LITTLE * (end - begin) as f32 {
                self.blocks.truncate(blocks);
                self.blocks.push(Block { end, matches: Some(matches..self.matches.len()) });
            }
        }
    }

    /// Adds the blocks of one plane.
    fn plane(&mut self, begin: usize, end: usize, window: usize, finder: &mut Finder) -> Bits {
        let mut sum = Bits::default();
        let mut at = begin;
        while at < end {
            let left = end - at;
            let piece = left.div_ceil(left.div_ceil(BLOCK));
            // Equal bytes are one block: libzstd has a form for those.
            let stop = at + piece.max(runs::equal_to(self.input[at], &self.input[at..end]));
            let mut first = self.matches.len();
            let blocks = &mut self.blocks;
            let bits = finder.find(self.input, at, stop, window, &mut self.matches, |end, found| {
                blocks.push(Block { end, matches: Some(first..found) });
                first = found;
            });
            sum = Bits { total: sum.total + bits.total, saved: sum.saved + bits.saved };
            at = stop;
        }
        sum
    }

    /// Puts the matches of `input[begin..end]` into `out` and returns their number with the literals at the end;
    /// nothing for what libzstd is to search.
    fn sequences(
        &self,
        begin: usize,
        end: usize,
        window: usize,
        out: &mut [MaybeUninit<ZSTD_Sequence>],
    ) -> Option<usize> {
        let block = self.blocks.get(self.blocks.partition_point(|block| block.end <= begin))?;
        let last = Match { start: end, length: 0, distance: 0 };
        let mut at = begin;
        let mut written = 0;
        for found in self.matches.get(block.matches.clone()?)?.iter().chain([&last]) {
            // libzstd may have cut the block.
            let start = found.start.clamp(begin, end);
            let length = (found.start + found.length).min(end).saturating_sub(start);
            if found.distance > window || (length < SHORTEST && found.length > 0) {
                continue;
            }
            out.get_mut(written)?.write(ZSTD_Sequence {
                offset: u32::try_from(found.distance).ok()?,
                litLength: u32::try_from(start - at).ok()?,
                matchLength: u32::try_from(length).ok()?,
                rep: 0,
            });
            written += 1;
            at = start + length;
        }
        Some(written)
    }
}

/// Writes the matches of one block, as `ZSTD_sequenceProducer_F` wants them, and returns their number, or [`SEARCH`].
///
/// # Safety
/// `state` is a [`Parse`] that nothing changes, `out` has room for `capacity` sequences.
unsafe extern "C" fn produce(
    state: *mut c_void,
    out: *mut ZSTD_Sequence,
    capacity: usize,
    source: *const c_void,
    size: usize,
    _dictionary: *const c_void,
    _dictionary_size: usize,
    _level: c_int,
    window: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let (parse, out) = unsafe {
        (&*state.cast::<Parse<'_>>(), std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<_>>(), capacity))
    };
    // A panic must not cross into C: libzstd searches instead, or fails where it is not to.
    let found = catch_unwind(AssertUnwindSafe(|| {
        let begin = (source as usize).checked_sub(parse.input.as_ptr() as usize)?;
        let end = begin.checked_add(size).filter(|end| *end <= parse.input.len())?;
        parse.sequences(begin, end, window, out)
    }));
    found.ok().flatten().unwrap_or(SEARCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::data::{Random, mixed};

    #[test]
    fn every_mixture_of_parts_comes_back() {
        let mut random = Random::new(17);
        for case in 0..90usize {
            let plain = mixed(&mut random, case % 12);
            let level = [1, 2, 3, 6, 12, 13][case % 6];
            let planes = [None, Some(1), Some(2), Some(4), Some(8)][case % 5];
            let mut encoder = Encoder::new(level).unwrap();
            // A context is used again, and appends.
            let mut frame = vec![9];
            encoder.append(&plain, planes, &mut frame).unwrap();
            let first = frame.split_off(1);
            encoder.append(&plain, planes, &mut frame).unwrap();
            assert!(frame[1..] == first, "case {case}: the same input gives other bytes");
            assert_eq!(zstd_safe::get_frame_content_size(&first).unwrap(), Some(plain.len() as u64));
            let mut back = vec![0; plain.len()];
            assert_eq!(zstd_safe::decompress(&mut back, &first), Ok(plain.len()), "case {case}");
            assert!(back == plain, "case {case}");
        }
    }

    #[test]
    fn repeats_of_long_inputs_are_found_at_any_distance() {
        let mut random = Random::new(5);
        let half: Vec<u8> = (0..LONG / 2).flat_map(|_| random.bits().to_le_bytes().into_iter().take(2)).collect();
        let plain = [half.as_slice(), &half].concat();
        for level in [3, 9, 19] {
            let mut encoder = Encoder::new(level).unwrap();
            let (mut frame, mut short) = (Vec::new(), Vec::new());
            encoder.append(&plain, None, &mut frame).unwrap();
            assert!(frame.len() < half.len() + half.len() / 50, "level {level}: {}", frame.len());
            let mut back = vec![0; plain.len()];
            assert_eq!(zstd_safe::decompress(&mut back, &frame), Ok(plain.len()));
            assert!(back == plain);
            // What is set for long inputs does not stay for short ones.
            encoder.append(&plain[..LONG], None, &mut short).unwrap();
            let mut fresh = Vec::new();
            Encoder::new(level).unwrap().append(&plain[..LONG], None, &mut fresh).unwrap();
            assert!(short == fresh, "level {level}");
        }
    }

    #[test]
    fn equal_bytes_take_no_room() {
        let mut frame = Vec::new();
        Encoder::new(1).unwrap().append(&[7; 4 << 20], Some(4), &mut frame).unwrap();
        assert!(frame.len() < 200, "{}", frame.len());
    }
}
