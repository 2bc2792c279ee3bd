//! A DEFLATE stream whose parts are each written the way that suits them: stored, literals and runs, or searched for
//! matches by libdeflate.
//!
//! Shuffled numbers are planes of unlike bytes: noise, bytes that only vary in frequency, and bytes that repeat. A
//! search in the first two finds little and takes most of the time; what it finds spoils the prefix code.

use libdeflater::Compressor;

use super::bits::BitWriter;
use super::blocks::{LARGEST_STORED, Open};
use super::effort::Effort;
use super::search::{self, Way};
use super::splice;
use super::stretch::Stretch;
use knarr_array::{Error, Result};

/// Most bytes for which one way is chosen.
const REGION: usize = 256 << 10;

/// Appends `input` as one DEFLATE stream. `planes` is the number of equal parts of `input` that differ in kind, 1 if
/// nothing is known.
///
/// # Errors
/// `Internal` if libdeflate fails.
pub(super) fn encode(
    input: &[u8],
    planes: usize,
    effort: Effort,
    compressor: &mut Compressor,
    out: Vec<u8>,
) -> Result<Vec<u8>> {
    let mut writer = Writer {
        input,
        granule: effort.granule,
        compressor,
        out: BitWriter::new(out),
        part: Part::Blocks(Box::new(Open::new(0))),
    };
    let plane = (input.len() / planes.max(1)).max(effort.granule);
    for plane_begin in (0..input.len()).step_by(plane) {
        let plane_end = (plane_begin + plane).min(input.len());
        let length = plane_end - plane_begin;
        let region = length.div_ceil(length.div_ceil(REGION));
        for begin in (plane_begin..plane_end).step_by(region) {
            let end = (begin + region).min(plane_end);
            match search::way(&input[begin..end], &effort) {
                Way::Stored => writer.store(begin, end)?,
                Way::Runs => writer.runs(begin, end)?,
                Way::Search => writer.search(begin)?,
            }
        }
    }
    writer.finish()
}

/// What is not written yet.
enum Part {
    /// A block of literals and runs.
    Blocks(Box<Open>),
    /// Bytes from here on, to be searched.
    Search(usize),
}

struct Writer<'a> {
    input: &'a [u8],
    granule: usize,
    compressor: &'a mut Compressor,
    out: BitWriter,
    part: Part,
}

impl Writer<'_> {
    fn store(&mut self, begin: usize, end: usize) -> Result<()> {
        self.close(begin)?;
        for block in self.input[begin..end].chunks(LARGEST_STORED) {
            self.out.stored(block);
        }
        self.part = Part::Blocks(Box::new(Open::new(end)));
        Ok(())
    }

    fn runs(&mut self, begin: usize, end: usize) -> Result<()> {
        if matches!(self.part, Part::Search(_)) {
            self.close(begin)?;
            self.part = Part::Blocks(Box::new(Open::new(begin)));
        }
        if let Part::Blocks(open) = &mut self.part {
            for from in (begin..end).step_by(self.granule) {
                let to = (from + self.granule).min(end);
                open.push(self.input, to, Stretch::read(self.input, from, to), &mut self.out);
            }
        }
        Ok(())
    }

    fn search(&mut self, begin: usize) -> Result<()> {
        if matches!(self.part, Part::Blocks(_)) {
            self.close(begin)?;
            self.part = Part::Search(begin);
        }
        Ok(())
    }

    /// Writes all before `end`, as blocks that are not the last.
    fn close(&mut self, end: usize) -> Result<()> {
        match &mut self.part {
            Part::Blocks(open) => {
                open.write(self.input, &mut self.out);
                Ok(())
            }
            Part::Search(begin) => {
                let bytes = &self.input[*begin..end];
                append(self.compressor, bytes, &mut self.out, |stream| {
                    splice::reopen(stream).ok_or_else(|| Error::internal("a stream of libdeflate's does not parse"))
                })
            }
        }
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        if let Part::Search(begin) = self.part {
            append(self.compressor, &self.input[begin..], &mut self.out, |stream| Ok(8 * stream.len()))?;
        } else {
            self.close(self.input.len())?;
            self.out.last_block();
        }
        Ok(self.out.finish())
    }
}

/// Appends libdeflate's stream of `bytes`; `bits` says how many of its bits count.
fn append(
    compressor: &mut Compressor,
    bytes: &[u8],
    out: &mut BitWriter,
    bits: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result<()> {
    out.align();
    out.append(compressor.deflate_compress_bound(bytes.len()), |space| {
        let written =
            compressor.deflate_compress(bytes, space).map_err(|error| Error::internal(format!("deflate: {error}")))?;
        bits(&mut space[..written])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::data::{Random, mixed};
    use libdeflater::{CompressionLvl, Decompressor};

    fn round_trip(bytes: &[u8], planes: usize, level: i32) -> usize {
        let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
        let stream = encode(bytes, planes, Effort::of(level), &mut compressor, Vec::new()).unwrap();
        let mut back = vec![0; bytes.len()];
        let decoded = Decompressor::new().deflate_decompress(&stream, &mut back).unwrap();
        assert_eq!(decoded, bytes.len());
        assert!(back == bytes);
        stream.len()
    }

    #[test]
    fn every_mixture_of_parts_comes_back() {
        let mut random = Random::new(7);
        for case in 0..60u8 {
            let bytes = mixed(&mut random, usize::from(case % 9));
            round_trip(&bytes, usize::from(1 + case % 8), i32::from(1 + case % 12));
        }
    }

    #[test]
    fn short_inputs_come_back() {
        let mut random = Random::new(8);
        for length in (0..300).chain([8191, 8192, 8193, 65_535, 65_536, 65_537]) {
            let bytes: Vec<u8> = (0..length).map(|_| random.bits().to_le_bytes()[0] & 3).collect();
            round_trip(&bytes, 4, 5);
        }
    }

    #[test]
    fn parts_that_suit_no_search_are_smaller_without_one() {
        let mut random = Random::new(9);
        // Half fill, half bytes of uneven frequency: the mantissa bytes of a masked field.
        let mut bytes = Vec::new();
        while bytes.len() < 400_000 {
            let length = (random.bits() % 60) as usize;
            let fill = random.bits() & 1 == 0;
            for _ in 0..length {
                let noise = random.bits().to_le_bytes();
                bytes.push(if fill { 0x60 } else { noise[0].wrapping_add(noise[1] / 2) });
            }
        }
        let mut compressor = Compressor::new(CompressionLvl::new(5).unwrap());
        let mut space = vec![0; compressor.deflate_compress_bound(bytes.len())];
        let searched = compressor.deflate_compress(&bytes, &mut space).unwrap();
        assert!(round_trip(&bytes, 1, 5) < searched);
    }

    #[test]
    fn repeats_are_searched_for() {
        let mut random = Random::new(10);
        let period: Vec<u8> = (0..5000).map(|_| random.bits().to_le_bytes()[0]).collect();
        let bytes: Vec<u8> = period.iter().copied().cycle().take(500_000).collect();
        assert!(round_trip(&bytes, 1, 5) < 15_000);
    }
}
