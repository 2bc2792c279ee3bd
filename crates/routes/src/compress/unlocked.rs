//! Files that a program may open meanwhile: they are looked at, or packed to take their own place.

use std::path::Path;

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::Variable;
use knarr_array::quality::Quality;
use knarr_choose::choose::FormatLimits;
use knarr_choose::plan::Action;
use knarr_codec::chain::ChainSpec;
use knarr_flow::energy::{Energy, Moved, Phases};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::pipeline::{advise, plan, storages};
use knarr_flow::provenance;
use knarr_flow::settings::{Rule, Settings};
use knarr_flow::store::{Encoding, Sink, Source};
use knarr_formats::hdf5::{AsMade, Hdf5Sink, SinkOptions, StoredAs};
use knarr_formats::{Watched, open_hdf5_unlocked};
use serde::{Deserialize, Serialize};

use super::blame::{blamed, in_file};
use super::forecast::Forecast;
use super::format::OutputFormat;
use super::options::RepackOptions;
use super::repack::Job;
use super::repacked::{Repacked, size_of};

/// Writes what the HDF5 or netCDF-4 file `input` holds to a new file `output`, in the same format whatever the names.
/// The file is not locked: a program may open it for writing meanwhile, and who puts the output in its place checks
/// before that it has not changed. No plan is saved: the output has not got its final name yet.
///
/// # Errors
/// As for [`repack`]; `Corrupt` if the input is no HDF5 file.
pub fn pack(
    engine: &Engine,
    input: &Path,
    output: &Path,
    settings: &Settings,
    options: &RepackOptions,
    progress: &dyn Progress,
) -> Result<Repacked> {
    let begin = std::time::Instant::now();
    let (source, format, target) = open_unlocked(engine, input, settings)?;
    let settings = &spare_rounded(source.as_ref(), settings.clone());
    let job = Job { engine, input, output, format, target, settings, options, in_place: true };
    let done = job.run_in_any_case(source.as_ref(), progress, begin)?;
    done.ok_or_else(|| Error::internal("an output that may be of any size is too large"))
}

/// The other way round: the variables of `input` that are named are stored as a program has made them, for its library to write.
/// False if they are, and then nothing is written.
///
/// # Errors
/// As for [`pack`].
pub fn unpack(engine: &Engine, input: &Path, output: &Path, as_made: &AsMade) -> Result<bool> {
    let source = open_hdf5_unlocked(input, &engine.codecs)?;
    let is_other =
        |variable: &Variable| as_made.get(&variable.path).is_some_and(|made| *made != StoredAs::of(variable));
    if !source.model().variables.iter().any(is_other) {
        return Ok(false);
    }
    source.limit_cache(usize::try_from(engine.max_mem / 4).unwrap_or(usize::MAX));
    let (replaces, as_made) = (Replaces::Anything, as_made.clone());
    let options = SinkOptions { replaces, in_place: true, as_made, ..SinkOptions::default() };
    let mut sink = Hdf5Sink::create(output, source.model(), &[], options)?;
    sink.copy_from(&source).map_err(|error| blamed(error, input))?;
    engine.check_cancelled()?;
    Box::new(sink).commit().map(|_| true)
}

/// What [`pack`] is expected to give, and to take, for the file `input`. Nothing is written.
///
/// # Errors
/// As for [`pack`].
pub fn forecast(engine: &Engine, input: &Path, settings: &Settings, progress: &dyn Progress) -> Result<Forecast> {
    let (source, _, target) = open_unlocked(engine, input, settings)?;
    let (source, settings) = (source.as_ref(), spare_rounded(source.as_ref(), settings.clone()));
    let plan = advise(engine, source, &settings, target, progress).map_err(|error| in_file(error, input))?;
    source.unchanged()?;
    Ok(Forecast::of(plan, source, &settings))
}

/// The HDF5 pipeline that a variable would get.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Absolute path of the variable.
    pub path: String,
    /// Element type.
    pub dtype: DType,
    /// The chain, in words.
    pub chain: String,
    /// The filters.
    pub filters: Vec<Hdf5Filter>,
}

