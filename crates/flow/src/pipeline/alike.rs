//! Variables that look alike. Files of adaptive meshes have tens of thousands of small ones, and a choice for each would
//! take longer than writing it. Programs write a file for each step, with values that look as before, and each would be
//! chosen for anew.

use std::collections::HashMap;

use super::planner::Prepared;
use knarr_array::array::{ArraySpec, DType};
use knarr_array::model::{Model, Variable};
use knarr_array::quality::{Bound, Quality};
use knarr_choose::features::Features;
use knarr_choose::plan::{Action, Choice, Plan, VariablePlan};
use knarr_choose::predictor::Subject;

/// Larger variables are worth a choice of their own.
const LARGEST: u64 = 128 << 10;
/// Fewer of one type and shape are, too.
const CROWD: usize = 16;
/// By how much a fraction, or an entropy as a part of what it can be, may differ.
const TOLERANCE: f64 = 0.06;
/// Models that a variable is compared with: the latest of its type and shape.
const COMPARED: usize = 64;

type Kind<'a> = (DType, &'a [u64]);

fn kind(variable: &Variable) -> Kind<'_> {
    (variable.dtype, &variable.shape)
}

/// Whether each variable of `model` is a small one among many of its type and shape.
pub(super) fn crowd(model: &Model) -> Vec<bool> {
    let mut counts: HashMap<Kind<'_>, usize> = HashMap::new();
    model.variables.iter().for_each(|variable| *counts.entry(kind(variable)).or_default() += 1);
    let is_one = |variable: &Variable| variable.raw_bytes() <= LARGEST && counts[&kind(variable)] >= CROWD;
    model.variables.iter().map(is_one).collect()
}

/// For each variable the index of the one whose choice it takes: its own, or that of one before it that looks like it.
/// Variables that were not looked at have their own.
pub(super) fn models(model: &Model, prepared: &[Prepared]) -> Vec<usize> {
    let mut known: HashMap<Kind<'_>, Vec<usize>> = HashMap::new();
    let mut models = Vec::with_capacity(prepared.len());
    for (index, (variable, here)) in model.variables.iter().zip(prepared).enumerate() {
        let Some(subject) = &here.subject else {
            models.push(index);
            continue;
        };
        let serves = |other: &usize| {
            let (stored, there) = (&model.variables[*other], &prepared[*other]);
            let is_stored_so = stored.layout == variable.layout
                && stored.max_shape == variable.max_shape
                && stored.filters == variable.filters;
            is_stored_so
                && there.open() == here.open()
                && there.subject.as_ref().is_some_and(|seen| alike(seen, subject))
        };
        let known = known.entry(kind(variable)).or_default();
        let found = known.iter().rev().take(COMPARED).copied().find(serves);
        if found.is_none() {
            known.push(index);
        }
        models.push(found.unwrap_or(index));
    }
    models
}

/// The choice for a variable that looks like `model`, for which `choice` was made. Its candidates stay there.
pub(super) fn as_for(choice: &Choice, model: &Variable, subject: &Subject) -> Choice {
    let reason = format!("as for {}, which looks alike", model.name());
    Choice { features: subject.features.clone(), ..again(choice, reason) }
}

/// What later files with the same settings need of a plan.
pub fn for_later(plan: Plan) -> Plan {
    let is_worth_it = |planned: &VariablePlan| planned.raw_bytes > LARGEST;
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
pub(super) fn as_earlier(
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
fn again(choice: &Choice, reason: String) -> Choice {
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

fn alike(a: &Subject, b: &Subject) -> bool {
    let rounded = match (&a.rounded, &b.rounded) {
        (Some(a), Some(b)) => close(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    rounded && close(&a.features, &b.features)
}

fn close(a: &Features, b: &Features) -> bool {
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
