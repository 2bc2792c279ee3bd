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
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::{Action, Plan};
use knarr_codec::codec::ReaderLevel;
use knarr_flow::energy::{Counter, Energy};
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_flow::output::AtomicFile;
use knarr_flow::pipeline::{Execution, advise, encode_ahead, execute, most_demanding, plan, prove_copies, storages};
use knarr_flow::settings::Settings;
use knarr_flow::store::{Sink, Source, Storage};
use knarr_flow::urls::url_of;
use knarr_formats::classic;
use knarr_formats::hdf5::{AsMade, NetcdfLimits};
use knarr_formats::output::{self, ChunkedOutput, Content, Losses, NewOutput, NewSink, OutputKind, PlainOutput};
use knarr_formats::{Inputs, open_watched};

use super::annotate::{annotate, labelled, records};
use super::error_context::{blamed, in_file};
use super::forecast::Forecast;
use super::lazy_sink::LazySink;
use super::options::RepackOptions;
use super::plan_file::{PlanFile, refuse_other_plan};
use super::repacked::{Repacked, energy, input_bytes, read_bytes, size_of};
use super::{notes, passthrough, values_only};

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
    let inputs = Inputs { stores: engine.stores.clone(), ..Inputs::default() };
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
    write_source(engine, source, (output, output::of(output)?), settings, options, progress)
}

/// As [`repack_source`], for a kind of output that the name does not have to tell.
///
/// # Errors
/// As for [`repack`].
pub fn write_source(
    engine: &Engine,
    source: Box<dyn Source>,
    (output, kind): (&Path, &dyn OutputKind),
    settings: &Settings,
    options: &RepackOptions,
    progress: &dyn Progress,
) -> Result<Repacked> {
    let begin = std::time::Instant::now();
    let input = source.path().to_owned();
    refuse_existing(&input, output, options)?;
    let source = kind.view(source);
    source.will_read_all();
    let kind = match kind.content() {
        Content::Chunks(kind) => kind,
        Content::Values(kind) => {
            return write_plain(engine, source.as_ref(), (output, kind), settings, options, (progress, begin));
        }
    };
    kind.check(source.as_ref())?;
    let target = kind.limits(settings.portable)?;
    let job = RepackJob { engine, input: &input, output, kind, target, settings, options, in_place: false };
    if let Some(done) = job.run_in_any_case(source.as_ref(), progress, begin)? {
        return Ok(done);
    }
    let (_, version) =
        options.classic_above.ok_or_else(|| Error::internal("an output that is too large for nobody"))?;
    let kind = output::classic(version);
    let mut done = write_plain(engine, source.as_ref(), (output, kind), settings, options, (progress, begin))?;
    let why = "as the program's library writes it: a compressed file would be larger";
    done.plan.variables.iter_mut().for_each(|variable| variable.action = Action::Copy(why.to_owned()));
    Ok(done)
}

/// Writes an output that holds values as they are.
fn write_plain(
    engine: &Engine,
    source: &dyn Source,
    (output, kind): (&Path, &PlainOutput),
    settings: &Settings,
    options: &RepackOptions,
    (progress, begin): (&dyn Progress, std::time::Instant),
) -> Result<Repacked> {
    let (input, replaces) = (source.path(), options.replaces.clone());
    let counter = Counter::begin();
    let (plan, execution, output_bytes) =
        values_only::write(engine, source, (output, kind), replaces, settings, progress)
            .map_err(|error| blamed(error, input))?;
    let counted = counter.and_then(|counter| counter.joules());
    let energy = energy(engine, &plan, &execution, (read_bytes(source), output_bytes), counted);
    let sizes = (input_bytes(source), output_bytes);
    let made = Repacked::of_values(plan, execution, energy, sizes, begin.elapsed().as_secs_f64());
    Ok(Repacked { input: input.to_owned(), output: output.to_owned(), ..made })
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
    let kind = output::of(output)?;
    let source = kind.view(source);
    let source = source.as_ref();
    let plan = match kind.content() {
        Content::Values(kind) => values_only::plan(engine, source, kind, settings),
        Content::Chunks(chunked) => {
            chunked.check(source)?;
            advise(engine, source, settings, kind.limits(settings.portable)?, progress)
        }
    };
    plan.map(|plan| Forecast::of(plan, source, kind, settings)).map_err(|error| in_file(error, source.path()))
}

/// Encodes for later what [`write_source`] would encode, as far as it is there, for a source that keeps that. Returns how.
///
/// # Errors
/// What reading, planning, encoding or keeping reports; `Interrupted`.
pub fn encode_source_ahead(
    engine: &Engine,
    source: Box<dyn Source>,
    kind: &dyn OutputKind,
    settings: &Settings,
) -> Result<Plan> {
    let (source, target) = (kind.view(source), kind.limits(settings.portable)?);
    let source = source.as_ref();
    let plan = plan(engine, source, settings, target, &Silent)?;
    encode_ahead(engine, source, &plan, target, settings.verify).map(|()| plan)
}

/// One input on its way to one output.
pub(super) struct RepackJob<'a> {
    pub(super) engine: &'a Engine,
    pub(super) input: &'a Path,
    pub(super) output: &'a Path,
    pub(super) kind: &'a dyn ChunkedOutput,
    pub(super) target: FormatLimits,
    pub(super) settings: &'a Settings,
    pub(super) options: &'a RepackOptions,
    /// The output will take the place of the input.
    pub(super) in_place: bool,
}

