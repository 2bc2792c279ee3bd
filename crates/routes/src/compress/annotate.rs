//! What readers of lossy outputs are told: attributes and quantization variables.

use std::borrow::Cow;

use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::model::{Attribute, Model, Variable};
use knarr_choose::plan::{Action, Plan};
use knarr_flow::pipeline::Execution;
use knarr_flow::provenance;
use knarr_flow::quantization::Records;
use knarr_flow::store::{Sink, Source};
use knarr_formats::output;

use super::options::RepackOptions;

/// What readers are told about rounding, with names that the source does not have.
pub(super) fn records(source: &dyn Source, plan: &Plan) -> Result<Records> {
    Ok(Records::of(source.model(), plan, &output::taken_names(source)?))
}

/// The model of the output: `model`, with `attributes` added to the variables of these numbers, and with quantization
/// variables behind its own.
pub(super) fn labelled<'a>(
    model: &'a Model,
    records: &Records,
    label_type: DType,
    attributes: Vec<(usize, Attribute)>,
) -> Cow<'a, Model> {
    let mut model = Cow::Borrowed(model);
    for (index, attribute) in attributes {
        if let Some(variable) = model.to_mut().variables.get_mut(index) {
            variable.attributes.push(attribute);
        }
    }
    if !records.new.is_empty() {
        let labels = records.new.iter().map(|label| Variable { dtype: label_type, ..label.clone() });
        model.to_mut().variables.extend(labels);
    }
    model
}

/// Records what lossy variables were promised and what was measured.
pub(super) fn annotate(
    sink: &mut dyn Sink,
    source: &dyn Source,
    plan: &Plan,
    records: &Records,
    execution: &Execution,
    options: &RepackOptions,
) -> Result<()> {
    let (plans, mut lossy) = (plan.by_path(), false);
    for (index, variable) in source.model().variables.iter().enumerate() {
        let Some(Action::Encode(choice)) = plans.get(variable.path.as_str()).map(|planned| &planned.action) else {
            continue;
        };
        if choice.bound.is_some() {
            lossy = true;
            if let Some(stale) = records.stale.get(&index) {
                sink.remove_attributes(index, stale)?;
            }
            let report = execution.variables.get(&index).copied().unwrap_or_default();
            let mut attributes = provenance::variable_attributes(choice, &report, variable);
            attributes.extend(records.attributes.get(&index).into_iter().flatten().cloned());
            sink.annotate(Some(index), &attributes)?;
        }
    }
    if lossy {
        let old = source
            .model()
            .groups
            .first()
            .and_then(|root| root.attributes.iter().find(|attribute| attribute.name == "history"))
            .map(|attribute| &attribute.value);
        sink.annotate(None, &[provenance::history(old, &options.when, &options.command)])?;
    }
    Ok(())
}
