//! Data types and shapes of chunks: what every codec is told about the bytes it is given.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Type of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DType {
    /// Signed integers.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// Unsigned integers.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE 754 binary16; only codecs that treat elements as bytes serve it.
    F16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Anything else of a fixed size in bytes: strings, compounds, enums, opaque.
    Opaque(u32),
}

impl DType {
    /// All types but opaque ones.
    pub const NUMBERS: [Self; 11] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
    ];

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::Opaque(n) => n as usize,
        }
    }

    /// True for `F32` and `F64`, the types that lossy qualities apply to.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Bits of `value` rounded to this floating-point type; `None` for other types, in which nothing is lossy and no
    /// value has to be kept.
    pub fn float_bits(self, value: f64) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the type of the data")]
        match self {
            Self::F32 => Some(u64::from((value as f32).to_bits())),
            Self::F64 => Some(value.to_bits()),
            _ => None,
        }
    }

    /// True for the eight integer types.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// True for integers and `F32`/`F64`: types with values rather than bytes.
    pub fn is_number(self) -> bool {
        self.is_float() || self.is_integer()
    }

    /// True for signed integers and floats.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::F16 | Self::F32 | Self::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Opaque(n) => return write!(f, "opaque[{n}]"),
        };
        f.write_str(name)
    }
}

impl FromStr for DType {
    type Err = Error;

    /// Numbers only, by Knarr's names (`f32`, `u16`) or those of NumPy and netCDF (`float32`, `double`, `uint16`).
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.trim().to_ascii_lowercase().as_str() {
            "i8" | "int8" | "byte" => Self::I8,
            "i16" | "int16" | "short" => Self::I16,
            "i32" | "int32" | "int" => Self::I32,
            "i64" | "int64" => Self::I64,
            "u8" | "uint8" | "ubyte" => Self::U8,
            "u16" | "uint16" | "ushort" => Self::U16,
            "u32" | "uint32" | "uint" => Self::U32,
            "u64" | "uint64" => Self::U64,
            "f16" | "float16" | "half" => Self::F16,
            "f32" | "float32" | "float" => Self::F32,
            "f64" | "float64" | "double" => Self::F64,
            _ => {
                return Err(Error::usage(format!("there is no type '{text}'"))
                    .hint("types are int8 to int64, uint8 to uint64, float16, float32, float64"));
            }
        })
    }
}

/// Order of the bytes of an element, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Endian {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// What the bytes of one chunk mean: type, byte order, shape (slowest dimension first) and fill values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArraySpec {
    /// Element type.
    pub dtype: DType,
    /// Byte order of the elements as stored.
    pub endian: Endian,
    /// Extent per dimension, slowest varying first. Empty for a scalar.
    pub shape: Vec<usize>,
    /// Bit patterns, zero-extended, of values that mean 'missing' (`_FillValue`, `missing_value`).
    /// They survive every lossy chain exactly.
    pub fills: Vec<u64>,
}

impl ArraySpec {
    /// A little-endian array without fill values.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype, endian: Endian::Little, shape: shape.into(), fills: Vec::new() }
    }

    /// Bit patterns of all missing values: fill values, and both zeros of a floating-point type if one of them is a fill
    /// value. Readers compare values, and there the zeros are equal.
    pub fn missing(&self) -> Vec<u64> {
        let negative = match self.dtype {
            DType::F16 => 1 << 15,
            DType::F32 => 1 << 31,
            DType::F64 => 1 << 63,
            _ => return self.fills.clone(),
        };
        let mut missing = self.fills.clone();
        if self.fills.iter().any(|&fill| fill == 0 || fill == negative) {
            missing.extend([0, negative].into_iter().filter(|zero| !self.fills.contains(zero)));
        }
        missing
    }

    /// Number of elements.
    ///
    /// # Errors
    /// `Unsupported` if the product does not fit the address space, that of any of the extents included: codecs
    /// multiply some of them, and an extent of 0 must not hide the others.
    pub fn checked_len(&self) -> Result<usize> {
        self.shape
            .iter()
            .try_fold(self.dtype.size().max(1), |bytes, &n| bytes.checked_mul(n.max(1)))
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .map(|_| self.shape.iter().product())
            .ok_or_else(|| Error::unsupported(format!("shape {:?} of {} is too large", self.shape, self.dtype)))
    }

    /// Number of elements; 0 if the product overflows, which [`ArraySpec::checked_len`] reports.
    pub fn len(&self) -> usize {
        self.checked_len().unwrap_or(0)
    }

    /// True if the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes.
    pub fn byte_len(&self) -> usize {
        self.len() * self.dtype.size()
    }
}

