//! `brotli`: dense, slow to encode. The stream of RFC 7932, by the crate `brotli`.

use brotli::enc::{BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliCompress, BrotliDecompressStream, BrotliResult, BrotliState};

use crate::codec::{Codec, Kind, OptionDoc, OptionKind, Options, Stage, Step, check_limit, sized};
use knarr_array::error::{Error, Result};

/// Brotli (RFC 7932), windows of at most 16 MiB.
pub(in crate::codec) struct Brotli;

impl Codec for Brotli {
    fn name(&self) -> &'static str {
        "brotli"
    }

    fn wire_id(&self) -> u16 {
        17
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "Brotli stream of RFC 7932: dense, slow to encode (crate brotli)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["brotli", "brotli:0", "brotli:1", "shuffle | brotli:2"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "quality",
            kind: OptionKind::Int { min: 0, max: 11, default: Some(5) },
            doc: "0 is fastest, 11 densest",
        }]
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        let quality = i32::try_from(options.int("quality")?).map_err(|_| Error::internal("brotli: quality"))?;
        Ok(Box::new(Prepared { quality }))
    }
}

struct Prepared {
    quality: i32,
}

/// Window sizes of RFC 7932 in bits.
const WINDOW: std::ops::RangeInclusive<u32> = 10..=24;

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Header and end, and a header for each stored meta-block: what `store` writes.
        input_len.saturating_add((input_len / STORED + 1) * 4).saturating_add(3)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        // A window larger than the chunk only costs memory.
        let bits = (usize::BITS - input.len().leading_zeros()).clamp(*WINDOW.start(), *WINDOW.end());
        let params = BrotliEncoderParams {
            quality: self.quality,
            lgwin: i32::try_from(bits).unwrap_or(24),
            size_hint: input.len(),
            ..BrotliEncoderParams::default()
        };
        out.clear();
        BrotliCompress(&mut &*input, out, &params).map_err(|error| Error::internal(format!("brotli: {error}")))?;
        if out.len() > self.max_encoded_len(input.len()) {
            store(input, out);
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let allocator = StandardAlloc::default();
        let mut state = BrotliState::new_strict(allocator, allocator, allocator);
        let (mut unread, mut read, mut written) = (input.len(), 0, 0);
        // The stream does not say how long it is: start small, so that a short stream cannot claim the limit.
        let mut room = limit.min(input.len().saturating_mul(4).max(1 << 16));
        loop {
            let mut free = room - written;
            let result = BrotliDecompressStream(
                &mut unread,
                &mut read,
                input,
                &mut free,
                &mut written,
                sized(out, room),
                &mut 0,
                &mut state,
            );
            match result {
                BrotliResult::ResultSuccess if unread == 0 => {
                    out.truncate(written);
                    return Ok(());
                }
                BrotliResult::NeedsMoreOutput if room < limit => room = limit.min(room.saturating_mul(2)),
                BrotliResult::NeedsMoreOutput => return check_limit(limit.saturating_add(1), limit),
                BrotliResult::ResultSuccess => {
                    return Err(Error::corrupt(format!("brotli: {unread} bytes follow the stream")));
                }
                BrotliResult::NeedsMoreInput => return Err(Error::corrupt("brotli: stream ends early")),
                BrotliResult::ResultFailure => return Err(Error::corrupt("brotli: not a valid stream")),
            }
        }
    }
}

/// Longest stored meta-block.
const STORED: usize = 1 << 24;

/// Writes `input` as stored meta-blocks (RFC 7932, 9.2), as the reference encoder does where compression
/// would expand the data.
fn store(input: &[u8], out: &mut Vec<u8>) {
    // A window of 2^10 and an empty metadata block, which aligns what follows to bytes.
    out.clear();
    out.extend_from_slice(&[0x21, 0x03]);
    for block in input.chunks(STORED) {
        let nibbles: u32 = match block.len() {
            0..=0x1_0000 => 0,
            0x1_0001..=0x10_0000 => 1,
            _ => 2,
        };
        let len = u32::try_from(block.len() - 1).unwrap_or_default();
        let header = (nibbles << 1) | (len << 3) | (1 << (19 + 4 * nibbles));
        let bytes = if nibbles == 2 { 4 } else { 3 };
        out.extend_from_slice(header.to_le_bytes().get(..bytes).unwrap_or_default());
        out.extend_from_slice(block);
    }
    out.push(0x03);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_blocks_of_every_header_size_decode() {
        for len in [0, 1, 0x1_0000, 0x1_0001, 0x10_0000, 0x10_0001, STORED, STORED + 1] {
            let input: Vec<u8> = (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect();
            let (mut stream, mut out) = (Vec::new(), Vec::new());
            store(&input, &mut stream);
            let step = Prepared { quality: 0 };
            assert!(stream.len() <= step.max_encoded_len(len));
            step.decode(&stream, len, &mut out).unwrap();
            assert!(out == input, "{len}");
        }
    }
}
