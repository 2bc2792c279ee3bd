//! The header of a classic file, parsed from bytes that nobody vouches for.
//!
//! Grammar: "The NetCDF Classic Format Specification" (Unidata, NetCDF User's Guide, appendix B), for CDF-1 and
//! CDF-2; the CDF-5 extension is that of PnetCDF ("CDF-5 file format specification", Argonne and Northwestern).
//! Every count is compared with the bytes that are left before anything of that size is made.

use knarr_array::array::{DType, swap_bytes};
use knarr_array::model::{Attribute, AttributeValue};
use knarr_array::{Error, Result};

/// Which of the three classic formats a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Version {
    /// 32-bit offsets (`CDF\x01`).
    Cdf1,
    /// 64-bit offsets (`CDF\x02`).
    Cdf2,
    /// 64-bit offsets, sizes and integers (`CDF\x05`).
    Cdf5,
}

/// External data types, `nc_type` of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NcType {
    /// `NC_BYTE`: 8-bit signed integer.
    Byte,
    /// `NC_CHAR`: text.
    Char,
    /// `NC_SHORT`: 16-bit signed integer.
    Short,
    /// `NC_INT`: 32-bit signed integer.
    Int,
    /// `NC_FLOAT`: binary32.
    Float,
    /// `NC_DOUBLE`: binary64.
    Double,
    /// `NC_UBYTE`, CDF-5 only.
    UByte,
    /// `NC_USHORT`, CDF-5 only.
    UShort,
    /// `NC_UINT`, CDF-5 only.
    UInt,
    /// `NC_INT64`, CDF-5 only.
    Int64,
    /// `NC_UINT64`, CDF-5 only.
    UInt64,
}

impl NcType {
    /// The type of this version that holds elements of `dtype`, if there is one.
    pub(crate) fn of(dtype: DType, version: Version) -> Option<Self> {
        (1..=11).filter_map(|tag| Self::from_tag(tag, version)).find(|nc_type| nc_type.dtype() == dtype)
    }

    /// Its number in files.
    fn tag(self) -> u32 {
        (1..=11).find(|&tag| Self::from_tag(tag, Version::Cdf5) == Some(self)).unwrap_or(0)
    }

    fn from_tag(tag: u32, version: Version) -> Option<Self> {
        Some(match tag {
            1 => Self::Byte,
            2 => Self::Char,
            3 => Self::Short,
            4 => Self::Int,
            5 => Self::Float,
            6 => Self::Double,
            _ if version != Version::Cdf5 => return None,
            7 => Self::UByte,
            8 => Self::UShort,
            9 => Self::UInt,
            10 => Self::Int64,
            11 => Self::UInt64,
            _ => return None,
        })
    }

    /// Knarr's type. `NC_CHAR` is `Opaque(1)`: bytes that are neither numbers nor text by themselves.
    pub fn dtype(self) -> DType {
        match self {
            Self::Byte => DType::I8,
            Self::Char => DType::Opaque(1),
            Self::Short => DType::I16,
            Self::Int => DType::I32,
            Self::Float => DType::F32,
            Self::Double => DType::F64,
            Self::UByte => DType::U8,
            Self::UShort => DType::U16,
            Self::UInt => DType::U32,
            Self::Int64 => DType::I64,
            Self::UInt64 => DType::U64,
        }
    }

    /// Default fill value, zero-extended bits (`NC_FILL_*` of `netcdf.h`).
    pub fn default_fill(self) -> u64 {
        match self {
            Self::Byte => 0x81,
            Self::Char => 0,
            Self::Short => 0x8001,
            Self::Int => 0x8000_0001,
            Self::Float => 0x7CF0_0000,
            Self::Double => 0x479E_0000_0000_0000,
            Self::UByte => 0xFF,
            Self::UShort => 0xFFFF,
            Self::UInt => 0xFFFF_FFFF,
            Self::Int64 => 0x8000_0000_0000_0002,
            Self::UInt64 => 0xFFFF_FFFF_FFFF_FFFE,
        }
    }
}

/// A dimension as the header states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dim {
    /// Name.
    pub name: String,
    /// Length; 0 marks the record dimension.
    pub len: u64,
}

/// A variable as the header states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Var {
    /// Name.
    pub name: String,
    /// Indices into [`Header::dims`], slowest first; all are valid.
    pub dims: Vec<usize>,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Type.
    pub nc_type: NcType,
    /// Offset of the first byte in the file.
    pub begin: u64,
}

