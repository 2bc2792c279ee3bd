//! Types of fixed size that Zarr has and Knarr has no codecs for: copied as they are, but read to be hashed and compared.

use crate::zarr::metadata::json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Such a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::zarr) struct FixedType {
    /// In words, with the name that the metadata has for it: `complex numbers (<c8)`.
    pub(in crate::zarr) words: String,
    kind: Kind,
    /// Bytes of an element.
    pub(in crate::zarr) size: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Complex,
    /// Dates or durations in this unit, such as `ns` or `10ms`; empty for none.
    Time {
        name: &'static str,
        unit: String,
    },
    /// UTF-32, padded with NUL.
    Text,
    Raw,
}

impl FixedType {
    /// Equal for equal types, whichever version of Zarr says it: `complex64`, `datetime64[ns]`.
    pub(in crate::zarr) fn name(&self) -> String {
        match &self.kind {
            Kind::Complex => format!("complex{}", 8 * self.size),
            Kind::Time { name, unit } if unit.is_empty() => (*name).to_owned(),
            Kind::Time { name, unit } => format!("{name}[{unit}]"),
            Kind::Text => format!("utf32[{}]", self.size / 4),
            Kind::Raw => format!("opaque[{}]", self.size),
        }
    }

    /// Bytes of the numbers that an element consists of.
    pub(in crate::zarr) fn part(&self) -> usize {
        match self.kind {
            Kind::Complex => self.size as usize / 2,
            Kind::Time { .. } => 8,
            Kind::Text => 4,
            Kind::Raw => 1,
        }
    }

    /// From Zarr v3 metadata, of which `name` is the name of the type.
    pub(in crate::zarr) fn from_v3(data_type: &Value, name: &str, words: &str) -> Option<Self> {
        let length = || {
            let length = data_type.pointer("/configuration/length_bytes").and_then(Value::as_u64);
            length.and_then(|length| u32::try_from(length).ok())
        };
        let time = |name| {
            let unit = data_type.pointer("/configuration/unit")?.as_str()?;
            let scale = data_type.pointer("/configuration/scale_factor").and_then(Value::as_u64).unwrap_or(1);
            Some(Kind::Time { name, unit: time_unit(scale, unit) })
        };
        let (kind, size) = match name {
            "complex64" => (Kind::Complex, 8),
            "complex128" => (Kind::Complex, 16),
            "numpy.datetime64" => (time("datetime64")?, 8),
            "numpy.timedelta64" => (time("timedelta64")?, 8),
            "fixed_length_utf32" => (Kind::Text, length().filter(|length| length % 4 == 0)?),
            "raw_bytes" => (Kind::Raw, length()?),
            _ => (Kind::Raw, name.strip_prefix('r')?.parse::<u32>().ok().filter(|bits| bits % 8 == 0)? / 8),
        };
        Self::of(kind, size, words)
    }

