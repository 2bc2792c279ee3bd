//! The main job: one input repacked into one output, with a plan before and a report after.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::filter::FilterId;
use knarr_array::libver::LibverBounds;
use knarr_array::model::Variable;
use knarr_choose::choose::FormatLimits;
use knarr_choose::plan::{Action, Plan};
use knarr_codec::codec::ReaderLevel;
use knarr_flow::energy::{Counter, Energy};
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_flow::network::{Network, url_of};
use knarr_flow::output::{Temporary, is_common_beside};
use knarr_flow::pipeline::{Execution, advise, encode_ahead, execute, most_demanding, plan, prove_copies, storages};
use knarr_flow::settings::Settings;
use knarr_flow::store::{Encoding, Sink, Source, Storage};
use knarr_formats::classic;
use knarr_formats::hdf5::{self, AsMade, Hdf5Sink, Hdf5Source, NetcdfLimits, SinkOptions, StoredAs};
use knarr_formats::zarr::{self, Sharding, ZarrOptions, ZarrSink};
use knarr_formats::{Inputs, open_watched, whole_records};
use knarr_zip::ZipStore;

use super::annotate::{annotate, labelled, records};
use super::blame::{blamed, in_file};
use super::forecast::Forecast;
use super::format::{OutputFormat, is_zipped};
use super::late_sink::LateSink;
use super::options::RepackOptions;
use super::plan_file::{PlanFile, refuse_other_plan};
use super::repacked::{Repacked, energy, input_bytes, read_bytes, size_of};
use super::{as_it_is, not_kept, notes, values_only, zarr_fit};

/// Repacks `input` into `output`. On error nothing is left behind and an existing output is untouched, unless the error says
/// that the output is complete and in its place.
///
/// # Errors
/// What reading, planning, encoding or writing reports, with file and variable.
pub fn repack(
    engine: &Engine,
    input: &Path,
    output: &Path,
    settings: &Settings,
    options: &RepackOptions,
    progress: &dyn Progress,
) -> Result<Repacked> {
    refuse_existing(input, output, options)?;
    let inputs = Inputs { network: engine.network.clone(), ..Inputs::default() };
    let source = open_watched(input, &engine.codecs, &inputs)?;
    repack_source(engine, source, output, settings, options, progress)
}

/// As [`repack`], for a source that is open already; [`open_watched`] sees to it that nobody writes it meanwhile.
///
/// # Errors
/// As for [`repack`].
pub fn repack_source(
    engine: &Engine,
    source: Box<dyn Source>,
    output: &Path,
    settings: &Settings,
    options: &RepackOptions,
    progress: &dyn Progress,
) -> Result<Repacked> {
    let format = OutputFormat::of(output)?;
    write_source(engine, source, (output, format), settings, options, progress)
}

/// As [`repack_source`], in a format that the name of the output does not have to tell.
///
/// # Errors
/// As for [`repack`].
pub fn write_source(
    engine: &Engine,
    source: Box<dyn Source>,
    (output, format): (&Path, OutputFormat),
    settings: &Settings,
    options: &RepackOptions,
    progress: &dyn Progress,
) -> Result<Repacked> {
    let begin = std::time::Instant::now();
    let input = source.path().to_owned();
    refuse_existing(&input, output, options)?;
    let source = shown(source, format);
    source.will_read_all();
    if format.is_plain() {
        return write_plain(engine, source.as_ref(), (output, format), settings, options, (progress, begin));
    }
    if format == OutputFormat::Zarr {
        zarr_fit::check(source.as_ref())?;
    }
    let target = format.target(settings.portable)?;
    let job = Job { engine, input: &input, output, format, target, settings, options, in_place: false };
    if let Some(done) = job.run_in_any_case(source.as_ref(), progress, begin)? {
        return Ok(done);
    }
    let (_, version) =
        options.classic_above.ok_or_else(|| Error::internal("an output that is too large for nobody"))?;
    let format = OutputFormat::Classic(version);
    let mut done = write_plain(engine, source.as_ref(), (output, format), settings, options, (progress, begin))?;
    let why = "as the program's library writes it: a compressed file would be larger";
    done.plan.variables.iter_mut().for_each(|variable| variable.action = Action::Copy(why.to_owned()));
    Ok(done)
}

