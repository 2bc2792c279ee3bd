//! Outputs that hold values as they are: CSV, raw, and classic netCDF. There is no chain to choose, and nothing to prove.

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Action, Plan, VariablePlan};
use knarr_flow::energy::Phases;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::{AtomicFile, Replaces};
use knarr_flow::pipeline::{Execution, plan_of};
use knarr_flow::settings::{ChunkRule, Settings};
use knarr_flow::store::Source;

use knarr_formats::Clocks;
use knarr_formats::output::{OutputKind, PlainOutput};

/// Writes the values of `source` to `output`. Returns what was done with each variable, the time it took, and the size
/// of the output in bytes.
///
/// # Errors
/// `Unsupported` for settings or variables that the format cannot serve; what reading and writing report.
pub(crate) fn write(
    engine: &Engine,
    source: &dyn Source,
    (output, kind): (&Path, &PlainOutput),
    replaces: Replaces,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<(Plan, Execution, u64)> {
    engine.bound(source);
    let plan = plan(engine, source, kind, settings)?;
    let begin = std::time::Instant::now();
    let clocks = Clocks::default();
    let temporary = AtomicFile::create(output, replaces)?;
    (kind.write)(engine, source, (temporary.file(), output), &clocks, progress)?;
    engine.check_cancelled()?;
    source.unchanged()?;
    let bytes = temporary.publish()?;
    let seconds = begin.elapsed().as_secs_f64();
    let phases = Phases { read: clocks.read.seconds(), write: clocks.write.seconds(), ..Phases::default() };
    Ok((plan, Execution { seconds, phases, ..Execution::default() }, bytes))
}

/// Chunks and chains have no place in such a file; a bound is held by every value as it is.
fn refuse_options(settings: &Settings, kind: &PlainOutput) -> Result<()> {
    let chains = settings.chain.iter().chain(settings.rules.iter().filter_map(|rule| rule.chain.as_ref()));
    let has_chunks = settings.chunks != ChunkRule::Auto || settings.rules.iter().any(|rule| rule.chunks.is_some());
    let refuse = |what: &str| {
        Error::unsupported(format!("{} has no {what}", kind.noun()))
            .hint("write .nc, .h5 or .zarr, or leave the option out")
    };
    if chains.into_iter().any(|chain| !chain.is_raw()) {
        return Err(refuse("chains (--chain)"));
    }
    if settings.plan.is_some() {
        return Err(refuse("plan (--plan)"));
    }
    if has_chunks { Err(refuse("chunks (--chunks)")) } else { Ok(()) }
}

/// The plan for an output of this kind, which keeps values as they are.
///
/// # Errors
/// `Unsupported` for settings or variables that the format cannot serve.
pub(crate) fn plan(engine: &Engine, source: &dyn Source, kind: &PlainOutput, settings: &Settings) -> Result<Plan> {
    if !settings.lenient {
        refuse_options(settings, kind)?;
    }
    settings.check_names(source.model())?;
    (kind.check)(source)?;
    let variables = source.model().variables.iter().map(|variable| VariablePlan {
        path: variable.path.clone(),
        dtype: variable.dtype,
        shape: variable.shape.clone(),
        raw_bytes: variable.raw_bytes(),
        action: Action::Copy("the format holds plain values".to_owned()),
        unmet: Vec::new(),
    });
    Ok(plan_of(engine, source, settings, FormatLimits::VALUES, variables.collect()))
}
