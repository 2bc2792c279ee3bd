//! How the chains of a plan are passed to a sink, and how encoded chunks lie in the output. Both depend on the form of the output.

use crate::pipeline::execution::encode::Container;
use crate::store::{Encoding, Source, Storage};
use crate::threads::engine::Engine;
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::Variable;
use knarr_choose::form::{Form, FormatLimits};
use knarr_choose::plan::{Action, Choice, Plan};
use knarr_codec::chain::Chain;
use knarr_codec::client_data::{self, Chunks, ClientData, FilterOptions};
use knarr_codec::codec::KNARR_FILTER;

/// How the planned variables are to be stored, for the sink to create them.
///
/// # Errors
/// `Internal` if a planned chain does not fit its target.
pub fn storages(engine: &Engine, source: &dyn Source, plan: &Plan, target: FormatLimits) -> Result<Vec<Storage>> {
    planned(source, plan)
        .map(|(index, variable, choice)| {
            let spec = variable.chunk_spec(&choice.chunk);
            let chain = Chain::prepare(&engine.codecs, &choice.chain, &spec)?;
            let encoding = match target.form {
                Form::Hdf5 => Encoding::Hdf5(match chain.hdf5_pipeline() {
                    Some(filters) => filters,
                    None => vec![own_filter(plan, choice, spec)?],
                }),
                Form::Zarr => Encoding::Zarr(chain.zarr_codecs().ok_or_else(unheld)?),
                Form::Values => return Err(unheld()),
            };
            Ok(Storage { variable: index, chunk: choice.chunk.clone(), encoding })
        })
        .collect()
}

/// How chunks that `chain` encodes lie in the output.
///
/// # Errors
/// `Internal` if the output has no chunks.
pub(in crate::pipeline) fn container(chain: &Chain, target: FormatLimits) -> Result<Container> {
    match target.form {
        Form::Hdf5 => Ok(chain.hdf5_pipeline().map_or(Container::Frame, |filters| Container::Pipeline(filters.len()))),
        Form::Zarr => Ok(Container::Codecs),
        Form::Values => Err(unheld()),
    }
}

fn unheld() -> Error {
    Error::internal("a chain was planned that the output has no words for")
}

/// Knarr's filter with client data that say all of the choice: whoever appends later keeps its promise.
fn own_filter(plan: &Plan, choice: &Choice, mut spec: ArraySpec) -> Result<Hdf5Filter> {
    spec.fills.truncate(client_data::MAX_FILLS);
    let options = FilterOptions { goal: plan.goal.clone(), quality: choice.quality, missing: None };
    let cd_values = ClientData { options, chunks: Some(Chunks::Array(spec)) }.words()?;
    Ok(Hdf5Filter { id: KNARR_FILTER, optional: false, cd_values })
}

/// The variables that are to be encoded.
pub(in crate::pipeline) fn planned<'a>(
    source: &'a dyn Source,
    plan: &'a Plan,
) -> impl Iterator<Item = (usize, &'a Variable, &'a Choice)> {
    let plans = plan.by_path();
    source.model().variables.iter().enumerate().filter_map(move |(index, variable)| {
        match &plans.get(variable.path.as_str())?.action {
            Action::Encode(choice) => Some((index, variable, choice.as_ref())),
            Action::Copy(_) => None,
        }
    })
}
