//! What trials on parts of a sample do not show. Determined on half of the families of real variables, for parts of 64 KiB
//! against whole samples of up to 1 MiB.

use knarr_codec::chain::ChainSpec;

/// Parts up to this size are the short ones.
const SHORT: usize = 192 << 10;
/// What Blosc makes of short parts is larger: it encodes the bytes of each place of a value apart, in blocks. Without its
/// second filter the difference is half as large, and LZ4 knows none.
const BLOSC2_GROWS: f64 = 1.04;
const BLOSC_GROWS: f64 = 1.02;
/// Standard deviations of the logarithm of the ratio of a whole sample over that of a short part, beside what all chains
/// have in common. Chains that put no bytes in order live on what repeats, which may be far away; zfp needs the axes.
const OF_BYTES_IN_ORDER: f64 = 0.02;
const OF_PLAIN: f64 = 0.08;
const OF_AXES: f64 = 0.15;

/// Factor on the ratio that `chain` reached on parts of `bytes`, for what it reaches on the whole.
pub(super) fn grows(chain: &ChainSpec, bytes: usize) -> f64 {
    let has_zstd = || chain.to_string().contains("zstd");
    match first(chain) {
        _ if bytes > SHORT => 1.0,
        "blosc2" => BLOSC2_GROWS,
        "blosc" if has_zstd() => BLOSC_GROWS,
        _ => 1.0,
    }
}

/// How far the ratio on the whole may be from that on parts: a standard deviation of its logarithm.
pub(super) fn hidden(chain: &ChainSpec) -> f64 {
    match first(chain) {
        "zfp" => OF_AXES,
        "shuffle" | "bitshuffle" | "blosc" | "blosc2" | "lorenzo" => OF_BYTES_IN_ORDER,
        _ => OF_PLAIN,
    }
}

fn first(chain: &ChainSpec) -> &str {
    chain.0.first().map_or("", |step| step.name.as_str())
}
