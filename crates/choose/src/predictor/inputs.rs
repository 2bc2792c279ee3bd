//! Features as the numbers that the model weighs: logarithms of what an encoder of one kind or another would leave,
//! so that ratios, which multiply, become sums.

use crate::features::Features;

/// What the inputs are, in order. A model names those it was trained on.
pub(super) const INPUTS: [&str; 18] = [
    "plane entropy",
    "delta entropy",
    "byte delta entropy",
    "element entropy",
    "flip entropy",
    "axis bits",
    "plane bits",
    "least bits",
    "last axis",
    "plane matches",
    "unmatched planes",
    "unrepeated",
    "unrepeated pairs",
    "freshness",
    "fresh planes",
    "trailing zeros",
    "fill",
    "element size",
];

/// Less than this share of an element's bits is as good as nothing.
const LEAST: f64 = 0.002;
/// Elements whose entropy [`Features::element_entropy`] is of, at most.
const LOOKED_AT: u64 = 16 << 10;

/// The inputs that stand for `features`; `None` for elements that are no numbers.
#[expect(clippy::cast_precision_loss, reason = "counts of a sample are far below 2^52")]
pub(super) fn inputs(features: &Features) -> Option<[f64; INPUTS.len()]> {
    let last_axis = *features.axis_bits.last()?;
    let full = features.plane_entropy.len() as f64 * 8.0;
    let share = |bits: f64| (bits / full).clamp(LEAST, 1.0).ln();
    let planes: f64 = features.plane_entropy.iter().sum();
    let deltas: f64 = features.delta_entropy.iter().sum();
    let axis = features.axis_bits.iter().copied().fold(full, f64::min);
    let bits = [
        share(planes),
        share(deltas.min(planes)),
        share(features.byte_delta_entropy),
        share(features.element_entropy),
        share(features.flip_entropy),
        share(axis),
        share(features.plane_bits),
    ];
    let left = |share: f64| (1.0 - 0.98 * share.clamp(0.0, 1.0)).ln();
    let most = features.elements.clamp(2, LOOKED_AT) as f64;
    let freshness = features.element_entropy / most.log2();
    let [planes, deltas, byte_deltas, elements, flips, axis, plane] = bits;
    Some([
        planes,
        deltas,
        byte_deltas,
        elements,
        flips,
        axis,
        plane,
        bits.into_iter().fold(0.0, f64::min),
        last_axis / full,
        features.plane_matches,
        left(features.plane_matches),
        left(features.repeats),
        left(features.pair_repeats),
        freshness,
        freshness * planes,
        f64::from(features.trailing_zeros) / full,
        features.fill,
        (full / 32.0).log2(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};

    #[test]
    fn inputs_are_finite_for_any_sample_of_numbers() {
        for (dtype, bytes) in [
            (DType::F32, vec![0; 400_000]),
            (DType::F64, Vec::new()),
            (DType::U8, vec![3]),
            (DType::I16, (0..60_000u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect()),
        ] {
            let spec = ArraySpec::new(dtype, [bytes.len() / dtype.size()]);
            let found = inputs(&Features::of(&spec, &bytes)).unwrap();
            assert!(found.iter().all(|input| input.is_finite()), "{dtype:?} {found:?}");
        }
        let opaque = Features::of(&ArraySpec::new(DType::Opaque(12), [10]), &[1; 120]);
        assert_eq!(inputs(&opaque), None);
    }
}
