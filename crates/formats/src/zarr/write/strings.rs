//! Strings of variable length: the `vlen-utf8` codec, written in chunks of whole strings.
//!
//! Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8>. A chunk is the number
//! of its strings, then for each its length in bytes and its bytes; numbers are little-endian and have 32 bits.

use crate::zarr::write::plain;
use knarr_array::array::{ArraySpec, DType};
use knarr_array::model::Variable;
use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use knarr_array::{Error, Result};
use knarr_codec::chain::{Chain, ChainSpec, Scratch, StepSpec};
use knarr_codec::codec::CodecList;
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use serde_json::json;

/// What a string is reckoned to take when chunks are cut.
const STRING_BYTES: u64 = 64;
/// Compressor of the chunks, where there is such a codec.
const COMPRESSOR: (&str, i64) = ("zstd", 3);

/// The chain for `len` bytes of strings: none if `codecs` lack the compressor.
fn chain(codecs: &CodecList, len: usize) -> Result<Chain> {
    let (name, level) = COMPRESSOR;
    let spec = match codecs.named(name) {
        Ok(_) => ChainSpec(vec![StepSpec::with_level(name, level)]),
        Err(_) => ChainSpec::raw(),
    };
    Chain::prepare(codecs, &spec, &ArraySpec::new(DType::U8, [len]))
}

/// Storage of variable `index` as strings.
pub(in crate::zarr) fn storage(index: usize, variable: &Variable, codecs: &CodecList) -> Result<Storage> {
    let compressors = chain(codecs, 1)?.zarr_codecs().unwrap_or_default();
    let behind = compressors.into_iter().filter(|codec| codec.get("name").is_none_or(|name| name != "bytes"));
    let encoding = Encoding::Zarr([json!({"name": "vlen-utf8"})].into_iter().chain(behind).collect());
    Ok(Storage { variable: index, chunk: plain::chunk(&variable.shape, STRING_BYTES), encoding })
}

/// Reads all strings of a variable and puts them as encoded chunks.
pub(in crate::zarr) fn copy_values(
    sink: &mut dyn Sink,
    source: &dyn Source,
    variable: &Variable,
    storage: &Storage,
    codecs: &CodecList,
) -> Result<()> {
    let (mut scratch, mut encoded) = (Scratch::default(), Vec::new());
    let full = storage.chunk.iter().try_fold(1u64, |len, &n| len.checked_mul(n)).and_then(|n| u32::try_from(n).ok());
    let full = full.ok_or_else(|| Error::internal("a chunk of strings is too large"))?;
    for number in 0..chunk_count(&variable.shape, &storage.chunk) {
        let position = chunk_position(&variable.shape, &storage.chunk, number);
        let region = chunk_region(&variable.shape, &storage.chunk, &position);
        let strings = source.read_strings(storage.variable, &region)?;
        if strings.iter().all(String::is_empty) {
            continue;
        }
        let bytes = pack(&strings, full).map_err(|error| error.at(format!("chunk {position:?}")))?;
        chain(codecs, bytes.len())?.encode(&bytes, &mut scratch, &mut encoded)?;
        sink.put(EncodedChunk { variable: storage.variable, position: &position, bytes: &encoded, filter_mask: 0 })?;
    }
    Ok(())
}

/// A chunk of `full` strings that starts with these; the others are empty.
fn pack(strings: &[String], full: u32) -> Result<Vec<u8>> {
    let mut bytes = full.to_le_bytes().to_vec();
    for string in strings {
        let length = u32::try_from(string.len())
            .map_err(|_| Error::unsupported("a string of 4 GiB or more cannot be written as Zarr"))?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(string.as_bytes());
    }
    let missing = usize::try_from(full).unwrap_or(usize::MAX).saturating_sub(strings.len());
    bytes.extend(std::iter::repeat_n(0u32.to_le_bytes(), missing).flatten());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_counted_strings() {
        let packed = pack(&["ab".to_owned(), String::new()], 3).unwrap();
        assert_eq!(packed, [3, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
