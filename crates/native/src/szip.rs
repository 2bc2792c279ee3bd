//! szip (HDF5 filter 4), by libaec: the compressor of NASA's and JAXA's HDF-EOS archives.
//!
//! A chunk is the length of its bytes as a 32-bit little-endian number, then a stream of CCSDS 121.0-B (`H5Zszip.c`). The
//! stream codes lines of pixels, each line filled up to whole blocks. Pixels of 32 and 64 bits are coded as bytes, the
//! first bytes of all of them, then the second ones, and so on (`sz_compat.c` of libaec).

use knarr_array::array::Endian;
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step, check_limit};
use libaec_sys::{
    AEC_DATA_MSB, AEC_DATA_PREPROCESS, AEC_MEM_ERROR, AEC_NOT_ENFORCE, AEC_OK, aec_buffer_decode, aec_buffer_encode,
    aec_stream,
};

use crate::support::{append, filter, reserve, resize};

const FILTER: FilterId = 4;
/// Bits of the first word of client data (`H5Zpublic.h`).
const ALLOW_K13: u32 = 1;
const ENTROPY_CODING: u32 = 4;
const LEAST_BYTE_FIRST: u32 = 8;
const MOST_BYTE_FIRST: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;
const RAW: u32 = 128;

/// HDF5 makes lines of at most so many pixels, and of at most so many blocks.
const LONGEST_LINE: usize = 4096;
const MOST_BLOCKS: usize = 128;
const HEAD: usize = 4;

const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "block",
        kind: OptionKind::Int { min: 2, max: 32, default: Some(16) },
        doc: "pixels per block, an even number",
    },
    OptionDoc {
        name: "coding",
        kind: OptionKind::Word(&["nn", "ec"]),
        doc: "nn codes the difference from the pixel before, ec the pixel itself",
    },
    OptionDoc {
        name: "bits",
        kind: OptionKind::Int { min: 0, max: 64, default: Some(0) },
        doc: "bits per pixel; 0 for those of the element type",
    },
    OptionDoc {
        name: "line",
        kind: OptionKind::Int { min: 0, max: (MOST_BLOCKS * 32) as i64, default: Some(0) },
        doc: "pixels per line; 0 for what HDF5 makes of the shape of the chunk",
    },
    OptionDoc { name: "order", kind: OptionKind::Word(&["own", "little", "big"]), doc: "byte order of pixels" },
];

/// szip streams, as the HDF5 filter 4 writes them.
pub(crate) struct Szip;

impl Codec for Szip {
    fn name(&self) -> &'static str {
        "szip"
    }

    fn wire_id(&self) -> u16 {
        117
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "szip (CCSDS 121.0-B) by libaec: for files of NASA's archives; HDF5 and netCDF-C read it where they were built so"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["szip", "szip:8,coding=ec", "szip:32"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Pixels::new(options, input)?))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        match Pixels::new(options, input) {
            // HDF5 refuses chunks of less than a block.
            Ok(pixels) if pixels.line >= pixels.block => filter(FILTER, pixels.words()),
            _ => Hdf5Form::None,
        }
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        let [mask, block, bits, line] = *filter.cd_values.as_slice() else { return None };
        let is_served = (2..=32).contains(&block) && block % 2 == 0 && matches!(bits, 1..=24 | 32 | 64);
        let lines = 1..=u32::try_from(MOST_BLOCKS).ok()?.checked_mul(block)?;
        let options = Options::default()
            .with_int("block", i64::from(block))
            .with_int("bits", i64::from(bits))
            .with_int("line", i64::from(line))
            .with_word("coding", if mask & NEAREST_NEIGHBOUR == 0 { "ec" } else { "nn" })
            .with_word("order", if mask & MOST_BYTE_FIRST == 0 { "little" } else { "big" });
        (is_served && lines.contains(&line)).then_some(options)
    }
}

/// How a chunk is cut into pixels, blocks and lines.
struct Pixels {
    block: usize,
    line: usize,
    /// As the user block of HDF5 counts them.
    bits: u32,
    has_differences: bool,
    is_big_endian: bool,
}

