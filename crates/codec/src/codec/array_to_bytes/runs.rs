//! `runs`: equal elements in a row, said once. For fields of which a large part is one value: land, missing, dark.
//!
//! A stream holds the elements that are not in runs, each run's first one among them, then pairs of LEB128 numbers, then
//! the length of the pairs in bytes (u64, little-endian). The first number of a pair says how many of the elements
//! follow. The second is twice the length of the run after them: of repeats of the last one, or, plus 1, of the element
//! that the run before was made of, which is not among the elements again.

use crate::codec::order::{Word, with_word};
use crate::codec::{Codec, Kind, Options, Stage, Step, check_limit, sized};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::wire::{Reader, put_number};
use std::marker::PhantomData;

/// Repeats of fewer bytes are left as they are: a pair must not take more than it saves.
const SHORTEST: usize = 16;
/// Elements that are compared together: a branch for each would take longer than the comparison.
const BLOCK: usize = 16;
/// Bits of a block.
const ALL: u32 = (1 << BLOCK) - 1;
/// Bytes of the length at the end, and at most of a pair.
const LENGTH: usize = 8;
const PAIR: usize = 20;

/// Elements in the order in which they are, without the repeats.
pub(in crate::codec) struct Runs;

impl Codec for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn wire_id(&self) -> u16 {
        20
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "equal elements in a row, said once: at the speed of memory, for fields with large masks"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["runs", "runs | snappy", "lorenzo | runs | shuffle:2"]
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn prepare(&self, _options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        with_word!("runs", input.spec.dtype, W => Box::new(Prepared::<W> { word: PhantomData }))
    }
}

struct Prepared<W> {
    word: PhantomData<fn() -> W>,
}

impl<W: Word> Prepared<W> {
    const SIZE: usize = W::BITS as usize / 8;

    /// Which of a block of elements equal the ones in `others`: a bit for each, the first one's lowest.
    fn equal(block: &[W::Bytes; BLOCK], others: &[W::Bytes; BLOCK]) -> u32 {
        let pairs = block.iter().zip(others).enumerate();
        pairs.fold(0, |bits, (at, (a, b))| bits | u32::from(W::from_le(*a) == W::from_le(*b)) << at)
    }

    /// Elements from the front on that are `value`.
    fn repeats(elements: &[W::Bytes], value: W::Bytes) -> usize {
        let values = [value; BLOCK];
        let (blocks, rest) = elements.as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            let differ = !Self::equal(block, &values) & ALL;
            if differ != 0 {
                return BLOCK * number + differ.trailing_zeros() as usize;
            }
        }
        let equal = |element: &&W::Bytes| W::from_le(**element) == W::from_le(value);
        BLOCK * blocks.len() + rest.iter().take_while(equal).count()
    }

    /// Position, from 1 on and not before `at`, of an element that equals the one before; the length if there is none.
    fn next(elements: &[W::Bytes], at: usize) -> usize {
        let (Some(before), Some(after)) = (elements.get(at - 1..), elements.get(at..)) else { return elements.len() };
        let blocks = before.as_chunks::<BLOCK>().0.iter().zip(after.as_chunks::<BLOCK>().0);
        let looked_at = BLOCK * blocks.len();
        for (number, (before, after)) in blocks.enumerate() {
            let equal = Self::equal(after, before);
            if equal != 0 {
                return at + BLOCK * number + equal.trailing_zeros() as usize;
            }
        }
        let mut rest = before.iter().zip(after).skip(looked_at);
        let repeats = |(a, b): (&W::Bytes, &W::Bytes)| W::from_le(*a) == W::from_le(*b);
        rest.position(repeats).map_or(elements.len(), |found| at + looked_at + found)
    }
}

