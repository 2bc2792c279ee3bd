//! Whether a source is what a sink was made for.

use knarr_array::error::{Error, Result};
use knarr_array::model::Model;
use knarr_flow::store::Source;

/// Checks that the variables of `model` begin with those of `source`: sinks name variables by their numbers.
///
/// # Errors
/// `Internal` with the first variable that differs.
pub fn check(model: &Model, source: &dyn Source) -> Result<()> {
    for (index, variable) in source.model().variables.iter().enumerate() {
        let planned = model.variables.get(index);
        let is_same = planned.is_some_and(|planned| {
            (&planned.path, planned.dtype, &planned.shape) == (&variable.path, variable.dtype, &variable.shape)
        });
        if !is_same {
            return Err(Error::internal(format!("the output was made for other variables than number {index}"))
                .at_variable(variable.name()));
        }
    }
    Ok(())
}