/// Writes an output that holds values as they are.
fn write_plain(
    engine: &Engine,
    source: &dyn Source,
    (output, format): (&Path, OutputFormat),
    settings: &Settings,
    options: &RepackOptions,
    (progress, begin): (&dyn Progress, std::time::Instant),
) -> Result<Repacked> {
    let (input, replaces) = (source.path(), options.replaces.clone());
    let counter = Counter::begin();
    let (plan, execution, output_bytes) =
        values_only::write(engine, source, output, format, replaces, settings, progress)
            .map_err(|error| blamed(error, input))?;
    let counted = counter.and_then(|counter| counter.joules());
    Ok(Repacked {
        energy: energy(engine, &plan, &execution, (read_bytes(source), output_bytes), counted),
        input_bytes: input_bytes(source),
        input: input.to_owned(),
        output: output.to_owned(),
        output_bytes,
        plan,
        execution,
        seconds: begin.elapsed().as_secs_f64(),
        choosing_seconds: 0.0,
        reader: ReaderLevel::Core,
        filters: BTreeSet::new(),
        left_out: Vec::new(),
        other_files: BTreeSet::new(),
        references_lost: 0,
        names_lost: Vec::new(),
        netcdf: NetcdfLimits::default(),
        not_kept: Vec::new(),
        chunks_unheard: Vec::new(),
        idle_steps: Vec::new(),
        copied: None,
        as_made: AsMade::new(),
    })
}

/// The plan that [`repack_source`] would carry out, and what it is expected to give. Nothing is written, and it does not matter
/// whether `output` exists.
///
/// # Errors
/// What reading and planning report, with file and variable.
pub fn forecast_source(
    engine: &Engine,
    source: Box<dyn Source>,
    output: &Path,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Forecast> {
    let format = OutputFormat::of(output)?;
    let source = shown(source, format);
    let source = source.as_ref();
    let plan = if format.is_plain() {
        values_only::plan(engine, source, format, settings)
    } else {
        if format == OutputFormat::Zarr {
            zarr_fit::check(source)?;
        }
        advise(engine, source, settings, format.target(settings.portable)?, progress)
    };
    plan.map(|plan| Forecast::of(plan, source, settings)).map_err(|error| in_file(error, source.path()))
}

/// Encodes for later what [`write_source`] would encode, as far as it is there, for a source that keeps that. Returns how.
///
/// # Errors
/// What reading, planning, encoding or keeping reports; `Interrupted`.
pub fn encode_source_ahead(
    engine: &Engine,
    source: Box<dyn Source>,
    format: OutputFormat,
    settings: &Settings,
) -> Result<Plan> {
    let source = shown(source, format);
    let (source, target) = (source.as_ref(), format.target(settings.portable)?);
    let plan = plan(engine, source, settings, target, &Silent)?;
    encode_ahead(engine, source, &plan, target, settings.verify).map(|()| plan)
}

/// `source` as an output of this format has it.
fn shown(source: Box<dyn Source>, format: OutputFormat) -> Box<dyn Source> {
    // There a dimension has one length for all variables.
    if format == OutputFormat::Zarr || format.is_plain() { whole_records(source) } else { source }
}

/// One input on its way to one output.
pub(super) struct Job<'a> {
    pub(super) engine: &'a Engine,
    pub(super) input: &'a Path,
    pub(super) output: &'a Path,
    pub(super) format: OutputFormat,
    pub(super) target: FormatLimits,
    pub(super) settings: &'a Settings,
    pub(super) options: &'a RepackOptions,
    /// The output will take the place of the input.
    pub(super) in_place: bool,
}

