//! `knarr repack`: the main job.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use knarr_core::codec::CodecList;
use knarr_core::energy::Energy;
use knarr_core::engine::{Engine, Progress};
use knarr_core::error::{Error, ErrorKind, Result};
use knarr_core::output::remove_abandoned;
use knarr_core::plan::{Action, Choice, Plan};
use knarr_core::settings::Settings;
use knarr_core::store::Source;
use knarr_formats::repack::{OutputFormat, RepackOptions, Repacked, plan_source, repack_source};
use knarr_formats::{notes, plan_path};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::{Inputs, Repack, Wishes};
use crate::inputs::Opener;
use crate::place::{self, Own};
use crate::progress::Bar;
use crate::request::Request;
use crate::run::processes::{Identity, writer_of_any};
use crate::session::Means;
use crate::table::{self, Align};
use crate::worker::{Order, Task, Worker};

pub(crate) fn run(arguments: &Repack) -> Result<u8> {
    let request = Request::new(&arguments.wishes)?;
    let means = Means::new(&arguments.resources, &request.machine())?;
    let engine = crate::session::engine_of(&means)?;
    Opener::new(&engine, &arguments.inputs)?;
    let jobs = pairs(&crate::inputs::expand(&arguments.files)?, &arguments.output)?;
    refuse_selection(arguments, &jobs)?;
    // A mistake shows before any work is done.
    for (input, _) in &jobs {
        request.settings(input)?;
    }
    if let Some(path) = &arguments.report {
        let taken = jobs.iter().flat_map(|(input, output)| {
            [("an input", input.clone()), ("an output", output.clone()), ("a plan", plan_path(output))]
        });
        place::refuse_taken(path, taken)?;
        place::check(path, Own::Page, Some(arguments.force))?;
    }
    // A file that crashes what reads it must not take the others with it.
    let worker = (jobs.len() > 1).then(|| Worker::new(means));
    let mut doer = Doer { arguments, engine: &engine, worker };
    if arguments.dry_run {
        return dry_run(arguments, &mut doer, &jobs);
    }
    let when = crate::report::today();
    let (done, failed) = each(&jobs, |input, output| {
        refuse_writer(input, output)?;
        let one = One::new(arguments, input, output, &when);
        let done: Repacked = doer.does(one, Task::Repack, One::repack)?;
        let repacked = Repacked { input: input.to_owned(), output: output.to_owned(), ..done };
        tell(repacked.names_lost.iter().cloned());
        if !arguments.json {
            print(&repacked, &engine.codecs, !arguments.no_verify);
        }
        Ok(repacked)
    });
    tell(notes::limits_missed(done.iter().map(|done| &done.plan)));
    // Now that all outputs are there: some may name others.
    tell(done.iter().filter_map(notes::files_lost));
    tell(done.iter().filter_map(notes::references_lost));
    let yearly = request.site().map(|site| site.yearly(saved(&done)));
    if arguments.json {
        let files: Vec<_> = done.iter().map(crate::report::json).collect();
        let verified = !arguments.no_verify;
        println!(
            "{}",
            serde_json::json!({ "verified": verified, "files": files, "failed": failed, "saved_per_year": yearly })
        );
    } else if let Some(yearly) = yearly {
        println!("At this site that saves {:.3} kWh and {:.3} € in a year of storage.", yearly.kwh, yearly.eur);
    }
    if let Some(path) = &arguments.report {
        crate::report::write(path, &done, &failed, !arguments.no_verify)?;
    }
    Ok(code_of(&failed, jobs.len()))
}

/// One input and its output, with all that was asked for: what another process needs, too.
#[derive(Serialize, Deserialize)]
pub(crate) struct One {
    #[serde(with = "crate::worker::paths")]
    input: PathBuf,
    #[serde(with = "crate::worker::paths")]
    output: PathBuf,
    inputs: Inputs,
    variable: Vec<String>,
    wishes: Wishes,
    force: bool,
    verify: bool,
    command: String,
    when: String,
}