    /// From a `NumPy` type string without its byte order.
    pub(in crate::zarr) fn from_numpy(name: &str, words: &str) -> Option<Self> {
        let time = |name, rest: &str| {
            let unit = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest);
            let digits = unit.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
            let (scale, unit) = unit.split_at(digits);
            Kind::Time { name, unit: time_unit(scale.parse().unwrap_or(1), unit) }
        };
        let count = |rest: &str| rest.parse::<u32>().ok();
        let (kind, size) = match (name.get(..1)?, name.get(1..)?) {
            ("c", "8") => (Kind::Complex, 8),
            ("c", "16") => (Kind::Complex, 16),
            ("M", rest) => (time("datetime64", rest.strip_prefix('8')?), 8),
            ("m", rest) => (time("timedelta64", rest.strip_prefix('8')?), 8),
            ("U", rest) => (Kind::Text, count(rest)?.checked_mul(4)?),
            ("V", rest) => (Kind::Raw, count(rest)?),
            _ => return None,
        };
        Self::of(kind, size, words)
    }

    /// Elements of one byte are characters in Knarr's model, which these are not.
    fn of(kind: Kind, size: u32, words: &str) -> Option<Self> {
        (size > 1).then(|| Self { words: words.to_owned(), kind, size })
    }

    /// The first eight bytes of the fill value, little-endian; `None` for one that has more, or makes no sense.
    pub(in crate::zarr) fn fill(&self, value: Option<&Value>) -> Option<u64> {
        let value = match value {
            None | Some(Value::Null) => return Some(0),
            Some(value) if value.as_f64().is_some_and(|number| number.to_bits() == 0) => return Some(0),
            Some(value) => value,
        };
        match &self.kind {
            Kind::Complex => {
                let parts = match value.as_array().map(Vec::as_slice) {
                    Some([real, imaginary]) => (number(real)?, number(imaginary)?),
                    Some(_) => return None,
                    None => (number(value)?, 0.0),
                };
                self.complex(parts)
            }
            Kind::Time { .. } if value == "NaT" => Some(i64::MIN.cast_unsigned()),
            Kind::Time { .. } => value.as_i64().map(i64::cast_unsigned),
            Kind::Text => {
                let bits: Vec<u64> = value.as_str()?.chars().map(|c| u64::from(u32::from(c))).collect();
                match bits.as_slice() {
                    [] => Some(0),
                    [one] => Some(*one),
                    [one, two] => Some(one | two << 32),
                    _ => None,
                }
            }
            Kind::Raw => bytes_fill(Some(value)),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "JSON has the numbers of complex64 as doubles")]
    fn complex(&self, (real, imaginary): (f64, f64)) -> Option<u64> {
        match self.size {
            8 => Some(u64::from((real as f32).to_bits()) | u64::from((imaginary as f32).to_bits()) << 32),
            _ => Some(real.to_bits()).filter(|_| imaginary.to_bits() == 0),
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    let special = |text: &str| json::bare_number(text).or_else(|| json::non_finite(text));
    value.as_f64().or_else(|| special(value.as_str()?))
}

/// `ns`, `10ms`; nothing for the unit that NumPy calls generic.
fn time_unit(scale: u64, unit: &str) -> String {
    match scale {
        _ if unit == "generic" => String::new(),
        1 => unit.to_owned(),
        scale => format!("{scale}{unit}"),
    }
}

/// Bits of the `fill_value` of byte strings, base64 in both versions; `None` for one that has no place in 64 bits.
pub(in crate::zarr) fn bytes_fill(value: Option<&Value>) -> Option<u64> {
    let text = match value {
        None | Some(Value::Null) => return Some(0),
        Some(value) => value.as_str()?,
    };
    let mut bytes = STANDARD.decode(text).ok()?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes.resize(bytes.len().max(8), 0);
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_versions_name_a_type_alike() {
        let v3 = |data_type: Value| {
            let name = data_type.as_str().or_else(|| data_type["name"].as_str()).unwrap().to_owned();
            FixedType::from_v3(&data_type, &name, "").map(|found| (found.name(), found.size, found.part()))
        };
        let numpy = |name| FixedType::from_numpy(name, "").map(|found| (found.name(), found.size, found.part()));
        let time = |name: &str, unit: &str, scale: u64| json!({"name": name, "configuration": {"unit": unit, "scale_factor": scale}});
        let bytes = |name: &str, length: u64| json!({"name": name, "configuration": {"length_bytes": length}});
        for (data_type, dtype, name, size, part) in [
            (json!("complex64"), "c8", "complex64", 8, 4),
            (json!("complex128"), "c16", "complex128", 16, 8),
            (time("numpy.datetime64", "ns", 1), "M8[ns]", "datetime64[ns]", 8, 8),
            (time("numpy.datetime64", "generic", 1), "M8", "datetime64", 8, 8),
            (time("numpy.timedelta64", "ms", 10), "m8[10ms]", "timedelta64[10ms]", 8, 8),
            (bytes("fixed_length_utf32", 20), "U5", "utf32[5]", 20, 4),
            (bytes("raw_bytes", 3), "V3", "opaque[3]", 3, 1),
            (json!("r24"), "V3", "opaque[3]", 3, 1),
        ] {
            assert_eq!(v3(data_type), Some((name.to_owned(), size, part)), "{name}");
            assert_eq!(numpy(dtype), Some((name.to_owned(), size, part)), "{dtype}");
        }
        for refused in [json!("r7"), json!("r0"), json!("rows"), bytes("fixed_length_utf32", 5), json!("raw_bytes")] {
            assert_eq!(v3(refused.clone()), None, "{refused}");
        }
        assert!(["c4", "M4", "U", "U0", "V1", "U4294967295", "O", "", "é"].iter().all(|name| numpy(name).is_none()));
    }

    #[test]
    fn fill_values_are_the_bytes_of_an_element() {
        let fill = |dtype, value: Value| FixedType::from_numpy(dtype, "").unwrap().fill(Some(&value));
        assert_eq!(fill("c8", json!([1.0, "NaN"])), Some(0x7FC0_0000_3F80_0000));
        assert_eq!(fill("c8", json!(0)), Some(0));
        assert_eq!(fill("c8", json!([-0.0, 0.0])), Some(0x8000_0000));
        assert_eq!(fill("c16", json!([1.0, 0.0])), Some(1.0f64.to_bits()));
        assert_eq!(fill("c16", json!([1.0, 2.0])), None);
        assert_eq!(fill("M8[ns]", json!("NaT")), Some(1 << 63));
        assert_eq!(fill("m8[s]", json!(-1)), Some(u64::MAX));
        assert_eq!(fill("U3", json!("ab")), Some(0x62_0000_0061));
        assert_eq!(fill("U3", json!("abc")), None);
        assert_eq!(fill("V3", json!("AQI=")), Some(0x0201));
        assert_eq!(fill("V3", Value::Null), Some(0));
    }
}
