//! The main job: one input repacked into one output, with a plan before and a report after.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use knarr_core::array::DType;
use knarr_core::chain::ChainSpec;
use knarr_core::choose::Target;
use knarr_core::codec::{FilterId, Hdf5Filter, Reader};
use knarr_core::energy::{Counter, Energy, Moved, Phases};
use knarr_core::engine::{Engine, Progress};
use knarr_core::error::{Error, ErrorKind, Result};
use knarr_core::generate::Generated;
use knarr_core::model::{Link, Variable};
use knarr_core::output::Temporary;
use knarr_core::pipeline::{Execution, advise, execute, most_demanding, plan, prove_copies, storages};
use knarr_core::plan::{Action, Plan};
use knarr_core::provenance;
use knarr_core::quality::Quality;
use knarr_core::quantization::Records;
use knarr_core::settings::{Rule, Settings};
use knarr_core::store::{Encoding, Sink, Source, Storage};
use serde::{Deserialize, Serialize};

use crate::as_it_is;
use crate::hdf5::{self, Hdf5Sink, Hdf5Source, SinkOptions};
use crate::labelled::Labelled;
use crate::late_sink::LateSink;
use crate::notes;
use crate::open::Inputs;
use crate::plain;
use crate::plan_file::{PlanFile, refuse_other_plan};
use crate::selected::Selected;
use crate::unchanged::Watched;
use crate::zarr::{ZarrOptions, ZarrSink};
use crate::zarr_fit;

/// Format of an output, by its suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    /// netCDF-4, which is HDF5: `.nc`, `.nc4`, `.cdf`, `.netcdf`.
    NetCdf4,
    /// HDF5: `.h5`, `.hdf5`, `.hdf`, `.he5`.
    Hdf5,
    /// Zarr v3 directory: `.zarr`.
    Zarr,
    /// Text: `.csv`, and `.tsv` with tabs.
    Csv,
    /// The bytes of one variable: `.bin`, `.raw`.
    Raw,
}

impl OutputFormat {
    /// The format that the suffix of `path` stands for.
    ///
    /// # Errors
    /// `Usage` for other suffixes.
    pub fn of(path: &Path) -> Result<Self> {
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().into_owned()).unwrap_or_default();
        Self::known(&suffix).ok_or_else(|| {
            Error::usage(format!("'{}' does not say which format to write", path.display()))
                .mend("end the name in .nc (netCDF-4), .h5 (HDF5), .zarr (Zarr v3), .csv, or .bin (raw)")
        })
    }

    /// The format that `suffix` stands for, with its dot or without.
    ///
    /// # Errors
    /// `Usage` for suffixes that stand for none.
    pub fn of_suffix(suffix: &str) -> Result<Self> {
        Self::known(suffix.trim_start_matches('.')).ok_or_else(|| {
            Error::usage(format!("'{suffix}' is no format that is written")).mend("choose nc, h5 or zarr")
        })
    }

    fn known(suffix: &str) -> Option<Self> {
        match suffix.to_lowercase().as_str() {
            "nc" | "nc4" | "cdf" | "netcdf" => Some(Self::NetCdf4),
            "h5" | "hdf5" | "hdf" | "he5" => Some(Self::Hdf5),
            "zarr" => Some(Self::Zarr),
            "csv" | "tsv" => Some(Self::Csv),
            "bin" | "raw" => Some(Self::Raw),
            _ => None,
        }
    }

    /// True for formats that hold nothing but values: no chunks, no chains.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Csv | Self::Raw)
    }

    /// What the format can hold for readers that have at most `portable`. Where that is not said, netCDF files and Zarr
    /// stores are for the tools that open such: most builds of netCDF-C bring no filters beyond those of HDF5, and Zarr
    /// libraries no codecs beyond those of the specification and zstd.
    ///
    /// # Errors
    /// `Unsupported` for formats that hold nothing but values: there is nothing to choose.
    pub fn target(self, portable: Option<Reader>) -> Result<Target> {
        Ok(match self {
            // Plugins of netCDF-C are fewer than those of hdf5plugin.
            Self::NetCdf4 if portable == Some(Reader::Standard) => Target::Hdf5(Reader::NetCdf),
            Self::NetCdf4 => Target::Hdf5(portable.unwrap_or(Reader::Core)),
            Self::Hdf5 => Target::Hdf5(portable.unwrap_or(Reader::Standard)),
            Self::Zarr => Target::Zarr(portable.unwrap_or(Reader::Core)),
            Self::Csv | Self::Raw => {
                return Err(Error::unsupported("CSV and raw files hold plain values: there is no chain to choose")
                    .mend("ask for nc, h5 or zarr"));
            }
        })
    }
}

