//! The chains worth considering, in one ordered list, and which of them an output can hold.

use std::sync::LazyLock;

use knarr_array::array::ArraySpec;
use knarr_array::quality::Bound;
use knarr_codec::chain::{Chain, ChainSpec, StepSpec};
use knarr_codec::codec::{CodecList, OptionValue, ReaderLevel};

use crate::form::FormatLimits;

/// Lossless chains, fastest families first. Order breaks ties.
const LOSSLESS: &[&str] = &[
    "shuffle | lz4",
    "bitshuffle:-1 | lz4",
    "lz4",
    "shuffle | zstd:1",
    "shuffle | zstd:3",
    "blosc2:zstd,level=1,filter=bytedelta",
    "bitshuffle:-1 | zstd:1",
    "bitshuffle:-1 | zstd:3",
    "zstd:1",
    "zstd:3",
    "shuffle | deflate:1",
    "blosc2:zstd,level=5,filter=bytedelta",
    "shuffle | zstd:6",
    "shuffle | zstd:9",
    "zstd:9",
    "shuffle | deflate:5",
    "deflate:5",
    "shuffle | deflate:9",
    "zfp:reversible",
    "blosc2:zstd,level=9,filter=bytedelta",
    "shuffle | bzip2:9",
    "bzip2:9",
    "shuffle | zstd:19",
    "bitshuffle:-1 | zstd:19",
    "zstd:19",
    "shuffle | zstd:22",
    "zstd:22",
    "blosc:zstd,level=5,shuffle=byte",
    "blosc:lz4,level=5,shuffle=byte",
    "gzip:5",
    "lorenzo:3 | shuffle | lz4",
    "lorenzo:2 | shuffle | zstd:1",
    "lorenzo:3 | shuffle | zstd:1",
    "lorenzo:3 | bitshuffle:-1 | zstd:1",
    "grid",
    "pcodec:8",
    "pcodec:12",
    "lorenzo:3 | shuffle | xz:6",
    "shuffle | xz:6",
    "xz:6",
];

/// What a lossless chain is put behind when a bound allows rounding.
const AFTER_ROUNDING: &[&str] = &[
    "shuffle | zstd:1",
    "shuffle | zstd:3",
    "bitshuffle:-1 | lz4",
    "bitshuffle:-1 | zstd:1",
    "bitshuffle:-1 | zstd:3",
    "zstd:3",
    "blosc2:zstd,level=5,filter=bytedelta",
    "shuffle | deflate:1",
    "shuffle | deflate:5",
    "shuffle | zstd:6",
    "shuffle | zstd:9",
    "shuffle | bzip2:9",
    "shuffle | zstd:19",
    "bitshuffle:-1 | zstd:19",
    "shuffle | zstd:22",
    "blosc:zstd,level=5,shuffle=byte",
    "grid",
    "pcodec:8",
    "pcodec:12",
    "shuffle | xz:6",
];

/// Chains for chunks of type and shape `input` that `target` can hold, in a fixed order. With a bound, chains
/// that round come first and lossless ones follow: rounding must earn its place.
pub fn candidates(
    codecs: &CodecList,
    input: &ArraySpec,
    target: FormatLimits,
    bound: Option<&Bound>,
) -> Vec<ChainSpec> {
    holdable(all_chains(bound), codecs, input, target)
}

/// Those of `chains` that serve chunks of type and shape `input` and that `target` can hold.
pub fn holdable(chains: Vec<ChainSpec>, codecs: &CodecList, input: &ArraySpec, target: FormatLimits) -> Vec<ChainSpec> {
    readable(chains, codecs, input, target).into_iter().map(|(spec, _)| spec).collect()
}

/// As [`holdable`], each with what its readers need.
pub fn readable(
    chains: Vec<ChainSpec>,
    codecs: &CodecList,
    input: &ArraySpec,
    target: FormatLimits,
) -> Vec<(ChainSpec, ReaderLevel)> {
    chains
        .into_iter()
        .filter_map(|spec| {
            let chain = Chain::prepare(codecs, &spec, input).ok().filter(|chain| target.holds(chain))?;
            let reader = target.reader(&chain);
            Some((spec, reader))
        })
        .filter(|(spec, _)| input.dtype.size() > 1 || !rearranges_single_bytes(spec))
        .collect()
}

/// Every chain that may be considered, given this bound, before type and target are asked.
pub fn all_chains(bound: Option<&Bound>) -> Vec<ChainSpec> {
    // Read once: programs with many small datasets choose often.
    static PARSED: LazyLock<Vec<ChainSpec>> =
        LazyLock::new(|| LOSSLESS.iter().filter_map(|text| text.parse().ok()).collect());
    let mut texts: Vec<String> = Vec::new();
    if let Some(bound) = bound {
        let round = rounding(bound);
        texts.extend(AFTER_ROUNDING.iter().map(|chain| format!("{round} | {chain}")));
        if bound.is_uniform() {
            texts.extend(["sz3", "zfp"].iter().filter_map(|name| lossy_step(name, bound)));
        }
    }
    texts.iter().filter_map(|text| text.parse().ok()).chain(PARSED.iter().cloned()).collect()
}

/// The candidate `chain`, which was made for another bound of the same kind, for `bound`.
pub fn with_bound(chain: &ChainSpec, bound: &Bound) -> ChainSpec {
    let step = |step: &StepSpec| {
        let same_kind = step.name != "zfp" || step.bare == Some(OptionValue::Word("accuracy".to_owned()));
        let text = lossy_step(&step.name, bound).filter(|_| same_kind)?;
        text.parse::<ChainSpec>().ok()?.0.pop()
    };
    ChainSpec(chain.0.iter().map(|old| step(old).unwrap_or_else(|| old.clone())).collect())
}

/// The step of this name as candidates have it for `bound`; `None` if it changes no values.
fn lossy_step(name: &str, bound: &Bound) -> Option<String> {
    match name {
        "round" => Some(rounding(bound)),
        "sz3" => Some(format!("sz3:abs,bound={:?}", bound.abs)),
        "zfp" => Some(format!("zfp:accuracy,value={:?}", bound.abs)),
        _ => None,
    }
}

/// The rounding step that keeps `bound` for every element.
pub(super) fn rounding(bound: &Bound) -> String {
    let mut options = Vec::new();
    if bound.abs.is_finite() {
        options.push(format!("abs={:?}", bound.abs));
    }
    if bound.rel.is_finite() {
        options.push(format!("rel={:?}", bound.rel));
    }
    if let Some(bits) = bound.bits {
        options.push(format!("bits={bits}"));
    }
    if let Some(digits) = bound.digits {
        options.push(format!("digits={digits}"));
    }
    if bound.finest > 0.0 {
        options.push(format!("finest={:?}", bound.finest));
    }
    options.extend(bound.exact.up_to.map(|limit| format!("up_to={limit:?}")));
    options.extend(bound.exact.from.map(|limit| format!("from={limit:?}")));
    format!("round:{}", options.join(","))
}

fn rearranges_single_bytes(spec: &ChainSpec) -> bool {
    spec.0.first().is_some_and(|step| step.name == "shuffle")
}
