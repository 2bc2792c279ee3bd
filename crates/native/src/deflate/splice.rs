//! Makes a finished DEFLATE stream one that can go on: finds its last block, clears the mark and says where it ends.
#![expect(clippy::cast_possible_truncation, reason = "fields of at most 16 bits, symbols below 320")]

/// RFC 1951, 3.2.7.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Bits of `stream`, one DEFLATE stream from its first byte on, once its last block is not the last any more. `None`
/// if it is not valid.
pub(super) fn reopen(stream: &mut [u8]) -> Option<usize> {
    let mut reader = Reader { bytes: stream, at: 0 };
    loop {
        let header = reader.at;
        let last = reader.take(1)? == 1;
        match reader.take(2)? {
            0 => {
                reader.at = reader.at.next_multiple_of(8);
                let length = reader.take(16)?;
                reader.at += 16 + 8 * length;
            }
            1 => skip_symbols(&mut reader, &fixed_literals(), &[5; 30])?,
            2 => {
                let (literals, distances) = read_lengths(&mut reader)?;
                skip_symbols(&mut reader, &literals, &distances)?;
            }
            _ => return None,
        }
        let end = reader.at;
        if end > 8 * stream.len() {
            return None;
        }
        if last {
            stream[header / 8] &= !(1 << (header % 8));
            return Some(end);
        }
        reader = Reader { bytes: stream, at: end };
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl Reader<'_> {
    /// At least 56 bits from here on; zeros behind the end.
    #[inline]
    fn peek(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().unwrap_or([0; 8])),
            None => {
                let mut word = [0; 8];
                let rest = self.bytes.get(byte..).unwrap_or_default();
                word[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(word)
            }
        };
        word >> (self.at % 8)
    }

    fn take(&mut self, count: usize) -> Option<usize> {
        let bits = self.peek() as usize & ((1 << count) - 1);
        self.at += count;
        (self.at <= 8 * self.bytes.len()).then_some(bits)
    }
}

fn fixed_literals() -> [u8; 288] {
    std::array::from_fn(|symbol| match symbol {
        0..144 | 280..288 => 8,
        144..256 => 9,
        _ => 7,
    })
}

/// Code lengths of literals and of distances in a dynamic block's header.
fn read_lengths(reader: &mut Reader) -> Option<(Vec<u8>, Vec<u8>)> {
    let literals = reader.take(5)? + 257;
    let distances = reader.take(5)? + 1;
    let used = reader.take(4)? + 4;
    let mut lengths = [0u8; 19];
    for &symbol in &ORDER[..used] {
        lengths[symbol] = reader.take(3)? as u8;
    }
    let table = table(&lengths, |symbol| symbol as u32);
    let mut all: Vec<u8> = Vec::with_capacity(literals + distances);
    while all.len() < literals + distances {
        let (symbol, bits) = table.look_up(reader.peek())?;
        reader.at += bits;
        let (repeated, times) = match symbol {
            0..16 => (symbol as u8, 1),
            16 => (*all.last()?, reader.take(2)? + 3),
            17 => (0, reader.take(3)? + 3),
            _ => (0, reader.take(7)? + 11),
        };
        all.extend(std::iter::repeat_n(repeated, times));
    }
    let rest = all.split_off(literals);
    Some((all, rest))
}

const END: u32 = 1 << 8;
const MATCH: u32 = 1 << 9;

/// Goes to the end of a block of these codes.
fn skip_symbols(reader: &mut Reader, literals: &[u8], distances: &[u8]) -> Option<()> {
    // Extra bits are skipped with the code: all that matters is how long a symbol is.
    let literals = table(literals, |symbol| match symbol {
        0..256 => 0,
        256 => END,
        257..265 | 285 => MATCH,
        _ => MATCH | ((symbol as u32 - 261) / 4),
    });
    let distances = table(distances, |symbol| (symbol as u32 / 2).saturating_sub(1));
    let limit = 8 * reader.bytes.len();
    while reader.at < limit {
        let word = reader.peek();
        let (value, bits) = literals.look_up(word)?;
        let mut used = bits + (value & 0xFF) as usize;
        if value & MATCH != 0 {
            let (extra, bits) = distances.look_up(word >> used)?;
            used += bits + extra as usize;
        }
        reader.at += used;
        if value & END != 0 {
            return Some(());
        }
    }
    None
}

/// Values of symbols by the bits that begin with their code.
struct Table {
    /// Value times 16 plus the length of the code.
    entries: Vec<u32>,
    mask: u64,
}

fn table(lengths: &[u8], value: impl Fn(usize) -> u32) -> Table {
    let mut codes = vec![0u16; lengths.len()];
    super::huffman::codes(lengths, &mut codes);
    let size = 1usize << lengths.iter().max().map_or(0, |&longest| longest.min(15));
    let mut entries = vec![0u32; size];
    for (symbol, (&code, &length)) in codes.iter().zip(lengths).enumerate() {
        if length > 0 {
            let entry = value(symbol) << 4 | u32::from(length);
            for slot in entries.iter_mut().skip(usize::from(code)).step_by(1 << length) {
                *slot = entry;
            }
        }
    }
    Table { entries, mask: size as u64 - 1 }
}

impl Table {
    /// Value and length of the code that `word` begins with.
    #[inline]
    fn look_up(&self, word: u64) -> Option<(u32, usize)> {
        let entry = *self.entries.get((word & self.mask) as usize)?;
        (entry != 0).then_some((entry >> 4, (entry & 15) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_testing::data::Random;
    use libdeflater::{CompressionLvl, Compressor, Decompressor};

    #[test]
    fn a_reopened_stream_goes_on() {
        let mut random = Random::new(3);
        for level in 1..=12 {
            for length in [0, 1, 300, 5000, 70_000, 400_000] {
                let bytes: Vec<u8> = (0..length).map(|_| random.bits().to_le_bytes()[1] & 0x3F).collect();
                let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
                let mut stream = vec![0; compressor.deflate_compress_bound(length)];
                let written = compressor.deflate_compress(&bytes, &mut stream).unwrap();
                stream.truncate(written);
                let end = reopen(&mut stream).unwrap();
                assert!(end.div_ceil(8) <= stream.len());
                // The empty last block of the fixed codes, at the bit where the stream ended.
                stream.resize(end / 8 + 3, 0);
                for bit in [0, 1] {
                    stream[(end + bit) / 8] |= 1 << ((end + bit) % 8);
                }
                let mut back = vec![0; length];
                assert_eq!(Decompressor::new().deflate_decompress(&stream, &mut back).unwrap(), length);
                assert_eq!(back, bytes);
            }
        }
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let mut compressor = Compressor::new(CompressionLvl::new(6).unwrap());
        let bytes: Vec<u8> = (0..9000u32).map(|i| (i * i / 7).to_le_bytes()[1]).collect();
        let mut stream = vec![0; compressor.deflate_compress_bound(bytes.len())];
        let written = compressor.deflate_compress(&bytes, &mut stream).unwrap();
        for length in 0..written - 1 {
            assert_eq!(reopen(&mut stream[..length].to_vec()), None);
        }
    }
}