/// A parsed header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Format.
    pub version: Version,
    /// Number of records; `None` if the writer left it to be computed from the length of the file (streaming).
    pub records: Option<u64>,
    /// Dimensions. At most one has length 0.
    pub dims: Vec<Dim>,
    /// Global attributes.
    pub attributes: Vec<Attribute>,
    /// Variables in file order.
    pub vars: Vec<Var>,
}

/// Parses a complete header from the first bytes of a classic file.
///
/// The entry point for fuzzing: any bytes may be given. Memory stays within a small multiple of `bytes.len()`.
///
/// # Errors
/// `Corrupt` with the offset at which the bytes stop making sense or end.
pub fn parse_header(bytes: &[u8]) -> Result<Header> {
    parse_prefix(bytes).map_err(|fault| match fault {
        Fault::Short { at, what, need } => Error::corrupt(format!(
            "the header ends at byte {} while reading {what} at byte {at}, which takes at least {need} more bytes",
            bytes.len()
        ))
        .hint("the file is truncated: fetch it again or restore it from a copy"),
        Fault::Bad(error) => error,
    })
}

/// Why a prefix of a file did not yield a header.
pub(super) enum Fault {
    /// The bytes end too early; a longer prefix may do.
    Short { at: usize, what: &'static str, need: u64 },
    /// No prefix will do.
    Bad(Error),
}

type Parsed<T> = std::result::Result<T, Fault>;

/// As [`parse_header`], telling 'too short' from 'wrong', so that a caller can read on.
pub(super) fn parse_prefix(bytes: &[u8]) -> Parsed<Header> {
    let mut cursor = Cursor { bytes, at: 0, version: Version::Cdf1 };
    let magic = cursor.take(4, "the magic number")?;
    cursor.version = match magic {
        b"CDF\x01" => Version::Cdf1,
        b"CDF\x02" => Version::Cdf2,
        b"CDF\x05" => Version::Cdf5,
        _ => return Err(cursor.bad("no classic netCDF file starts like this".to_owned())),
    };
    let records = match cursor.version {
        Version::Cdf5 => Some(cursor.u64("the number of records")?).filter(|&n| n != u64::MAX),
        _ => Some(u64::from(cursor.u32("the number of records")?)).filter(|&n| n != u64::from(u32::MAX)),
    };
    let dims = cursor.list(TAG_DIMENSION, "the dimension list", Cursor::dim)?;
    if dims.iter().filter(|dim| dim.len == 0).count() > 1 {
        return Err(cursor.bad("more than one dimension has length 0, which marks the record dimension".to_owned()));
    }
    let attributes = cursor.list(TAG_ATTRIBUTE, "the global attributes", Cursor::attribute)?;
    let vars = cursor.list(TAG_VARIABLE, "the variable list", |cursor| cursor.var(&dims))?;
    Ok(Header { version: cursor.version, records, dims, attributes, vars })
}

const TAG_DIMENSION: u32 = 0x0A;
const TAG_VARIABLE: u32 = 0x0B;
const TAG_ATTRIBUTE: u32 = 0x0C;

/// Most dimensions a variable may have; `NC_MAX_VAR_DIMS` of `netcdf.h`.
const MAX_RANK: u64 = 1024;

/// The bytes of a header, padded to a multiple of 4. Attributes are of types that the version has.
pub(super) fn encode_header(header: &Header) -> Vec<u8> {
    let magic: &[u8] = match header.version {
        Version::Cdf1 => b"CDF\x01",
        Version::Cdf2 => b"CDF\x02",
        Version::Cdf5 => b"CDF\x05",
    };
    let mut out = Encoder { out: magic.to_vec(), version: header.version };
    out.count(header.records.unwrap_or(0));
    out.list(TAG_DIMENSION, &header.dims, |out, dim| {
        out.name(&dim.name);
        out.count(dim.len);
    });
    out.list(TAG_ATTRIBUTE, &header.attributes, Encoder::attribute);
    out.list(TAG_VARIABLE, &header.vars, |out, var| {
        out.name(&var.name);
        out.count(var.dims.len() as u64);
        var.dims.iter().for_each(|&dim| out.count(dim as u64));
        out.list(TAG_ATTRIBUTE, &var.attributes, Encoder::attribute);
        out.u32(u64::from(var.nc_type.tag()));
        let size = vsize(header, var);
        // "If the size is larger than can be represented in 32 bits, 2^32 - 1 is used."
        if header.version == Version::Cdf5 {
            out.u64(size)
        } else {
            out.u32(size.min(u64::from(u32::MAX)))
        }
        if header.version == Version::Cdf1 { out.u32(var.begin) } else { out.u64(var.begin) }
    });
    out.out
}

/// Bytes of a record of a record variable, or of all of another one, with padding.
pub(super) fn vsize(header: &Header, var: &Var) -> u64 {
    let inner = var.dims.iter().map(|&dim| header.dims[dim].len).filter(|&len| len > 0);
    let bytes = inner.fold(var.nc_type.dtype().size() as u64, u64::saturating_mul);
    // A fixed dimension of length 0 cannot be told from the unlimited one.
    bytes.checked_next_multiple_of(4).unwrap_or(u64::MAX)
}

struct Encoder {
    out: Vec<u8>,
    version: Version,
}

impl Encoder {
    /// The lowest 32 bits.
    fn u32(&mut self, number: u64) {
        let [.., a, b, c, d] = number.to_be_bytes();
        self.out.extend([a, b, c, d]);
    }

