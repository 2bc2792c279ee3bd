//! `fletcher32`: a checksum behind the bytes. HDF5 filter 3, `numcodecs.fletcher32` in Zarr.

use crate::codec::{Codec, Hdf5Form, Kind, Options, Stage, Step, ZarrCodec, ZarrKind};
use crate::codec::{check_limit, zarr_entry};
use knarr_array::error::{Error, Result};
use knarr_array::filter::{FilterId, Hdf5Filter};

const FILTER: FilterId = 3;
const CHECKSUM: usize = 4;

/// Fletcher's checksum as `H5_checksum_fletcher32` computes it, appended in little-endian order.
pub(in crate::codec) struct Fletcher32;

impl Codec for Fletcher32 {
    fn name(&self) -> &'static str {
        "fletcher32"
    }

    fn wire_id(&self) -> u16 {
        3
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "appends Fletcher's 32-bit checksum; reading verifies it (HDF5 filter 3)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["fletcher32", "shuffle | fletcher32", "fletcher32 | bitshuffle | fletcher32"]
    }

    fn keeps_size(&self, _options: &Options) -> bool {
        true
    }

    fn prepare(&self, _options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared))
    }

    fn hdf5(&self, _options: &Options, _input: &Stage) -> Hdf5Form {
        Hdf5Form::Filter(Hdf5Filter { id: FILTER, optional: false, cd_values: Vec::new() })
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, _filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        Some(Options::default())
    }

    fn zarr(&self, _options: &Options, _input: &Stage) -> Option<ZarrCodec> {
        Some(zarr_entry(ZarrKind::BytesToBytes, "numcodecs.fletcher32", serde_json::json!({})))
    }
}

struct Prepared;

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len.saturating_add(CHECKSUM)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.reserve(input.len() + CHECKSUM);
        out.extend_from_slice(input);
        out.extend_from_slice(&checksum(input).to_le_bytes());
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let (data, stored) = input
            .split_last_chunk::<CHECKSUM>()
            .ok_or_else(|| Error::corrupt(format!("{} bytes are too few for a checksum", input.len())))?;
        check_limit(data.len(), limit)?;
        let (stored, computed) = (u32::from_le_bytes(*stored), checksum(data));
        // Little-endian HDF5 before 1.6.3 swapped the bytes within each half; such files are still valid.
        let before_1_6_3 = ((computed & 0x00FF_00FF) << 8) | ((computed >> 8) & 0x00FF_00FF);
        if stored != computed && stored != before_1_6_3 {
            return Err(Error::corrupt(format!("checksum is {computed:08x}, {stored:08x} was stored"))
                .hint("the data is damaged: restore the file from a copy"));
        }
        out.clear();
        out.extend_from_slice(data);
        Ok(())
    }
}

/// Words per lane between two reductions: the largest sums stay below 2^32.
const ROWS: usize = 128;
const LANES: usize = 32;

/// The checksum of `H5checksum.c`: 16-bit big-endian words, an odd last byte as the high half of a word.
///
/// The two sums are over all words, `sum2` weighting each by the number of words from it to the end. Lanes of
/// words at distance [`LANES`] are summed apart, which the compiler vectorises, and combined exactly.
fn checksum(bytes: &[u8]) -> u32 {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || lanes_checksum(bytes),
    )
}

#[inline(always)]
fn lanes_checksum(bytes: &[u8]) -> u32 {
    let (words, odd) = bytes.as_chunks::<2>();
    let (mut sum1, mut sum2) = (0u64, 0u64);
    let mut blocks = words.chunks_exact(LANES * ROWS);
    for block in &mut blocks {
        let [mut low, mut high] = [[0u32; LANES]; 2];
        for row in block.as_chunks::<LANES>().0 {
            for ((low, high), word) in low.iter_mut().zip(&mut high).zip(row) {
                *low += u32::from(u16::from_be_bytes(*word));
                *high += *low;
            }
        }
        // A word in lane `l` is followed by `LANES - 1 - l` words of its own row, and `high` counted
        // it once for every row from its own to the last.
        sum2 += (LANES * ROWS) as u64 * sum1;
        for (lane, (low, high)) in low.iter().zip(&high).enumerate() {
            sum1 += u64::from(*low);
            sum2 += LANES as u64 * u64::from(*high) - lane as u64 * u64::from(*low);
        }
        (sum1, sum2) = (fold(sum1), fold(sum2));
    }
    for word in blocks.remainder() {
        sum1 += u64::from(u16::from_be_bytes(*word));
        sum2 += sum1;
    }
    if let [last] = odd {
        sum1 += u64::from(*last) << 8;
        sum2 += sum1;
    }
    (fold32(sum2) << 16) | fold32(sum1)
}

/// Reduces modulo 65535; like HDF5's carry folding, a sum that is not zero gives 1 to 65535.
fn fold(sum: u64) -> u64 {
    if sum == 0 { 0 } else { (sum - 1) % 65_535 + 1 }
}

fn fold32(sum: u64) -> u32 {
    u32::try_from(fold(sum)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `H5_checksum_fletcher32`, transcribed.
    fn reference(data: &[u8]) -> u32 {
        let (mut sum1, mut sum2) = (0u32, 0u32);
        let fold = |sum: u32| (sum & 0xFFFF) + (sum >> 16);
        for block in data[..data.len() / 2 * 2].chunks(720) {
            for word in block.chunks_exact(2) {
                sum1 += u32::from(word[0]) << 8 | u32::from(word[1]);
                sum2 += sum1;
            }
            (sum1, sum2) = (fold(sum1), fold(sum2));
        }
        if data.len() % 2 == 1 {
            sum1 += u32::from(data[data.len() - 1]) << 8;
            sum2 += sum1;
            (sum1, sum2) = (fold(sum1), fold(sum2));
        }
        (fold(sum2) << 16) | fold(sum1)
    }

    #[test]
    fn equals_the_definition_of_hdf5() {
        for len in [0, 1, 2, 3, 719, 720, 721, 8191, 8192, 8193, 8194, 100_001] {
            for pattern in [0u8, 0xFF, 1] {
                let bytes: Vec<u8> = (0..len)
                    .map(|i| if pattern == 1 { u8::try_from(i * 31 % 256).unwrap() } else { pattern })
                    .collect();
                assert_eq!(checksum(&bytes), reference(&bytes), "{len} bytes, pattern {pattern}");
            }
        }
    }

    #[test]
    fn accepts_the_checksum_of_old_little_endian_libraries() {
        let data = b"forty-two bytes of anything";
        let [a, b, c, d] = checksum(data).to_le_bytes();
        let mut out = Vec::new();
        let mut decode = |checksum: [u8; 4]| {
            let stored = [data.as_slice(), &checksum].concat();
            Prepared.decode(&stored, 1000, &mut out).is_ok()
        };
        assert!(decode([a, b, c, d]));
        assert!(decode([b, a, d, c]));
        assert!(!decode([a, b, d, c]));
    }
}
