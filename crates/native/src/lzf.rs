//! LZF, the compressor of h5py's `compression="lzf"` (HDF5 filter 32000).
//!
//! Format (LibLZF): a control byte below 32 starts a run of 1 to 32 literal bytes. Otherwise its upper three bits
//! are a match length minus 2 (7 means that another byte is added), and its lower five bits with the next byte the
//! distance minus 1.

use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, Options, Stage, Step};

use crate::support::{filter, reserve};

const FILTER: FilterId = 32000;
/// What h5py's filter writes: its revision, LibLZF's version, bytes per chunk.
const FILTER_REVISION: u32 = 4;
const LZF_VERSION: u32 = 0x0105;

const LONGEST_RUN: usize = 32;
const SHORTEST_MATCH: usize = 3;
const LONGEST_MATCH: usize = 264;
const LARGEST_DISTANCE: usize = 1 << 13;
const TABLE_BITS: u32 = 14;

/// LZF blocks.
pub(crate) struct Lzf;

impl Codec for Lzf {
    fn name(&self) -> &'static str {
        "lzf"
    }

    fn wire_id(&self) -> u16 {
        111
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "LZF, own implementation: for files that h5py wrote with compression='lzf'"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["lzf"]
    }

    fn prepare(&self, _options: &Options, _input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(Prepared))
    }

    fn hdf5(&self, _options: &Options, input: &Stage) -> Hdf5Form {
        match u32::try_from(input.spec.byte_len()) {
            Ok(bytes) => filter(FILTER, vec![FILTER_REVISION, LZF_VERSION, bytes]),
            Err(_) => Hdf5Form::None,
        }
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, _filter: &Hdf5Filter, _input: &Stage) -> Option<Options> {
        Some(Options::default())
    }
}

struct Prepared;

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len + input_len.div_ceil(LONGEST_RUN)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        reserve(out, self.max_encoded_len(input.len()))?;
        // Last position + 1 at which three bytes with this hash were seen.
        let mut seen = vec![0usize; 1 << TABLE_BITS];
        let (mut at, mut literals) = (0, 0);
        while let Some(&[a, b, c]) = input.get(at..).and_then(|rest| rest.first_chunk::<3>()) {
            let slot = hash(a, b, c);
            let candidate = seen.get(slot).copied().unwrap_or(0);
            if let Some(place) = seen.get_mut(slot) {
                *place = at + 1;
            }
            let length = match candidate.checked_sub(1) {
                Some(earlier) if at - earlier <= LARGEST_DISTANCE => common_length(input, earlier, at),
                _ => 0,
            };
            if length < SHORTEST_MATCH {
                at += 1;
                continue;
            }
            put_literals(out, input.get(literals..at).unwrap_or(&[]));
            put_match(out, length, at + 1 - candidate);
            at += length;
            literals = at;
        }
        put_literals(out, input.get(literals..).unwrap_or(&[]));
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let ends_early = || Error::corrupt("lzf: the chunk ends early");
        reserve(out, limit)?;
        let mut rest = input;
        while let Some((&control, after)) = rest.split_first() {
            let control = usize::from(control);
            if control < LONGEST_RUN {
                let (run, after) = after.split_at_checked(control + 1).ok_or_else(ends_early)?;
                check_room(out, run.len(), limit)?;
                out.extend_from_slice(run);
                rest = after;
                continue;
            }
            let mut after = after;
            let mut next = || -> Result<usize> {
                let (&byte, tail) = after.split_first().ok_or_else(ends_early)?;
                after = tail;
                Ok(usize::from(byte))
            };
            let length = match control >> 5 {
                7 => 9 + next()?,
                short => 2 + short,
            };
            let distance = ((control & 0x1F) << 8) + next()? + 1;
            check_room(out, length, limit)?;
            copy_match(out, distance, length)?;
            rest = after;
        }
        Ok(())
    }
}

fn hash(a: u8, b: u8, c: u8) -> usize {
    let bytes = u32::from_le_bytes([a, b, c, 0]);
    (bytes.wrapping_mul(0x9E37_79B1) >> (u32::BITS - TABLE_BITS)) as usize
}

fn common_length(input: &[u8], earlier: usize, at: usize) -> usize {
    let (old, new) = (input.get(earlier..).unwrap_or(&[]), input.get(at..).unwrap_or(&[]));
    old.iter().zip(new).take(LONGEST_MATCH).take_while(|(a, b)| a == b).count()
}

fn put_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LONGEST_RUN) {
        out.push(low_byte(run.len() - 1));
        out.extend_from_slice(run);
    }
}

fn put_match(out: &mut Vec<u8>, length: usize, distance: usize) {
    let (stored, far) = (length - 2, distance - 1);
    if stored < 7 {
        out.push(low_byte((stored << 5) | (far >> 8)));
    } else {
        out.push(low_byte((7 << 5) | (far >> 8)));
        out.push(low_byte(stored - 7));
    }
    out.push(low_byte(far));
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

fn check_room(out: &[u8], more: usize, limit: usize) -> Result<()> {
    if out.len() + more > limit {
        return Err(Error::corrupt(format!("lzf: more than {limit} bytes are encoded")));
    }
    Ok(())
}

/// Appends `length` bytes from `distance` bytes back; the two may overlap.
fn copy_match(out: &mut Vec<u8>, distance: usize, length: usize) -> Result<()> {
    let start = out
        .len()
        .checked_sub(distance)
        .ok_or_else(|| Error::corrupt("lzf: a match points before the start of the chunk"))?;
    if length <= distance {
        out.extend_from_within(start..start + length);
    } else {
        for from in start..start + length {
            let byte = out.get(from).copied().unwrap_or(0);
            out.push(byte);
        }
    }
    Ok(())
}