/// A borrowed array whose byte length was checked against its spec once, at the door.
#[derive(Debug, Clone, Copy)]
pub struct ArrayView<'a> {
    spec: &'a ArraySpec,
    bytes: &'a [u8],
}

impl<'a> ArrayView<'a> {
    /// Checks that `bytes` holds exactly the elements that `spec` describes.
    ///
    /// # Errors
    /// `Usage` if the lengths differ, `Unsupported` if the shape overflows.
    pub fn new(spec: &'a ArraySpec, bytes: &'a [u8]) -> Result<Self> {
        let expected = spec.checked_len()? * spec.dtype.size();
        if expected != bytes.len() {
            return Err(Error::usage(format!(
                "array of {} {:?} needs {expected} bytes, {} given",
                spec.dtype,
                spec.shape,
                bytes.len()
            )));
        }
        Ok(Self { spec, bytes })
    }

    /// Type, shape and fill values.
    pub fn spec(&self) -> &'a ArraySpec {
        self.spec
    }

    /// The elements, in stored byte order, slowest dimension first.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Reverses the bytes of each element of `size` bytes, in place.
pub fn swap_bytes(bytes: &mut [u8], size: usize) {
    match size {
        0 | 1 => {}
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|element| element.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|element| element.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|element| element.reverse()),
        _ => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
    }
}

/// True if all elements have the same bits. Ends at the first that differs.
pub fn is_constant(size: usize, raw: &[u8]) -> bool {
    size > 0 && raw.len() > size && raw[size..] == raw[..raw.len() - size]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_refuses_bytes_that_do_not_fit() {
        let spec = ArraySpec::new(DType::F32, [2, 3]);
        assert!(ArrayView::new(&spec, &[0; 24]).is_ok());
        assert!(ArrayView::new(&spec, &[0; 23]).is_err());
        let huge = ArraySpec::new(DType::F64, [usize::MAX, 2]);
        assert!(ArrayView::new(&huge, &[]).is_err());
        let hidden = ArraySpec::new(DType::U8, [0, usize::MAX, 2]);
        assert!(ArrayView::new(&hidden, &[]).is_err(), "an extent of 0 hides the others");
    }

    #[test]
    fn types_are_known_by_several_names() {
        for dtype in DType::NUMBERS {
            assert_eq!(dtype.to_string().parse::<DType>().unwrap(), dtype);
        }
        assert_eq!("Double".parse::<DType>().unwrap(), DType::F64);
        assert!("string".parse::<DType>().unwrap_err().to_string().contains("float32"));
    }

    #[test]
    fn swapping_twice_is_identity() {
        for size in [1, 2, 3, 4, 8, 16] {
            let original: Vec<u8> = (0..48).collect();
            let mut bytes = original.clone();
            swap_bytes(&mut bytes, size);
            if size > 1 {
                assert_ne!(bytes, original);
            }
            swap_bytes(&mut bytes, size);
            assert_eq!(bytes, original);
        }
    }

    #[test]
    fn constant_means_every_element() {
        let mut raw = vec![7u8; 4000];
        assert!(is_constant(4, &raw));
        raw[3999] = 8;
        assert!(!is_constant(4, &raw));
        assert!(!is_constant(0, &raw) && !is_constant(4, &raw[..4]));
    }
}
