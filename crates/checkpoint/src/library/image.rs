//! Array files: the arrays of one rank at one step, as its program handed them over. `docs/format.md` describes them.
//!
//! Values come first, each array at a multiple of [`ALIGNMENT`] bytes, then the index that says what they are.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::layout::{Extent, Layout, StoredVariable};
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_array::region::volume;
use knarr_array::wire::{Reader, put_bytes, put_number};
use knarr_codec::frame::{dtype_number, numbered_dtype};

/// Name of the format in layouts.
pub const FORMAT: &str = "Knarr arrays";
/// First bytes; the last one is the version.
const MAGIC: [u8; 8] = *b"KNARRAR\x01";
/// Bytes before the first array: magic, offset and length of the index, its CRC-32C, zeros.
pub(super) const HEAD: u64 = 32;
/// Arrays begin at multiples of this.
pub(super) const ALIGNMENT: u64 = 8;
/// Longest name of an array in bytes, which leaves room for its slash in a path.
const LONGEST_NAME: usize = 1023;
/// Axes of an array, at most.
const AXES: usize = 32;

/// What one array of a rank is a share of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// The rank's own array, of this shape: a restart on as many ranks brings it back.
    Own(Vec<u64>),
    /// A box of an array that ranks share; a restart may ask for any other box of it.
    Global {
        /// Shape of the whole array, the same on all ranks.
        shape: Vec<u64>,
        /// What of it this is.
        region: Region,
    },
}

impl Share {
    /// Shape of the array that the rank holds.
    pub fn count(&self) -> &[u64] {
        match self {
            Self::Own(shape) => shape,
            Self::Global { region, .. } => &region.count,
        }
    }

    /// Shape of the whole array; for a rank's own one that of its array.
    pub fn shape(&self) -> &[u64] {
        match self {
            Self::Own(shape) | Self::Global { shape, .. } => shape,
        }
    }

    /// # Errors
    /// `Usage` for more axes than arrays have, a region outside of its array, or more elements than can be counted.
    pub(super) fn check(&self) -> Result<()> {
        if self.shape().len() > AXES {
            return Err(
                Error::usage(format!("{} axes", self.shape().len())).hint(format!("arrays have at most {AXES}"))
            );
        }
        if let Self::Global { shape, region } = self {
            region.check_inside(shape).map_err(|error| {
                error.hint("give the shape of the whole array, and where in it this rank's share begins")
            })?;
        }
        // An extent of 0 must not hide the others.
        let room = self.shape().iter().try_fold(1u64, |product, &n| product.checked_mul(n.max(1)));
        room.map(|_| ()).ok_or_else(|| Error::unsupported(format!("shape {:?} has too many elements", self.shape())))
    }
}

/// One array of an array file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) endian: Endian,
    pub(super) share: Share,
    /// First byte in the file.
    pub(super) offset: u64,
}

impl Entry {
    /// What all entries of one name have in common, for people.
    pub(super) fn kind(&self) -> String {
        let order = if self.endian == Endian::Big { "big-endian" } else { "little-endian" };
        let part = match &self.share {
            Share::Own(_) => "its own".to_owned(),
            Share::Global { shape, .. } => format!("part of a global array of shape {shape:?}"),
        };
        format!("{} ({order}), {part},", self.dtype)
    }

    /// Bytes of the array, of which [`Index::read`] knows that they can be counted.
    pub(super) fn length(&self) -> u64 {
        volume(self.share.count()).unwrap_or(0).saturating_mul(self.dtype.size() as u64)
    }
}

/// What an array file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Step of the program.
    pub(super) step: u64,
    /// Who wrote it, of how many.
    pub(super) rank: u64,
    pub(super) ranks: u64,
    /// In the order of their offsets, which is that in which they were put.
    pub(super) entries: Vec<Entry>,
}

/// # Errors
/// `Usage` for names that no array can have.
pub(super) fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST_NAME {
        "it is longer than 1023 bytes"
    } else if name.contains('\0') {
        "it holds a NUL"
    } else if name.starts_with('/') {
        "it begins with a slash"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("an array cannot be called '{}': {why}", name.escape_debug())))
}

