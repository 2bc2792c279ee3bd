//! Decoder of BloscLZ, the compressor that PyTables and older Blosc programs use by default.
//!
//! Format (derived from FastLZ level 2): a control byte below 32 starts a run of 1 to 32 literal bytes. Otherwise its
//! upper three bits minus 1 are a match length minus 3 (6 means that bytes follow which are added up to the first one
//! that is not 255), and its lower five bits with the next byte the distance minus 1. If all 13 bits are set, two
//! more bytes give the distance beyond 8191.

use knarr_array::{Error, Result};

const LONGEST_NEAR_DISTANCE: usize = 8191;

/// Decodes a stream that holds exactly as many bytes as `plain` has.
pub(super) fn expand(data: &[u8], plain: &mut [u8]) -> Result<()> {
    let mut input = data.iter().copied();
    let mut next = || input.next().map(usize::from).ok_or_else(|| damaged("ends early"));
    // The upper bits of the first byte hold a version, so that it is always a run of literals.
    let mut control = next()? & 31;
    let mut at = 0;
    loop {
        if control < 32 {
            let run = plain.get_mut(at..at + control + 1).ok_or_else(|| damaged("is too long"))?;
            for place in run {
                *place = u8::try_from(next()?).unwrap_or(0);
            }
            at += control + 1;
        } else {
            let mut length = (control >> 5) - 1;
            if length == 6 {
                loop {
                    let more = next()?;
                    length += more;
                    if more != 255 {
                        break;
                    }
                }
            }
            length += 3;
            let high = (control & 31) << 8;
            let low = next()?;
            let distance = if high == 31 << 8 && low == 255 {
                LONGEST_NEAR_DISTANCE + 1 + (next()? << 8) + next()?
            } else {
                high + low + 1
            };
            copy_match(plain, at, distance, length)?;
            at += length;
        }
        match next() {
            Ok(byte) => control = byte,
            Err(_) if at == plain.len() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn copy_match(plain: &mut [u8], at: usize, distance: usize, length: usize) -> Result<()> {
    let start = at.checked_sub(distance).ok_or_else(|| damaged("points before its start"))?;
    if length > plain.len() - at {
        return Err(damaged("is too long"));
    }
    if distance >= length {
        plain.copy_within(start..start + length, at);
    } else {
        for offset in 0..length {
            let byte = plain.get(start + offset).copied().unwrap_or(0);
            if let Some(place) = plain.get_mut(at + offset) {
                *place = byte;
            }
        }
    }
    Ok(())
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("blosclz: the stream {what}"))
}