    fn u64(&mut self, number: u64) {
        self.out.extend(number.to_be_bytes());
    }

    fn count(&mut self, number: u64) {
        if self.version == Version::Cdf5 { self.u64(number) } else { self.u32(number) }
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.out.resize(self.out.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
    }

    fn name(&mut self, name: &str) {
        self.count(name.len() as u64);
        self.padded(name.as_bytes());
    }

    fn list<T>(&mut self, tag: u32, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.u32(if items.is_empty() { 0 } else { u64::from(tag) });
        self.count(items.len() as u64);
        items.iter().for_each(|one| item(self, one));
    }

    fn attribute(&mut self, attribute: &Attribute) {
        self.name(&attribute.name);
        let (nc_type, bytes) = match &attribute.value {
            AttributeValue::Text(text) => (NcType::Char, text.as_bytes().to_vec()),
            AttributeValue::Numbers { dtype, bytes, .. } => {
                let mut bytes = bytes.clone();
                swap_bytes(&mut bytes, dtype.size());
                (NcType::of(*dtype, Version::Cdf5).unwrap_or(NcType::Char), bytes)
            }
            AttributeValue::Strings(_) | AttributeValue::Other { .. } => (NcType::Char, Vec::new()),
        };
        self.u32(u64::from(nc_type.tag()));
        self.count((bytes.len() / nc_type.dtype().size().max(1)) as u64);
        self.padded(&bytes);
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    version: Version,
}

impl<'a> Cursor<'a> {
    fn bad(&self, why: String) -> Fault {
        Fault::Bad(Error::corrupt(why).at(format!("header byte {}", self.at)).hint("restore the file from a copy"))
    }

    fn take(&mut self, len: u64, what: &'static str) -> Parsed<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(Fault::Short { at: self.at, what, need: len.saturating_sub(rest.len() as u64) }),
        }
    }

    fn u32(&mut self, what: &'static str) -> Parsed<u32> {
        let bytes = self.take(4, what)?;
        Ok(bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    fn u64(&mut self, what: &'static str) -> Parsed<u64> {
        let bytes = self.take(8, what)?;
        Ok(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// `NON_NEG`: 32 bits, or 64 in CDF-5; the sign bit must be clear.
    fn count(&mut self, what: &'static str) -> Parsed<u64> {
        let (value, limit) = match self.version {
            Version::Cdf5 => (self.u64(what)?, i64::MAX as u64),
            _ => (u64::from(self.u32(what)?), i32::MAX as u64),
        };
        if value > limit {
            return Err(self.bad(format!("{what}: a count is negative")));
        }
        Ok(value)
    }

    /// A count of things that take at least `each` bytes: refused before any are made if they cannot all be there.
    fn count_of(&mut self, each: u64, what: &'static str) -> Parsed<u64> {
        let count = self.count(what)?;
        let left = (self.bytes.len() - self.at) as u64;
        match count.checked_mul(each) {
            Some(need) if need <= left => Ok(count),
            Some(need) => Err(Fault::Short { at: self.at, what, need: need - left }),
            None => Err(self.bad(format!("{what}: {count} elements cannot fit in any file"))),
        }
    }

    fn padded(&mut self, len: u64, what: &'static str) -> Parsed<&'a [u8]> {
        let taken = self.take(len, what)?;
        // Padding bytes ought to be zero; writers exist that leave other bytes there, and every reader takes them.
        self.take(len.next_multiple_of(4) - len, what)?;
        Ok(taken)
    }

    fn name(&mut self, what: &'static str) -> Parsed<String> {
        let len = self.count_of(1, what)?;
        let bytes = self.padded(len, what)?;
        // A name ends at its first NUL: early netCDF counted the padding in.
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(name) if !name.is_empty() && !name.contains(['/', '\0']) => Ok(name.to_owned()),
            Ok(name) => Err(self.bad(format!("{what}: '{}' is no valid name", name.escape_debug()))),
            Err(_) => Err(self.bad(format!("{what}: a name is not UTF-8"))),
        }
    }

    /// `ABSENT | TAG nelems [item ...]`
    fn list<T>(
        &mut self,
        tag: u32,
        what: &'static str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let found = self.u32(what)?;
        // The shortest item is a one-letter name (8 bytes) and a 4-byte field.
        let count = self.count_of(12, what)?;
        match found {
            0 if count == 0 => Ok(Vec::new()),
            _ if found == tag => {
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(item(self)?);
                }
                Ok(items)
            }
            _ => Err(self.bad(format!("{what}: tag {found:#x} where {tag:#x} belongs"))),
        }
    }

    fn dim(&mut self) -> Parsed<Dim> {
        let name = self.name("a dimension")?;
        // CDF-2 uses all 32 bits: dimensions are up to 2^32 - 4 long there.
        let len = match self.version {
            Version::Cdf2 => u64::from(self.u32("a dimension length")?),
            _ => self.count("a dimension length")?,
        };
        Ok(Dim { name, len })
    }

    fn nc_type(&mut self, what: &'static str) -> Parsed<NcType> {
        let tag = self.u32(what)?;
        NcType::from_tag(tag, self.version).ok_or_else(|| self.bad(format!("{what}: unknown type {tag}")))
    }

    fn attribute(&mut self) -> Parsed<Attribute> {
        let name = self.name("an attribute")?;
        let nc_type = self.nc_type("an attribute type")?;
        let size = nc_type.dtype().size();
        let count = self.count_of(size as u64, "an attribute value")?;
        let mut bytes = self.padded(count * size as u64, "an attribute value")?.to_vec();
        let value = match nc_type {
            NcType::Char => match String::from_utf8(bytes) {
                Ok(text) => AttributeValue::Text(text),
                // Old files hold Latin-1 and other encodings: kept byte by byte.
                Err(error) => {
                    AttributeValue::Numbers { dtype: DType::Opaque(1), bytes: error.into_bytes(), scalar: false }
                }
            },
            _ => {
                swap_bytes(&mut bytes, size);
                AttributeValue::Numbers { dtype: nc_type.dtype(), bytes, scalar: count == 1 }
            }
        };
        Ok(Attribute { name, value })
    }

    fn var(&mut self, dims: &[Dim]) -> Parsed<Var> {
        let name = self.name("a variable")?;
        let width = if self.version == Version::Cdf5 { 8 } else { 4 };
        let rank = self.count_of(width, "the dimensions of a variable")?;
        if rank > MAX_RANK {
            return Err(self.bad(format!("variable '{name}' has {rank} dimensions; {MAX_RANK} is the limit")));
        }
        let mut indices = Vec::new();
        for axis in 0..rank {
            let index = self.count("a dimension id")?;
            let Some((index, dim)) =
                usize::try_from(index).ok().and_then(|index| dims.get(index).map(|dim| (index, dim)))
            else {
                return Err(self.bad(format!("variable '{name}' has dimension id {index} of {}", dims.len())));
            };
            if dim.len == 0 && axis > 0 {
                return Err(self.bad(format!("variable '{name}' has the record dimension as axis {axis}, not first")));
            }
            indices.push(index);
        }
        let attributes = self.list(TAG_ATTRIBUTE, "the attributes of a variable", Self::attribute)?;
        let nc_type = self.nc_type("the type of a variable")?;
        // `vsize` is redundant, and wrong by design for variables over 4 GiB: the sizes follow from the shape.
        self.take(width, "the size of a variable")?;
        let begin = match self.version {
            Version::Cdf1 => u64::from(self.u32("the offset of a variable")?),
            _ => self.u64("the offset of a variable")?,
        };
        Ok(Var { name, dims: indices, attributes, nc_type, begin })
    }
}