impl<W: Word> Step for Prepared<W> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Every pair but the last saves at least what it takes.
        input_len.saturating_add(PAIR + LENGTH)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let elements = W::words(input);
        let mut pairs = Vec::new();
        out.clear();
        out.reserve(self.max_encoded_len(input.len()));
        let mut put = |begin: usize, end: usize, run: usize| {
            out.extend_from_slice(input.get(begin * Self::SIZE..end * Self::SIZE).unwrap_or_default());
            put_number(&mut pairs, (end - begin) as u64);
            put_number(&mut pairs, run as u64);
        };
        let (mut begin, mut at) = (0, 1);
        let mut known = None;
        while at < elements.len() {
            at = Self::next(elements, at);
            let (before, run) = elements.split_at(at);
            let Some(&value) = before.last() else { break };
            let repeats = Self::repeats(run, value);
            if repeats * Self::SIZE >= SHORTEST {
                if known == Some(W::from_le(value)) {
                    put(begin, at - 1, 2 * (repeats + 1) + 1);
                } else {
                    put(begin, at, 2 * repeats);
                }
                known = Some(W::from_le(value));
                begin = at + repeats;
            }
            at += repeats + 1;
        }
        if begin < elements.len() {
            put(begin, elements.len(), 0);
        }
        out.extend_from_slice(&pairs);
        out.extend_from_slice(&(pairs.len() as u64).to_le_bytes());
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let early = || Error::corrupt("runs: the stream ends early");
        let (rest, length) = input.split_last_chunk::<LENGTH>().ok_or_else(early)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| early())?;
        let (fresh, pairs) =
            rest.len().checked_sub(length).and_then(|at| rest.split_at_checked(at)).ok_or_else(early)?;
        let impossible = || Error::corrupt("runs: impossible lengths");
        let sum = |a: usize, b: usize| a.checked_add(b).ok_or_else(impossible);
        let (mut taken, mut total, mut is_known) = (0usize, 0usize, false);
        each(pairs, |count, run, again| {
            taken = sum(taken, count)?;
            total = sum(sum(total, count)?, run)?;
            let of_nothing = run > 0 && if again { !is_known } else { taken == 0 };
            is_known |= run > 0;
            if of_nothing { Err(Error::corrupt("runs: a run of nothing")) } else { Ok(()) }
        })?;
        if taken.checked_mul(Self::SIZE) != Some(fresh.len()) {
            return Err(Error::corrupt(format!(
                "runs: {} bytes of elements are not what the lengths say",
                fresh.len()
            )));
        }
        let total = total.checked_mul(Self::SIZE).ok_or_else(impossible)?;
        check_limit(total, limit)?;
        let (mut fresh, mut room) = (W::words(fresh), W::words_mut(sized(out, total)));
        let (mut last, mut known) = (W::default().to_le(), W::default().to_le());
        each(pairs, |count, run, again| {
            let short = || Error::internal("runs: lengths changed");
            let (taken, rest) = fresh.split_at_checked(count).ok_or_else(short)?;
            let (copied, after) = std::mem::take(&mut room).split_at_mut_checked(count).ok_or_else(short)?;
            let (filled, after) = after.split_at_mut_checked(run).ok_or_else(short)?;
            copied.copy_from_slice(taken);
            last = taken.last().copied().unwrap_or(last);
            if run > 0 && !again {
                known = last;
            }
            filled.fill(known);
            (fresh, room) = (rest, after);
            Ok(())
        })
    }
}