impl One {
    fn new(arguments: &Repack, input: &Path, output: &Path, when: &str) -> Self {
        Self {
            input: input.to_owned(),
            output: output.to_owned(),
            inputs: arguments.inputs.clone(),
            variable: arguments.variable.clone(),
            wishes: arguments.wishes.clone(),
            force: arguments.force,
            verify: !arguments.no_verify,
            command: crate::report::command_line(),
            when: when.to_owned(),
        }
    }

    fn settings(&self) -> Result<Settings> {
        let settings = Request::new(&self.wishes)?.settings(&self.input)?;
        Ok(Settings { verify: self.verify, ..settings })
    }

    /// The variables that were asked for, or all.
    fn open(&self, engine: &Engine) -> Result<Box<dyn Source>> {
        let source = Opener::new(engine, &self.inputs)?.open(&self.input)?;
        if self.variable.is_empty() {
            return Ok(source);
        }
        // Variables of one file have one number of records where all of them are seen.
        knarr_formats::select(knarr_formats::whole_records(source), &self.variable)
            .map_err(|error| error.at(self.input.display().to_string()))
    }

    pub(crate) fn repack(&self, engine: &Engine, progress: &dyn Progress) -> Result<Repacked> {
        let options = RepackOptions {
            force: self.force,
            command: self.command.clone(),
            when: self.when.clone(),
            save_plan: true,
        };
        repack_source(engine, self.open(engine)?, &self.output, &self.settings()?, &options, progress)
    }

    pub(crate) fn plan(&self, engine: &Engine, progress: &dyn Progress) -> Result<Plan> {
        let source = self.open(engine)?;
        tell(notes::names_lost(source.as_ref(), &self.output));
        plan_source(engine, source, &self.output, &self.settings()?, progress)
    }
}

/// Does one input after the other, here or in another process.
struct Doer<'a> {
    arguments: &'a Repack,
    engine: &'a Engine,
    worker: Option<Worker>,
}

impl Doer<'_> {
    fn does<A: DeserializeOwned>(
        &mut self,
        one: One,
        task: fn(One) -> Task,
        here: fn(&One, &Engine, &dyn Progress) -> Result<A>,
    ) -> Result<A> {
        let (input, output) = (one.input.display().to_string(), one.output.clone());
        let progress = Bar::new(&input);
        let Some(worker) = &mut self.worker else { return here(&one, self.engine, &progress) };
        let order = Order { task: task(one), jobs: self.engine.jobs, background: false };
        worker.ask(&order, &self.engine.cancel, &progress).map_err(|failure| {
            if !self.arguments.dry_run {
                remove_abandoned(output.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")));
            }
            Error::from(failure).at_once(&input)
        })
    }
}

/// An input that was not repacked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failed {
    /// As named.
    pub(crate) input: PathBuf,
    /// As named.
    pub(crate) output: PathBuf,
    /// What was told.
    pub(crate) error: String,
    /// What the command returns if this is the first.
    pub(crate) exit_code: u8,
}

/// Does `one` for each job and tells its error at once. Others go on, except after an interrupt.
fn each<T>(jobs: &[(PathBuf, PathBuf)], mut one: impl FnMut(&Path, &Path) -> Result<T>) -> (Vec<T>, Vec<Failed>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (input, output) in jobs {
        match one(input, output) {
            Ok(result) => done.push(result),
            Err(error) => {
                let exit_code = crate::tell(&error);
                let (input, output) = (input.clone(), output.clone());
                failed.push(Failed { input, output, error: error.to_string(), exit_code });
                if error.kind() == ErrorKind::Interrupted {
                    break;
                }
            }
        }
    }
    (done, failed)
}

/// The exit code of the first failure; several inputs are counted.
fn code_of(failed: &[Failed], inputs: usize) -> u8 {
    if inputs > 1 && !failed.is_empty() {
        errln!("knarr: {} of {inputs} inputs failed", failed.len());
    }
    failed.first().map_or(0, |first| first.exit_code)
}

