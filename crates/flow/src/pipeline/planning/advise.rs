//! Planning: what happens to each variable of a source.

use crate::energy::thread_seconds;
use crate::pipeline::planning::alike;
use crate::pipeline::planning::choice::{ChoiceJob, Given};
use crate::pipeline::planning::planner::{Chosen, Planner};
use crate::pipeline::planning::whole_file;
use crate::settings::{Settings, VariableSettings};
use crate::store::Source;
use crate::threads::engine::{Engine, Progress};
use knarr_array::array::ArraySpec;
use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_choose::choose::cut;
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Choice, FileState, Plan, VariablePlan};
use knarr_codec::chain::ChainSpec;

/// Bytes of an array in memory that trials see at most.
const LARGEST_SAMPLE: usize = 64 << 20;
/// Variables that are chosen for at the same time where most of the time goes into waiting for their samples.
const WAITING: usize = 8;

/// Plans every variable of `source` for an output of kind `target`, with what to expect of each chain.
///
/// # Errors
/// `Usage` for settings that name unknown variables; `Quality` or `Unsupported` for requests that cannot be
/// served; what reading the samples reports.
pub fn advise(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: FormatLimits,
    progress: &dyn Progress,
) -> Result<Plan> {
    plan_each(engine, source, settings, target, Given::Tried, progress)
}

/// As [`advise`], for what is carried out at once: chains that were given are not tried, since writing will tell what
/// they reach.
///
/// # Errors
/// As for [`advise`].
pub fn plan(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: FormatLimits,
    progress: &dyn Progress,
) -> Result<Plan> {
    plan_each(engine, source, settings, target, Given::Believed, progress)
}

fn plan_each(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: FormatLimits,
    given: Given,
    progress: &dyn Progress,
) -> Result<Plan> {
    engine.bound(source);
    let model = source.model();
    settings.check_names(model)?;
    if let Some(plan) = &settings.plan {
        check_destination(plan, target)?;
    }
    let total = model.variables.iter().map(Variable::raw_bytes).sum();
    progress.begin("choosing", total);
    let coordinates = Coordinates::of(model);
    let by_path = settings.plan.as_deref().map(Plan::by_path).unwrap_or_default();
    // With other readers another chain may be the best one.
    let is_alike = |plan: &&Plan| plan.destination == target.form && plan.portable == target.allowed;
    let earlier = settings.earlier.as_deref().filter(is_alike).map(Plan::by_path).unwrap_or_default();
    let planner = |index: usize| {
        let (variable, coordinates) = (&model.variables[index], &coordinates);
        let path = variable.path.as_str();
        let (planned, earlier) = (by_path.get(path).copied(), earlier.get(path).copied());
        Planner { engine, source, settings, coordinates, target, given, index, total, variable, planned, earlier }
    };
    let blamed = |error: Error, index: usize| error.at_variable_once(model.variables[index].name());
    let crowd = alike::crowd(model);
    let prepared = engine.parallel(model.variables.len(), |index| {
        planner(index).prepare(crowd[index]).map_err(|error| blamed(error, index))
    })?;
    let models = alike::models(model, &prepared);
    // What a choice serves says how long it may take.
    let mut served = vec![0; models.len()];
    models.iter().zip(&model.variables).for_each(|(&of, variable)| served[of] += variable.raw_bytes());
    // Where samples come from elsewhere, most of those who choose wait for them.
    let waiting = Engine { jobs: engine.jobs.max(WAITING), ..engine.clone() };
    let choosers = if source.is_remote() { &waiting } else { engine };
    let chosen = choosers.parallel(model.variables.len(), |index| {
        let open = prepared[index].open().filter(|_| models[index] == index);
        let choice = open.map(|open| planner(index).choose(open, served[index]));
        progress.advance(model.variables[index].raw_bytes());
        choice.transpose().map_err(|error| blamed(error, index))
    })?;
    let taken = |index: usize| {
        let model_of = models[index];
        let subject = prepared[index].subject.as_ref().filter(|_| model_of != index)?;
        let Chosen { choice, unmet } = chosen[model_of].as_ref()?;
        let choice = alike::as_for(choice, &model.variables[model_of], subject);
        Some(Chosen { choice, unmet: unmet.clone() })
    };
    let taken: Vec<Option<Chosen>> = (0..models.len()).map(taken).collect();
    let choices = chosen.into_iter().zip(taken).map(|(own, taken)| own.or(taken));
    let plans = prepared.into_iter().zip(choices).enumerate();
    let mut variables: Vec<VariablePlan> =
        plans.map(|(index, (prepared, choice))| planner(index).plan(prepared, choice)).collect::<Result<_>>()?;
    if settings.as_whole {
        let spec_of = |index: usize, choice: &Choice| model.variables[index].chunk_spec(&choice.chunk);
        whole_file::weigh((&engine.codecs, &settings.goal, target), &mut variables, spec_of)?;
    }
    Ok(plan_of(engine, source, settings, target, variables))
}

/// A chain for one format is none for another.
fn check_destination(plan: &Plan, target: FormatLimits) -> Result<()> {
    let (planned, wanted) = (plan.destination, target.form);
    if planned == wanted {
        return Ok(());
    }
    Err(Error::usage(format!("the plan is for {}, the output is {}", planned.in_words(), wanted.in_words()))
        .hint("write what the plan is for, or make a plan for this output by repacking one file without --plan"))
}

/// The plan of a file from those of its variables.
pub fn plan_of(
    engine: &Engine,
    source: &dyn Source,
    settings: &Settings,
    target: FormatLimits,
    variables: Vec<VariablePlan>,
) -> Plan {
    Plan {
        version: knarr_choose::plan::VERSION,
        program: concat!("knarr ", env!("CARGO_PKG_VERSION")).to_owned(),
        input: source.path().display().to_string(),
        input_file: FileState::of(source.path()),
        destination: target.form,
        goal: settings.goal.clone(),
        portable: target.allowed,
        profile: engine.profile.machine.clone(),
        energy_source: engine.profile.power.source.clone(),
        variables,
        lacking: if settings.lenient { settings.lacking_names(source.model()) } else { Vec::new() },
        left_out: None,
    }
}

/// Chooses a chain for one array in memory: what bindings use. `among` are the chains that whoever writes it can write,
/// if that is less than `target` can hold.
///
/// # Errors
/// As for [`advise`].
pub fn plan_array(
    engine: &Engine,
    spec: &ArraySpec,
    bytes: &[u8],
    settings: &VariableSettings,
    goal: &knarr_array::goal::Goal,
    target: FormatLimits,
    among: Option<&[ChainSpec]>,
) -> Result<Choice> {
    let begin = thread_seconds();
    settings.quality.validate(spec.dtype)?;
    let bound = settings.quality.bound_of(spec, bytes);
    let samples = vec![cut(spec, bytes, LARGEST_SAMPLE)];
    let chunk: Vec<u64> = spec.shape.iter().map(|&n| n as u64).collect();
    let (given, raw_bytes) = (Given::Believed, bytes.len() as u64);
    let named = target;
    let filters = None;
    let weighty = false;
    let job = ChoiceJob {
        engine,
        goal,
        target,
        named,
        filters,
        among,
        bound,
        settings,
        given,
        spec,
        weighty,
        raw_bytes,
        chunk,
    };
    let choice = job.choose(&samples)?;
    Ok(Choice { seconds: thread_seconds() - begin, ..choice })
}