impl Index {
    /// The index as it lies in the file from byte `offset` on, and the head of the file that leads to it.
    pub(super) fn write(&self, offset: u64) -> (Vec<u8>, Vec<u8>) {
        let mut out = Vec::new();
        for number in [self.step, self.rank, self.ranks, self.entries.len() as u64] {
            put_number(&mut out, number);
        }
        for entry in &self.entries {
            put_bytes(&mut out, entry.name.as_bytes());
            out.push(dtype_number(entry.dtype));
            put_number(&mut out, entry.dtype.size() as u64);
            out.push(u8::from(entry.endian == Endian::Big));
            put_number(&mut out, entry.offset);
            let (is_global, shape) = match &entry.share {
                Share::Own(shape) => (0, shape),
                Share::Global { shape, .. } => (1, shape),
            };
            out.push(is_global);
            put_number(&mut out, shape.len() as u64);
            shape.iter().for_each(|&n| put_number(&mut out, n));
            if let Share::Global { region, .. } = &entry.share {
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
    pub(super) fn read(length: u64, bytes: impl Fn(u64, u64) -> Result<Vec<u8>>) -> Result<Self> {
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

    /// Reads an index that was taken out of its file.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn parse_anywhere(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes, u64::MAX)
    }

    /// Reads an index that begins at byte `end`.
    fn parse(bytes: &[u8], end: u64) -> Result<Self> {
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
            let bytes =
                entry.share.count().iter().try_fold(entry.dtype.size() as u64, |bytes, &n| bytes.checked_mul(n));
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

    /// Where the arrays lie in the file, which has `length` bytes. Arrays of one name are one variable.
    fn layout(&self, length: u64) -> Layout {
        let mut variables: Vec<StoredVariable> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for entry in &self.entries {
            let place = *known.entry(entry.name.as_str()).or_insert(variables.len());
            if place == variables.len() {
                variables.push(StoredVariable {
                    path: format!("/{}", entry.name),
                    dtype: entry.dtype,
                    endian: entry.endian,
                    shape: entry.share.count().to_vec(),
                    extents: Vec::new(),
                });
            }
            let extent = Extent {
                offset: entry.offset,
                length: entry.length(),
                shape: entry.share.count().into(),
                filters: Arc::default(),
            };
            if let Some(variable) = variables.get_mut(place).filter(|_| extent.length > 0) {
                variable.extents.push(extent);
            }
        }
        variables.retain(|variable| !variable.extents.is_empty());
        Layout { format: FORMAT.to_owned(), length, variables }
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
    Ok(Entry { name, dtype, endian, share, offset })
}

/// For fuzzing what lies behind the checksum.
#[cfg(feature = "testing")]
pub mod testing {
    use super::Index;

    /// Reads an index that begins at byte `end`, lays the arrays out, writes the index and reads it again. `None` for bytes
    /// that are no index, else whether it comes back.
    pub fn comes_back(bytes: &[u8], end: u64) -> Option<bool> {
        let index = Index::parse(bytes, end).ok()?;
        // Laying out must not fail; whether arrays make sense together is checked there.
        let _ = index.layout(end).check();
        Some(Index::parse(&index.write(end).1, end).is_ok_and(|again| again == index))
    }
}

/// The layout of the array file at `path`; `None` if it is a file of another format.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read; `Corrupt` or `Unsupported` for one that is damaged or of a later version.
pub fn layout(path: &Path) -> Result<Option<Layout>> {
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
    Ok(Some(Index::read(length, bytes)?.layout(length)))
}

/// The layout of the file at `path` for programs that know no other format: of an array file, or else one without
/// variables, which is carried as bytes.
///
/// # Errors
/// As for [`layout`].
pub fn find(path: &Path) -> Result<Layout> {
    match layout(path)? {
        Some(layout) => Ok(layout),
        None => {
            let length = std::fs::metadata(path).map_err(|error| Error::read(path, &error))?.len();
            Ok(Layout::opaque(length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let global = Share::Global { shape: vec![100, 7], region: Region::new([40, 0], [10, 7]) };
        let entry = |name: &str, dtype, share, offset| Entry {
            name: name.to_owned(),
            dtype,
            endian: Endian::Little,
            share,
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
    fn an_index_comes_back_and_names_its_arrays() {
        let bytes = file(&index());
        assert_eq!(read(&bytes).unwrap(), index());
        let layout = index().layout(bytes.len() as u64);
        layout.check().unwrap();
        let found: Vec<_> = layout.variables.iter().map(|v| (v.path.as_str(), v.extents.len())).collect();
        assert_eq!(found, [("/T", 2), ("/grid/ids", 1)]);
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
        refuse(|index| index.entries[0].name = String::new());
        refuse(|index| index.entries[1].share = Share::Own(vec![u64::MAX, 0, 2]));
        refuse(|index| index.entries[3].share = Share::Global { shape: vec![50], region: Region::new([50], [1]) });
    }

    #[test]
    fn names_and_parts_are_checked() {
        for bad in ["", "/a", "a\0", &"x".repeat(1024)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        check_name("ocean/T 1").unwrap();
        assert!(Share::Own(vec![1; 33]).check().is_err());
        let outside = Share::Global { shape: vec![4], region: Region::new([3], [2]) };
        assert!(outside.check().unwrap_err().advice().is_some());
    }
}
