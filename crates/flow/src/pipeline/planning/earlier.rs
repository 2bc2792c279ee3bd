//! Choices that are taken again. Programs write a file for each step, with values that look as before: trials for each would
//! take a sixth of the time of making it.

use knarr_array::array::ArraySpec;
use knarr_array::quality::{Bound, Quality};
use knarr_choose::features::Features;
use knarr_choose::plan::{Action, Choice, Plan, VariablePlan};

/// Nothing is chosen for variables below this size.
const SMALL: u64 = 2 << 10;
/// By how much a fraction, or an entropy as a part of what it can be, may differ.
const TOLERANCE: f64 = 0.06;

/// What later files with the same settings need of a plan.
pub fn for_later(plan: Plan) -> Plan {
    let is_worth_it = |planned: &VariablePlan| planned.raw_bytes > SMALL;
    let mut variables: Vec<_> = plan.variables.into_iter().filter(is_worth_it).collect();
    for planned in &mut variables {
        if let Action::Encode(choice) = &mut planned.action {
            choice.candidates.clear();
        }
    }
    Plan { variables, ..plan }
}

/// The choice of an earlier file for a variable of the same name that looked as this one does now. What it looked like when
/// trials were made is kept, so small changes from file to file do not add up.
pub(in crate::pipeline) fn as_earlier(
    earlier: &VariablePlan,
    (spec, chunk): (&ArraySpec, &[u64]),
    (quality, bound): (Quality, Option<&Bound>),
    features: &Features,
) -> Option<Choice> {
    let Action::Encode(choice) = &earlier.action else { return None };
    let serves = earlier.dtype == spec.dtype
        && choice.chunk == chunk
        && choice.quality == quality
        && (choice.bound.is_none() || choice.bound.as_ref() == bound)
        && close(&choice.features, features);
    serves.then(|| again(choice, "as in an earlier file, where it looked alike".to_owned()))
}

/// A choice without its candidates.
pub(in crate::pipeline) fn again(choice: &Choice, reason: String) -> Choice {
    Choice {
        chunk: choice.chunk.clone(),
        chain: choice.chain.clone(),
        fallback: choice.fallback.clone(),
        quality: choice.quality,
        bound: choice.bound,
        reader: choice.reader,
        expected: choice.expected,
        reason,
        missed: choice.missed.clone(),
        wider: choice.wider.clone(),
        features: choice.features.clone(),
        candidates: Vec::new(),
        sample_bytes: choice.sample_bytes,
        seconds: 0.0,
    }
}

/// True if the features differ hardly at all.
pub(in crate::pipeline) fn close(a: &Features, b: &Features) -> bool {
    let near = |x: f64, y: f64, whole: f64| (x - y).abs() <= TOLERANCE * whole;
    let each =
        |x: &[f64], y: &[f64], whole: f64| x.len() == y.len() && x.iter().zip(y).all(|(&x, &y)| near(x, y, whole));
    let bits = 8.0 * f64::from(u32::try_from(a.plane_entropy.len()).unwrap_or(u32::MAX));
    let fractions = |f: &Features| [f.fill, f.non_finite, f.repeats, f.distinct, f.pair_repeats, f.plane_matches];
    let of_elements = |f: &Features| [f.plane_bits, f.element_entropy, f.byte_delta_entropy, f.flip_entropy];
    a.class == b.class
        && a.elements == b.elements
        && near(f64::from(a.trailing_zeros), f64::from(b.trailing_zeros), bits)
        && each(&fractions(a), &fractions(b), 1.0)
        && each(&a.plane_entropy, &b.plane_entropy, 8.0)
        && each(&a.delta_entropy, &b.delta_entropy, 8.0)
        && each(&a.axis_bits, &b.axis_bits, bits)
        && each(&of_elements(a), &of_elements(b), bits)
}
