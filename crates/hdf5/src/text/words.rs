//! Data types that are more than numbers, and their values: for people, and to tell apart what a codec does not.

use crate::sys::{Class, Datatype, Inside};
use crate::text::element::{bits, integer, text};
use knarr_array::array::{DType, Endian};
use knarr_array::error::Result;
use knarr_array::model::ElementType;

/// `None` for plain numbers.
pub(crate) fn element_type(datatype: &Datatype) -> Result<Option<ElementType>> {
    if datatype.number()?.is_some() {
        return Ok(None);
    }
    if datatype.class()? == Class::Enum
        && let Some(found) = enumeration(datatype)?
    {
        return Ok(Some(found));
    }
    words(datatype).map(|words| Some(ElementType::Other(words)))
}

/// Byte order of plain numbers does not show, sizes and offsets do.
fn words(datatype: &Datatype) -> Result<String> {
    if let Some((dtype, _)) = datatype.number()? {
        return Ok(dtype.to_string());
    }
    let size = datatype.size()?;
    Ok(match datatype.class()? {
        Class::Enum => match enumeration(datatype)? {
            Some(found) => found.to_string(),
            None => format!("enum of {}", words(&datatype.base()?)?),
        },
        Class::String if datatype.is_variable_string()? => "string".to_owned(),
        Class::String => format!("string[{size}]"),
        Class::Compound => {
            let mut members = Vec::new();
            for (name, (offset, member)) in datatype.member_names()?.iter().zip(datatype.members()?) {
                members.push(format!("{}@{offset}: {}", name_text(name), words(&member)?));
            }
            format!("compound[{size}] {{{}}}", members.join(", "))
        }
        Class::Vlen => format!("sequence of {}", words(&datatype.base()?)?),
        Class::Array => format!("array[{size}] of {}", words(&datatype.base()?)?),
        Class::Integer => format!("integer[{size}] with unusual bits ({})", datatype.fine_print()?),
        Class::Float => format!("float[{size}] with unusual bits ({})", datatype.fine_print()?),
        Class::Time => format!("time[{size}]"),
        Class::Bitfield => format!("bits[{size}] ({})", datatype.fine_print()?),
        Class::Opaque => format!("opaque[{size}]"),
        Class::Reference => "reference".to_owned(),
        Class::Complex => format!("complex[{size}]"),
    })
}

/// `None` for an enumeration over integers of unusual precision.
fn enumeration(datatype: &Datatype) -> Result<Option<ElementType>> {
    let Some((dtype, endian)) = datatype.base()?.number()? else { return Ok(None) };
    let mut members = Vec::new();
    for (name, value) in datatype.enumerated()? {
        let unsigned = bits(&value, endian).unwrap_or(0);
        let signed = unsigned.to_le_bytes().get(..dtype.size()).and_then(|bytes| integer(dtype, bytes));
        members.push((name_text(&name), signed.map_or_else(|| i128::from(unsigned), i128::from)));
    }
    // The library orders them by name.
    members.sort_by_key(|(_, value)| *value);
    let is_bool =
        dtype == DType::I8 && matches!(members.as_slice(), [(no, 0), (yes, 1)] if no == "FALSE" && yes == "TRUE");
    Ok(Some(if is_bool { ElementType::Bool } else { ElementType::Enum { base: dtype, members } }))
}

/// Values in words, as different as the values are: `{x: 1, y: [2.5, 3.0]}`.
pub(crate) fn value_words(value: &Inside) -> String {
    match value {
        Inside::Number(dtype, bytes) => number_words(*dtype, bytes),
        Inside::Text(bytes) => format!("{:?}", text(bytes)),
        Inside::Path(path) if path.is_empty() => "-> nothing".to_owned(),
        Inside::Path(path) => format!("-> {}", text(path)),
        Inside::List(list) => list_words(list),
        Inside::Members(members) => {
            let named = members.iter().map(|(name, value)| format!("{}: {}", name_text(name), value_words(value)));
            format!("{{{}}}", named.collect::<Vec<_>>().join(", "))
        }
        Inside::Bytes(bytes) => bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
    }
}

/// As [`value_words`] for the elements of an array.
pub(crate) fn list_words(list: &[Inside]) -> String {
    format!("[{}]", list.iter().map(value_words).collect::<Vec<_>>().join(", "))
}

fn number_words(dtype: DType, bytes: &[u8]) -> String {
    if let Some(whole) = integer(dtype, bytes) {
        return whole.to_string();
    }
    let bits = bits(bytes, Endian::Little).unwrap_or(0);
    match dtype {
        DType::F32 => float_words(f64::from(f32::from_bits(u32::try_from(bits).unwrap_or(0))), bits),
        DType::F64 => float_words(f64::from_bits(bits), bits),
        // Whole numbers above the largest signed one.
        DType::U64 => bits.to_string(),
        _ => format!("0x{bits:x}"),
    }
}

fn float_words(value: f64, bits: u64) -> String {
    if value.is_nan() { format!("NaN(0x{bits:x})") } else { format!("{value:?}") }
}

/// The library's names end in NUL.
fn name_text(name: &[u8]) -> String {
    text(name.strip_suffix(b"\0").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_have_different_words() {
        let number = |dtype, bytes: &[u8]| Inside::Number(dtype, bytes.to_vec());
        let nan = |payload: u32| number(DType::F32, &(0x7FC0_0000 | payload).to_le_bytes());
        let record = |x: i16| {
            Inside::Members(vec![
                (b"x\0".to_vec(), number(DType::I16, &x.to_le_bytes())),
                (b"y\0".to_vec(), Inside::List(vec![Inside::Text(b"a\"b".to_vec()), Inside::Path(b"/T".to_vec())])),
            ])
        };
        assert_eq!(value_words(&record(-3)), r#"{x: -3, y: ["a\"b", -> /T]}"#);
        assert_eq!(value_words(&number(DType::U64, &[0xFF; 8])), u64::MAX.to_string());
        assert_ne!(value_words(&nan(1)), value_words(&nan(2)));
        assert_ne!(value_words(&number(DType::F32, &[0; 4])), value_words(&number(DType::F32, &[0, 0, 0, 0x80])));
        assert_eq!(value_words(&Inside::Bytes(vec![1, 0xAB])), "0x01ab");
    }
}