impl Pixels {
    fn new(options: &Options, input: &Stage) -> Result<Self> {
        let number = |name: &str| -> Result<usize> {
            usize::try_from(options.int(name)?).map_err(|_| Error::internal(format!("szip: '{name}' is out of range")))
        };
        let (block, bits, line) = (number("block")?, number("bits")?, number("line")?);
        if block % 2 != 0 {
            return Err(Error::usage(format!("szip: {block} pixels per block")).hint("give an even number"));
        }
        let size = input.spec.dtype.size();
        let bits = match (bits, size) {
            (0, 1 | 2) => size * 8,
            (0, 4) => 32,
            (0, 8) => 64,
            // What has no pixels of its own is coded as bytes.
            (0, _) => 8,
            (1..=24 | 32 | 64, _) => bits,
            _ => return Err(Error::usage(format!("szip: {bits} bits per pixel")).hint("give 1 to 24, 32 or 64")),
        };
        let line = if line == 0 { usual_line(&input.spec.shape, block) } else { line };
        if line > LONGEST_LINE.max(MOST_BLOCKS * block) {
            return Err(Error::usage(format!("szip: {line} pixels per line")).hint("give at most 128 blocks"));
        }
        let pixels = Self {
            block,
            line,
            bits: u32::try_from(bits).unwrap_or(u32::MAX),
            has_differences: options.word("coding")? == "nn",
            is_big_endian: match options.word("order")? {
                "own" => input.spec.endian == Endian::Big,
                order => order == "big",
            },
        };
        let length = input.spec.byte_len();
        if !length.is_multiple_of(pixels.bytes()) {
            return Err(Error::usage(format!("szip: {length} bytes are no whole pixels of {bits} bits"))
                .hint("give the bits of an element, or an even number of elements"));
        }
        if pixels.line < block && length > LONGEST_LINE {
            return Err(Error::usage(format!("szip: lines of {line} pixels are shorter than blocks of {block}"))
                .hint("give longer lines or smaller blocks"));
        }
        Ok(pixels)
    }

    /// Bytes of a pixel.
    fn bytes(&self) -> usize {
        self.planes().max(self.sample())
    }

    /// Client data as HDF5 leaves them in a file.
    fn words(&self) -> Vec<u32> {
        let coding = if self.has_differences { NEAREST_NEIGHBOUR } else { ENTROPY_CODING };
        let order = if self.is_big_endian { MOST_BYTE_FIRST } else { LEAST_BYTE_FIRST };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        vec![ALLOW_K13 | RAW | coding | order, number(self.block), self.bits, number(self.line)]
    }

    /// Bytes that pixels are split into, which are coded apart; 1 where they are not split.
    fn planes(&self) -> usize {
        match self.bits {
            32 => 4,
            64 => 8,
            _ => 1,
        }
    }

    /// Bytes of what is coded as one sample.
    fn sample(&self) -> usize {
        match self.bits {
            9..=16 => 2,
            17..=24 => 4,
            _ => 1,
        }
    }

    /// True if no sample has bits that a pixel lacks: libaec would drop them.
    fn holds(&self, samples: &[u8]) -> bool {
        let size = self.sample();
        let unused = 8 * size - (self.bits as usize).min(8 * size);
        let most_significant = |from_top: usize| if self.is_big_endian { from_top } else { size - 1 - from_top };
        (0..unused.div_ceil(8)).all(|from_top| {
            let bits = (unused - 8 * from_top).min(8);
            let limit = 1u16 << (8 - bits);
            samples.iter().skip(most_significant(from_top)).step_by(size).all(|&byte| u16::from(byte) < limit)
        })
    }

    fn blocks(&self) -> usize {
        self.line.div_ceil(self.block)
    }

    /// Bytes of a line, and of one that is filled up to whole blocks.
    fn line_bytes(&self) -> (usize, usize) {
        (self.line * self.sample(), self.blocks() * self.block * self.sample())
    }

    /// Bytes that are coded for a chunk of `len` bytes.
    fn padded(&self, len: usize) -> Option<usize> {
        let (line, padded) = self.line_bytes();
        len.div_ceil(line).checked_mul(padded)
    }

    fn stream(&self) -> aec_stream {
        let differences = if self.has_differences { AEC_DATA_PREPROCESS } else { 0 };
        let order = if self.is_big_endian { AEC_DATA_MSB } else { 0 };
        aec_stream {
            next_in: std::ptr::null(),
            avail_in: 0,
            total_in: 0,
            next_out: std::ptr::null_mut(),
            avail_out: 0,
            total_out: 0,
            bits_per_sample: if self.planes() > 1 { 8 } else { self.bits },
            block_size: u32::try_from(self.block).unwrap_or(u32::MAX),
            rsi: u32::try_from(self.blocks()).unwrap_or(u32::MAX),
            flags: AEC_NOT_ENFORCE | differences | order,
            state: std::ptr::null_mut(),
        }
    }

