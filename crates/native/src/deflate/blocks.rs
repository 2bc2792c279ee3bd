//! Blocks of literals and runs: what DEFLATE needs where nothing repeats but neighbours.
//!
//! A run is a match of distance 1. Blocks end where the distribution of bytes changes, which gains more on shuffled
//! numbers than a search for other matches does.
#![expect(clippy::cast_possible_truncation, reason = "runs and repeats fit their fields by construction")]

use super::bits::BitWriter;
use super::huffman;

/// Bytes after which a block may end.
pub(super) const GRANULE: usize = 8 << 10;
/// Literals, the end of the block and 29 lengths.
const SYMBOLS: usize = 286;
const END: usize = 256;
/// Four codes of this length and what a writer holds back fit one word.
const LONGEST_CODE: usize = 14;
/// Shortest run that is sent as one.
const SHORTEST_RUN: usize = 4;
/// RFC 1951, 3.2.5.
const LONGEST_RUN: usize = 258;
/// RFC 1951, 3.2.4.
pub(super) const LARGEST_STORED: usize = 65_535;
/// Bits that a block's header takes, about.
const HEADER_BITS: f32 = 500.0;
/// RFC 1951, 3.2.7.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Symbol, extra bits and their number for a run of 3 to 258.
fn length_symbol(length: usize) -> (usize, u64, u32) {
    if length == LONGEST_RUN {
        return (285, 0, 0);
    }
    let value = length - 3;
    if value < 8 {
        return (257 + value, 0, 0);
    }
    let extra = value.ilog2() - 2;
    (257 + 4 * extra as usize + (value >> extra), (value & ((1 << extra) - 1)) as u64, extra)
}

/// Bytes that equal the one before, at least [`SHORTEST_RUN`] in a row.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    length: usize,
}

/// Literals and runs of a stretch of bytes, counted.
#[derive(Clone)]
struct Counts {
    symbols: [u32; SYMBOLS],
    extra_bits: u32,
}

impl Counts {
    const NONE: Self = Self { symbols: [0; SYMBOLS], extra_bits: 0 };

    /// Bits of the symbols by their entropy, without a header.
    fn bits(&self) -> f32 {
        let total: u32 = self.symbols.iter().sum();
        let runs: u32 = self.symbols[END + 1..].iter().sum();
        let sum: f32 = self.symbols.iter().map(|&count| times_log2(count)).sum();
        times_log2(total) - sum + (self.extra_bits + runs) as f32
    }

    /// Bits of the symbols with codes of these lengths, without a header.
    fn bits_with(&self, lengths: &[u8; SYMBOLS]) -> usize {
        let codes = self.symbols.iter().zip(lengths).map(|(&count, &length)| count as usize * usize::from(length));
        let distances = self.symbols[END + 1..].iter().map(|&count| count as usize);
        codes.chain(distances).sum::<usize>() + self.extra_bits as usize
    }

    fn add(&mut self, other: &Self) {
        for (mine, &theirs) in self.symbols.iter_mut().zip(&other.symbols) {
            *mine += theirs;
        }
        self.extra_bits += other.extra_bits;
    }
}

fn times_log2(count: u32) -> f32 {
    let count = count as f32;
    count * log2(count.max(1.0))
}

/// Base-2 logarithm of a normal number of at least 1, right to 0.00015: a polynomial that is exact at powers of two.
/// It needs no call, so that loops of it run in vectors, and is the same on every machine.
#[inline]
fn log2(x: f32) -> f32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let m = f32::from_bits(bits & 0x007F_FFFF | 0x3F80_0000);
    let q = -0.755_074 + m * (0.397_308 - 0.080_307_3 * m);
    exponent as f32 + (m - 1.0) * (1.0 + (m - 2.0) * q)
}

/// A stretch of at most some granules, its runs found and counted.
pub(super) struct Stretch {
    runs: Vec<Run>,
    counts: Counts,
}

