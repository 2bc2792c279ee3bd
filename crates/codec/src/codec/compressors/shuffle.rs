//! `shuffle`: bytes of like significance together. HDF5 filter 2, `numcodecs.shuffle` in Zarr.

use crate::codec::{Codec, Hdf5Form, Kind, OptionDoc, OptionKind, Options, Stage, Step, ZarrCodec};
use crate::codec::{ZarrKind, check_limit, planes, sized, zarr_entry};
use knarr_array::error::{Error, Result};
use knarr_array::filter::{FilterId, Hdf5Filter};

const FILTER: FilterId = 2;

/// Byte shuffle as `H5Zshuffle.c` defines it: bytes that do not fill an element stay at the end.
pub(in crate::codec) struct Shuffle;

impl Codec for Shuffle {
    fn name(&self) -> &'static str {
        "shuffle"
    }

    fn wire_id(&self) -> u16 {
        1
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "byte shuffle: stores the first bytes of all elements, then the second ones, and so on (HDF5 filter 2)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["shuffle", "shuffle:2", "shuffle:3", "shuffle | snappy", "shuffle | shuffle | shuffle:8"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "size",
            kind: OptionKind::Int { min: 0, max: 65_535, default: Some(0) },
            doc: "bytes per element; 0 takes that of the data type",
        }]
    }

    fn keeps_size(&self, _options: &Options) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared { size: element_size(options, input)? }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        match element_size(options, input).map(u32::try_from) {
            Ok(Ok(size)) => Hdf5Form::Filter(Hdf5Filter { id: FILTER, optional: false, cd_values: vec![size] }),
            _ => Hdf5Form::None,
        }
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        match filter.cd_values.as_slice() {
            [size @ 1..=65_535] => Some(Options::default().with_int("size", i64::from(*size))),
            _ => None,
        }
    }

    fn zarr(&self, options: &Options, input: &Stage) -> Option<ZarrCodec> {
        let size = element_size(options, input).ok()?;
        // numcodecs refuses buffers that are not a whole number of elements.
        (input.is_array && input.spec.byte_len().is_multiple_of(size))
            .then(|| zarr_entry(ZarrKind::BytesToBytes, "numcodecs.shuffle", serde_json::json!({"elementsize": size})))
    }
}

/// The element size that option `size` stands for; at least 1.
pub(in crate::codec) fn element_size(options: &Options, input: &Stage) -> Result<usize> {
    let size = usize::try_from(options.int("size")?).map_err(|_| Error::internal("element size is negative"))?;
    Ok(if size == 0 { input.spec.dtype.size().max(1) } else { size })
}

struct Prepared {
    size: usize,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        planes::split(input, self.size, sized(out, input.len()));
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        planes::join(input, self.size, sized(out, input.len()));
        Ok(())
    }
}
