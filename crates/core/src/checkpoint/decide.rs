//! What is decided for each class of similar variables: the order in which its pieces are merged, and the chain.

use serde::{Deserialize, Serialize};

use super::merge::Merger;
use super::scheme::{Merged, Order, Scheme, arrange};
use super::similarity::Class;
use crate::array::ArrayView;
use crate::chain::ChainSpec;
use crate::error::{ErrorKind, Result};
use crate::pack::Packer;

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Group of ranks it was made for.
    pub group: usize,
    /// Key of the class.
    pub class: String,
    /// Order of its pieces.
    pub order: Order,
    /// Chains, best first: what the first cannot take goes to the next.
    pub chains: Vec<ChainSpec>,
    /// Why, in one sentence.
    pub reason: String,
    /// Orders that were tried, with the ratios that were found on the samples.
    pub tried: Vec<(Order, f64)>,
    /// Bytes of the class in all ranks, without what is stored elsewhere already.
    pub raw_bytes: u64,
    /// Bytes of its frames.
    pub packed_bytes: u64,
}

/// Chains that a decision keeps: the chosen one, and others for arrays it cannot take.
const CHAINS: usize = 3;

/// Decides about classes of one group.
pub(super) struct Decider<'a> {
    pub(super) packer: &'a Packer,
    pub(super) merger: &'a Merger<'a>,
    pub(super) scheme: Scheme,
    pub(super) block_size: u64,
    pub(super) group: usize,
}

impl Decider<'_> {
    /// The decision about `class`, which has at least one piece.
    pub(super) fn decide(&self, class: &Class) -> Result<Decision> {
        let order = self.scheme.order(self.block_size).unwrap_or(Order { together: 1, block: 0 });
        let frames = arrange(&class.units, order, |rank, piece| self.merger.length(rank, piece));
        let mut decision = Decision {
            group: self.group,
            class: class.key.clone(),
            order,
            chains: Vec::new(),
            reason: "nothing to store".to_owned(),
            tried: Vec::new(),
            raw_bytes: class.units.iter().map(|unit| unit.bytes).sum(),
            packed_bytes: 0,
        };
        if let Some(sample) = frames.get(frames.len() / 2) {
            (decision.chains, decision.reason) = self.chains(class, sample)?;
        }
        Ok(decision)
    }

    /// Chains for frames like `sample`, best first, and why.
    fn chains(&self, class: &Class, sample: &Merged) -> Result<(Vec<ChainSpec>, String)> {
        let (spec, bytes) = self.merger.merged(class, sample)?;
        let choice = match self.packer.plan(&ArrayView::new(&spec, &bytes)?) {
            // Without the codecs of foreign libraries not every type has a chain.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok((Vec::new(), error.to_string())),
            planned => planned?,
        };
        let mut chains = vec![choice.chain.clone()];
        for candidate in choice.candidates.iter().filter(|candidate| candidate.is_usable()) {
            if chains.len() < CHAINS && !chains.contains(&candidate.chain) {
                chains.push(candidate.chain.clone());
            }
        }
        Ok((chains, choice.reason))
    }
}