/// Pipelines that [`pack`] would give to the variables of `input`, without those it would copy.
///
/// # Errors
/// As for [`pack`].
pub fn pipelines(engine: &Engine, input: &Path, settings: &Settings, progress: &dyn Progress) -> Result<Vec<Pipeline>> {
    let (source, _, target) = open_unlocked(engine, input, settings)?;
    let plan = plan(engine, source.as_ref(), settings, target, progress).map_err(|error| in_file(error, input))?;
    let (plans, mut pipelines) = (plan.by_path(), Vec::new());
    for storage in storages(engine, source.as_ref(), &plan, target)? {
        let Some(variable) = source.model().variables.get(storage.variable) else { continue };
        if let (Encoding::Hdf5(filters), Some(Action::Encode(choice))) =
            (storage.encoding, plans.get(variable.path.as_str()).map(|planned| &planned.action))
        {
            let (path, chain) = (variable.path.clone(), choice.chain.to_string());
            pipelines.push(Pipeline { path, dtype: variable.dtype, chain, filters });
        }
    }
    Ok(pipelines)
}

/// What a program saved that compressed its datasets as it wrote them, and what that took it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Encoded {
    /// Bytes of the values of all datasets.
    pub raw_bytes: u64,
    /// What encoding took by the figures of the profile, which nobody measured in the program. Chains that the profile does
    /// not know are left out.
    pub energy: Energy,
}

/// Looks at the HDF5 file `input`, which is not locked, as [`pack`] does not. What was encoded are the variables of those paths of
/// which `is_own` is true: a program may have filters of its own.
///
/// # Errors
/// `Corrupt` if the input is no HDF5 file.
pub fn encoded(engine: &Engine, input: &Path, is_own: impl Fn(&str) -> bool) -> Result<Encoded> {
    let source = open_hdf5_unlocked(input, &engine.codecs)?;
    let mut phases = Phases::default();
    let is_encoded = |variable: &&Variable| !variable.filters.is_empty() && is_own(&variable.path);
    for variable in source.model().variables.iter().filter(is_encoded) {
        let (raw, stored) = (variable.raw_bytes(), variable.stored_bytes.unwrap_or(0));
        let chain = variable.chain.parse::<ChainSpec>().ok();
        let known = chain.filter(|chain| chain.0.iter().all(|step| engine.codecs.named(&step.name).is_ok()));
        if let (Some(chain), 1..) = (known, stored) {
            let merits = engine.profile.merits(&engine.codecs, &chain, ratio(raw, stored));
            phases.encode += ratio(raw, 1_000_000) / merits.encode;
        }
    }
    let raw_bytes = source.model().variables.iter().map(Variable::raw_bytes).sum();
    let moved = Moved { raw: raw_bytes, read: 0, written: size_of(input) };
    Ok(Encoded { raw_bytes, energy: Energy::of(&phases, moved, &engine.profile.power, None) })
}

#[expect(clippy::cast_precision_loss, reason = "of sizes, for estimates")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn open_unlocked(
    engine: &Engine,
    input: &Path,
    settings: &Settings,
) -> Result<(Box<dyn Source>, OutputFormat, FormatLimits)> {
    // Tools go by the name, whatever library wrote the file.
    let mut format = OutputFormat::of(input).ok().filter(|format| *format == OutputFormat::NetCdf4);
    let source = Watched::open(input, || {
        let source = open_hdf5_unlocked(input, &engine.codecs)?;
        if source.is_netcdf() {
            format = Some(OutputFormat::NetCdf4);
        }
        Ok(Box::new(source))
    })?;
    let format = format.unwrap_or(OutputFormat::Hdf5);
    Ok((source, format, format.target(settings.portable)?))
}

/// Settings that keep variables lossless that were rounded within a bound before: two errors could add up to more.
fn spare_rounded(source: &dyn Source, mut settings: Settings) -> Settings {
    for variable in &source.model().variables {
        if provenance::promised(variable) != Quality::LOSSLESS {
            let pattern = variable.path.clone();
            settings.rules.push(Rule { pattern, quality: Some(Quality::LOSSLESS), ..Rule::default() });
        }
    }
    settings
}