/// What opens an output of this format that needs `reader`, in words.
pub fn opened_by(format: OutputFormat, reader: Reader) -> &'static str {
    match (format, reader) {
        (OutputFormat::Zarr, Reader::Core) => "every Zarr v3 library",
        (OutputFormat::Zarr, Reader::NetCdf | Reader::Standard) => "Zarr v3 libraries with the codecs of numcodecs",
        (OutputFormat::Zarr, Reader::Knarr) => "Knarr",
        _ => reader.in_words(),
    }
}

/// What to do besides encoding.
#[derive(Debug, Clone, Default)]
pub struct RepackOptions {
    /// Replace an existing output.
    pub force: bool,
    /// Line for the `history` attribute of lossy outputs: the command.
    pub command: String,
    /// Date for `history`.
    pub when: String,
    /// Save the plan beside the output, in place of an older one. Where nothing is chosen there is none.
    pub save_plan: bool,
}

/// What a repack did. Serialized without the names of files, which need not be text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repacked {
    /// Input as named.
    #[serde(skip)]
    pub input: PathBuf,
    /// Output as named.
    #[serde(skip)]
    pub output: PathBuf,
    /// Size of the input in bytes: of all its files together, of what they hold of the variables that were selected, or
    /// of generated values.
    pub input_bytes: u64,
    /// Size of the output in bytes.
    pub output_bytes: u64,
    /// The plan that was carried out.
    pub plan: Plan,
    /// What was measured.
    pub execution: Execution,
    /// What it took, from choosing to the last write.
    pub energy: Energy,
    /// Wall time of everything, in seconds.
    pub seconds: f64,
    /// Wall time of choosing, in seconds.
    pub choosing_seconds: f64,
    /// What readers of the output need.
    pub reader: Reader,
    /// Filters that chunks of an HDF5 output went through.
    pub filters: BTreeSet<FilterId>,
    /// Links of the input that the output's format does not have.
    pub left_out: Vec<Link>,
    /// Names of other files in the output, which HDF5 looks for in its directory.
    pub other_files: BTreeSet<String>,
    /// References of the input whose objects are gone: in the output they are null.
    pub references_lost: usize,
    /// Names of axes that the output does not have, each with its variable and why.
    pub names_lost: Vec<String>,
    /// Variables and dimensions whose chunks were asked for to no effect.
    pub chunks_unheard: Vec<String>,
    /// Why the output is the input byte for byte, if it is.
    pub copied: Option<String>,
}

impl Repacked {
    /// True if the output holds nothing but values.
    pub fn is_plain(&self) -> bool {
        OutputFormat::of(&self.output).is_ok_and(OutputFormat::is_plain)
    }
}

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
    let source = crate::open_watched(input, &engine.codecs, &Inputs::default())?;
    repack_source(engine, source, output, settings, options, progress)
}

