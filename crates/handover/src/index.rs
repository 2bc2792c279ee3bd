//! Array files: what one rank handed over at one step. `docs/format.md` describes them.
//!
//! Values come first, each array at a multiple of [`ALIGNMENT`] bytes, then the index that says what they are.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use knarr_array::array::Endian;
use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_array::request::{AXES, Request, Share, check_name};
use knarr_array::wire::{Reader, put_bytes, put_number};
use knarr_codec::frame::{dtype_number, numbered_dtype};

/// First bytes; the last one is the version.
const MAGIC: [u8; 8] = *b"KNARRAR\x01";
/// Bytes before the first array: magic, offset and length of the index, its CRC-32C, zeros.
pub(crate) const HEAD: u64 = 32;
/// Arrays begin at multiples of this.
pub(crate) const ALIGNMENT: u64 = 8;

/// One array of an array file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What was handed over.
    pub request: Request,
    /// First byte of its values in the file.
    pub offset: u64,
}

/// What an array file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Step of the program.
    pub step: u64,
    /// Who wrote it.
    pub rank: u64,
    /// Of how many.
    pub ranks: u64,
    /// In the order of their offsets, which is that in which they were put.
    pub entries: Vec<Entry>,
}

impl Index {
    /// The index as it lies in the file from byte `offset` on, and the head of the file that leads to it.
    pub fn write(&self, offset: u64) -> (Vec<u8>, Vec<u8>) {
        let mut out = Vec::new();
        for number in [self.step, self.rank, self.ranks, self.entries.len() as u64] {
            put_number(&mut out, number);
        }
        for entry in &self.entries {
            put_bytes(&mut out, entry.request.variable.as_bytes());
            out.push(dtype_number(entry.request.dtype));
            put_number(&mut out, entry.request.dtype.size() as u64);
            out.push(u8::from(entry.request.endian == Endian::Big));
            put_number(&mut out, entry.offset);
            let (is_global, shape) = match &entry.request.share {
                Share::Own(shape) => (0, shape),
                Share::Global { shape, .. } => (1, shape),
            };
            out.push(is_global);
            put_number(&mut out, shape.len() as u64);
            shape.iter().for_each(|&n| put_number(&mut out, n));
            if let Share::Global { region, .. } = &entry.request.share {
                region.start.iter().chain(&region.count).for_each(|&n| put_number(&mut out, n));
            }
        }
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&(out.len() as u64).to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        head.resize(usize::try_from(HEAD).unwrap_or(0), 0);
        (head, out)
    }

    /// Reads an array file of `length` bytes through `bytes`, which gives those from an offset on.
    ///
    /// # Errors
    /// `Corrupt` if it is none or damaged, `Unsupported` if it is of a later version; what `bytes` returns.
    pub fn read(length: u64, bytes: impl Fn(u64, u64) -> Result<Vec<u8>>) -> Result<Self> {
        let head = bytes(0, HEAD.min(length))?;
        let mut reader = Reader::new("an array file", &head);
        let magic: [u8; 8] = reader.array()?;
        if magic != MAGIC {
            return Err(match magic.split_last() {
                Some((version, name)) if MAGIC.starts_with(name) => {
                    Error::unsupported(format!("an array file of version {version}")).hint("use a newer Knarr")
                }
                _ => Error::corrupt("not an array file of Knarr"),
            });
        }
        let offset = u64::from_le_bytes(reader.array()?);
        let index = u64::from_le_bytes(reader.array()?);
        let sum = u32::from_le_bytes(reader.array()?);
        let ends = offset.checked_add(index) == Some(length) && offset >= HEAD;
        if !ends || reader.array::<4>()? != [0; 4] {
            return Err(Error::corrupt("an array file with an impossible head"));
        }
        let index = bytes(offset, index)?;
        if crc32c::crc32c(&index) != sum {
            return Err(Error::corrupt("the index of an array file has another checksum than its head says"));
        }
        Self::parse(&index, offset)
    }

    /// The index as a message, without its file.
    pub fn to_message(&self) -> Vec<u8> {
        self.write(0).1
    }

    /// Reads what [`Index::to_message`] made.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_message(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes, u64::MAX)
    }

    /// Reads an index that begins at byte `end`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(bytes: &[u8], end: u64) -> Result<Self> {
        let mut reader = Reader::new("the index of an array file", bytes);
        let (step, rank, ranks) = (reader.number()?, reader.number()?, reader.number()?);
        // An entry takes six bytes at least.
        let count = reader.number()?;
        let count = usize::try_from(count).ok().filter(|&count| count <= reader.left() / 6);
        let count = count.ok_or_else(|| reader.impossible("count"))?;
        let mut entries = Vec::with_capacity(count);
        let mut before = HEAD;
        for _ in 0..count {
            let entry = entry(&mut reader)?;
            let bytes = entry
                .request
                .share
                .count()
                .iter()
                .try_fold(entry.request.dtype.size() as u64, |bytes, &n| bytes.checked_mul(n));
            let ends = bytes.and_then(|bytes| entry.offset.checked_add(bytes)).filter(|&ends| ends <= end);
            let (true, Some(ends)) = (entry.offset >= before, ends) else { return Err(reader.impossible("offset")) };
            before = ends;
            entries.push(entry);
        }
        if reader.left() > 0 || rank >= ranks {
            return Err(reader.impossible("end"));
        }
        Ok(Self { step, rank, ranks, entries })
    }
}

