//! Attributes: JSON values on one side, typed values on the other.

use crate::zarr::{metadata::json, metadata::types};
use knarr_array::array::DType;
use knarr_array::model::{Attribute, AttributeValue, latin1};
use knarr_array::{Error, Result};
use serde_json::{Map, Value};

/// Attributes whose values have the type of their variable (CF conventions, sections 2.5.1 and 3.5, appendix A).
const OF_ITS_TYPE: [&str; 8] = [
    "_FillValue",
    "missing_value",
    "valid_min",
    "valid_max",
    "valid_range",
    "actual_range",
    "flag_values",
    "flag_masks",
];

/// Typed attributes of a node. `dtype` is the type of the array they belong to.
pub(in crate::zarr) fn from_json(map: &Map<String, Value>, dtype: Option<DType>) -> Vec<Attribute> {
    map.iter()
        .map(|(name, value)| {
            let typed = dtype.filter(|_| OF_ITS_TYPE.contains(&name.as_str())).and_then(|dtype| {
                let fill = name == "_FillValue" || name == "missing_value";
                fill.then(|| fill_value(dtype, value)).flatten().or_else(|| of_type(dtype, &value_from_json(value)))
            });
            Attribute { name: name.clone(), value: typed.unwrap_or_else(|| value_from_json(value)) }
        })
        .collect()
}

/// Numbers of JSON as numbers of this type, where it holds them all. Whole numbers may become floating-point ones, but
/// not the reverse: limits of packed values are sometimes given in the type of unpacked ones.
fn of_type(dtype: DType, value: &AttributeValue) -> Option<AttributeValue> {
    let AttributeValue::Numbers { dtype: given, bytes, scalar } = value else { return None };
    if !dtype.is_number() || given.is_float() && !dtype.is_float() {
        return None;
    }
    let elements = bytes.chunks_exact(given.size().max(1));
    let converted = elements.map(|element| {
        let bytes = element.to_vec();
        let one = AttributeValue::Numbers { dtype: *given, bytes, scalar: true };
        let named = Attribute { name: String::new(), value: one };
        let bits = match (dtype, given) {
            (DType::F32, DType::F64) => single(named.value.floats().first().copied()?),
            _ => crate::fills::attribute_bits(dtype, &[named], "").first().copied(),
        }?;
        bits.to_le_bytes().get(..dtype.size()).map(<[u8]>::to_vec)
    });
    let bytes = converted.collect::<Option<Vec<_>>>()?.concat();
    Some(AttributeValue::Numbers { dtype, bytes, scalar: *scalar })
}

/// Bits of the single-precision number that `float` is, or that is written as `float` is in decimals: 0.1 stands for the
/// nearest one.
fn single(float: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it was made from")]
    let single = float as f32;
    let is_same = f64::from(single).to_bits() == float.to_bits() || single.to_string().parse() == Ok(float);
    is_same.then(|| u64::from(single.to_bits()))
}

/// A single value of the given type.
pub(in crate::zarr) fn scalar(dtype: DType, bits: u64) -> AttributeValue {
    AttributeValue::Numbers { dtype, bytes: bits.to_le_bytes()[..dtype.size().min(8)].to_vec(), scalar: true }
}

fn fill_value(dtype: DType, value: &Value) -> Option<AttributeValue> {
    if let Some(bits) = types::fill_attribute_bits(dtype, value) {
        return Some(scalar(dtype, bits));
    }
    // Plain numbers take the type of the array, as the netCDF conventions want.
    let given = Attribute { name: "_FillValue".to_owned(), value: value_from_json(value) };
    match crate::fills::attribute_bits(dtype, &[given], "_FillValue").as_slice() {
        [bits] => Some(scalar(dtype, *bits)),
        _ => None,
    }
}

