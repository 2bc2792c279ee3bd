//! Encoding of chunks before a file is made of them.

use crate::offload::remote_encoder::ChunkToEncode;
use crate::pipeline::execution::form::planned;
use crate::pipeline::execution::recipes::Recipes;
use crate::store::Source;
use crate::threads::engine::Engine;
use knarr_array::error::{Error, Result};
use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::Plan;

/// Encodes the chunks of every planned variable for later, as [`execute`](crate::pipeline::execution::execute) would. Does nothing for sources that
/// keep none.
///
/// # Errors
/// The first error of reading, encoding or keeping, with its variable; `Interrupted`.
pub fn encode_ahead(
    engine: &Engine,
    source: &dyn Source,
    plan: &Plan,
    target: FormatLimits,
    verify: bool,
) -> Result<()> {
    let Some(ahead) = source.ahead() else { return Ok(()) };
    let mut recipes = Recipes::new(verify);
    for (index, variable, choice) in planned(source, plan) {
        let number = recipes.add(engine, choice, variable.chunk_spec(&choice.chunk), target)?;
        let (recipe, _) = recipes.recipe(number).ok_or_else(|| Error::internal("a variable without a recipe"))?;
        let (shape, padding) = (&variable.shape, variable.padding_bytes());
        let count = usize::try_from(chunk_count(shape, &choice.chunk)).unwrap_or(usize::MAX);
        let encoded = engine.parallel(count, |number| {
            let position = chunk_position(shape, &choice.chunk, number as u64);
            let region = &chunk_region(shape, &choice.chunk, &position);
            ahead.encode(&engine.codecs, &ChunkToEncode { variable: index, region, padding: &padding, recipe })
        });
        encoded.map_err(|error| error.at_variable(variable.name()))?;
    }
    Ok(())
}
