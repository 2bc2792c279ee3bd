//! `frame`: Knarr's HDF5 filter 45223 as a codec. Each chunk is a frame that names its own chain.

use crate::chain::Scratch;
use crate::codec::{Codec, CodecList, KNARR_FILTER, Kind, Options, Stage, Step};
use knarr_array::array::{ArraySpec, DType, swap_bytes};
use knarr_array::error::{Error, Result};
use knarr_array::filter::{FilterId, Hdf5Filter};

/// Reads frames with the codecs it was given. Writing is the pipeline's business: it knows the chain.
pub struct Framed {
    codecs: CodecList,
}

impl Framed {
    /// A codec that reads frames whose chains use `codecs`.
    pub fn new(codecs: CodecList) -> Self {
        Self { codecs }
    }
}

impl Codec for Framed {
    fn name(&self) -> &'static str {
        "frame"
    }

    fn wire_id(&self) -> u16 {
        42
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "Knarr's frame (HDF5 filter 45223): a checksummed chunk that names the chain it was encoded with"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["frame"]
    }

    fn prepare(&self, _options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Reader { codecs: self.codecs.clone(), spec: input.spec.clone() }))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[KNARR_FILTER]
    }

    fn from_hdf5(&self, _filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        Some(Options::default())
    }
}

struct Reader {
    codecs: CodecList,
    spec: ArraySpec,
}

impl Step for Reader {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len + input_len / 8 + 4096
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let raw = crate::chain::Chain::prepare(&self.codecs, &crate::chain::ChainSpec::raw(), &self.spec)?;
        super::write(&raw, input, out)
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let frame = super::read(input)?;
        let (held, wanted) = (&frame.array, &self.spec);
        // Types of one size are the same to HDF5's filters; what follows another filter is bytes.
        let is_chunk = held.shape == wanted.shape && held.dtype.size() == wanted.dtype.size();
        let is_bytes = held.dtype == DType::U8 && held.shape.len() == 1;
        if !(is_chunk || is_bytes) || held.byte_len() > limit {
            return Err(Error::corrupt(format!(
                "the frame holds {} {:?}, the chunk is {} {:?}",
                held.dtype, held.shape, wanted.dtype, wanted.shape
            )));
        }
        frame.decode(&self.codecs, &mut Scratch::default(), out)?;
        if is_chunk && held.endian != wanted.endian && held.dtype == wanted.dtype {
            swap_bytes(out, wanted.dtype.size());
        }
        Ok(())
    }
}