/// As [`repack`], for a source that is open already; [`crate::open_watched`] sees to it that nobody writes it meanwhile.
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
    let begin = std::time::Instant::now();
    let format = OutputFormat::of(output)?;
    let input = source.path().to_owned();
    refuse_existing(&input, output, options)?;
    let source = shown(source, format);
    if format.is_plain() {
        let source = source.as_ref();
        let counter = Counter::begin();
        let (plan, execution, output_bytes) =
            plain::write(engine, source, output, format, options.force, settings, progress)
                .map_err(|error| blamed(error, &input))?;
        let counted = counter.and_then(|counter| counter.joules());
        return Ok(Repacked {
            energy: energy(engine, &plan, &execution, (read_bytes(source), output_bytes), counted),
            input_bytes: input_bytes(source),
            input,
            output: output.to_owned(),
            output_bytes,
            plan,
            execution,
            seconds: begin.elapsed().as_secs_f64(),
            choosing_seconds: 0.0,
            reader: Reader::Core,
            filters: BTreeSet::new(),
            left_out: Vec::new(),
            other_files: BTreeSet::new(),
            references_lost: 0,
            names_lost: Vec::new(),
            chunks_unheard: Vec::new(),
            copied: None,
        });
    }
    if format == OutputFormat::Zarr {
        zarr_fit::check(source.as_ref())?;
    }
    let target = format.target(settings.portable)?;
    let job = Job { engine, input: &input, output, format, target, settings, options, in_place: false };
    job.run(source.as_ref(), progress, begin)
}