/// Gives `take` every pair: how many elements follow, the length of the run after them, and whether it is of the
/// element of the run before.
fn each(pairs: &[u8], mut take: impl FnMut(usize, usize, bool) -> Result<()>) -> Result<()> {
    let mut reader = Reader::new("runs", pairs);
    let number = |reader: &mut Reader<'_>| {
        usize::try_from(reader.number()?).map_err(|_| Error::corrupt("runs: impossible lengths"))
    };
    while reader.left() > 0 {
        let (count, run) = (number(&mut reader)?, number(&mut reader)?);
        take(count, run / 2, run % 2 == 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded<W: Word>(words: &[W]) -> Vec<u8> {
        let step = Prepared::<W> { word: PhantomData };
        let mut raw = vec![0; words.len() * Prepared::<W>::SIZE];
        W::words_mut(&mut raw).iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le());
        let (mut out, mut back) = (Vec::new(), vec![9; 3]);
        step.encode(&raw, &mut out).unwrap();
        assert!(out.len() <= step.max_encoded_len(raw.len()));
        step.decode(&out, raw.len(), &mut back).unwrap();
        assert_eq!(back, raw);
        out
    }

    #[test]
    fn a_mask_takes_nothing_and_values_take_what_they_are() {
        let field: Vec<u64> = (0..90_000u64).map(|i| if i / 50 % 3 > 0 { 1 << 62 } else { i * i }).collect();
        let out = encoded(&field);
        // A third of the elements, and 600 masks of one value.
        assert!((240_000..242_000).contains(&out.len()), "{}", out.len());
        assert_eq!(encoded(&[7u16; 1000]).len(), 2 + 3 + LENGTH);
    }

    #[test]
    fn runs_of_every_length_at_every_place_come_back() {
        for size in 0..70u32 {
            for begin in 0..40 {
                let words: Vec<u32> =
                    (0..110).map(|i| if (begin..begin + size).contains(&i) { 5 } else { i }).collect();
                let out = encoded(&words);
                let saved = if size > 4 { 4 * (size as usize - 1) } else { 0 };
                assert!(out.len() + saved <= 440 + PAIR + LENGTH, "{size} at {begin}: {}", out.len());
                encoded(&words.iter().map(|&word| u8::try_from(word).unwrap()).collect::<Vec<u8>>());
            }
        }
        encoded::<u64>(&[]);
        encoded(&[1u64]);
        // Masks of two values in turn, and of one.
        encoded(&(0..5000u32).map(|i| if i % 90 < 60 { i / 90 % 2 } else { i }).collect::<Vec<u32>>());
        encoded(&(0..5000u32).map(|i| if i % 90 < 60 { 7 } else { i }).collect::<Vec<u32>>());
        // Runs one after the other, and repeats that are too short to be said.
        encoded(&(0..5000u32).map(|i| u16::try_from(i / 9 % 3 * (i / 700)).unwrap()).collect::<Vec<u16>>());
        encoded(&(0..5000u32).map(|i| u8::try_from(i / 2 % 200).unwrap()).collect::<Vec<u8>>());
    }

    #[test]
    fn streams_that_lie_are_refused() {
        let step = Prepared::<u32> { word: PhantomData };
        let stream = |fresh: &[u8], pairs: &[u8]| [fresh, pairs, &(pairs.len() as u64).to_le_bytes()].concat();
        let mut out = Vec::new();
        let mut refused = |stream: &[u8], limit| step.decode(stream, limit, &mut out).is_err();
        assert!(!refused(&stream(&[1, 2, 3, 4], &[1, 6]), 16));
        assert!(refused(&stream(&[1, 2, 3, 4], &[1, 6]), 15), "more than there is room for");
        assert!(!refused(&stream(&[1, 2, 3, 4], &[1, 2, 0, 5]), 16));
        assert!(refused(&stream(&[], &[0, 6]), 16), "a repeat of nothing");
        assert!(refused(&stream(&[1, 2, 3, 4], &[1, 7]), 16), "the run before, where there was none");
        assert!(refused(&stream(&[1, 2, 3, 4], &[2, 0]), 16), "elements that are not there");
        assert!(refused(&stream(&[1, 2, 3, 4], &[1]), 16), "half a pair");
        let huge = [1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert!(refused(&stream(&[1, 2, 3, 4], &huge), usize::MAX), "more than there can be");
        assert!(refused(&[stream(&[1, 2, 3, 4], &[1, 6]), vec![0]].concat(), 16) && refused(&[0; 7], 16));
    }
}
