//! Blocks of literals and runs: what DEFLATE needs where nothing repeats but neighbours.
//!
//! A run is a match of distance 1. Blocks end where the distribution of bytes changes, which gains more on shuffled
//! numbers than a search for other matches does.
#![expect(clippy::cast_possible_truncation, reason = "runs and repeats fit their fields by construction")]

use super::bits::BitWriter;
use super::huffman;
use super::stretch::{Counts, END, SYMBOLS, Stretch, length_symbol, pieces};
use crate::runs::Run;

/// Four codes of this length and what a writer holds back fit one word.
const LONGEST_CODE: usize = 14;
/// RFC 1951, 3.2.4.
pub(super) const LARGEST_STORED: usize = 65_535;
/// Bits that a block's header takes, about.
const HEADER_BITS: f32 = 500.0;
/// RFC 1951, 3.2.7.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The block that is open: its end is not decided.
pub(super) struct Open {
    begin: usize,
    end: usize,
    runs: Vec<Run>,
    counts: Counts,
    bits: f32,
}

impl Open {
    pub(super) fn new(begin: usize) -> Self {
        Self { begin, end: begin, runs: Vec::new(), counts: Counts::NONE, bits: 0.0 }
    }

    /// Takes the stretch up to `end` in, after writing the block if it is better off alone.
    pub(super) fn push(&mut self, bytes: &[u8], end: usize, stretch: Stretch, out: &mut BitWriter) {
        let alone = stretch.bits();
        let mut together = self.counts.clone();
        together.add(&stretch.counts);
        let bits = together.bits();
        if self.end > self.begin && bits > self.bits + alone + HEADER_BITS {
            self.write(bytes, out);
            *self = Self { begin: self.end, end, runs: stretch.runs, counts: stretch.counts, bits: alone };
        } else {
            self.end = end;
            self.counts = together;
            self.bits = bits;
            self.runs.extend(stretch.runs);
        }
    }

    /// Writes what is open.
    pub(super) fn write(&mut self, bytes: &[u8], out: &mut BitWriter) {
        if self.end == self.begin {
            return;
        }
        self.counts.symbols[END] = 1;
        let mut lengths = [0u8; SYMBOLS];
        huffman::code_lengths(&self.counts.symbols, LONGEST_CODE, &mut lengths);
        let header = Header::new(&lengths);
        if header.bits() + self.counts.bits_with(&lengths) >= 8 * (self.end - self.begin) {
            for stored in bytes[self.begin..self.end].chunks(LARGEST_STORED) {
                out.stored(stored);
            }
            return;
        }
        let mut codes = [0u16; SYMBOLS];
        huffman::codes(&lengths, &mut codes);
        out.reserve(LONGEST_CODE * (self.end - self.begin) + 4096);
        header.write(out);
        let table: [(u16, u8); SYMBOLS] = std::array::from_fn(|symbol| (codes[symbol], lengths[symbol]));
        let mut at = self.begin;
        for run in &self.runs {
            write_literals(&bytes[at..run.start], &table, out);
            for length in pieces(run.length) {
                let (symbol, value, extra) = length_symbol(length);
                let (code, bits) = table[symbol];
                // The one distance code has one bit, 0.
                out.put(u64::from(code) | value << bits, u32::from(bits) + extra + 1);
            }
            at = run.start + run.length;
        }
        write_literals(&bytes[at..self.end], &table, out);
        let (code, bits) = table[END];
        out.put(u64::from(code), u32::from(bits));
    }
}

fn write_literals(bytes: &[u8], table: &[(u16, u8); SYMBOLS], out: &mut BitWriter) {
    let (quads, rest) = bytes.as_chunks::<4>();
    for quad in quads {
        let [a, b, c, d] = quad.map(|byte| table[usize::from(byte)]);
        let (ab, in_ab) = (u64::from(a.0) | u64::from(b.0) << a.1, u32::from(a.1 + b.1));
        let (cd, in_cd) = (u64::from(c.0) | u64::from(d.0) << c.1, u32::from(c.1 + d.1));
        out.put(ab | cd << in_ab, in_ab + in_cd);
    }
    for &byte in rest {
        let (code, bits) = table[usize::from(byte)];
        out.put(u64::from(code), u32::from(bits));
    }
}

/// Header of a dynamic block that is not the last (RFC 1951, 3.2.7), with one distance code.
struct Header {
    literals: usize,
    /// Code lengths in shorthand: symbol, extra bits and their number.
    sent: Vec<(u8, u8, u32)>,
    /// Lengths of the codes of that shorthand, of which so many are sent.
    lengths: [u8; 19],
    used: usize,
}

impl Header {
    fn new(lengths: &[u8; SYMBOLS]) -> Self {
        let literals = lengths.iter().rposition(|&length| length > 0).map_or(257, |last| (last + 1).max(257));
        let mut all = lengths[..literals].to_vec();
        all.push(1);
        let sent = shorthand(&all);
        let mut counts = [0u32; 19];
        for &(symbol, _, _) in &sent {
            counts[usize::from(symbol)] += 1;
        }
        let mut lengths = [0u8; 19];
        huffman::code_lengths(&counts, 7, &mut lengths);
        let used = ORDER.iter().rposition(|&symbol| lengths[symbol] > 0).map_or(4, |last| (last + 1).max(4));
        Self { literals, sent, lengths, used }
    }

    fn bits(&self) -> usize {
        let sent =
            self.sent.iter().map(|&(symbol, _, extra)| usize::from(self.lengths[usize::from(symbol)]) + extra as usize);
        17 + 3 * self.used + sent.sum::<usize>()
    }

    fn write(&self, out: &mut BitWriter) {
        let mut codes = [0u16; 19];
        huffman::codes(&self.lengths, &mut codes);
        out.put(0b100, 3);
        out.put((self.literals - 257) as u64, 5);
        out.put(0, 5);
        out.put((self.used - 4) as u64, 4);
        for &symbol in &ORDER[..self.used] {
            out.put(u64::from(self.lengths[symbol]), 3);
        }
        for &(symbol, value, extra) in &self.sent {
            let (code, bits) = (codes[usize::from(symbol)], self.lengths[usize::from(symbol)]);
            out.put(u64::from(code) | u64::from(value) << bits, u32::from(bits) + extra);
        }
    }
}

/// Code lengths with their repeats (symbols 16, 17 and 18), extra bits and their number.
fn shorthand(lengths: &[u8]) -> Vec<(u8, u8, u32)> {
    let mut sent = Vec::with_capacity(lengths.len());
    for equal in lengths.chunk_by(|a, b| a == b) {
        let (length, mut left) = (equal[0], equal.len());
        if length > 0 {
            sent.push((length, 0, 0));
            left -= 1;
        }
        while left > 0 {
            let (symbol, most, least, extra) = match length {
                0 if left > 10 => (18, 138, 11, 7),
                0 => (17, 10, 3, 3),
                _ => (16, 6, 3, 2),
            };
            if left < least {
                sent.push((length, 0, 0));
                left -= 1;
            } else {
                let repeat = left.min(most);
                sent.push((symbol, (repeat - least) as u8, extra));
                left -= repeat;
            }
        }
    }
    sent
}
