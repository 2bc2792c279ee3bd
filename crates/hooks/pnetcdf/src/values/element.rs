//! Types of elements, in memory and in the file, and what becomes of values that change their type.

use std::ffi::c_int;

use knarr_array::array::DType;

/// Type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Text,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Element {
    /// The type that PnetCDF calls by this number (`nc_type`), if it has one.
    pub(crate) fn of_file(nc_type: c_int) -> Option<Self> {
        Some(match nc_type {
            1 => Self::I8,
            2 => Self::Text,
            3 => Self::I16,
            4 => Self::I32,
            5 => Self::F32,
            6 => Self::F64,
            7 => Self::U8,
            8 => Self::U16,
            9 => Self::U32,
            10 => Self::I64,
            11 => Self::U64,
            _ => return None,
        })
    }

    /// The type that the adapter for MPI calls by this number: see `knarr_mpi_pack` in `knarr_mpi.c`.
    pub(crate) fn of_adapter(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Text,
            2 => Self::I8,
            3 => Self::U8,
            4 => Self::I16,
            5 => Self::U16,
            6 => Self::I32,
            7 => Self::U32,
            8 => Self::I64,
            9 => Self::U64,
            10 => Self::F32,
            11 => Self::F64,
            _ => return None,
        })
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::Text => DType::Opaque(1),
            Self::I8 => DType::I8,
            Self::I16 => DType::I16,
            Self::I32 => DType::I32,
            Self::I64 => DType::I64,
            Self::U8 => DType::U8,
            Self::U16 => DType::U16,
            Self::U32 => DType::U32,
            Self::U64 => DType::U64,
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
        }
    }

    /// What PnetCDF gives for a value that an element of this type cannot hold: the fill value of the type, whatever the variable
    /// has for one.
    pub(crate) fn fill(self) -> Vec<u8> {
        match self {
            Self::Text => vec![0],
            Self::I8 => (-127i8).to_le_bytes().to_vec(),
            Self::I16 => (-32_767i16).to_le_bytes().to_vec(),
            Self::I32 => (-2_147_483_647i32).to_le_bytes().to_vec(),
            Self::I64 => (-9_223_372_036_854_775_806i64).to_le_bytes().to_vec(),
            Self::U8 => vec![u8::MAX],
            Self::U16 => u16::MAX.to_le_bytes().to_vec(),
            Self::U32 => u32::MAX.to_le_bytes().to_vec(),
            Self::U64 => (u64::MAX - 1).to_le_bytes().to_vec(),
            Self::F32 => 9.969_21e36f32.to_le_bytes().to_vec(),
            Self::F64 => 9.969_209_968_386_869e36f64.to_le_bytes().to_vec(),
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        self.dtype().size()
    }

    /// False for text and numbers: PnetCDF does not convert one into the other.
    pub(crate) fn mixes_with(self, other: Self) -> bool {
        (self == Self::Text) == (other == Self::Text)
    }
}

/// Appends `values`, which are of type `from`, as values of type `to`. Those that `to` cannot hold become `fill`. Returns
/// false if there were such.
pub(crate) fn convert(values: &[u8], from: Element, to: Element, fill: &[u8], out: &mut Vec<u8>) -> bool {
    use Element as E;
    if from == to {
        out.extend_from_slice(values);
        return true;
    }
    match from {
        E::Text => false,
        E::I8 => to_file::<i8>(values, to, fill, out),
        E::I16 => to_file::<i16>(values, to, fill, out),
        E::I32 => to_file::<i32>(values, to, fill, out),
        E::I64 => to_file::<i64>(values, to, fill, out),
        E::U8 => to_file::<u8>(values, to, fill, out),
        E::U16 => to_file::<u16>(values, to, fill, out),
        E::U32 => to_file::<u32>(values, to, fill, out),
        E::U64 => to_file::<u64>(values, to, fill, out),
        E::F32 => to_file::<f32>(values, to, fill, out),
        E::F64 => to_file::<f64>(values, to, fill, out),
    }
}

