//! bzip2.

use bzip2::{Action, Compress, Compression, Decompress, Status};
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, OptionDoc, Options, Stage, Step, ZarrCodec};
use serde_json::json;

use crate::support::{bytes_to_bytes, cd_level, filter, level, level_option, resize};

const FILTER: FilterId = 307;
const OPTIONS: &[OptionDoc] =
    &[level_option(1, 9, 9, "block size in units of 100 kB: what is sorted at once; larger is smaller and slower")];

/// bzip2 streams, as HDF5's filter 307 and numcodecs write them.
pub(crate) struct Bzip2;

impl Codec for Bzip2 {
    fn name(&self) -> &'static str {
        "bzip2"
    }

    fn wire_id(&self) -> u16 {
        106
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "bzip2 (Burrows-Wheeler transform) by libbz2-rs: small for smooth bytes, slow both ways"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["bzip2", "bzip2:1"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn prepare(&self, options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        let level = u32::try_from(level(options)?).map_err(|_| Error::internal("option 'level' is negative"))?;
        Ok(Box::new(Prepared { level: Compression::new(level) }))
    }

    fn hdf5(&self, options: &Options, _input: &Stage) -> Hdf5Form {
        let level = options.int("level").ok().and_then(|level| u32::try_from(level).ok());
        level.map_or(Hdf5Form::None, |level| filter(FILTER, vec![level]))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        Some(cd_level(filter, 9, 1, 9))
    }

    fn zarr(&self, options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        Some(bytes_to_bytes("numcodecs.bz2", json!({"level": options.int("level").ok()?})))
    }
}

struct Prepared {
    level: Compression,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        // The bound of bzip2's manual for BZ2_bzBuffToBuffCompress.
        input_len + input_len.div_ceil(100) + 600
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        resize(out, self.max_encoded_len(input.len()))?;
        let mut encoder = Compress::new(self.level, 0);
        loop {
            let (input, output) = remaining(input, encoder.total_in(), out, encoder.total_out());
            let status = encoder.compress(input, output, Action::Finish);
            match status.map_err(|error| Error::internal(format!("bzip2: {error}")))? {
                Status::StreamEnd => break,
                _ if output.is_empty() => return Err(Error::internal("bzip2: the output exceeds its bound")),
                _ => {}
            }
        }
        out.truncate(index(encoder.total_out()));
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        resize(out, limit)?;
        let mut decoder = Decompress::new(false);
        loop {
            let before = (decoder.total_in(), decoder.total_out());
            let (input, output) = remaining(input, before.0, out, before.1);
            let status = decoder.decompress(input, output);
            match status.map_err(|error| Error::corrupt(format!("bzip2: {error}")))? {
                Status::StreamEnd => break,
                _ if before == (decoder.total_in(), decoder.total_out()) => {
                    let what = if output.is_empty() { "encodes more bytes than expected" } else { "ends early" };
                    return Err(Error::corrupt(format!("bzip2: the stream {what}")));
                }
                _ => {}
            }
        }
        out.truncate(index(decoder.total_out()));
        Ok(())
    }
}

/// What is left of input and output after `read` and `written` bytes.
fn remaining<'a>(input: &'a [u8], read: u64, output: &'a mut [u8], written: u64) -> (&'a [u8], &'a mut [u8]) {
    (input.get(index(read)..).unwrap_or(&[]), output.get_mut(index(written)..).unwrap_or(&mut []))
}

fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