impl Job<'_> {
    /// As [`Job::run`], which says what none means. If what is asked cannot be carried out, and the file is to be there in any case,
    /// it is made without that.
    pub(super) fn run_in_any_case(
        &self,
        source: &dyn Source,
        progress: &dyn Progress,
        begin: std::time::Instant,
    ) -> Result<Option<Repacked>> {
        let less = self.settings.of_no_variable();
        let least = Settings { libver: LibverBounds::default(), ..less.clone() };
        let mut why: Option<Error> = None;
        for settings in [self.settings, &less, &least] {
            match (Job { settings, ..*self }).run(source, progress, begin) {
                Ok(mut done) => {
                    let words = why.as_ref().map(Error::without_advice);
                    done.iter_mut().for_each(|done| done.plan.left_out.clone_from(&words));
                    return Ok(done);
                }
                Err(error) if !self.may_leave_out(&error) => return Err(error),
                // The first one says most.
                Err(error) => why = why.or(Some(error)),
            }
        }
        Err(why.unwrap_or_else(|| Error::internal("nothing was tried")))
    }

    /// True if the error may come from something that may be left out.
    fn may_leave_out(&self, error: &Error) -> bool {
        let Settings { lenient, chain, rules, libver, .. } = self.settings;
        let says_anything = chain.is_some() || !rules.is_empty() || *libver != LibverBounds::default();
        *lenient && says_anything && (error.is_of_wishes() || error.kind() == ErrorKind::Internal)
    }

    /// Writes the output; nothing if it would be larger than it may be.
    fn run(&self, source: &dyn Source, progress: &dyn Progress, begin: std::time::Instant) -> Result<Option<Repacked>> {
        let Self { engine, input, output, format, target, settings, options, in_place } = *self;
        let counter = Counter::begin();
        let plan = plan(engine, source, settings, target, progress).map_err(|error| in_file(error, input))?;
        let choosing_seconds = begin.elapsed().as_secs_f64();
        let storages = storages(engine, source, &plan, target)?;
        // What is copied is read while the sink is made: such errors are the input's.
        let blame = |error: Error| blamed(error, input);
        let records = records(source, &plan).map_err(blame)?;
        let flags = if format == OutputFormat::Zarr { zarr_fit::flags(source) } else { Vec::new() };
        let written = labelled(source.model(), &records, format, flags);
        let saved = Mutex::new(None);
        let references_lost = AtomicUsize::new(0);
        let make = || -> Result<Box<dyn Sink>> {
            let sink: Box<dyn Sink> = match format {
                OutputFormat::Zarr => {
                    let sharding = match url_of(output) {
                        _ if settings.chunks_apart => Sharding::Never,
                        Some(_) => Sharding::Requests,
                        None => Sharding::Auto,
                    };
                    let options =
                        ZarrOptions { replaces: options.replaces.clone(), sharding, codecs: engine.codecs.clone() };
                    let mut sink = match url_of(output) {
                        Some(url) => {
                            let store = elsewhere(engine, url)?.create(url, zarr::CONTENTS, options.replaces.may())?;
                            ZarrSink::over(store, &written, &storages, options)
                        }
                        None if is_zipped(output) => {
                            let store = ZipStore::create(output, options.replaces.clone())?;
                            ZarrSink::over(Box::new(store), &written, &storages, options)
                        }
                        None => ZarrSink::create(output, &written, &storages, options)?,
                    };
                    sink.copy_from(source)?;
                    Box::new(sink)
                }
                _ => {
                    let (replaces, libver) = (options.replaces.clone(), settings.libver);
                    let annotated = plan.choices().filter(|choice| choice.bound.is_some()).count();
                    let as_made = AsMade::new();
                    let options = SinkOptions { replaces, in_place, libver, as_made, annotated };
                    let mut sink = Hdf5Sink::create(output, &written, &storages, options)?;
                    sink.copy_from(source)?;
                    references_lost.store(sink.references_lost(), Ordering::Relaxed);
                    Box::new(sink)
                }
            };
            *saved.lock().unwrap_or_else(PoisonError::into_inner) =
                saves_plan(options, output).then(|| PlanFile::start(&plan, output)).transpose()?;
            Ok(sink)
        };
        let is_of_files = url_of(output).is_none() && !(format == OutputFormat::Zarr && is_zipped(output));
        let mut sink = LateSink::new(make, is_of_files && is_common_beside(output));
        if settings.verify {
            prove_copies(engine, source, &plan).map_err(|error| in_file(error, input))?;
        }
        let execution = execute(engine, source, &plan, target, settings.verify, &mut sink, progress).map_err(blame)?;
        annotate(&mut sink, source, &plan, &records, &execution, options)?;
        engine.check_cancelled()?;
        source.unchanged()?;
        let other_files = other_files(source, format).map_err(blame)?;
        let netcdf = netcdf_limits(source, format).map_err(blame)?;
        // The output may take the place of the input.
        let (input_bytes, read) = (input_bytes(source), read_bytes(source));
        let may_copy =
            !self.in_place && url_of(input).is_none() && as_it_is::may_copy(source, settings, target, &other_files);
        let closed = sink.close()?;
        let is_too_large = |((most, version), bytes): ((u64, classic::Version), u64)| {
            bytes > most && classic::check(source.model(), version).is_ok()
        };
        if options.classic_above.zip(closed).is_some_and(is_too_large) {
            return Ok(None);
        }
        if let Some(bytes) = closed.filter(|bytes| *bytes > input_bytes && may_copy) {
            drop(sink);
            drop(saved);
            let why = format!(
                "copied byte for byte: written anew the file would grow to {}",
                knarr_array::table::bytes(bytes)
            );
            let energy =
                energy(engine, &plan, &execution, (read, input_bytes), counter.and_then(|counter| counter.joules()));
            let times = (begin, choosing_seconds);
            return self.copy(source, (plan, netcdf), energy, why, times).map(Some);
        }
        let saved = saved.lock().unwrap_or_else(PoisonError::into_inner).take().map(PlanFile::written).transpose()?;
        let output_bytes = Box::new(sink).commit()?;
        saved.map_or(Ok(()), |saved| saved.publish(output)).map_err(|error| without_plan(&error, output))?;
        let counted = counter.and_then(|counter| counter.joules());
        Ok(Some(Repacked {
            input: input.to_owned(),
            output: output.to_owned(),
            input_bytes,
            output_bytes,
            reader: most_demanding(&plan),
            filters: filters(source, &plan, &storages, format),
            other_files,
            references_lost: references_lost.into_inner(),
            names_lost: notes::names_lost(source, output),
            netcdf,
            not_kept: not_kept::of(source, format),
            chunks_unheard: chunks_unheard(source, settings, &plan),
            idle_steps: notes::idle_steps(&engine.codecs, &plan),
            left_out: if format == OutputFormat::Zarr { source.model().links().cloned().collect() } else { Vec::new() },
            energy: energy(engine, &plan, &execution, (read, output_bytes), counted),
            plan,
            execution,
            seconds: begin.elapsed().as_secs_f64(),
            choosing_seconds,
            copied: None,
            as_made: as_made(source, &storages),
        }))
    }

    /// The input under the name of the output, and a plan that says so. Where both are one file it stays as it is.
    fn copy(
        &self,
        source: &dyn Source,
        (mut plan, netcdf): (Plan, NetcdfLimits),
        energy: Energy,
        why: String,
        (begin, choosing_seconds): (std::time::Instant, f64),
    ) -> Result<Repacked> {
        let Self { input, output, options, .. } = *self;
        plan.variables.iter_mut().for_each(|variable| variable.action = Action::Copy(why.clone()));
        let saved = options.save_plan.then(|| PlanFile::start(&plan, output)).transpose()?;
        let saved = saved.map(PlanFile::written).transpose()?;
        let is_same =
            input.canonicalize().ok().is_some_and(|input| output.canonicalize().is_ok_and(|out| out == input));
        let output_bytes = if is_same {
            size_of(input)
        } else {
            let temporary = Temporary::create(output, options.replaces.clone())?;
            let mut from = File::open(input).map_err(|error| Error::read(input, &error))?;
            let opened = OpenOptions::new().write(true).open(temporary.path());
            let copied = opened.and_then(|mut to| std::io::copy(&mut from, &mut to));
            copied.map_err(|error| Error::write(output, &error))?;
            source.unchanged()?;
            temporary.publish()?
        };
        saved.map_or(Ok(()), |saved| saved.publish(output)).map_err(|error| without_plan(&error, output))?;
        let filters = source.model().variables.iter().flat_map(|variable| &variable.filters);
        let filters: BTreeSet<FilterId> = filters.map(|filter| filter.id).collect();
        Ok(Repacked {
            input: input.to_owned(),
            output: output.to_owned(),
            input_bytes: output_bytes,
            output_bytes,
            reader: ReaderLevel::of_filters(filters.iter().copied()),
            filters,
            other_files: BTreeSet::new(),
            references_lost: 0,
            names_lost: Vec::new(),
            netcdf,
            not_kept: Vec::new(),
            chunks_unheard: Vec::new(),
            idle_steps: Vec::new(),
            left_out: Vec::new(),
            energy,
            plan,
            execution: Execution::default(),
            seconds: begin.elapsed().as_secs_f64(),
            choosing_seconds,
            copied: Some(why),
            as_made: AsMade::new(),
        })
    }
}

