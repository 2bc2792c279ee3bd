//! Encoders of the variables under way, kept few: contexts of codecs take up to a megabyte each, and files may have tens
//! of thousands of variables.

use std::collections::HashMap;

use super::encode::{ChunkEncoder, Container};
use crate::engine::Engine;
use knarr_array::array::ArraySpec;
use knarr_array::error::Result;
use knarr_array::quality::Bound;
use knarr_choose::choose::FormatLimits;
use knarr_choose::plan::Choice;
use knarr_codec::chain::{Chain, ChainSpec};

/// Encoders that one worker keeps.
const KEPT: usize = 8;

/// What an encoder is made from. The container follows from the rest.
struct Recipe<'a> {
    chain: &'a ChainSpec,
    fallback: Option<&'a ChainSpec>,
    spec: ArraySpec,
    bound: Option<Bound>,
    container: Container,
}

/// Every encoder that the variables of a plan need, once.
pub(super) struct Recipes<'a> {
    verify: bool,
    recipes: Vec<Recipe<'a>>,
    /// Recipes by the type and shape of their chunks.
    by_spec: HashMap<ArraySpec, Vec<usize>>,
}

impl<'a> Recipes<'a> {
    pub(super) fn new(verify: bool) -> Self {
        Self { verify, recipes: Vec::new(), by_spec: HashMap::new() }
    }

    /// The number of the encoder for chunks of `spec` as `choice` says.
    ///
    /// # Errors
    /// What preparing the encoder reports.
    pub(super) fn add(
        &mut self,
        engine: &Engine,
        choice: &'a Choice,
        spec: ArraySpec,
        target: FormatLimits,
    ) -> Result<usize> {
        let (chain, fallback, bound) = (&choice.chain, choice.fallback.as_ref(), choice.bound);
        let known = self.by_spec.entry(spec.clone()).or_default();
        let is_it = |recipe: &Recipe<'_>| (recipe.chain, recipe.fallback, recipe.bound) == (chain, fallback, bound);
        if let Some(found) = known.iter().find(|known| is_it(&self.recipes[**known])) {
            return Ok(*found);
        }
        let container = match (target, Chain::prepare(&engine.codecs, chain, &spec)?.hdf5_pipeline()) {
            (FormatLimits::Zarr(_), _) => Container::Codecs,
            (FormatLimits::Hdf5(_), Some(filters)) => Container::Pipeline(filters.len()),
            (FormatLimits::Hdf5(_), None) => Container::Frame,
        };
        let recipe = Recipe { chain, fallback, spec, bound, container };
        recipe.encoder(engine, self.verify)?;
        known.push(self.recipes.len());
        self.recipes.push(recipe);
        Ok(self.recipes.len() - 1)
    }

    /// The encoder of this number, made anew unless `kept` by the worker.
    ///
    /// # Errors
    /// What preparing the encoder reports.
    pub(super) fn encoder<'k>(&self, engine: &Engine, number: usize, kept: &'k mut Kept) -> Result<&'k ChunkEncoder> {
        let at = match kept.0.iter().position(|(known, _)| *known == number) {
            Some(at) => at,
            None => {
                kept.0.truncate(KEPT - 1);
                kept.0.push((number, self.recipes[number].encoder(engine, self.verify)?));
                kept.0.len() - 1
            }
        };
        // The latest is first, so that the one that was not needed for longest goes.
        kept.0[..=at].rotate_right(1);
        Ok(&kept.0[0].1)
    }
}

impl Recipe<'_> {
    fn encoder(&self, engine: &Engine, verify: bool) -> Result<ChunkEncoder> {
        ChunkEncoder::new(
            &engine.codecs,
            self.chain,
            self.fallback,
            self.spec.clone(),
            self.bound,
            verify,
            self.container,
        )
    }
}

/// Encoders that a worker has at hand, the latest first.
#[derive(Default)]
pub(super) struct Kept(Vec<(usize, ChunkEncoder)>);
