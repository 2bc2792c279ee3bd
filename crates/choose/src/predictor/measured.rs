//! What training learns from: candidate chains run on samples, with the features of the samples.

use serde::{Deserialize, Serialize};

use crate::features::Features;
use crate::profile::Clock;
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, Result};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::CodecList;

/// A quick run is repeated until runs took this many seconds together, and at most so many times.
const SECONDS: f64 = 0.004;
const MOST_RUNS: usize = 5;

/// What chains made of one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What the sample is from. Samples of one family are alike: what is learnt from some says little about how well
    /// others are predicted.
    pub family: String,
    /// Name of the variable, for people.
    pub variable: String,
    /// Features of the sample.
    pub features: Features,
    /// Bytes of the sample.
    pub bytes: u64,
    /// One entry for each chain that encoded it.
    pub chains: Vec<Measured>,
}

/// What one chain made of a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The chain.
    pub chain: ChainSpec,
    /// Raw bytes over encoded bytes.
    pub ratio: f64,
    /// MB (1e6 bytes) of raw bytes per second of one core, to encode.
    pub encode: f64,
    /// The same to decode.
    pub decode: f64,
}

impl Measured {
    /// Runs `chain` on a sample; `None` if the chain does not serve it.
    ///
    /// # Errors
    /// `Internal` if decoding does not return the sample.
    pub fn of(
        codecs: &CodecList,
        chain: &ChainSpec,
        spec: &ArraySpec,
        bytes: &[u8],
        clock: Clock<'_>,
    ) -> Result<Option<Self>> {
        let Ok(prepared) = Chain::prepare(codecs, chain, spec) else { return Ok(None) };
        let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
        let Ok(encode) = least(clock, || prepared.encode(bytes, &mut scratch, &mut encoded)) else { return Ok(None) };
        let decode = least(clock, || prepared.decode(&encoded, &mut scratch, &mut decoded))?;
        if decoded != bytes {
            return Err(Error::internal(format!("'{chain}' did not return what was encoded")));
        }
        #[expect(clippy::cast_precision_loss, reason = "a sample is far below 2^52 bytes")]
        let (raw, packed) = (bytes.len() as f64, encoded.len().max(1) as f64);
        Ok(Some(Self {
            chain: chain.clone(),
            ratio: raw / packed,
            encode: raw / 1e6 / encode,
            decode: raw / 1e6 / decode,
        }))
    }
}

/// Least time of a few runs: what disturbs a run makes it longer.
fn least(clock: Clock<'_>, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let begin = clock();
    let mut least = f64::INFINITY;
    for _ in 0..MOST_RUNS {
        let start = clock();
        work()?;
        least = least.min(clock() - start);
        if clock() - begin >= SECONDS {
            break;
        }
    }
    Ok(least.max(1e-9))
}
