//! `fixedscaleoffset` of numcodecs: values are stored as `round((value - offset) * scale)`, mostly in a smaller type.
//!
//! What a store decodes to is what NumPy computes: numcodecs divides stored integers as 64-bit floats, and stored floats
//! in their own type. The codec of this name in zarrs 0.23 keeps offset and scale as 32-bit floats, so that values come
//! out different, and is not used.

use half::f16;
use knarr_array::array::{DType, Endian};
use knarr_array::{Error, Result};
use serde_json::Value;

/// Settings of the codec.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::zarr) struct Scale {
    pub(in crate::zarr) offset: f64,
    pub(in crate::zarr) scale: f64,
}

/// True if any codec in this metadata, however deep, is of this kind.
pub(in crate::zarr) fn is_in(metadata: &Value) -> bool {
    let is_name = |value: &Value| matches!(value.as_str(), Some("fixedscaleoffset" | "numcodecs.fixedscaleoffset"));
    match metadata {
        Value::Object(map) => {
            ["id", "name"].iter().any(|key| map.get(*key).is_some_and(is_name)) || map.values().any(is_in)
        }
        Value::Array(items) => items.iter().any(|item| is_name(item) || is_in(item)),
        _ => false,
    }
}

impl Scale {
    /// Replaces the contents of `out` by the values of type `to` for `input`, stored as type `from`.
    ///
    /// # Errors
    /// `Unsupported` for a value that the type cannot hold: what NumPy makes of it depends on the processor.
    pub(in crate::zarr) fn undo(
        &self,
        input: &[u8],
        from: DType,
        to: DType,
        endian: Endian,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        out.reserve(input.len() / from.size().max(1) * to.size());
        for element in input.chunks_exact(from.size().max(1)) {
            let value = self.value(element, from, endian);
            put(value, to, endian, out).ok_or_else(|| {
                Error::unsupported(format!("fixedscaleoffset gives {value}, which type {to} cannot hold"))
                    .hint("recompress the array with another codec")
            })?;
        }
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "bits are those of the type; settings are rounded as by NumPy")]
    #[expect(clippy::cast_precision_loss, reason = "NumPy divides integers as 64-bit floats")]
    fn value(&self, element: &[u8], from: DType, endian: Endian) -> f64 {
        let put = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        let bits = match endian {
            Endian::Little => element.iter().rev().fold(0, put),
            Endian::Big => element.iter().fold(0, put),
        };
        let Self { offset, scale } = *self;
        match from {
            DType::F32 => f64::from(f32::from_bits(bits as u32) / scale as f32 + offset as f32),
            DType::F16 => {
                // A quotient or sum of halves, rounded once more from 32 bits, is the nearest half.
                let half = |value: f64| f16::from_f64(value).to_f32();
                let quotient = f16::from_f32(f16::from_bits(bits as u16).to_f32() / half(scale)).to_f32();
                f16::from_f32(quotient + half(offset)).to_f64()
            }
            DType::F64 => f64::from_bits(bits) / scale + offset,
            _ if from.is_signed() => {
                let unused = 64 - 8 * u32::try_from(from.size()).unwrap_or(8).min(8);
                ((bits << unused).cast_signed() >> unused) as f64 / scale + offset
            }
            _ => bits as f64 / scale + offset,
        }
    }
}

/// Appends a value as type `to`; whole numbers are cut towards zero. `None` if the type has no such value.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused; floats are rounded as by NumPy")]
#[expect(clippy::cast_sign_loss, reason = "negative values do not get there")]
fn put(value: f64, to: DType, endian: Endian, out: &mut Vec<u8>) -> Option<()> {
    let bits = match to {
        DType::F64 => value.to_bits(),
        DType::F32 => u64::from((value as f32).to_bits()),
        DType::F16 => u64::from(f16::from_f64(value).to_bits()),
        _ => {
            let bits = i32::try_from(8 * to.size()).ok()?;
            let (least, beyond) =
                if to.is_signed() { (-2f64.powi(bits - 1), 2f64.powi(bits - 1)) } else { (0.0, 2f64.powi(bits)) };
            let whole = value.trunc();
            if !(least..beyond).contains(&whole) {
                return None;
            }
            if to.is_signed() { (whole as i64).cast_unsigned() } else { whole as u64 }
        }
    };
    match endian {
        Endian::Little => out.extend_from_slice(bits.to_le_bytes().get(..to.size())?),
        Endian::Big => out.extend_from_slice(bits.to_be_bytes().get(8usize.checked_sub(to.size())?..)?),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_those_of_numpy() {
        let scale = Scale { offset: 273.15, scale: 100.0 };
        let mut out = Vec::new();
        scale.undo(&[0xFF, 0xF0, 0x12, 0x34], DType::I16, DType::F64, Endian::Big, &mut out).unwrap();
        let values: Vec<f64> = out.as_chunks().0.iter().map(|bytes| f64::from_be_bytes(*bytes)).collect();
        assert_eq!(values, [-16.0 / 100.0 + 273.15, f64::from(0x1234) / 100.0 + 273.15]);
        scale.undo(&[200], DType::U8, DType::I32, Endian::Little, &mut out).unwrap();
        assert_eq!(out, 275i32.to_le_bytes());
        let stored = 1.1f32;
        scale.undo(&stored.to_le_bytes(), DType::F32, DType::F32, Endian::Little, &mut out).unwrap();
        assert_eq!(out, (1.1f32 / 100.0 + 273.15f32).to_le_bytes());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        for (offset, to) in [(-1.0, DType::U8), (256.0, DType::U8), (128.0, DType::I8), (f64::NAN, DType::I64)] {
            let scale = Scale { offset, scale: 1.0 };
            assert!(scale.undo(&[0], DType::U8, to, Endian::Little, &mut out).is_err(), "{offset} {to}");
        }
        let scale = Scale { offset: -0.5, scale: 1.0 };
        scale.undo(&[0], DType::U8, DType::U8, Endian::Little, &mut out).unwrap();
        assert_eq!(out, [0], "cut towards zero, as by NumPy");
    }

    #[test]
    fn it_is_found_within_shards() {
        let inner =
            json!({"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": ["fixedscaleoffset"]}}]});
        assert!(is_in(&inner) && is_in(&json!({"filters": [{"id": "fixedscaleoffset"}]})));
        assert!(!is_in(&json!({"codecs": [{"name": "bytes"}], "attributes": {"title": "fixedscaleoffset"}})));
    }
}