/// The plan that [`repack_source`] would carry out. Nothing is written, and it does not matter whether `output` exists.
///
/// # Errors
/// What reading and planning report, with file and variable.
pub fn plan_source(
    engine: &Engine,
    source: Box<dyn Source>,
    output: &Path,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Plan> {
    let format = OutputFormat::of(output)?;
    let source = shown(source, format);
    let source = source.as_ref();
    let plan = if format.is_plain() {
        plain::plan(engine, source, format, settings)
    } else {
        if format == OutputFormat::Zarr {
            zarr_fit::check(source)?;
        }
        advise(engine, source, settings, format.target(settings.portable)?, progress)
    };
    plan.map_err(|error| in_file(error, source.path()))
}

/// `source` as an output of this format has it.
fn shown(source: Box<dyn Source>, format: OutputFormat) -> Box<dyn Source> {
    // There a dimension has one length for all variables.
    if format == OutputFormat::Zarr || format.is_plain() { crate::whole_records(source) } else { source }
}

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
    job.run(source.as_ref(), progress, begin)
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

/// Looks at the HDF5 file `input`, which is not locked, as [`pack`] does not.
///
/// # Errors
/// `Corrupt` if the input is no HDF5 file.
pub fn encoded(engine: &Engine, input: &Path) -> Result<Encoded> {
    let source = crate::open::open_hdf5_unlocked(input, &engine.codecs)?;
    let mut phases = Phases::default();
    for variable in source.model().variables.iter().filter(|variable| !variable.filters.is_empty()) {
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
) -> Result<(Box<dyn Source>, OutputFormat, Target)> {
    // Tools go by the name, whatever library wrote the file.
    let mut format = OutputFormat::of(input).ok().filter(|format| *format == OutputFormat::NetCdf4);
    let source = Watched::open(input, || {
        let source = crate::open::open_hdf5_unlocked(input, &engine.codecs)?;
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

/// One input on its way to one output.
struct Job<'a> {
    engine: &'a Engine,
    input: &'a Path,
    output: &'a Path,
    format: OutputFormat,
    target: Target,
    settings: &'a Settings,
    options: &'a RepackOptions,
    /// The output will take the place of the input.
    in_place: bool,
}

impl Job<'_> {
    fn run(&self, source: &dyn Source, progress: &dyn Progress, begin: std::time::Instant) -> Result<Repacked> {
        let Self { engine, input, output, format, target, settings, options, in_place } = *self;
        let counter = Counter::begin();
        let plan = plan(engine, source, settings, target, progress).map_err(|error| in_file(error, input))?;
        let choosing_seconds = begin.elapsed().as_secs_f64();
        let storages = storages(engine, source, &plan, target)?;
        // What is copied is read while the sink is made: such errors are the input's.
        let blame = |error: Error| blamed(error, input);
        let records = records(source, &plan).map_err(blame)?;
        let flags = if format == OutputFormat::Zarr { zarr_fit::flags(source) } else { Vec::new() };
        let written = Labelled::new(source, labels(&records, format), flags);
        let saved = RefCell::new(None);
        let references_lost = Cell::new(0);
        let make = || -> Result<Box<dyn Sink>> {
            let sink: Box<dyn Sink> = match format {
                OutputFormat::Zarr => {
                    let options =
                        ZarrOptions { force: options.force, codecs: engine.codecs.clone(), ..ZarrOptions::default() };
                    Box::new(ZarrSink::create(output, &written, &storages, options)?)
                }
                _ => {
                    let (force, libver) = (options.force, settings.libver);
                    let annotated = plan.choices().filter(|choice| choice.bound.is_some()).count();
                    let options = SinkOptions { force, in_place, libver, annotated };
                    let sink = Hdf5Sink::create(output, &written, &storages, options)?;
                    references_lost.set(sink.references_lost());
                    Box::new(sink)
                }
            };
            saved.replace(options.save_plan.then(|| PlanFile::start(&plan, output)).transpose()?);
            Ok(sink)
        };
        let mut sink = LateSink::new(make);
        if settings.verify {
            prove_copies(engine, source, &plan).map_err(|error| in_file(error, input))?;
        }
        let execution = execute(engine, source, &plan, target, settings.verify, &mut sink, progress).map_err(blame)?;
        annotate(&mut sink, source, &plan, &records, &execution, options)?;
        engine.check_cancelled()?;
        source.unchanged()?;
        let other_files = other_files(source, format).map_err(blame)?;
        // The output may take the place of the input.
        let (input_bytes, read) = (input_bytes(source), read_bytes(source));
        let may_copy = !self.in_place && as_it_is::may_copy(source, settings, target, &other_files);
        if let Some(bytes) = sink.close()?.filter(|bytes| *bytes > input_bytes && may_copy) {
            drop((sink, saved.take()));
            let why = format!(
                "copied byte for byte: written anew the file would grow to {}",
                knarr_core::table::bytes(bytes)
            );
            let energy =
                energy(engine, &plan, &execution, (read, input_bytes), counter.and_then(|counter| counter.joules()));
            let times = (begin, choosing_seconds);
            return self.copy(source, plan, energy, why, times);
        }
        let saved = saved.take().map(PlanFile::written).transpose()?;
        let output_bytes = Box::new(sink).commit()?;
        saved.map_or(Ok(()), |saved| saved.publish(output)).map_err(|error| without_plan(&error, output))?;
        let counted = counter.and_then(|counter| counter.joules());
        Ok(Repacked {
            input: input.to_owned(),
            output: output.to_owned(),
            input_bytes,
            output_bytes,
            reader: most_demanding(&plan),
            filters: filters(source, &plan, &storages, format),
            other_files,
            references_lost: references_lost.get(),
            names_lost: notes::names_lost(source, output),
            chunks_unheard: chunks_unheard(source, settings, &plan),
            left_out: if format == OutputFormat::Zarr { source.model().links().cloned().collect() } else { Vec::new() },
            energy: energy(engine, &plan, &execution, (read, output_bytes), counted),
            plan,
            execution,
            seconds: begin.elapsed().as_secs_f64(),
            choosing_seconds,
            copied: None,
        })
    }

    /// The input under the name of the output, and a plan that says so. Where both are one file it stays as it is.
    fn copy(
        &self,
        source: &dyn Source,
        mut plan: Plan,
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
            let temporary = Temporary::create(output, options.force)?;
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
            reader: Reader::of_filters(filters.iter().copied()),
            filters,
            other_files: BTreeSet::new(),
            references_lost: 0,
            names_lost: Vec::new(),
            chunks_unheard: Vec::new(),
            left_out: Vec::new(),
            energy,
            plan,
            execution: Execution::default(),
            seconds: begin.elapsed().as_secs_f64(),
            choosing_seconds,
            copied: Some(why),
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
        .mend("repeat this with --force for the plan, or do without 'knarr explain'")
        .at(output.display().to_string())
}

/// Names of other files that an output of this format takes over.
fn other_files(source: &dyn Source, format: OutputFormat) -> Result<BTreeSet<String>> {
    match source.as_any().downcast_ref::<Hdf5Source>() {
        Some(file) if format != OutputFormat::Zarr => hdf5::other_files(file),
        _ => Ok(BTreeSet::new()),
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

/// What a run took that read and wrote so many bytes.
fn energy(
    engine: &Engine,
    plan: &Plan,
    execution: &Execution,
    (read, written): (u64, u64),
    counted: Option<f64>,
) -> Energy {
    let choose = plan.choices().map(|choice| choice.seconds);
    let phases = Phases { choose: choose.sum(), ..execution.phases };
    let raw = plan.variables.iter().enumerate().filter_map(|(index, variable)| match execution.variables.get(&index) {
        Some(report) => Some(report.raw_bytes),
        // Values that go into a format that holds nothing else.
        None => execution.variables.is_empty().then_some(variable.raw_bytes),
    });
    let moved = Moved { raw: raw.sum(), read, written };
    Energy::of(&phases, moved, &engine.profile.power, counted)
}

/// Refuses to replace what was not to be replaced: the output, and what lies where its plan goes.
fn refuse_existing(input: &Path, output: &Path, options: &RepackOptions) -> Result<()> {
    if options.save_plan && !OutputFormat::of(output)?.is_plain() {
        refuse_other_plan(output, options.force)?;
    }
    if !output.exists() {
        return Ok(());
    }
    let (a, b) = (input.canonicalize().ok(), output.canonicalize().ok());
    if a != b && a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| a.starts_with(b)) {
        return Err(Error::new(ErrorKind::Exists, "the input lies inside it and would go with it")
            .mend("write to another name")
            .at(output.display().to_string()));
    }
    if options.force {
        return Ok(());
    }
    if a.is_some() && a == b {
        return Err(Error::new(ErrorKind::Exists, "input and output are the same file")
            .mend("write to another name, or replace the input with --force")
            .at(output.display().to_string()));
    }
    Err(Error::new(ErrorKind::Exists, "exists already")
        .mend("choose another name or replace it with --force")
        .at(output.display().to_string()))
}

/// An error of a step that reads `input` and writes: what is not about writing is the input's.
fn blamed(error: Error, input: &Path) -> Error {
    match error.kind() {
        ErrorKind::Write | ErrorKind::Exists => error,
        _ => in_file(error, input),
    }
}

fn in_file(error: Error, path: &Path) -> Error {
    let place = path.display().to_string();
    if error.to_string().starts_with(&place) { error } else { error.at(place) }
}

/// What readers are told about rounding, with names that the source does not have.
fn records(source: &dyn Source, plan: &Plan) -> Result<Records> {
    let taken = match source.as_any().downcast_ref::<Hdf5Source>() {
        Some(file) => file.root_names()?,
        None => Vec::new(),
    };
    Ok(Records::of(source.model(), plan, &taken))
}

/// Quantization variables in a type that `format` has: CF leaves it open, and Zarr knows no characters.
fn labels(records: &Records, format: OutputFormat) -> Vec<Variable> {
    let dtype = if format == OutputFormat::Zarr { DType::I8 } else { DType::Opaque(1) };
    records.new.iter().map(|label| Variable { dtype, ..label.clone() }).collect()
}

/// Records what lossy variables were promised and what was measured.
fn annotate(
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

/// Bytes of the input: those that are read, or of the values if there is no file.
fn input_bytes(source: &dyn Source) -> u64 {
    if source.as_any().is::<Generated>() {
        return source.model().variables.iter().map(Variable::raw_bytes).sum();
    }
    read_bytes(source)
}

/// Bytes of the files, or of what they hold of the variables that were selected.
fn read_bytes(source: &dyn Source) -> u64 {
    if !source.as_any().is::<Selected>() {
        return size_of(source.path());
    }
    let variables = source.model().variables.iter();
    variables.map(|variable| variable.stored_bytes.unwrap_or_else(|| variable.raw_bytes())).sum()
}

/// Bytes of a file, or of all files below a directory.
pub fn size_of(path: &Path) -> u64 {
    let Ok(found) = std::fs::metadata(path) else { return 0 };
    if found.is_file() {
        return found.len();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries.flatten().map(|entry| size_of(&entry.path())).sum()
}