fn entry(reader: &mut Reader<'_>) -> Result<Entry> {
    let name = std::str::from_utf8(reader.bytes()?).map_err(|_| reader.impossible("name"))?.to_owned();
    check_name(&name).map_err(|_| reader.impossible("name"))?;
    let kind = reader.byte()?;
    let size = u32::try_from(reader.number()?).map_err(|_| reader.impossible("element size"))?;
    let dtype = numbered_dtype(kind, || Ok(size))?.filter(|dtype| dtype.size() == size as usize && size > 0);
    let dtype = dtype.ok_or_else(|| reader.impossible("type"))?;
    let endian = match reader.byte()? {
        0 => Endian::Little,
        1 => Endian::Big,
        _ => return Err(reader.impossible("byte order")),
    };
    let offset = reader.number()?;
    let is_global = reader.byte()?;
    let axes = usize::try_from(reader.number()?).ok().filter(|&axes| axes <= AXES);
    let axes = axes.ok_or_else(|| reader.impossible("number of axes"))?;
    let mut numbers = || (0..axes).map(|_| reader.number()).collect::<Result<Vec<u64>>>();
    let share = match is_global {
        0 => Share::Own(numbers()?),
        1 => Share::Global { shape: numbers()?, region: Region { start: numbers()?, count: numbers()? } },
        _ => return Err(reader.impossible("share")),
    };
    share.check().map_err(|_| reader.impossible("shape"))?;
    Ok(Entry { request: Request { variable: name, dtype, endian, share }, offset })
}

/// Checks that all ranks mean the same by a name.
///
/// # Errors
/// `Usage`, with two ranks that do not.
pub fn check_alike<'a>(indices: impl Iterator<Item = &'a Index>) -> Result<()> {
    let mut known: HashMap<&str, (u64, &Entry)> = HashMap::new();
    for index in indices {
        for entry in &index.entries {
            let (rank, first) = *known.entry(&entry.request.variable).or_insert((index.rank, entry));
            let (its, mine) = (first.request.kind(), entry.request.kind());
            if its != mine {
                let (name, other) = (&entry.request.variable, index.rank);
                return Err(Error::usage(format!("array '{name}' is {its} on rank {rank} and {mine} on rank {other}"))
                    .hint("hand over the same type and global shape on all ranks"));
            }
        }
    }
    Ok(())
}

/// The index of the file at `path`, and the file's length; `None` if it is a file of another format.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read; `Corrupt` or `Unsupported` for one that is damaged or of a later version.
pub fn open(path: &Path) -> Result<Option<(Index, u64)>> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = File::open(path).map_err(read_error)?;
    let length = file.metadata().map_err(read_error)?.len();
    let bytes = |offset: u64, count: u64| {
        let mut bytes = vec![0; usize::try_from(count).map_err(|_| Error::corrupt("an index larger than memory"))?];
        file.read_exact_at(&mut bytes, offset).map_err(read_error)?;
        Ok(bytes)
    };
    // The version may be another one.
    let magic = bytes(0, length.min(7))?;
    if !MAGIC.starts_with(&magic) || magic.len() < 7 {
        return Ok(None);
    }
    Ok(Some((Index::read(length, bytes)?, length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;

    fn index() -> Index {
        let global = Share::Global { shape: vec![100, 7], region: Region::new([40, 0], [10, 7]) };
        let entry = |name: &str, dtype, share, offset| Entry {
            request: Request { variable: name.to_owned(), dtype, endian: Endian::Little, share },
            offset,
        };
        Index {
            step: 40,
            rank: 3,
            ranks: 8,
            entries: vec![
                entry("T", DType::F64, global.clone(), 32),
                entry("grid/ids", DType::I32, Share::Own(vec![5]), 592),
                entry("empty", DType::F32, Share::Own(vec![0, 4]), 616),
                entry(
                    "T",
                    DType::F64,
                    Share::Global { shape: vec![100, 7], region: Region::new([50, 0], [1, 7]) },
                    616,
                ),
            ],
        }
    }

    fn file(index: &Index) -> Vec<u8> {
        let (mut bytes, tail) = index.write(672);
        bytes.resize(672, 5);
        bytes.extend(tail);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Index> {
        Index::read(bytes.len() as u64, |offset, count| {
            let range = usize::try_from(offset).unwrap()..usize::try_from(offset + count).unwrap();
            bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| Error::internal("outside"))
        })
    }

    #[test]
    fn an_index_comes_back() {
        let bytes = file(&index());
        assert_eq!(read(&bytes).unwrap(), index());
    }

    #[test]
    fn damage_is_noticed() {
        let bytes = file(&index());
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for place in (0..32).chain(672..bytes.len()) {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "byte {place}");
            }
        }
        let mut later = bytes;
        later[7] = 2;
        assert_eq!(read(&later).unwrap_err().kind(), knarr_array::ErrorKind::Unsupported);
    }

    #[test]
    fn indices_that_cannot_be_are_refused() {
        let refuse = |change: fn(&mut Index)| {
            let mut index = index();
            change(&mut index);
            assert!(read(&file(&index)).is_err(), "{index:?}");
        };
        refuse(|index| index.rank = 8);
        refuse(|index| index.entries[1].offset = 591);
        refuse(|index| index.entries[3].offset = 617);
        refuse(|index| index.entries[0].request.variable = String::new());
        refuse(|index| index.entries[1].request.share = Share::Own(vec![u64::MAX, 0, 2]));
        refuse(|index| {
            index.entries[3].request.share = Share::Global { shape: vec![50], region: Region::new([50], [1]) }
        });
    }
}
