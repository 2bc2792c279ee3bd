//! xz: LZMA2 in the xz container.

use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
use serde_json::{Value, json};

use crate::support::{bytes_to_bytes, level, level_option, resize};

const OPTIONS: &[OptionDoc] = &[level_option(0, 9, 6, "0 is fastest, 9 is smallest")];
/// Largest memory that a decoder may ask for: the dictionary of level 9 needs 65 MiB.
const DECODER_MEMORY: u64 = 256 << 20;
/// Smallest dictionary of LZMA2.
const SMALLEST_DICTIONARY: u32 = 4096;
/// Dictionary sizes of the levels 0 to 9 in MiB (log2 of the size; xz manual).
const DICTIONARY_BITS: [u32; 10] = [18, 20, 21, 22, 22, 23, 23, 24, 25, 26];

/// xz streams with CRC-64. No HDF5 filter is registered for them.
pub(crate) struct Xz;

impl Codec for Xz {
    fn name(&self) -> &'static str {
        "xz"
    }

    fn wire_id(&self) -> u16 {
        107
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "LZMA2 in the xz container by liblzma: the smallest of the byte compressors, slow to encode"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["xz", "xz:0", "xz:9"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        let level = usize::try_from(level(options)?).map_err(|_| Error::internal("option 'level' is negative"))?;
        Ok(Box::new(Prepared { level }))
    }

    fn zarr(&self, options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        // Format 1 is xz, check -1 the default (CRC-64).
        let level = options.int("level").ok()?;
        let configuration = json!({"format": 1, "check": -1, "preset": level, "filters": Value::Null});
        Some(bytes_to_bytes("numcodecs.lzma", configuration))
    }
}

struct Prepared {
    level: usize,
}

impl Prepared {
    /// An encoder whose dictionary is no larger than the input: a small chunk would otherwise pay for tens of MiB
    /// of tables that it cannot use.
    fn encoder(&self, input_len: usize) -> Result<Stream, liblzma::stream::Error> {
        let preset = u32::try_from(self.level).unwrap_or(6);
        let mut options = LzmaOptions::new_preset(preset)?;
        let largest = 1 << DICTIONARY_BITS.get(self.level).copied().unwrap_or(23);
        let wanted = u32::try_from(input_len).unwrap_or(u32::MAX);
        options.dict_size(wanted.clamp(SMALLEST_DICTIONARY, largest));
        Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc64)
    }
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // Incompressible data is stored in LZMA2 chunks of up to 64 KiB with 3 bytes each; the rest is container.
        input_len + input_len.div_ceil(2048) + 512
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        resize(out, self.max_encoded_len(input.len()))?;
        let failed = |error: liblzma::stream::Error| Error::internal(format!("xz: {error}"));
        let mut stream = self.encoder(input.len()).map_err(failed)?;
        match run(&mut stream, input, out, Action::Finish).map_err(failed)? {
            Some(length) => out.truncate(length),
            None => return Err(Error::internal("xz: the output exceeds its bound")),
        }
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        resize(out, limit)?;
        let failed = |error: liblzma::stream::Error| Error::corrupt(format!("xz: {error}"));
        let mut stream = Stream::new_stream_decoder(DECODER_MEMORY, 0)
            .map_err(|error| Error::unsupported(format!("xz: {error}")))?;
        match run(&mut stream, input, out, Action::Finish).map_err(failed)? {
            Some(length) => out.truncate(length),
            None => return Err(Error::corrupt("xz: the stream ends early or encodes more bytes than expected")),
        }
        Ok(())
    }
}

/// Runs the stream to its end and returns the length of the output; `None` if it does not get there.
fn run(
    stream: &mut Stream,
    input: &[u8],
    out: &mut [u8],
    action: Action,
) -> Result<Option<usize>, liblzma::stream::Error> {
    let index = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    loop {
        let before = (stream.total_in(), stream.total_out());
        let rest = input.get(index(before.0)..).unwrap_or(&[]);
        let room = out.get_mut(index(before.1)..).unwrap_or(&mut []);
        if stream.process(rest, room, action)? == Status::StreamEnd {
            return Ok(Some(index(stream.total_out())));
        }
        if before == (stream.total_in(), stream.total_out()) {
            return Ok(None);
        }
    }
}
