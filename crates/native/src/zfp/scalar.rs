//! Element types of zfp.

use knarr_array::array::DType;

/// Element types of zfp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    I32,
    I64,
    F32,
    F64,
}

impl Scalar {
    pub(super) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::I32 => Some(Self::I32),
            DType::I64 => Some(Self::I64),
            DType::F32 => Some(Self::F32),
            DType::F64 => Some(Self::F64),
            _ => None,
        }
    }

    /// `zfp_type`
    pub(super) fn code(self) -> u8 {
        match self {
            Self::I32 => 1,
            Self::I64 => 2,
            Self::F32 => 3,
            Self::F64 => 4,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        [Self::I32, Self::I64, Self::F32, Self::F64].into_iter().find(|scalar| scalar.code() == code)
    }

    pub(super) fn size(self) -> usize {
        match self {
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}
