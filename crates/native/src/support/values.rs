//! Questions about the values of a chunk.

use knarr_array::array::DType;
use knarr_array::{Error, Result};

/// Refuses chunks that a lossy codec of this crate cannot keep: NaN and infinities do not survive, and SZ3 does not
/// come to an end if differences of values overflow, so values close to the largest number are refused as well.
/// `bytes` are little-endian.
pub(crate) fn check_ordinary(codec: &str, dtype: DType, bytes: &[u8]) -> Result<()> {
    // Comparisons with NaN are false.
    let ordinary = match dtype {
        DType::F32 => bytes.as_chunks().0.iter().all(|element| f32::from_le_bytes(*element).abs() <= f32::MAX / 4.0),
        DType::F64 => bytes.as_chunks().0.iter().all(|element| f64::from_le_bytes(*element).abs() <= f64::MAX / 4.0),
        _ => true,
    };
    if ordinary {
        return Ok(());
    }
    Err(Error::unsupported(format!("{codec} cannot keep NaN, infinities and the largest numbers in a lossy mode"))
        .hint("use a lossless codec for this variable"))
}
