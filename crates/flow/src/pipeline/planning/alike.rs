//! Variables that look alike: files of adaptive meshes have tens of thousands of small ones, and a choice for each would
//! take longer than writing it.

use std::collections::HashMap;

use crate::pipeline::planning::earlier::{again, close};
use crate::pipeline::planning::planner::Prepared;
use knarr_array::array::DType;
use knarr_array::model::{Model, Variable};
use knarr_choose::plan::Choice;
use knarr_choose::predictor::Subject;

/// Larger variables are worth a choice of their own.
const LARGEST: u64 = 128 << 10;
/// Fewer of one type and shape are, too.
const CROWD: usize = 16;
/// Models that a variable is compared with: the latest of its type and shape.
const COMPARED: usize = 64;

type Kind<'a> = (DType, &'a [u64]);

fn kind(variable: &Variable) -> Kind<'_> {
    (variable.dtype, &variable.shape)
}

/// Whether each variable of `model` is a small one among many of its type and shape.
pub(in crate::pipeline) fn crowd(model: &Model) -> Vec<bool> {
    let mut counts: HashMap<Kind<'_>, usize> = HashMap::new();
    model.variables.iter().for_each(|variable| *counts.entry(kind(variable)).or_default() += 1);
    let is_one = |variable: &Variable| variable.raw_bytes() <= LARGEST && counts[&kind(variable)] >= CROWD;
    model.variables.iter().map(is_one).collect()
}

/// For each variable the index of the one whose choice it takes: its own, or that of one before it that looks like it.
/// Variables that were not looked at have their own.
pub(in crate::pipeline) fn models(model: &Model, prepared: &[Prepared]) -> Vec<usize> {
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
pub(in crate::pipeline) fn as_for(choice: &Choice, model: &Variable, subject: &Subject) -> Choice {
    let reason = format!("as for {}, which looks alike", model.name());
    Choice { features: subject.features.clone(), ..again(choice, reason) }
}

fn alike(a: &Subject, b: &Subject) -> bool {
    let rounded = match (&a.rounded, &b.rounded) {
        (Some(a), Some(b)) => close(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    rounded && close(&a.features, &b.features)
}
