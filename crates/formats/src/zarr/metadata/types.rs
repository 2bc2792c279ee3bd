//! Data types and fill values of Zarr, and the bits they stand for.

use crate::zarr::metadata::fixed::FixedType;
use crate::zarr::metadata::json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use half::f16;
use knarr_array::array::DType;
use knarr_array::model::{Attribute, AttributeValue};
use knarr_array::npy;
use knarr_flow::store::Strings;
use serde_json::{Value, json};

/// What a Zarr data type is to Knarr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::zarr) enum ZarrType {
    /// A number; codecs serve it.
    Number(DType),
    /// True and false, kept as `i8` as xarray keeps them in netCDF.
    Bool,
    /// Byte strings of this length, padded with NUL; netCDF characters have the length 1.
    Bytes(u32),
    /// UTF-8 strings of any length.
    Text,
    /// What only Zarr has, of fixed size, with a fill value of at most 8 bytes: read, but not encoded.
    Fixed(FixedType),
    /// Something else, in words: `Python objects (|O)`.
    Other(String),
}

impl ZarrType {
    pub(in crate::zarr) fn dtype(&self) -> DType {
        match self {
            Self::Number(dtype) => *dtype,
            Self::Bool => DType::I8,
            Self::Bytes(length) => DType::Opaque(*length),
            Self::Fixed(fixed) => DType::Opaque(fixed.size),
            Self::Text | Self::Other(_) => DType::Opaque(1),
        }
    }

    /// In words, for what codecs do not serve.
    pub(in crate::zarr) fn words(&self) -> Option<String> {
        match self {
            Self::Number(_) | Self::Bool => None,
            Self::Bytes(length) => Some(format!("strings of {length} bytes")),
            Self::Text => Some("strings of variable length".to_owned()),
            Self::Fixed(FixedType { words, .. }) | Self::Other(words) => Some(words.clone()),
        }
    }
}

/// Python objects of version 2: what they are, a filter says.
pub(in crate::zarr) const OBJECTS: &str = "Python objects (|O)";

/// A type that Knarr has no codecs for, in words. `name` is that of NumPy or of a type of Zarr v3.
fn words(data_type: &Value, name: &str) -> String {
    let kind = match name.trim_start_matches(['<', '>', '|', '=']).chars().next() {
        _ if name.starts_with("numpy.datetime64") => "dates",
        _ if name.starts_with("numpy.timedelta64") => "durations",
        _ if name.starts_with("complex") => "complex numbers",
        _ if name.starts_with("fixed_length_utf32") => "text of fixed length",
        Some('M') => "dates",
        Some('m') => "durations",
        Some('c') => "complex numbers",
        Some('U') => "text of fixed length",
        Some('O') => "Python objects",
        Some('V') => "raw bytes",
        _ if name == "raw_bytes" => "raw bytes",
        _ => "values of a data type that is not known",
    };
    let numpy = match name.get(1..2) {
        Some("M") => "numpy datetime64, ",
        Some("m") => "numpy timedelta64, ",
        _ => "",
    };
    let name = if name.is_empty() { data_type.to_string() } else { name.to_owned() };
    format!("{kind} ({numpy}{name})")
}

/// Makes the fill value of an array of integers one, where it is written as a floating-point number of the same value: the
/// library z5 writes `0.0`, and zarr-python reads it.
pub(in crate::zarr) fn make_fill_whole(metadata: &mut serde_json::Map<String, Value>) {
    let data_type = metadata.get("data_type").map(from_v3).or_else(|| metadata.get("dtype").map(from_v2));
    let Some(ZarrType::Number(dtype)) = data_type else { return };
    let Some(fill) = metadata.get_mut("fill_value") else { return };
    let Some(number) = fill.as_f64().filter(|_| fill.is_f64() && !dtype.is_float()) else { return };
    let double = AttributeValue::Numbers { dtype: DType::F64, bytes: number.to_le_bytes().to_vec(), scalar: true };
    let attribute = Attribute { name: "fill_value".to_owned(), value: double };
    if let [bits] = crate::fills::attribute_bits(dtype, &[attribute], "fill_value").as_slice() {
        *fill = fill_to_json(dtype, *bits);
    }
}