/// Variables and dimensions that chunks were asked of to no effect.
fn chunks_unheard(source: &dyn Source, settings: &Settings, plan: &Plan) -> Vec<String> {
    let copied = plan.variables.iter().filter(|planned| matches!(planned.action, Action::Copy(_)));
    let copied: BTreeSet<&str> = copied.map(|planned| planned.path.as_str()).collect();
    let is_copied = |variable: &Variable| copied.contains(variable.path.as_str());
    settings.chunks_unheard(source.model(), is_copied).into_iter().map(str::to_owned).collect()
}

/// The output has its place when that fails.
fn without_plan(error: &Error, output: &Path) -> Error {
    let what = format!("it is complete and in its place, but its plan could not be saved: {}", error.message());
    Error::new(ErrorKind::Write, what)
        .hint("repeat this with --force for the plan, or do without 'knarr explain'")
        .at(output.display().to_string())
}

/// Names of other files that an output of this format takes over.
fn other_files(source: &dyn Source, format: OutputFormat) -> Result<BTreeSet<String>> {
    match source.as_any().downcast_ref::<Hdf5Source>() {
        Some(file) if format != OutputFormat::Zarr => hdf5::other_files(file),
        _ => Ok(BTreeSet::new()),
    }
}

/// What programs of netCDF-C do not open or show of an output of this format.
fn netcdf_limits(source: &dyn Source, format: OutputFormat) -> Result<NetcdfLimits> {
    match source.as_any().downcast_ref::<Hdf5Source>() {
        Some(file) if format == OutputFormat::NetCdf4 => hdf5::netcdf_limits(file),
        _ => Ok(NetcdfLimits::default()),
    }
}

