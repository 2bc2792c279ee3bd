//! Data types that are more than numbers: for people, and to tell types apart that are the same bytes to a codec.

use super::sys::{Class, Datatype};
use super::values::{bits, integer, text};
use knarr_core::array::DType;
use knarr_core::error::Result;
use knarr_core::model::ElementType;

/// `None` for plain numbers.
pub(super) fn element_type(datatype: &Datatype) -> Result<Option<ElementType>> {
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

/// Byte order does not show, sizes and offsets do.
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
        Class::Integer => format!("integer[{size}] with unusual bits"),
        Class::Float => format!("float[{size}] with unusual bits"),
        Class::Time => format!("time[{size}]"),
        Class::Bitfield => format!("bits[{size}]"),
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

/// The library's names end in NUL.
fn name_text(name: &[u8]) -> String {
    text(name.strip_suffix(b"\0").unwrap_or(name))
}
