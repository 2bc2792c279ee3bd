//! Encoders of the variables under way, kept few: contexts of codecs take up to a megabyte each, and files may have tens
//! of thousands of variables.

use std::collections::HashMap;

use crate::pipeline::execution::encode::{ChunkEncoder, Limits, Recipe};
use crate::pipeline::execution::form::container;
use crate::threads::engine::Engine;
use knarr_array::array::ArraySpec;
use knarr_array::error::Result;
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::Choice;
use knarr_codec::chain::Chain;

/// Encoders that one worker keeps.
const KEPT: usize = 8;

/// Every encoder that the variables of a plan need, once.
pub(in crate::pipeline) struct Recipes {
    verify: bool,
    recipes: Vec<(Recipe, Limits)>,
    /// Recipes by the type and shape of their chunks.
    by_spec: HashMap<ArraySpec, Vec<usize>>,
}

impl Recipes {
    pub(in crate::pipeline) fn new(verify: bool) -> Self {
        Self { verify, recipes: Vec::new(), by_spec: HashMap::new() }
    }

    /// The number of the encoder for chunks of `spec` as `choice` says.
    ///
    /// # Errors
    /// What preparing the encoder reports.
    pub(in crate::pipeline) fn add(
        &mut self,
        engine: &Engine,
        choice: &Choice,
        spec: ArraySpec,
        target: FormatLimits,
    ) -> Result<usize> {
        let Choice { chain, fallback, bound, .. } = choice;
        let known = self.by_spec.entry(spec.clone()).or_default();
        let is_it = |recipe: &Recipe| (&recipe.chain, &recipe.fallback, &recipe.bound) == (chain, fallback, bound);
        if let Some(found) = known.iter().find(|known| is_it(&self.recipes[**known].0)) {
            return Ok(*found);
        }
        let container = container(&Chain::prepare(&engine.codecs, chain, &spec)?, target)?;
        let (chain, fallback) = (chain.clone(), fallback.clone());
        let recipe = Recipe { chain, fallback, spec, bound: *bound, verify: self.verify, container };
        let limits = recipe.encoder(&engine.codecs)?.limits();
        known.push(self.recipes.len());
        self.recipes.push((recipe, limits));
        Ok(self.recipes.len() - 1)
    }

    /// What the encoder of this number is made from, and what it can return.
    pub(in crate::pipeline) fn recipe(&self, number: usize) -> Option<&(Recipe, Limits)> {
        self.recipes.get(number)
    }

    /// The encoder of this number, made anew unless `kept` by the worker.
    ///
    /// # Errors
    /// What preparing the encoder reports.
    pub(in crate::pipeline) fn encoder<'k>(
        &self,
        engine: &Engine,
        number: usize,
        kept: &'k mut CachedEncoders,
    ) -> Result<&'k ChunkEncoder> {
        let at = match kept.0.iter().position(|(known, _)| *known == number) {
            Some(at) => at,
            None => {
                kept.0.truncate(KEPT - 1);
                kept.0.push((number, self.recipes[number].0.encoder(&engine.codecs)?));
                kept.0.len() - 1
            }
        };
        // The latest is first, so that the one that was not needed for longest goes.
        kept.0[..=at].rotate_right(1);
        Ok(&kept.0[0].1)
    }
}

/// Encoders that a worker has at hand, the latest first.
#[derive(Default)]
pub(in crate::pipeline) struct CachedEncoders(Vec<(usize, ChunkEncoder)>);
