//! What of another format Zarr can hold: asked before anything is written, and named all at once.

use knarr_array::array::DType;
use knarr_array::model::{Attribute, AttributeValue, ElementType, StorageLayout, Variable};
use knarr_array::{Error, Result};
use knarr_flow::store::Source;

use crate::zarr::ZarrSource;

/// Checks that Zarr has a type for every variable.
///
/// # Errors
/// `Unsupported` with all variables that have none, in file order.
pub(super) fn check(source: &dyn Source) -> Result<()> {
    if source.as_any().is::<ZarrSource>() {
        return Ok(());
    }
    let refused: Vec<String> = source
        .model()
        .variables
        .iter()
        .enumerate()
        .filter_map(|(index, variable)| Some(format!("'{}' ({})", variable.name(), reason(source, index, variable)?)))
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    let noun = if refused.len() == 1 { "variable" } else { "variables" };
    Err(Error::unsupported(format!("Zarr has no type for {noun} {}", refused.join(", ")))
        .hint("write netCDF-4 or HDF5 instead")
        .at(source.path().display().to_string()))
}

/// Why a variable does not fit. Characters do: readers know them as strings of length 1.
fn reason(source: &dyn Source, index: usize, variable: &Variable) -> Option<String> {
    if variable.layout == StorageLayout::Null {
        return Some("it has no values".to_owned());
    }
    match variable.dtype {
        DType::Opaque(1) => None,
        DType::Opaque(_) if source.strings(index).is_some() => None,
        DType::Opaque(_) => {
            Some(source.element_type(index).map_or_else(|| variable.dtype.to_string(), ElementType::short))
        }
        _ => None,
    }
}

/// Names of the values of enumerations, which Zarr has no type for, as the attributes of CF conventions 3.5 ('Flags'),
/// for variables that do not have these attributes.
pub(super) fn flags(source: &dyn Source) -> Vec<(usize, Attribute)> {
    let variables = source.model().variables.iter().enumerate();
    variables.filter_map(|(index, variable)| enumeration(source, index, variable)).flatten().collect()
}

fn enumeration(source: &dyn Source, index: usize, variable: &Variable) -> Option<[(usize, Attribute); 2]> {
    let truth = [("FALSE".to_owned(), 0), ("TRUE".to_owned(), 1)];
    let members: &[(String, i128)] = match source.element_type(index)? {
        ElementType::Bool => &truth,
        ElementType::Enum { members, .. } => members,
        ElementType::Other(_) => return None,
    };
    if FLAGS.iter().any(|name| variable.attribute(name).is_some()) {
        return None;
    }
    let size = variable.dtype.size();
    let bytes = members.iter().flat_map(|(_, value)| value.to_le_bytes().into_iter().take(size)).collect();
    // Meanings are separated by blanks.
    let meanings: Vec<String> = members.iter().map(|(name, _)| name.replace(' ', "_")).collect();
    let values = AttributeValue::Numbers { dtype: variable.dtype, bytes, scalar: false };
    let named = |name: &str, value| (index, Attribute { name: name.to_owned(), value });
    Some([named(FLAGS[0], values), named(FLAGS[1], AttributeValue::Text(meanings.join(" ")))])
}

const FLAGS: [&str; 2] = ["flag_values", "flag_meanings"];
