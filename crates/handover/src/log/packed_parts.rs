//! The parts of a file of values that are packed: a list of them beside the file, and how values are read then.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::error::{Error, Result};

use crate::remote::packed::values_of;

/// Bytes of values of a part, at most: who wants one of its elements unpacks all of it.
pub(crate) const MOST: usize = 1 << 18;
/// Parts that are kept unpacked: a chunk of a few rows takes some of several parts, and the next one takes the rest.
const KEPT: usize = 16;
/// Bytes of a part in the list: where it is, its bytes of values, those that are stored, and the CRC-32C of these numbers.
const RECORD: usize = 20;

/// What the list is called beside the first file of values.
const PARTS: &str = ".parts";

/// The name of the list.
pub(crate) fn name_of_parts(values: &Path) -> PathBuf {
    let mut name = values.as_os_str().to_owned();
    name.push(PARTS);
    name.into()
}

/// A part that is packed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// First byte, in the file as of the values.
    pub(crate) at: u64,
    /// Bytes of values.
    pub(crate) bytes: u32,
    /// Bytes that are stored.
    pub(crate) stored: u32,
}

impl Part {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut record = self.at.to_le_bytes().to_vec();
        record.extend_from_slice(&self.bytes.to_le_bytes());
        record.extend_from_slice(&self.stored.to_le_bytes());
        record.extend_from_slice(&crc32c::crc32c(&record).to_le_bytes());
        record
    }

    fn from_bytes(record: &[u8]) -> Option<Self> {
        let (numbers, sum) = record.split_last_chunk::<4>()?;
        let (at, rest) = numbers.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let (at, bytes, stored) =
            (u64::from_le_bytes(*at), u32::from_le_bytes(*bytes), u32::from_le_bytes(*rest.first_chunk()?));
        let is_whole = crc32c::crc32c(numbers) == u32::from_le_bytes(*sum);
        let can_be = stored <= bytes && bytes as usize <= MOST && at.checked_add(bytes.into()).is_some();
        (is_whole && can_be).then_some(Self { at, bytes, stored })
    }

    fn end(&self) -> u64 {
        self.at + u64::from(self.bytes)
    }
}

/// Number and values of each part that is kept, the last one used behind the others.
type CachedParts = Vec<(usize, Arc<Vec<u8>>)>;

/// The parts of a file that are packed, in their order.
#[derive(Debug, Default)]
pub(crate) struct PackedParts {
    parts: Vec<Part>,
    kept: Mutex<CachedParts>,
}

impl PackedParts {
    /// Those of the second file beside `values`. A last one that is not complete is left out: its writer was killed, or goes on.
    ///
    /// # Errors
    /// `Read`; `Corrupt` for a list that makes no sense.
    pub(crate) fn read(values: &Path) -> Result<Self> {
        let path = name_of_parts(values);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::read(&path, &error)),
        };
        let corrupt = || Error::corrupt("a list of packed parts that makes no sense").at(path.display().to_string());
        let parts: Option<Vec<Part>> = bytes.chunks_exact(RECORD).map(Part::from_bytes).collect();
        let parts = parts.ok_or_else(corrupt)?;
        let is_sorted = parts.is_sorted_by(|a, b| a.end() <= b.at);
        if is_sorted { Ok(Self { parts, kept: Mutex::default() }) } else { Err(corrupt()) }
    }

    /// Fills `out` with the values from `at` on.
    ///
    /// # Errors
    /// Those of the file; `InvalidData` for a part that is damaged.
    pub(crate) fn read_exact_at(&self, file: &File, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
        while !out.is_empty() {
            let number = self.parts.partition_point(|part| part.end() <= at);
            let next = self.parts.get(number);
            let here = match next.filter(|part| part.at <= at) {
                Some(part) => {
                    let values = self.unpacked(file, number, part)?;
                    let from = usize::try_from(at - part.at).unwrap_or(usize::MAX);
                    let values = values.get(from..).unwrap_or_default();
                    let here = values.len().min(out.len());
                    out[..here].copy_from_slice(&values[..here]);
                    here
                }
                None => {
                    let left = next.map_or(u64::MAX, |part| part.at - at);
                    let here = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    file.read_exact_at(&mut out[..here], at)?;
                    here
                }
            };
            out = &mut out[here..];
            at += here as u64;
        }
        Ok(())
    }

    fn kept(&self, number: usize) -> Option<Arc<Vec<u8>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(of, _)| *of == number)?;
        let found = kept.remove(place);
        let values = Arc::clone(&found.1);
        kept.push(found);
        Some(values)
    }

    fn unpacked(&self, file: &File, number: usize, part: &Part) -> io::Result<Arc<Vec<u8>>> {
        if let Some(values) = self.kept(number) {
            return Ok(values);
        }
        let mut stored = vec![0; part.stored as usize];
        file.read_exact_at(&mut stored, part.at)?;
        let damaged = |error: Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let values = Arc::new(values_of(&stored, part.bytes as usize).map_err(damaged)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((number, Arc::clone(&values)));
        Ok(values)
    }
}
