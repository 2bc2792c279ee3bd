//! Trials: a chain run on samples. The numbers depend only on the samples.

use knarr_array::array::ArraySpec;
use knarr_array::quality::{Bound, Observed};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::{CodecList, Loss};

/// What trying one chain on all samples gave.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSet {
    /// Raw bytes over encoded bytes, all samples together.
    pub ratio: f64,
    /// Errors observed, for lossy chains.
    pub observed: Option<Observed>,
    /// Why the chain cannot be used, if it cannot: it failed, or misses the bound on more than half of the samples.
    pub failed: Option<String>,
}

/// Encodes every sample with `chain`; with a lossy chain, decodes and checks `bound`.
pub fn trial(
    codecs: &CodecList,
    chain: &ChainSpec,
    samples: &[(ArraySpec, Vec<u8>)],
    bound: Option<&Bound>,
) -> TrialSet {
    let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
    let (mut raw, mut packed, mut misses) = (0u64, 0u64, 0usize);
    let mut failed = None;
    let mut observed: Option<Observed> = None;
    for (spec, bytes) in samples {
        raw += bytes.len() as u64;
        let prepared = match Chain::prepare(codecs, chain, spec) {
            Ok(prepared) => prepared,
            Err(error) => return TrialSet { ratio: 1.0, observed: None, failed: Some(error.to_string()) },
        };
        let result = prepared.encode(bytes, &mut scratch, &mut encoded).and_then(|()| {
            if prepared.loss() == Loss::Lossless {
                return Ok(None);
            }
            prepared.decode(&encoded, &mut scratch, &mut decoded)?;
            bound.map(|bound| bound.check(spec, bytes, &decoded)).transpose()
        });
        match result {
            Ok(seen) => {
                packed += encoded.len().min(bytes.len()) as u64;
                observed = match (observed, seen) {
                    (Some(a), Some(b)) => Some(a.merge(b)),
                    (a, b) => a.or(b),
                };
            }
            Err(error) => {
                // Such a chunk would be stored.
                packed += bytes.len() as u64;
                misses += 1;
                failed = Some(error.to_string());
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes of samples are far below 2^52")]
    let ratio = raw as f64 / packed.max(1) as f64;
    TrialSet { ratio, observed, failed: failed.filter(|_| 2 * misses > samples.len()) }
}
