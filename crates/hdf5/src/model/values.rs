//! Attribute values as the model shows them, and numbers as bit patterns.

use crate::model::paths::Paths;
use crate::sys::{Attr, Class, Datatype, Extent, Object, locked};
use crate::text::element::{bits, integer, text};
use crate::text::words::{list_words, value_words};
use knarr_array::array::{DType, Endian, swap_bytes};
use knarr_array::error::Result;
use knarr_array::model::{Attribute, AttributeValue};

/// Attributes through which HDF5 and netCDF-4 keep dimensions and housekeeping: shown as dimensions, or not at all.
const HIDDEN: [&str; 6] =
    ["DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"];

/// Attributes that make a dataset a dimension scale, hidden on those only.
const HIDDEN_ON_SCALES: [&str; 2] = ["CLASS", "NAME"];

/// Attributes of an object that are for people.
#[derive(Default)]
pub(crate) struct Visible {
    pub(crate) attributes: Vec<Attribute>,
    /// Names of those that have several dimensions.
    pub(crate) tables: Vec<String>,
}

/// Attributes of an object that are for people. `paths` are those of its file.
pub(crate) fn visible_attributes(object: &Object, paths: &Paths<'_>) -> Result<Visible> {
    let (mut visible, mut tables) = (Vec::new(), Vec::new());
    let mut is_scale = false;
    for attr in object.attributes()? {
        let name = text(&attr.name()?);
        if HIDDEN.contains(&name.as_str()) {
            continue;
        }
        let (value, extent) =
            value_and_extent(&attr, paths).map_err(|error| error.at(format!("attribute '{name}'")))?;
        if matches!(extent, Extent::Simple { shape, .. } if shape.len() > 1) {
            tables.push(name.clone());
        }
        is_scale |= name == "CLASS" && value == AttributeValue::Text("DIMENSION_SCALE".to_owned());
        visible.push(Attribute { name, value });
    }
    if is_scale {
        visible.retain(|attribute| !HIDDEN_ON_SCALES.contains(&attribute.name.as_str()));
    }
    Ok(Visible { attributes: visible, tables })
}

/// The value of an attribute.
pub(crate) fn value(attr: &Attr, paths: &Paths<'_>) -> Result<AttributeValue> {
    value_and_extent(attr, paths).map(|(value, _)| value)
}

fn value_and_extent(attr: &Attr, paths: &Paths<'_>) -> Result<(AttributeValue, Extent)> {
    let extent = attr.space()?.extent()?;
    Ok((value_of(attr, paths, &extent)?, extent))
}

fn value_of(attr: &Attr, paths: &Paths<'_>, extent: &Extent) -> Result<AttributeValue> {
    locked(|| {
        let datatype = attr.datatype()?;
        let class = datatype.class()?;
        if class == Class::String {
            return strings(attr, &datatype, extent);
        }
        let number = if class == Class::Enum { datatype.base()?.number()? } else { datatype.number()? };
        let Some((dtype, endian)) = number else {
            let path_of = |address| paths.get(address);
            let content = match extent {
                Extent::Scalar => attr.inside(&path_of)?.first().map(value_words).unwrap_or_default(),
                Extent::Simple { .. } => list_words(&attr.inside(&path_of)?),
                Extent::Null => String::new(),
            };
            return Ok(AttributeValue::Other { what: describe(&datatype, extent)?, content });
        };
        // netCDF writes no numbers with a null space.
        let mut bytes = if *extent == Extent::Null { Vec::new() } else { attr.read()?.bytes().to_vec() };
        if endian == Endian::Big {
            swap_bytes(&mut bytes, dtype.size());
        }
        Ok(AttributeValue::Numbers { dtype, bytes, scalar: *extent == Extent::Scalar })
    })
}

fn strings(attr: &Attr, datatype: &Datatype, extent: &Extent) -> Result<AttributeValue> {
    // netCDF writes empty text with a null space.
    if *extent == Extent::Null {
        return Ok(AttributeValue::Text(String::new()));
    }
    let memory = attr.read()?;
    let mut found: Vec<String> = if datatype.is_variable_string()? {
        memory.variable_strings()?.iter().map(|string| text(string)).collect()
    } else {
        let blanks = datatype.is_space_padded();
        memory.bytes().chunks_exact(datatype.size()?).map(|bytes| text(fixed_string(bytes, blanks))).collect()
    };
    match (extent, found.pop()) {
        (Extent::Scalar, Some(only)) => Ok(AttributeValue::Text(only)),
        (_, last) => {
            found.extend(last);
            Ok(AttributeValue::Strings(found))
        }
    }
}