fn to_file<S: Number>(values: &[u8], to: Element, fill: &[u8], out: &mut Vec<u8>) -> bool {
    use Element as E;
    match to {
        E::Text => false,
        E::I8 => each::<S, i8>(values, fill, out),
        E::I16 => each::<S, i16>(values, fill, out),
        E::I32 => each::<S, i32>(values, fill, out),
        E::I64 => each::<S, i64>(values, fill, out),
        E::U8 => each::<S, u8>(values, fill, out),
        E::U16 => each::<S, u16>(values, fill, out),
        E::U32 => each::<S, u32>(values, fill, out),
        E::U64 => each::<S, u64>(values, fill, out),
        E::F32 => each::<S, f32>(values, fill, out),
        E::F64 => each::<S, f64>(values, fill, out),
    }
}

fn each<S: Number, T: Number>(values: &[u8], fill: &[u8], out: &mut Vec<u8>) -> bool {
    let mut all = true;
    out.reserve(values.len() / S::SIZE * T::SIZE);
    for value in values.chunks_exact(S::SIZE) {
        match T::of(S::read(value).wide()) {
            Some(value) => value.write(out),
            None => {
                all = false;
                out.extend_from_slice(fill);
            }
        }
    }
    all
}

/// A number of any type.
enum Wide {
    Whole(i128),
    Real(f64),
}

/// A type of numbers. All are little-endian in memory.
trait Number: Copy {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, out: &mut Vec<u8>);
    fn wide(self) -> Wide;
    /// The number in this type, cut to a whole one as C does it; `None` if it is out of range.
    fn of(wide: Wide) -> Option<Self>;
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl Number for $type {
            const SIZE: usize = size_of::<$type>();
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn wide(self) -> Wide {
                Wide::Whole(i128::from(self))
            }
            #[allow(clippy::allow_attributes, clippy::cast_possible_truncation, reason = "within the limits")]
            fn of(wide: Wide) -> Option<Self> {
                match wide {
                    Wide::Whole(whole) => Self::try_from(whole).ok(),
                    Wide::Real(real) if real > Self::MAX as f64 || real < Self::MIN as f64 => None,
                    Wide::Real(real) => Some(real as Self),
                }
            }
        }
    )*};
}

whole!(i8 i16 i32 i64 u8 u16 u32 u64);

impl Number for f32 {
    const SIZE: usize = 4;
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
    }
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn wide(self) -> Wide {
        Wide::Real(f64::from(self))
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounded as C does it")]
    fn of(wide: Wide) -> Option<Self> {
        match wide {
            Wide::Whole(whole) => Some(whole as Self),
            Wide::Real(real) if real > f64::from(Self::MAX) || real < f64::from(Self::MIN) => None,
            Wide::Real(real) => Some(real as Self),
        }
    }
}

impl Number for f64 {
    const SIZE: usize = 8;
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
    }
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn wide(self) -> Wide {
        Wide::Real(self)
    }
    fn of(wide: Wide) -> Option<Self> {
        Some(match wide {
            Wide::Whole(whole) => whole as Self,
            Wide::Real(real) => real,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn values_out_of_range_become_fill_and_are_told_of() {
        let mut out = Vec::new();
        let fill = (-127i8).to_le_bytes();
        assert!(convert(&doubles(&[1.9, -128.0, 127.0]), Element::F64, Element::I8, &fill, &mut out));
        assert_eq!(out, [1, 128, 127]);
        out.clear();
        assert!(!convert(&doubles(&[128.0, -3.0, -1e30]), Element::F64, Element::I8, &fill, &mut out));
        assert_eq!(out, [129, 253, 129]);
        out.clear();
        assert!(!convert(&doubles(&[1e39]), Element::F64, Element::F32, &[7; 4], &mut out));
        assert_eq!(out, [7; 4]);
        out.clear();
        assert!(!convert(&(-1i32).to_le_bytes(), Element::I32, Element::U64, &[0; 8], &mut out));
        assert!(convert(&u64::MAX.to_le_bytes(), Element::U64, Element::F64, &[0; 8], &mut out));
    }

    #[test]
    fn not_a_number_stays_so_and_equal_types_keep_their_bits() {
        let mut out = Vec::new();
        assert!(convert(&doubles(&[f64::NAN]), Element::F64, Element::F32, &[0; 4], &mut out));
        assert!(f32::from_le_bytes(out[..4].try_into().unwrap()).is_nan());
        out.clear();
        let odd = [1, 0, 0, 0, 0, 0, 0xF4, 0x7F];
        assert!(convert(&odd, Element::F64, Element::F64, &[0; 8], &mut out));
        assert_eq!(out, odd);
    }
}