impl RepackJob<'_> {
    /// As [`RepackJob::run`], which says what none means. If what is asked cannot be carried out, and the file is to be there in any case,
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
            match (RepackJob { settings, ..*self }).run(source, progress, begin) {
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
        *lenient && says_anything && (error.is_of_options() || error.kind() == ErrorKind::Internal)
    }

    /// Writes the output; nothing if it would be larger than it may be.
    fn run(&self, source: &dyn Source, progress: &dyn Progress, begin: std::time::Instant) -> Result<Option<Repacked>> {
        let Self { engine, input, output, kind, target, settings, options, in_place } = *self;
        let counter = Counter::begin();
        let plan = plan(engine, source, settings, target, progress).map_err(|error| in_file(error, input))?;
        let choosing_seconds = begin.elapsed().as_secs_f64();
        let storages = storages(engine, source, &plan, target)?;
        // What is copied is read while the sink is made: such errors are the input's.
        let blame = |error: Error| blamed(error, input);
        let records = records(source, &plan).map_err(blame)?;
        let written = labelled(source.model(), &records, kind.label_type(), kind.added_attributes(source));
        let saved = Mutex::new(None);
        let references_lost = AtomicUsize::new(0);
        let make = || -> Result<Box<dyn Sink>> {
            let NewSink { sink, references_lost: lost } = kind.create(NewOutput {
                path: output,
                model: &written,
                storages: &storages,
                engine,
                settings,
                replaces: options.replaces.clone(),
                in_place,
                annotated: plan.choices().filter(|choice| choice.bound.is_some()).count(),
                source,
            })?;
            references_lost.store(lost, Ordering::Relaxed);
            *saved.lock().unwrap_or_else(PoisonError::into_inner) =
                saves_plan(options, output).then(|| PlanFile::start(&plan, output)).transpose()?;
            Ok(sink)
        };
        let mut sink = LazySink::new(make, kind.supports_external_writes(output) && !options.is_private);
        if settings.verify {
            prove_copies(engine, source, &plan).map_err(|error| in_file(error, input))?;
        }
        let execution = execute(engine, source, &plan, target, settings.verify, &mut sink, progress).map_err(blame)?;
        annotate(&mut sink, source, &plan, &records, &execution, options)?;
        engine.check_cancelled()?;
        source.unchanged()?;
        let losses = kind.losses(source).map_err(blame)?;
        // The output may take the place of the input.
        let (input_bytes, read) = (input_bytes(source), read_bytes(source));
        let is_file = !in_place && url_of(input).is_none() && losses.other_files.is_empty() && kind.is_file(source);
        let may_copy = is_file && passthrough::may_copy(source, settings, target.allowed);
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
            return self.copy(source, (plan, losses.netcdf), energy, why, times).map(Some);
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
            filters: filters(source, &plan, &storages, kind.keeps_filters(source)),
            references_lost: references_lost.into_inner(),
            losses,
            chunks_unheard: chunks_unheard(source, settings, &plan),
            idle_steps: notes::idle_steps(&engine.codecs, &plan),
            energy: energy(engine, &plan, &execution, (read, output_bytes), counted),
            plan,
            execution,
            seconds: begin.elapsed().as_secs_f64(),
            choosing_seconds,
            copied: None,
            as_made: kind.as_made(source, &storages),
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
            let temporary = AtomicFile::create(output, options.replaces.clone())?;
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
            references_lost: 0,
            losses: Losses { netcdf, ..Losses::default() },
            chunks_unheard: Vec::new(),
            idle_steps: Vec::new(),
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

/// Filters of what is encoded, and of what is copied if that keeps its filters.
fn filters(source: &dyn Source, plan: &Plan, storages: &[Storage], keeps_filters: bool) -> BTreeSet<FilterId> {
    let encoded = storages.iter().flat_map(|storage| storage.encoding.filters());
    let plans = plan.by_path();
    let is_copied = |variable: &&Variable| {
        plans.get(variable.path.as_str()).is_some_and(|planned| matches!(planned.action, Action::Copy(_)))
    };
    let copied = source.model().variables.iter().filter(|variable| keeps_filters && is_copied(variable));
    encoded.chain(copied.flat_map(|variable| &variable.filters)).map(|filter| filter.id).collect()
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
    if saves_plan(options, output) && !output::of(output)?.is_plain() {
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

/// The kind of output that a name asks for, if nothing is there that is not to be replaced. [`write_source`] looks again:
/// this is for who has much to do before.
///
/// # Errors
/// `Usage` or `Unsupported` as for [`output::of`]; `Exists`.
pub fn vacant_kind(output: &Path, options: &RepackOptions) -> Result<&'static dyn OutputKind> {
    let kind = output::of(output)?;
    if saves_plan(options, output) && !kind.is_plain() {
        refuse_other_plan(output, options.replaces.may())?;
    }
    let is_taken = url_of(output).is_none() && output.exists() && !options.replaces.may();
    if is_taken { Err(exists(output)) } else { Ok(kind) }
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
