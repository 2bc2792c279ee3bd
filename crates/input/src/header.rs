//! Files that describe variables whose values come from elsewhere.

use std::collections::HashMap;

use knarr_array::error::{Error, Result};
use knarr_array::model::{Model, StorageLayout};

/// A variable of a header whose values do not lie there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalValues {
    /// Absolute path in the header.
    pub path: String,
    /// Shape of the chunks that its values are best asked for by; `None` if any region is as good.
    pub chunk: Option<Vec<u64>>,
}

/// Lets the model say how the values of these variables come. Returns the number of each in the model.
///
/// # Errors
/// `Internal` if there is none of that path.
pub fn set_external(model: &mut Model, external: &[ExternalValues]) -> Result<Vec<usize>> {
    let places = model.variables.iter().enumerate().map(|(index, variable)| (variable.path.clone(), index));
    let (places, mut indices): (HashMap<String, usize>, _) = (places.collect(), Vec::new());
    for ExternalValues { path, chunk } in external {
        let index =
            places.get(path).copied().ok_or_else(|| Error::internal(format!("the header has no variable '{path}'")))?;
        let variable = &mut model.variables[index];
        variable.filters.clear();
        variable.stored_bytes = None;
        // Whoever reads a part of a chunk has all of it computed.
        (variable.layout, variable.chain) = match chunk {
            Some(chunk) => (StorageLayout::Chunked(chunk.clone()), "computed".to_owned()),
            None => (StorageLayout::Contiguous, "raw".to_owned()),
        };
        indices.push(index);
    }
    Ok(indices)
}