/// Filters of what is encoded, and of what is copied as it is from one HDF5 file to another.
fn filters(source: &dyn Source, plan: &Plan, storages: &[Storage], format: OutputFormat) -> BTreeSet<FilterId> {
    let encoded = storages.iter().flat_map(|storage| match &storage.encoding {
        Encoding::Hdf5(filters) => filters.as_slice(),
        Encoding::Zarr(_) => &[],
    });
    let keeps_filters = format != OutputFormat::Zarr && source.as_any().is::<Hdf5Source>();
    let plans = plan.by_path();
    let is_copied = |variable: &&Variable| {
        plans.get(variable.path.as_str()).is_some_and(|planned| matches!(planned.action, Action::Copy(_)))
    };
    let copied = source.model().variables.iter().filter(|variable| keeps_filters && is_copied(variable));
    encoded.chain(copied.flat_map(|variable| &variable.filters)).map(|filter| filter.id).collect()
}

/// How the input stores variables that get other chunks or filters, where some are compressed in one of the two.
fn as_made(source: &dyn Source, storages: &[Storage]) -> AsMade {
    let changed = storages.iter().filter_map(|storage| {
        let variable = source.model().variables.get(storage.variable)?;
        let (mut before, Encoding::Hdf5(filters)) = (StoredAs::of(variable), &storage.encoding) else { return None };
        let grows = || variable.max_shape.iter().zip(&variable.shape).any(|(most, now)| *most != Some(*now));
        if before.chunk.is_none() && grows() {
            // That of another format, which needs no chunks to grow.
            before.chunk = Some(storage.chunk.clone());
        }
        let has_filters = !filters.is_empty() || !before.filters.is_empty();
        has_filters.then(|| (variable.path.clone(), before))
    });
    changed.collect()
}