    /// Lines of the samples of `input`, each filled up with its last sample, or with zeros where samples are coded as
    /// they are.
    fn padded_lines(&self, input: &[u8], size: usize) -> Result<Vec<u8>> {
        let (line, padded) = self.line_bytes();
        let mut lines = Vec::new();
        reserve(&mut lines, size)?;
        for (number, piece) in input.chunks(line).enumerate() {
            lines.extend_from_slice(piece);
            let last = piece.rchunks(self.sample()).next().filter(|last| last.len() == self.sample());
            let end = (number + 1) * padded;
            match last.filter(|_| self.has_differences) {
                Some(last) => lines.extend(last.iter().copied().cycle().take(end - lines.len())),
                None => lines.resize(end, 0),
            }
        }
        Ok(lines)
    }
}

/// Pixels per line as `H5Z__set_local_szip` chooses them.
fn usual_line(shape: &[usize], block: usize) -> usize {
    let (row, all) = (shape.last().copied().unwrap_or(1), shape.iter().product::<usize>());
    let longest = block * MOST_BLOCKS;
    match row {
        short if short < block => all.min(longest).max(1),
        fits if fits <= LONGEST_LINE => fits.min(longest),
        _ => longest,
    }
}

impl Step for Pixels {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // A block that is not made smaller takes at most a byte more.
        let padded = self.padded(input_len).unwrap_or(usize::MAX);
        HEAD.saturating_add(padded).saturating_add(padded / (self.block * self.sample())).saturating_add(16)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let too_large = || Error::unsupported("szip cannot serve chunks of 4 GiB and more").hint("use smaller chunks");
        let length = u32::try_from(input.len()).map_err(|_| too_large())?;
        if !input.len().is_multiple_of(self.bytes()) {
            return Err(Error::usage(format!("szip: {} bytes are no whole pixels", input.len())));
        }
        if !self.holds(input) {
            return Err(Error::unsupported(format!("szip: some values need more than {} bits", self.bits))
                .hint("leave 'bits' out"));
        }
        let size = self.padded(input.len()).ok_or_else(too_large)?;
        let mut split = Vec::new();
        let samples = if self.planes() > 1 {
            reserve(&mut split, input.len())?;
            (0..self.planes()).for_each(|plane| split.extend(input.iter().skip(plane).step_by(self.planes())));
            split.as_slice()
        } else {
            input
        };
        let lines = self.padded_lines(samples, size)?;
        reserve(out, self.max_encoded_len(input.len()))?;
        out.extend_from_slice(&length.to_le_bytes());
        if lines.is_empty() {
            return Ok(());
        }
        let capacity = self.max_encoded_len(input.len()) - HEAD;
        let encode = |to: *mut u8, capacity: usize| {
            let mut stream = aec_stream {
                next_in: lines.as_ptr(),
                avail_in: lines.len(),
                next_out: to,
                avail_out: capacity,
                ..self.stream()
            };
            // SAFETY: `lines` holds `avail_in` bytes and `to` has room for `avail_out`; libaec keeps neither address.
            let status = unsafe { aec_buffer_encode(&raw mut stream) };
            check(status, "it cannot be encoded").map(|()| stream.total_out)
        };
        // SAFETY: libaec writes at most as many bytes as it is told that there is room for, and says how many.
        unsafe { append(out, capacity, encode) }
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let ends_early = || Error::corrupt("szip: the chunk ends early");
        let (head, stream) = input.split_first_chunk::<HEAD>().ok_or_else(ends_early)?;
        let length = u32::from_le_bytes(*head) as usize;
        check_limit(length, limit)?;
        out.clear();
        if length == 0 {
            return Ok(());
        }
        // Lines are filled up to blocks: short lines would make a chunk of some size much larger.
        let size = self.padded(length).filter(|_| self.line >= self.block || length <= LONGEST_LINE);
        let size = size.ok_or_else(|| Error::corrupt("szip: lines are shorter than blocks"))?;
        let mut lines = Vec::new();
        let decode = |to: *mut u8, capacity: usize| {
            let mut stream = aec_stream {
                next_in: stream.as_ptr(),
                avail_in: stream.len(),
                next_out: to,
                avail_out: capacity,
                ..self.stream()
            };
            // SAFETY: `input` holds `avail_in` bytes and `to` has room for `avail_out`; libaec keeps neither address, and
            // the sizes of blocks and lines that it allocates for were checked.
            let status = unsafe { aec_buffer_decode(&raw mut stream) };
            check(status, "it is no szip stream").map(|()| stream.total_out)
        };
        // SAFETY: libaec writes at most as many bytes as it is told that there is room for, and says how many.
        unsafe { append(&mut lines, size, decode)? };
        let (line, padded) = self.line_bytes();
        let mut samples = Vec::new();
        reserve(&mut samples, length)?;
        for piece in lines.chunks(padded) {
            let part = piece.get(..line.min(length - samples.len())).ok_or_else(ends_early)?;
            samples.extend_from_slice(part);
        }
        if samples.len() != length {
            return Err(ends_early());
        }
        if self.planes() == 1 {
            *out = samples;
            return Ok(());
        }
        let pixels = length / self.planes();
        if pixels * self.planes() != length {
            return Err(Error::corrupt(format!("szip: {length} bytes are no whole pixels")));
        }
        resize(out, length)?;
        for (plane, bytes) in samples.chunks_exact(pixels).enumerate() {
            out.iter_mut().skip(plane).step_by(self.planes()).zip(bytes).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

fn check(status: i32, what: &str) -> Result<()> {
    match u32::try_from(status) {
        Ok(AEC_OK) => Ok(()),
        _ if status == AEC_MEM_ERROR => Err(Error::unsupported("szip: no memory").hint("use fewer threads")),
        _ => Err(Error::corrupt(format!("szip: {what} (libaec's error {status})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};

    #[test]
    fn pixels_that_do_not_fill_a_chunk_are_refused_before_it_is_encoded() {
        for (bits, length, is_whole) in [(8, 1, true), (10, 1, false), (10, 2, true), (24, 6, false), (64, 12, false)] {
            let stage = Stage { spec: ArraySpec::new(DType::U8, vec![length]), is_array: true };
            let options = Options::default().with_int("block", 16).with_int("bits", bits).with_int("line", 0);
            let options = options.with_word("coding", "nn").with_word("order", "own");
            let prepared = Szip.prepare(&options, &stage);
            assert_eq!(prepared.is_ok(), is_whole, "{bits} bits, {length} bytes");
        }
    }

    #[test]
    fn values_with_more_bits_than_pixels_are_refused() {
        for (bits, bytes, little, big) in [
            (8, [255, 255, 255, 255], true, true),
            (7, [127, 0, 0, 127], true, true),
            (7, [0, 128, 0, 0], false, false),
            (10, [0, 3, 255, 3], true, false),
            (10, [3, 0, 3, 255], false, true),
            (10, [0, 4, 0, 0], false, true),
            (24, [9, 255, 255, 0], true, false),
            (17, [255, 255, 1, 0], true, false),
            (17, [0, 2, 0, 0], true, false),
            (17, [0, 1, 9, 9], false, true),
            (32, [255, 255, 255, 255], true, true),
        ] {
            for (order, is_held) in [("little", little), ("big", big)] {
                let stage = Stage { spec: ArraySpec::new(DType::U8, vec![4]), is_array: true };
                let options = Options::default().with_int("block", 2).with_int("bits", bits).with_int("line", 0);
                let options = options.with_word("coding", "ec").with_word("order", order);
                let step = Szip.prepare(&options, &stage).unwrap();
                let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
                let done = step.encode(&bytes, &mut encoded);
                assert_eq!(done.is_ok(), is_held, "{bits} bits, {order}: {bytes:?}");
                if is_held {
                    step.decode(&encoded, 4, &mut decoded).unwrap();
                    assert_eq!(decoded, bytes, "{bits} bits, {order}");
                }
            }
        }
    }

    #[test]
    fn lines_that_a_reader_takes_for_damage_are_refused() {
        for (line, length, is_served) in [(3, 4096, true), (3, 4097, false), (16, 4097, true)] {
            let stage = Stage { spec: ArraySpec::new(DType::U8, vec![length]), is_array: true };
            let options = Options::default().with_int("block", 16).with_int("bits", 8).with_int("line", line);
            let options = options.with_word("coding", "nn").with_word("order", "own");
            let Ok(step) = Szip.prepare(&options, &stage) else {
                assert!(!is_served, "{line}, {length}");
                continue;
            };
            let (bytes, mut encoded, mut decoded) = (vec![7; length], Vec::new(), Vec::new());
            step.encode(&bytes, &mut encoded).unwrap();
            step.decode(&encoded, length, &mut decoded).unwrap();
            assert!(is_served && decoded == bytes, "{line}, {length}");
        }
    }
}