impl Stretch {
    /// Reads `bytes[begin..end]`. A run may begin with a byte that equals the one before `begin`: DEFLATE's window
    /// spans blocks of all kinds.
    pub(super) fn read(bytes: &[u8], begin: usize, end: usize) -> Self {
        let mut stretch = Self { runs: Vec::new(), counts: Counts::NONE };
        // Four histograms keep equal neighbours from waiting for each other.
        let mut counts = [[0u32; 256]; 4];
        let mut literals = begin;
        let mut count = |from: usize, to: usize| {
            let (quads, rest) = bytes[from..to].as_chunks::<4>();
            for quad in quads {
                for (histogram, &byte) in counts.iter_mut().zip(quad) {
                    histogram[usize::from(byte)] += 1;
                }
            }
            for &byte in rest {
                counts[0][usize::from(byte)] += 1;
            }
        };
        let mut at = begin;
        while at + 8 <= end {
            let Some(skip) = run_in(&bytes[at..at + 8]) else {
                at += 5;
                continue;
            };
            at += skip;
            let byte = bytes[at];
            let mut start = at;
            while start > literals && bytes[start - 1] == byte {
                start -= 1;
            }
            let stop = at + equal_to(byte, &bytes[at..end]);
            // The first of equal bytes is a literal, unless the byte before the stretch is the same.
            if start == 0 || bytes[start - 1] != byte {
                start += 1;
            }
            at = stop;
            if stop - start >= SHORTEST_RUN {
                count(literals, start);
                literals = stop;
                stretch.runs.push(Run { start, length: stop - start });
            }
        }
        count(literals, end);
        for (byte, total) in stretch.counts.symbols.iter_mut().take(256).enumerate() {
            *total = counts.iter().map(|histogram| histogram[byte]).sum();
        }
        for run in &stretch.runs {
            for length in pieces(run.length) {
                let (symbol, _, extra) = length_symbol(length);
                stretch.counts.symbols[symbol] += 1;
                stretch.counts.extra_bits += extra;
            }
        }
        stretch
    }
}

impl Stretch {
    /// Entropy of all symbols in bits, without a header.
    pub(super) fn bits(&self) -> f32 {
        self.counts.bits()
    }

    /// Bits of all bytes before each one, and of all.
    pub(super) fn bits_before(&self, bytes: &[u8]) -> Vec<f32> {
        let total: u32 = self.counts.symbols.iter().sum();
        let log = log2(total.max(1) as f32);
        let bits: [f32; SYMBOLS] = std::array::from_fn(|s| log - log2(self.counts.symbols[s].max(1) as f32));
        let mut sum = 0.0;
        let mut costs = Vec::with_capacity(bytes.len() + 1);
        costs.push(0.0);
        let literals = |from: usize, to: usize, costs: &mut Vec<f32>, sum: &mut f32| {
            for &byte in &bytes[from..to] {
                *sum += bits[usize::from(byte)];
                costs.push(*sum);
            }
        };
        let mut at = 0;
        for run in &self.runs {
            literals(at, run.start, &mut costs, &mut sum);
            for length in pieces(run.length) {
                let (symbol, _, extra) = length_symbol(length);
                sum += bits[symbol] + extra as f32 + 1.0;
                costs.extend(std::iter::repeat_n(sum, length));
            }
            at = run.start + run.length;
        }
        literals(at, bytes.len(), &mut costs, &mut sum);
        costs
    }
}

/// How many bytes from the front on are `byte`.
fn equal_to(byte: u8, bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ (u64::from(byte) * 0x0101_0101_0101_0101);
        if differs != 0 {
            return 8 * at + differs.trailing_zeros() as usize / 8;
        }
    }
    8 * words.len() + rest.iter().take_while(|&&other| other == byte).count()
}

/// Where the first four equal bytes in a row begin among these eight.
#[inline]
fn run_in(eight: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let word = u64::from_le_bytes(eight.try_into().ok()?);
    let differs = (word ^ (word >> 8)) | 0xFF << 56;
    // The high bit of each byte that equals the next.
    let equal = !(((differs & LOW) + LOW) | differs | LOW);
    let three = equal & equal >> 8 & equal >> 16;
    (three != 0).then_some(three.trailing_zeros() as usize / 8)
}

/// Lengths of 3 to 258 that add up to `length`.
fn pieces(length: usize) -> impl Iterator<Item = usize> {
    let mut left = length;
    std::iter::from_fn(move || {
        let piece = match left {
            0 => return None,
            // Nothing shorter than 3 may stay.
            259 | 260 => left - 3,
            _ => left.min(LONGEST_RUN),
        };
        left -= piece;
        Some(piece)
    })
}

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