/// A string of fixed length without its padding.
fn fixed_string(bytes: &[u8], blanks: bool) -> &[u8] {
    let end = if blanks {
        bytes.iter().rposition(|&byte| byte != b' ' && byte != 0).map_or(0, |last| last + 1)
    } else {
        bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())
    };
    bytes.get(..end).unwrap_or(bytes)
}

/// A type that is not a number in words, for people.
pub(crate) fn describe(datatype: &Datatype, extent: &Extent) -> Result<String> {
    let size = datatype.size()?;
    let one = match datatype.class()? {
        Class::Integer => format!("integer of {size} bytes with unusual bits"),
        Class::Float => format!("floating-point number of {size} bytes with unusual bits"),
        Class::Time => "time".to_owned(),
        Class::String => "string".to_owned(),
        Class::Bitfield => format!("bit field of {size} bytes"),
        Class::Opaque => format!("opaque of {size} bytes"),
        Class::Compound => format!("compound of {size} bytes"),
        Class::Reference => "reference".to_owned(),
        Class::Enum => "enumeration".to_owned(),
        Class::Vlen => "variable-length sequence".to_owned(),
        Class::Array => format!("array of {size} bytes"),
        Class::Complex => format!("complex number of {size} bytes"),
    };
    Ok(match extent {
        Extent::Simple { shape, .. } => format!("{one}, shape {shape:?}"),
        Extent::Scalar => one,
        Extent::Null => format!("{one}, empty"),
    })
}

/// Numbers of an attribute as whole numbers: dimension ids.
pub(crate) fn whole_numbers(value: &AttributeValue) -> Vec<i64> {
    let AttributeValue::Numbers { dtype, bytes, .. } = value else { return Vec::new() };
    bytes.chunks_exact(dtype.size()).filter_map(|element| integer(*dtype, element)).collect()
}

/// Bit patterns that the numbers of an attribute have in a variable of type `dtype`. A `missing_value` is often
/// of another type than its variable; it then means the nearest value, as readers compare after conversion.
pub(crate) fn bits_as(value: &AttributeValue, dtype: DType) -> Vec<u64> {
    let AttributeValue::Numbers { dtype: given, bytes, .. } = value else { return Vec::new() };
    bytes.chunks_exact(given.size()).filter_map(|element| convert(*given, element, dtype)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "conversions are checked by value")]
fn convert(given: DType, element: &[u8], dtype: DType) -> Option<u64> {
    if given == dtype {
        return bits(element, Endian::Little);
    }
    let raw = bits(element, Endian::Little)?;
    let float = match given {
        DType::F32 => f64::from(f32::from_bits(u32::try_from(raw).ok()?)),
        DType::F64 => f64::from_bits(raw),
        _ => {
            let whole = integer(given, element)?;
            if dtype.is_integer() {
                return integer_bits(i128::from(whole), dtype);
            }
            whole as f64
        }
    };
    match dtype {
        DType::F32 => Some(u64::from((float as f32).to_bits())),
        DType::F64 => Some(float.to_bits()),
        _ if float.fract() == 0.0 && float.abs() < 1e19 => integer_bits(float as i128, dtype),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits are what is stored")]
fn integer_bits(whole: i128, dtype: DType) -> Option<u64> {
    let width = 8 * u32::try_from(dtype.size()).ok()?;
    let (low, high) = if dtype.is_signed() {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    if !dtype.is_integer() || !(low..=high).contains(&whole) {
        return None;
    }
    Some((whole as u64) & (u64::MAX >> (64 - width)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(dtype: DType, bytes: &[u8]) -> AttributeValue {
        AttributeValue::Numbers { dtype, bytes: bytes.to_vec(), scalar: true }
    }

    #[test]
    fn missing_values_convert_to_the_type_of_the_variable() {
        let wide = numbers(DType::F64, &1e20f64.to_le_bytes());
        assert_eq!(bits_as(&wide, DType::F32), [u64::from(1e20f32.to_bits())]);
        assert_eq!(bits_as(&wide, DType::I16), [0u64; 0]);
        let minus = numbers(DType::I32, &(-999i32).to_le_bytes());
        assert_eq!(bits_as(&minus, DType::I16), [0xFFFF - 998]);
        assert_eq!(bits_as(&minus, DType::U8), [0u64; 0]);
        assert_eq!(bits_as(&minus, DType::F64), [(-999f64).to_bits()]);
        assert_eq!(whole_numbers(&minus), [-999]);
    }

    #[test]
    fn padding_of_fixed_strings_goes() {
        assert_eq!(fixed_string(b"abc\0\0", false), b"abc");
        assert_eq!(fixed_string(b"abc  ", true), b"abc");
        assert_eq!(fixed_string(b"\0\0", false), b"");
    }
}
