//! What a node is asked whose values are all of a chunk: to encode it. Who asks says how, and where the values are, because
//! it alone knows all logs.

use knarr_array::error::{Error, Result};
use knarr_array::quality::{Bound, Exact};
use knarr_flow::pipeline::{Container, Recipe};
use serde::{Deserialize, Serialize};

use crate::gather::runs::Move;

/// Bytes of a chunk, at most: what comes of it is one answer.
pub(crate) const LARGEST: usize = 1 << 24;
/// Nodes with the same codecs write the same bytes.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A chunk as the node that has its values is asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkQuestion {
    /// Version of the program that asks.
    pub(crate) program: String,
    pub(crate) recipe: Recipe,
    /// The numbers of its bound, as bits: who reads JSON may be off by the last one.
    pub(crate) bound: [u64; 5],
    /// Elements of the chunk along each axis that lie in the variable.
    pub(crate) count: Vec<u64>,
    /// One element, for all that is not copied.
    pub(crate) padding: Vec<u8>,
    /// Some elements of the variable have no values.
    pub(crate) fills: bool,
    /// The ranks that have put values, and how these are copied; the files of a move are numbered by place in this list.
    pub(crate) ranks: Vec<usize>,
    pub(crate) moves: Vec<Move>,
}

/// Those of a bound that are floating-point numbers.
fn numbers(bound: &mut Bound) -> [Option<&mut f64>; 5] {
    let Bound { abs, rel, bits: _, digits: _, finest, exact: Exact { up_to, from } } = bound;
    [Some(abs), Some(rel), Some(finest), up_to.as_mut(), from.as_mut()]
}

/// The bits of those numbers; 0 for what is not there.
pub(crate) fn bits(bound: Option<Bound>) -> [u64; 5] {
    let mut bound = bound;
    bound.as_mut().map_or([0; 5], |bound| numbers(bound).map(|number| number.map_or(0, |number| number.to_bits())))
}

impl ChunkQuestion {
    /// Copies of a chunk while it is encoded: the region, the chunk, two of the chain, the proof, the result.
    const COPIES: u64 = 6;

    /// Bytes that encoding it takes, about; saturates for chunks that are refused.
    pub fn memory(&self) -> u64 {
        let chunk = self.recipe.spec.checked_len().unwrap_or(usize::MAX) as u64;
        chunk.saturating_mul(self.recipe.spec.dtype.size() as u64).saturating_mul(Self::COPIES)
    }

    /// How the chunk is encoded.
    pub(crate) fn recipe(&self) -> Recipe {
        let mut recipe = self.recipe.clone();
        let numbers = recipe.bound.as_mut().into_iter().flat_map(numbers);
        numbers.zip(self.bound).for_each(|(number, bits)| {
            number.into_iter().for_each(|number| *number = f64::from_bits(bits));
        });
        recipe
    }

    /// Bytes of the region, if the question is one that can be.
    ///
    /// # Errors
    /// `Usage` if it is not; `Unsupported` from another version of the program.
    pub(crate) fn check(&self) -> Result<usize> {
        let Self { program, recipe, count, padding, .. } = self;
        if program != PROGRAM {
            let what = format!("version {program} of Knarr asks for a chunk, this is {PROGRAM}");
            return Err(Error::unsupported(what).hint("install the same version on all nodes"));
        }
        let size = recipe.spec.dtype.size();
        let is_chunk = recipe.spec.checked_len()?.checked_mul(size).is_some_and(|bytes| (1..=LARGEST).contains(&bytes));
        let is_inside = count.len() == recipe.spec.shape.len()
            && count.iter().zip(&recipe.spec.shape).all(|(&count, &extent)| (1..=extent as u64).contains(&count));
        let bytes = count.iter().product::<u64>().saturating_mul(size as u64);
        if is_chunk && is_inside && padding.len() == size && recipe.container != Container::Filter {
            return usize::try_from(bytes).map_err(|_| Error::usage("a chunk that is too large"));
        }
        Err(Error::usage("a chunk that cannot be"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};

    #[test]
    fn bounds_come_as_they_were_sent() {
        let mut seed = 1u64;
        let mut any = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A finite positive number.
            f64::from_bits(seed >> 2)
        };
        for _ in 0..2000 {
            let exact = Exact { up_to: Some(any()), from: None };
            let bound = Bound { abs: any(), rel: f64::INFINITY, bits: None, digits: Some(3), finest: any(), exact };
            let (chain, spec) = ("lz4".parse().unwrap(), ArraySpec::new(DType::F64, [4]));
            let bound = Some(bound);
            let recipe = Recipe { chain, fallback: None, spec, bound, verify: true, container: Container::Frame };
            let (program, count, padding) = (PROGRAM.to_owned(), vec![4], vec![0; 8]);
            let (fills, ranks, moves, sent) = (true, Vec::new(), Vec::new(), recipe.clone());
            let asked = ChunkQuestion { program, recipe, bound: bits(bound), count, padding, fills, ranks, moves };
            let heard: ChunkQuestion = serde_json::from_slice(&serde_json::to_vec(&asked).unwrap()).unwrap();
            assert_eq!(heard.recipe(), sent);
        }
    }
}
