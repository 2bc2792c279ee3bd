//! A rule of thumb for the ratio of any chain, from features alone: what a model corrects, and what serves for chains
//! that no model knows.

use crate::features::Features;
use knarr_codec::chain::{ChainSpec, StepSpec};
use knarr_codec::codec::OptionValue;

/// Expected raw over encoded bytes.
///
/// The model: an entropy coder reaches the order-0 entropy of the bytes it is given; a shuffle gives it one
/// plane at a time, a predictor the planes of differences; LZ-only coders reach part of that; match finders
/// gain on repeats. Constants are fits to the ratios that `knarr profile` data gives.
pub(super) fn rule_ratio(chain: &ChainSpec, features: &Features) -> f64 {
    let has = |name: &str| chain.0.iter().any(|step| step.name == name);
    let planes = features.plane_entropy.len().max(1);
    #[expect(clippy::cast_precision_loss, reason = "at most eight planes")]
    let full = planes as f64 * 8.0;
    let raw: f64 = features.plane_entropy.iter().sum();
    let delta: f64 = features.delta_entropy.iter().sum();
    let predicts = ["lorenzo", "grid", "pcodec", "fpzip", "delta"].iter().any(|name| has(name));
    let byte_delta = chain.to_string().contains("bytedelta");
    let numeric = has("zfp") || has("sz3");
    let shuffled = has("shuffle") || has("bitshuffle") || chain.0.iter().any(|step| step.name.starts_with("blosc"));
    let mut bits = if predicts {
        delta.min(raw)
    } else if byte_delta {
        0.5 * (raw + delta.min(raw))
    } else if numeric {
        features.axis_bits.iter().copied().fold(full, f64::min)
    } else if shuffled {
        raw
    } else {
        // Without planes, the coder sees a mixture of them; only repeats help.
        full - (full - raw) * 0.6
    };
    bits *= 1.0 - 0.8 * features.repeats;
    if !shuffled && !predicts && (features.distinct < 0.05 || features.repeats > 0.15) {
        bits *= 0.75;
    }
    let entropy_coder = ["zstd", "deflate", "gzip", "xz", "bzip2", "pcodec", "grid", "fpzip", "zfp", "sz3", "brotli"]
        .iter()
        .any(|name| chain.to_string().contains(name));
    if !entropy_coder {
        // LZ4 and snappy keep what does not repeat.
        bits = bits + (full - bits) * 0.35;
    }
    if has("round") {
        bits *= 0.5;
    }
    bits *= effort(chain);
    // A few bytes of headers a chunk keep constants from being free.
    (full / bits.max(full / 2000.0)).max(0.98)
}

/// Factor by which a chain's levels change the encoded size: some per cent.
fn effort(chain: &ChainSpec) -> f64 {
    chain.0.iter().fold(1.0, |factor, step| {
        factor
            * match (step.name.as_str(), level(step)) {
                ("zstd", 1) => 1.02,
                ("zstd", 2..=5) => 1.0,
                ("zstd", 6..=12) => 0.97,
                ("zstd", _) | ("pcodec", 8) => 0.92,
                ("deflate", 1) => 1.03,
                ("deflate", 9..) => 0.985,
                ("blosc" | "blosc2", 4..=6) => 0.965,
                ("blosc" | "blosc2", 7..) => 0.93,
                ("xz" | "bzip2", _) => 0.88,
                ("pcodec", _) => 0.88,
                ("grid", _) => 0.75,
                ("fpzip", _) => 0.9,
                _ => 1.0,
            }
    })
}

/// The chain without its levels: what has the same family differs in effort only.
pub(super) fn family(chain: &ChainSpec) -> String {
    let steps = chain.0.iter().map(|step| {
        let options = step.options.iter().filter(|(name, _)| *name != "level");
        let bare = step.bare.as_ref().filter(|value| !matches!(value, OptionValue::Int(_)));
        format!("{}:{bare:?}:{:?}", step.name, options.collect::<Vec<_>>())
    });
    steps.collect::<Vec<_>>().join("|")
}

fn level(step: &StepSpec) -> i64 {
    match (&step.bare, step.options.int("level")) {
        (Some(OptionValue::Int(level)), _) => *level,
        (_, Ok(level)) => level,
        _ => 0,
    }
}