/// Data type of Zarr v3 metadata: a name, or an object with a name.
pub(in crate::zarr) fn from_v3(data_type: &Value) -> ZarrType {
    let name = data_type.as_str().or_else(|| data_type.get("name").and_then(Value::as_str)).unwrap_or("");
    let dtype = match name {
        "bool" => return ZarrType::Bool,
        "string" => return ZarrType::Text,
        "null_terminated_bytes" => {
            let length = data_type.pointer("/configuration/length_bytes").and_then(Value::as_u64);
            return match length.and_then(|length| u32::try_from(length).ok()) {
                Some(length @ 1..) => ZarrType::Bytes(length),
                _ => ZarrType::Other(words(data_type, name)),
            };
        }
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        "float16" => DType::F16,
        "float32" => DType::F32,
        "float64" => DType::F64,
        _ => {
            let words = words(data_type, name);
            let fixed = FixedType::from_v3(data_type, name, &words);
            return fixed.map_or(ZarrType::Other(words), ZarrType::Fixed);
        }
    };
    ZarrType::Number(dtype)
}

/// Data type of Zarr v2 metadata: a NumPy type string.
pub(in crate::zarr) fn from_v2(dtype: &Value) -> ZarrType {
    let text = dtype.as_str().unwrap_or("");
    let kind = text.get(1..).unwrap_or("");
    if kind == "b1" {
        return ZarrType::Bool;
    }
    if let Some(number) = npy::number(kind) {
        return ZarrType::Number(number);
    }
    if let Some(length @ 1..) = text.strip_prefix("|S").and_then(|length| length.parse().ok()) {
        return ZarrType::Bytes(length);
    }
    let words = words(dtype, text);
    let fixed = FixedType::from_numpy(kind, &words);
    fixed.map_or(ZarrType::Other(words), ZarrType::Fixed)
}