fn value_from_json(value: &Value) -> AttributeValue {
    let numbers = |items: &[Value], scalar| {
        let ints: Option<Vec<u8>> = items
            .iter()
            .map(|item| item.as_i64().or_else(|| item.as_bool().map(i64::from)).map(i64::to_le_bytes))
            .collect::<Option<Vec<_>>>()
            .map(|ints| ints.concat());
        if let Some(bytes) = ints {
            return Some(AttributeValue::Numbers { dtype: DType::I64, bytes, scalar });
        }
        let unsigned: Option<Vec<_>> = items.iter().map(|item| item.as_u64().map(u64::to_le_bytes)).collect();
        if let Some(bytes) = unsigned {
            return Some(AttributeValue::Numbers { dtype: DType::U64, bytes: bytes.concat(), scalar });
        }
        let floats: Option<Vec<_>> = items.iter().map(|item| float(item).map(f64::to_le_bytes)).collect();
        floats.map(|floats| AttributeValue::Numbers { dtype: DType::F64, bytes: floats.concat(), scalar })
    };
    let found = match value {
        Value::String(text) if !json::is_bare(text) => Some(AttributeValue::Text(text.clone())),
        Value::Array(items) if items.is_empty() => Some(AttributeValue::Strings(Vec::new())),
        Value::Array(items) => numbers(items, false).or_else(|| {
            items
                .iter()
                .map(|item| item.as_str().filter(|text| !json::is_bare(text)).map(str::to_owned))
                .collect::<Option<_>>()
                .map(AttributeValue::Strings)
        }),
        Value::Object(_) | Value::Null => None,
        scalar => numbers(std::slice::from_ref(scalar), true),
    };
    found.unwrap_or_else(|| {
        // Nested values and numbers that no type holds have no other form outside of Zarr: kept as JSON text.
        AttributeValue::Text(json::text(value))
    })
}

/// A number as a double, if that holds it: of whole numbers beyond 53 bits only some.
#[expect(clippy::cast_possible_truncation, reason = "compared with what it was made from")]
fn float(item: &Value) -> Option<f64> {
    let float = item.as_f64().or_else(|| item.as_str().and_then(json::bare_number))?;
    let whole = item.as_i64().map(i128::from).or_else(|| item.as_u64().map(i128::from));
    whole.is_none_or(|whole| float as i128 == whole).then_some(float)
}

/// JSON of attributes; `dtype` is the type of the array they belong to.
///
/// # Errors
/// `Unsupported` for a value that only its own format can carry.
pub(in crate::zarr) fn to_json(attributes: &[Attribute], dtype: Option<DType>) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    for attribute in attributes {
        let fill = match dtype {
            Some(dtype) if attribute.name == "_FillValue" => fill_to_json(dtype, attribute),
            _ => None,
        };
        let value = match fill {
            Some(fill) => fill,
            None => {
                value_to_json(&attribute.value).map_err(|error| error.at(format!("attribute '{}'", attribute.name)))?
            }
        };
        map.insert(attribute.name.clone(), value);
    }
    Ok(map)
}

fn fill_to_json(dtype: DType, attribute: &Attribute) -> Option<Value> {
    match (&attribute.value, dtype) {
        (AttributeValue::Text(text), DType::Opaque(1)) => {
            Some(types::fill_attribute(dtype, u64::from(text.bytes().next().unwrap_or(0))))
        }
        _ => crate::fills::attribute_bits(dtype, std::slice::from_ref(attribute), "_FillValue")
            .first()
            .map(|&bits| types::fill_attribute(dtype, bits)),
    }
}

fn value_to_json(value: &AttributeValue) -> Result<Value> {
    match value {
        AttributeValue::Text(text) => Ok(Value::from(text.as_str())),
        AttributeValue::Strings(items) => Ok(Value::from(items.clone())),
        // Characters that are not UTF-8: JSON has to be, so they are read as Latin-1, what old files mostly hold.
        AttributeValue::Numbers { dtype: DType::Opaque(1), bytes, .. } => Ok(Value::from(latin1(bytes))),
        AttributeValue::Numbers { dtype, bytes, .. } if dtype.is_number() => {
            let mut items: Vec<Value> =
                bytes.chunks_exact(dtype.size()).map(|element| number(*dtype, element)).collect();
            // netCDF does not tell an array of one from a single value, and readers of CF attributes want the latter.
            Ok(if items.len() == 1 { items.remove(0) } else { Value::from(items) })
        }
        AttributeValue::Numbers { dtype, .. } => {
            Err(Error::unsupported(format!("values of type {dtype} cannot be written as JSON"))
                .hint("write netCDF-4 or HDF5 instead"))
        }
        AttributeValue::Other { what, .. } => Err(Error::unsupported(format!("{what} cannot be written as JSON"))
            .hint("write netCDF-4 or HDF5 instead, or remove the attribute")),
    }
}

fn number(dtype: DType, element: &[u8]) -> Value {
    let bits = element.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    match dtype {
        DType::F64 => json::number(f64::from_bits(bits)),
        #[expect(clippy::cast_possible_truncation, reason = "four bytes were read")]
        DType::F32 => json::number(f64::from(f32::from_bits(bits as u32))),
        // Integers are written the same way as fill values.
        _ => types::fill_to_json(dtype, bits),
    }
}