/// Each input with its output. A directory, or a name that ends in a slash, takes outputs of the same names. A store is
/// an output itself, whatever its name ends in: shells add the slash.
fn pairs(inputs: &[PathBuf], output: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let named = OutputFormat::of(output).ok();
    let is_store = named == Some(OutputFormat::Zarr) || knarr_formats::zarr::sniff(output);
    let has_slash = output.to_string_lossy().ends_with('/');
    let into_directory = !is_store && (has_slash || (output.is_dir() && named.is_none()));
    // Without the slash: the name of what replaces it may have none.
    let output: &Path = &if is_store { output.components().collect() } else { output.to_owned() };
    if !into_directory {
        if let [input] = inputs {
            if is_store && named.is_none() {
                return Err(Error::usage("is a Zarr store, not a directory for outputs")
                    .mend("name another directory, or the output itself: a name that ends in .zarr")
                    .at(output.display().to_string()));
            }
            OutputFormat::of(output)?;
            return Ok(vec![(input.clone(), output.to_owned())]);
        }
        return Err(Error::usage(format!("{} inputs, one output '{}'", inputs.len(), output.display()))
            .mend("give a directory that exists as --output"));
    }
    if !output.is_dir() {
        return Err(Error::new(ErrorKind::Write, "no such directory")
            .mend("create it first")
            .at(output.display().to_string()));
    }
    let mut pairs: Vec<(PathBuf, PathBuf)> = Vec::new();
    for input in inputs {
        let name = input.file_name().ok_or_else(|| Error::usage(format!("'{}' has no name", input.display())))?;
        let mut target = output.join(name);
        // Inputs that hold nothing but values are to become files that describe them.
        if OutputFormat::of(&target).map_or(true, OutputFormat::is_plain) {
            target = output.join(format!("{}.nc", name.to_string_lossy()));
        }
        if let Some((other, _)) = pairs.iter().find(|(_, taken)| *taken == target) {
            return Err(Error::usage(format!("'{}' and '{}' have the same name", other.display(), input.display()))
                .mend("repack them into different directories"));
        }
        pairs.push((input.clone(), target));
    }
    Ok(pairs)
}

/// Refuses to put an output in the place of an input that a program is still writing: what it writes from then on would
/// go to a file without a name.
fn refuse_writer(input: &Path, output: &Path) -> Result<()> {
    let (Ok(input), Ok(replaced)) = (input.metadata(), output.metadata()) else { return Ok(()) };
    let (input, replaced) = (Identity::of(&input), Identity::of(&replaced));
    if input != replaced {
        return Ok(());
    }
    writer_of_any(&HashSet::from([replaced])).map_or(Ok(()), |process| {
        Err(Error::new(ErrorKind::Write, format!("process {process} has it open for writing"))
            .mend("wait for its end, or write to another name")
            .at(output.display().to_string()))
    })
}

/// Tells what users must hear.
pub(crate) fn tell(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        errln!("knarr: {note}");
    }
}

/// Formats that describe themselves hold what the input holds.
fn refuse_selection(arguments: &Repack, jobs: &[(PathBuf, PathBuf)]) -> Result<()> {
    let whole = jobs.iter().find(|(_, output)| !OutputFormat::of(output).is_ok_and(OutputFormat::is_plain));
    match whole.filter(|_| !arguments.variable.is_empty()) {
        Some((_, output)) => Err(Error::usage("--variable is for outputs that hold nothing but values")
            .mend("write .csv, .tsv or .bin, or leave it out: all variables are written")
            .at(output.display().to_string())),
        None => Ok(()),
    }
}

fn dry_run(arguments: &Repack, doer: &mut Doer<'_>, jobs: &[(PathBuf, PathBuf)]) -> Result<u8> {
    let when = crate::report::today();
    let (plans, failed) = each(jobs, |input, output| {
        let plan = doer.does(One::new(arguments, input, output, &when), Task::Plan, One::plan)?;
        if !arguments.json {
            crate::advise::print(&plan);
        }
        Ok(plan)
    });
    tell(notes::limits_missed(&plans));
    if arguments.json {
        println!("{}", serde_json::json!({ "dry_run": true, "plans": plans, "failed": failed }));
    } else {
        println!("dry run: nothing was written");
    }
    Ok(code_of(&failed, jobs.len()))
}