/// `data_type` of Zarr v3 for a type; `None` if there is none that readers agree on.
pub(in crate::zarr) fn to_v3(dtype: DType, strings: Option<Strings>) -> Option<Value> {
    let name = match dtype {
        _ if strings == Some(Strings::Variable) => "string",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::F16 => "float16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        // What zarr-python and xarray use for netCDF characters and byte strings.
        DType::Opaque(length) if strings == Some(Strings::Fixed) => {
            return Some(json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": length}}));
        }
        DType::Opaque(_) => return None,
    };
    Some(Value::from(name))
}

/// `fill_value` of Zarr v3: exactly these bits.
#[expect(clippy::cast_possible_truncation, reason = "bits are zero-extended from their type")]
pub(in crate::zarr) fn fill_to_json(dtype: DType, bits: u64) -> Value {
    match dtype {
        DType::I8 => Value::from(bits as u8 as i8),
        DType::I16 => Value::from(bits as u16 as i16),
        DType::I32 => Value::from(bits as u32 as i32),
        DType::I64 => Value::from(bits as i64),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Value::from(bits),
        DType::F16 => float_to_json(f16::from_bits(bits as u16).to_f64(), bits, 0x7E00, 4),
        DType::F32 => float_to_json(f64::from(f32::from_bits(bits as u32)), bits, 0x7FC0_0000, 8),
        DType::F64 => float_to_json(f64::from_bits(bits), bits, 0x7FF8_0000_0000_0000, 16),
        DType::Opaque(_) => {
            let bytes: Vec<u8> = bits.to_le_bytes().into_iter().take_while(|&byte| byte != 0).collect();
            Value::from(STANDARD.encode(bytes))
        }
    }
}

fn float_to_json(value: f64, bits: u64, plain_nan: u64, digits: usize) -> Value {
    if value.is_nan() && bits != plain_nan {
        return Value::from(format!("0x{bits:0digits$x}"));
    }
    number(value)
}

/// A number in JSON; the strings of Zarr for what JSON cannot write.
pub(in crate::zarr) fn number(value: f64) -> Value {
    if value.is_nan() {
        Value::from("NaN")
    } else if value.is_infinite() {
        Value::from(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        Value::from(value)
    }
}

/// `_FillValue` as xarray writes it to Zarr v3: base64 of a little-endian double for floats, of the bytes for
/// characters; a plain number for integers (`xarray.backends.zarr.FillValueCoder`).
#[expect(clippy::cast_possible_truncation, reason = "bits are zero-extended from their type")]
pub(in crate::zarr) fn fill_attribute(dtype: DType, bits: u64) -> Value {
    match dtype {
        DType::F32 => Value::from(STANDARD.encode(f64::from(f32::from_bits(bits as u32)).to_le_bytes())),
        DType::F64 => Value::from(STANDARD.encode(f64::from_bits(bits).to_le_bytes())),
        DType::F16 => Value::from(STANDARD.encode(f16::from_bits(bits as u16).to_f64().to_le_bytes())),
        DType::Opaque(1) => Value::from(STANDARD.encode([bits as u8])),
        _ => fill_to_json(dtype, bits),
    }
}

/// The bits that a `_FillValue` or `missing_value` attribute stands for, as xarray or Knarr wrote it.
#[expect(clippy::cast_possible_truncation, reason = "xarray keeps the fill value of float32 data as a double")]
pub(in crate::zarr) fn fill_attribute_bits(dtype: DType, value: &Value) -> Option<u64> {
    let to_bits = |value: f64| match dtype {
        DType::F32 => Some(u64::from((value as f32).to_bits())),
        DType::F64 => Some(value.to_bits()),
        DType::F16 => Some(u64::from(f16::from_f64(value).to_bits())),
        _ => None,
    };
    let text = value.as_str()?;
    if let Some(value) = json::bare_number(text).or_else(|| json::non_finite(text)) {
        return to_bits(value);
    }
    let bytes = STANDARD.decode(text).ok()?;
    match dtype {
        DType::F16 | DType::F32 | DType::F64 => to_bits(f64::from_le_bytes(bytes.try_into().ok()?)),
        DType::Opaque(1) => match bytes.as_slice() {
            [] => Some(0),
            [byte] => Some(u64::from(*byte)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_keep_every_bit() {
        let f32_json = |value: f32| fill_to_json(DType::F32, u64::from(value.to_bits())).to_string();
        assert_eq!(f32_json(1e20), "1.0000000200408773e+20");
        assert_eq!(f32_json(-0.0), "-0.0");
        assert_eq!(f32_json(f32::INFINITY), "\"Infinity\"");
        assert_eq!(f32_json(f32::NAN), "\"NaN\"");
        assert_eq!(f32_json(f32::from_bits(0x7FC0_0001)), "\"0x7fc00001\"");
        assert_eq!(fill_to_json(DType::F64, 0xFFF8_0000_0000_0000).to_string(), "\"0xfff8000000000000\"");
        assert_eq!(fill_to_json(DType::I16, 0xFC19).to_string(), "-999");
        assert_eq!(fill_to_json(DType::U64, u64::MAX).to_string(), "18446744073709551615");
    }

    #[test]
    fn fill_attributes_are_those_of_xarray() {
        let bits = u64::from(1e20f32.to_bits());
        assert_eq!(fill_attribute(DType::F32, bits), "AAAAgB2vFUQ=");
        assert_eq!(fill_attribute_bits(DType::F32, &Value::from("AAAAgB2vFUQ=")), Some(bits));
        assert_eq!(fill_attribute(DType::I16, 0xFC19), -999);
    }
}
