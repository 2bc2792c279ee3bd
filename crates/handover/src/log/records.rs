//! The records of a log of puts, read. `docs/format.md` describes the log.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::log::put::{MOST_BOXES, MOST_PARTS, Put};
use knarr_array::error::{Error, Result};
use knarr_array::request::AXES;

/// First bytes of a log; the last one is the version.
const MAGIC: [u8; 8] = *b"KNARRPL\x04";
/// Bytes before the first record: behind the magic, the number of bytes of values that lie in the first file.
pub(crate) const BEGIN: usize = 16;
/// Bytes before the payload of a record: its length, the CRC-32C of that, and the CRC-32C of the payload.
const HEAD: usize = 12;
/// Longest payload that can be: two numbers an axis for each box, one an axis for strides, two for each part, and a few more.
const LONGEST: usize = 10 * (2 * AXES * (MOST_BOXES + 1) + AXES + 2 * MOST_PARTS + 8);

/// What a log begins with if `first` bytes of values lie in the first file.
pub(crate) fn beginning(first: u64) -> [u8; BEGIN] {
    let mut bytes = [0; BEGIN];
    let (magic, number) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    number.copy_from_slice(&first.to_le_bytes());
    bytes
}

/// Adds the record with this payload.
pub(crate) fn add_record(records: &mut Vec<u8>, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    for part in [&length, &crc32c::crc32c(&length).to_le_bytes(), &crc32c::crc32c(payload).to_le_bytes()] {
        records.extend_from_slice(part);
    }
    records.extend_from_slice(payload);
}

/// The puts of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puts {
    /// Bytes of values that lie in the first file; those behind lie in the second one.
    pub first: u64,
    /// In their order.
    pub puts: Vec<Put>,
}

/// Reads the puts of a log, in their order. A last record that is not complete is left out: its writer was killed.
///
/// # Errors
/// `NotFound` or `Read`; `Corrupt` for what is no log, or a damaged one.
pub fn read_puts(path: &Path) -> Result<Puts> {
    let bytes = fs::read(path).map_err(|error| Error::read(path, &error))?;
    parse_puts(&bytes).map_err(|error| error.at(path.display().to_string()))
}

/// As [`read_puts`], from the bytes of a log.
///
/// # Errors
/// `Corrupt`.
pub fn parse_puts(bytes: &[u8]) -> Result<Puts> {
    let (first, records) = records(bytes)?;
    let puts = records.into_iter().map(|record| Put::parse(bytes.get(record).unwrap_or_default()));
    Ok(Puts { first, puts: puts.collect::<Result<_>>()? })
}

/// Bytes of values in the first file, and where in the bytes of a log the payload of each record is that is complete.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn records(bytes: &[u8]) -> Result<(u64, Vec<Range<usize>>)> {
    // Its writer was killed as it made it.
    if bytes.len() < BEGIN && MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes)) {
        return Ok((0, Vec::new()));
    }
    let head = bytes.strip_prefix(&MAGIC).and_then(|behind| behind.split_first_chunk::<8>());
    let Some((first, mut rest)) = head else {
        return Err(Error::corrupt("not a log of puts, or one of another version"));
    };
    let mut records = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
        let number = |at: usize| head[at..at + 4].iter().rev().fold(0u32, |all, byte| all << 8 | u32::from(*byte));
        // A record is written from its beginning on, so a head that is there is whole.
        if crc32c::crc32c(&head[..4]) != number(4) {
            return Err(Error::corrupt("a record whose length has another checksum than it says, in a log of puts"));
        }
        let length = number(0) as usize;
        if length > LONGEST {
            return Err(Error::corrupt("a record that is too long, in a log of puts"));
        }
        let Some((payload, next)) = behind.split_at_checked(length) else { break };
        if crc32c::crc32c(payload) != number(8) {
            return Err(Error::corrupt("a record has another checksum than it says, in a log of puts"));
        }
        let begin = bytes.len() - behind.len();
        records.push(begin..begin + length);
        rest = next;
    }
    Ok((u64::from_le_bytes(*first), records))
}