pub(crate) fn print(done: &Repacked, codecs: &CodecList, verified: bool) {
    let header = [
        ("variable", Align::Left),
        ("chain", Align::Left),
        ("values", Align::Right),
        ("written", Align::Right),
        ("ratio", Align::Right),
        ("MB/s", Align::Right),
        ("max error", Align::Right),
        ("why", Align::Left),
    ];
    let rows: Vec<Vec<String>> = done
        .plan
        .variables
        .iter()
        .enumerate()
        .map(|(index, variable)| {
            let name = variable.path.trim_start_matches('/').to_owned();
            let dash = || "-".to_owned();
            match &variable.action {
                Action::Copy(why) => {
                    vec![
                        name,
                        "as it is".to_owned(),
                        table::bytes(variable.raw_bytes),
                        dash(),
                        dash(),
                        dash(),
                        "0".to_owned(),
                        why.clone(),
                    ]
                }
                Action::Encode(choice) => {
                    let report = done.execution.variables.get(&index).copied().unwrap_or_default();
                    vec![
                        name,
                        choice.chain.to_string(),
                        table::bytes(report.raw_bytes),
                        table::bytes(report.encoded_bytes),
                        table::ratio(report.raw_bytes, report.encoded_bytes),
                        speed(report.raw_bytes, report.encode_seconds),
                        report
                            .observed
                            .filter(|seen| seen.max_abs > 0.0)
                            .map_or("0".to_owned(), |seen| format!("{:.2e}", seen.max_abs)),
                        notes(choice, &report),
                    ]
                }
            }
        })
        .collect();
    print!("{}", table::render(&header, &rows));
    println!(
        "{} -> {}: {} -> {} ({}x) in {:.2} s, of which choosing {:.2} s; {}",
        done.input.display(),
        done.output.display(),
        table::bytes(done.input_bytes),
        table::bytes(done.output_bytes),
        table::ratio(done.input_bytes, done.output_bytes),
        done.seconds,
        done.choosing_seconds,
        if done.is_plain() {
            "values as they are"
        } else if verified {
            "every chunk was decoded and compared before it was written"
        } else {
            "chunks were not verified (--no-verify)"
        }
    );
    println!("Energy: {}", energy(&done.energy));
    println!("A reader needs: {}", crate::report::reader_needed(done, codecs));
    if let Some(links) = notes::links_left_out(done) {
        println!("{links}");
    }
    println!();
}

/// Bytes that outputs are smaller than inputs; below zero if they grew.
#[expect(clippy::cast_precision_loss, reason = "bytes of files")]
fn saved(done: &[Repacked]) -> f64 {
    done.iter().map(|done| done.input_bytes as f64 - done.output_bytes as f64).sum()
}

/// `12.3 J (model), 29 J/GB: read 2.1, decode 0.5, …`, phases that took nothing left out.
fn energy(energy: &Energy) -> String {
    let phases: Vec<String> = energy
        .phases
        .each()
        .into_iter()
        .filter(|(_, joules)| *joules > 0.0)
        .map(|(name, joules)| format!("{name} {joules:.2}"))
        .collect();
    format!("{:.2} J ({}), {:.1} J/GB: {}", energy.joules, energy.source, energy.joules_per_gb, phases.join(", "))
}

fn speed(bytes: u64, seconds: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let speed = bytes as f64 / 1e6 / seconds;
    if seconds > 0.0 { format!("{speed:.0}") } else { "-".to_owned() }
}

fn notes(choice: &Choice, report: &knarr_core::pipeline::VariableReport) -> String {
    let mut text = choice.reason.clone();
    if report.fallback_chunks > 0 {
        text.push_str(&format!(
            "; {} of {} chunks kept lossless to hold the bound",
            report.fallback_chunks, report.chunks
        ));
    }
    if report.stored_chunks > 0 && !choice.chain.is_raw() {
        text.push_str(&format!(
            "; {} of {} chunks stored: encoding did not make them smaller",
            report.stored_chunks, report.chunks
        ));
    }
    if report.refuted_chunks > 0 {
        text.push_str(&format!(
            "; DEFECT: {} chunks did not decode to the same bits and were stored: please report",
            report.refuted_chunks
        ));
    }
    text
}