/// What reaches the place of an output that lies elsewhere.
fn elsewhere<'a>(engine: &'a Engine, url: &str) -> Result<&'a dyn Network> {
    engine.network.as_deref().ok_or_else(|| {
        Error::unsupported("only files and directories of this machine are written here")
            .hint("write here and copy it")
            .at(url)
    })
}

/// A plan lies beside an output on this machine only.
fn saves_plan(options: &RepackOptions, output: &Path) -> bool {
    options.save_plan && url_of(output).is_none()
}

/// Refuses to replace what was not to be replaced: the output, and what lies where its plan goes.
fn refuse_existing(input: &Path, output: &Path, options: &RepackOptions) -> Result<()> {
    if let (Some(input), Some(output)) = (url_of(input), url_of(output)) {
        return refuse_inside(input, output);
    }
    if saves_plan(options, output) && !OutputFormat::of(output)?.is_plain() {
        refuse_other_plan(output, options.replaces.may())?;
    }
    // What is at a URL is looked at when the output is made.
    if url_of(output).is_some() || !output.exists() {
        return Ok(());
    }
    let (a, b) = (input.canonicalize().ok(), output.canonicalize().ok());
    if a != b && a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| a.starts_with(b)) {
        return Err(Error::new(ErrorKind::Exists, "the input lies inside it and would go with it")
            .hint("write to another name")
            .at(output.display().to_string()));
    }
    if options.replaces.may() {
        return Ok(());
    }
    if a.is_some() && a == b {
        return Err(Error::new(ErrorKind::Exists, "input and output are the same file")
            .hint("write to another name, or replace the input with --force")
            .at(output.display().to_string()));
    }
    Err(exists(output))
}

fn exists(output: &Path) -> Error {
    Error::new(ErrorKind::Exists, "exists already")
        .hint("choose another name or replace it with --force")
        .at(output.display().to_string())
}

/// The format that the name of an output says, if nothing is there that is not to be replaced. [`write_source`] looks again:
/// this is for who has much to do before.
///
/// # Errors
/// `Usage` or `Unsupported` as for [`OutputFormat::of`]; `Exists`.
pub fn vacant_format(output: &Path, options: &RepackOptions) -> Result<OutputFormat> {
    let format = OutputFormat::of(output)?;
    if saves_plan(options, output) && !format.is_plain() {
        refuse_other_plan(output, options.replaces.may())?;
    }
    let is_taken = url_of(output).is_none() && output.exists() && !options.replaces.may();
    if is_taken { Err(exists(output)) } else { Ok(format) }
}

/// Refuses an output that would remove its input.
fn refuse_inside(input: &str, output: &str) -> Result<()> {
    let (input, output) = (input.trim_end_matches('/'), output.trim_end_matches('/'));
    let what = match input.strip_prefix(output) {
        Some("") => "input and output are the same store",
        Some(below) if below.starts_with('/') => "the input lies inside it and would go with it",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Exists, what).hint("write to another name").at(output))
}
