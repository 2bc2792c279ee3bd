//! What was decided for a class.

use serde::{Deserialize, Serialize};

use crate::classes::scheme::MergeOrder;
use knarr_codec::chain::ChainSpec;

/// The order that merges nothing.
pub(crate) const APART: MergeOrder = MergeOrder { together: 1, block: 0, span: 0 };
/// Orders with the ratios that were found on a sample.
pub(crate) type Tried = Vec<(MergeOrder, f64)>;

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Group of ranks it was made for.
    pub group: usize,
    /// Key of the class.
    pub class: String,
    /// Order of its pieces.
    pub order: MergeOrder,
    /// Chains, best first: what the first cannot take goes to the next.
    pub chains: Vec<ChainSpec>,
    /// Why, in one sentence.
    pub reason: String,
    /// Orders that were tried, with the ratios that were found on the sample.
    pub tried: Vec<(MergeOrder, f64)>,
    /// Bytes of the class in all ranks, without what is stored elsewhere already.
    pub raw_bytes: u64,
    /// Bytes of its frames.
    pub packed_bytes: u64,
    /// The best ratio of earlier sets that it served.
    #[serde(default)]
    pub best: f64,
}
