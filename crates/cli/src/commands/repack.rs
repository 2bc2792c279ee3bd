//! `knarr repack`: the main job.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_choose::plan::{Action, Choice};
use knarr_codec::codec::CodecList;
use knarr_flow::energy::Energy;
use knarr_flow::engine::Engine;
use knarr_flow::output::remove_abandoned;
use knarr_flow::urls::{in_words, is_written, url_of, written_schemes};
use knarr_formats::output::{self, OutputKind};
use knarr_routes::compress::{Forecast, Repacked};
use knarr_routes::compress::{is_made_from, notes, plan_path};
use knarr_run::processes::{Identity, writer_of_any};
use knarr_worker::{Effort, Task, Worker};
use serde_json::json;

use crate::arguments::args::Repack;
use crate::arguments::inputs::{Opener, find, refuse_raw};
use crate::arguments::request::Request;
use crate::batch::{Failed, code_of, each, there};
use crate::commands::repack_tasks::{Lacking, One, Planning, Repacking};
use crate::place::{self, Own};
use crate::printing::progress::Bar;
use crate::printing::terminal::{copied, folded, print_notes, print_table};
use crate::printing::totals::Totals;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &Repack) -> Result<u8> {
    let request = Request::new(&arguments.compression)?.by_plan(arguments.plan.as_deref())?;
    let means = arguments.resources.means(&request.machine())?;
    let engine = crate::session::engine_of(&means)?;
    Opener::new(&engine, &arguments.inputs)?;
    let (inputs, mut missing) = there(find(&arguments.files)?)?;
    refuse_raw(&arguments.inputs, &inputs)?;
    let jobs = pairs(&inputs, &arguments.output)?;
    refuse_selection(arguments, &jobs)?;
    let is_there = |(input, output): &(PathBuf, PathBuf)| arguments.skip_existing && is_made_from(output, input);
    let (skipped, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().partition(is_there);
    if !arguments.json && arguments.quiet < 2 {
        for (input, output) in &skipped {
            println!("{} -> {}: there already", input.display(), output.display());
        }
    }
    // A mistake shows before any work is done.
    let present: Vec<&Path> = inputs.iter().map(PathBuf::as_path).filter(|path| !missing.contains_key(*path)).collect();
    for input in &present {
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
    let mut doer = Doer { arguments, engine: &engine, worker, is_many: present.len() > 1 };
    if doer.is_many {
        request.check_names(&present, |input, _| doer.does(doer.one(input, Path::new("")), Lacking))?;
    }
    if arguments.dry_run {
        return dry_run(arguments, &mut doer, &jobs, missing, skipped.len());
    }
    let (done, failed) = each(&jobs, |input, output| {
        missing.remove(input).map_or(Ok(()), Err)?;
        refuse_writer(input, output)?;
        let one = doer.one(input, output);
        let done: Repacked = doer.does(one, Repacking)?;
        let repacked = Repacked { input: input.to_owned(), output: output.to_owned(), ..done };
        print_notes(repacked.losses.names_lost.iter().cloned());
        print_notes(notes::options_without_effect(&repacked));
        print_notes(notes::larger(&repacked));
        match arguments.quiet {
            0 if !arguments.json => print(&repacked, &engine.codecs, !arguments.no_verify),
            1 if !arguments.json => println!("{}", line(&repacked)),
            _ => {}
        }
        Ok(repacked)
    });
    print_notes(notes::limits_missed(done.iter().map(|done| &done.plan)));
    // Now that all outputs are there: some may name others.
    print_notes(done.iter().filter_map(notes::files_lost));
    print_notes(done.iter().flat_map(notes::hidden_from_netcdf));
    print_notes(done.iter().filter_map(notes::references_lost));
    let yearly = request.site().map(|site| site.yearly(saved(&done)));
    let totals = Totals { skipped: skipped.len(), ..totals(&done, &failed) };
    if arguments.json {
        let files: Vec<_> = done.iter().map(crate::report::json).collect();
        let result = json!({
            "verified": !arguments.no_verify && failed.is_empty(), "files": files, "saved_per_year": yearly,
        });
        println!("{}", crate::report::document(result, &failed, totals));
    } else if arguments.quiet < 2 {
        if jobs.len() + totals.skipped > 1 {
            println!("{}", totals.line(false));
        }
        if let Some(yearly) = yearly {
            println!("At this site that is worth {} in a year of storage.", worth(yearly.kwh, yearly.eur));
        }
    }
    if let Some(path) = &arguments.report {
        crate::report::write(path, &done, &failed, !arguments.no_verify, doer.worker.as_mut())?;
    }
    Ok(code_of(&failed, jobs.len()))
}

/// Does one input after the other, here or in another process.
struct Doer<'a> {
    arguments: &'a Repack,
    engine: &'a Engine,
    worker: Option<Worker>,
    is_many: bool,
}

impl Doer<'_> {
    fn one(&self, input: &Path, output: &Path) -> One {
        One::new(self.arguments, input, output, self.is_many)
    }

    fn does<T: Task>(&mut self, one: One, task: fn(One) -> T) -> Result<T::Answer> {
        let (input, output) = (one.input.display().to_string(), one.output.clone());
        let progress = Bar::new(&input);
        let task = task(one);
        let replaces = self.arguments.force && !self.arguments.dry_run && url_of(&output).is_some();
        let told = |error| if replaces { at_url(error, &output) } else { error };
        let Some(worker) = &mut self.worker else { return task.run(self.engine, &progress).map_err(told) };
        let effort = Effort { jobs: self.engine.jobs, background: false, memory: None };
        worker.ask(&task, effort, &self.engine.cancel, &progress).map_err(|failure| {
            if !self.arguments.dry_run {
                remove_abandoned(output.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")));
            }
            told(Error::from(failure)).at_once(&input)
        })
    }
}

/// The error where a store at a URL is replaced: the old one goes before the new one comes.
fn at_url(error: Error, output: &Path) -> Error {
    if error.kind() != ErrorKind::Interrupted {
        return error;
    }
    let output = output.display();
    Error::new(ErrorKind::Interrupted, format!("interrupted; what was at {output} may be gone already"))
        .hint("repeat the command")
}

/// The sum of all files.
fn totals(done: &[Repacked], failed: &[Failed]) -> Totals {
    let mut totals = Totals { failed: failed.len(), ..Totals::default() };
    for done in done {
        totals.add(done.input_bytes, done.output_bytes);
        totals.copied += usize::from(done.copied.is_some());
    }
    totals
}

/// `0.012 kWh and 3.400 €`; what is less than half of the last digit is 0, with no sign.
fn worth(kwh: f64, eur: f64) -> String {
    let shown = |value: f64| format!("{:.3}", if value.abs() < 5e-4 { 0.0 } else { value });
    format!("{} kWh and {} €", shown(kwh), shown(eur))
}

/// Each input with its output. A directory, or a name that ends in a slash, takes outputs of the same names. A store is
/// an output itself, whatever its name ends in: shells add the slash.
fn pairs(inputs: &[PathBuf], output: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    if output == Path::new("-") || url_of(output).is_some_and(|url| !is_written(url)) {
        let places = in_words(written_schemes());
        return Err(Error::new(
            ErrorKind::Write,
            format!("only files and directories of this machine and {places} are written"),
        )
        .hint("write here and copy it, or mount the place")
        .at(output.display().to_string()));
    }
    if url_of(output).is_some() {
        let [input] = inputs else {
            return Err(Error::usage(format!("{} inputs, one output '{}'", inputs.len(), output.display()))
                .hint("repack them one at a time"));
        };
        return output::of(output).map(|_| vec![(input.clone(), output.to_owned())]);
    }
    let named = output::of(output).ok();
    let is_store = named.is_some_and(OutputKind::is_store) || knarr_formats::zarr::sniff(output);
    let has_slash = output.to_string_lossy().ends_with('/');
    let into_directory = !is_store && (has_slash || (output.is_dir() && named.is_none()));
    // Without the slash: the name of what replaces it may have none.
    let output: &Path = &if is_store { output.components().collect() } else { output.to_owned() };
    if !into_directory {
        if let [input] = inputs {
            if is_store && named.is_none() {
                return Err(Error::usage("is a Zarr store, not a directory for outputs")
                    .hint("name another directory, or the output itself: a name that ends in .zarr")
                    .at(output.display().to_string()));
            }
            output::of(output)?;
            return Ok(vec![(input.clone(), output.to_owned())]);
        }
        return Err(Error::usage(format!("{} inputs, one output '{}'", inputs.len(), output.display()))
            .hint("give a directory that exists as --output"));
    }
    if !output.is_dir() {
        return Err(Error::new(ErrorKind::Write, "no such directory")
            .hint("create it first")
            .at(output.display().to_string()));
    }
    let mut pairs: Vec<(PathBuf, PathBuf)> = Vec::new();
    for input in inputs {
        let name = input.file_name().ok_or_else(|| Error::usage(format!("'{}' has no name", input.display())))?;
        let mut target = output.join(name);
        // Inputs that hold nothing but values are to become files that describe them.
        if output::of(&target).map_or(true, OutputKind::is_plain) {
            target = output.join(format!("{}.nc", name.to_string_lossy()));
        }
        if let Some((other, _)) = pairs.iter().find(|(_, taken)| *taken == target) {
            return Err(Error::usage(format!("'{}' and '{}' have the same name", other.display(), input.display()))
                .hint("repack them into different directories"));
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
            .hint("wait for its end, or write to another name")
            .at(output.display().to_string()))
    })
}

/// Formats that describe themselves hold what the input holds.
fn refuse_selection(arguments: &Repack, jobs: &[(PathBuf, PathBuf)]) -> Result<()> {
    let whole = jobs.iter().find(|(_, output)| !output::of(output).is_ok_and(OutputKind::is_plain));
    match whole.filter(|_| !arguments.variable.is_empty()) {
        Some((_, output)) => Err(Error::usage("--variable is for outputs that hold nothing but values")
            .hint("write .csv, .tsv or .bin, or leave it out: all variables are written")
            .at(output.display().to_string())),
        None => Ok(()),
    }
}

fn dry_run(
    arguments: &Repack,
    doer: &mut Doer<'_>,
    jobs: &[(PathBuf, PathBuf)],
    mut missing: HashMap<PathBuf, Error>,
    skipped: usize,
) -> Result<u8> {
    let mut totals = Totals { skipped, ..Totals::default() };
    let (plans, failed) = each(jobs, |input, output| {
        missing.remove(input).map_or(Ok(()), Err)?;
        let Forecast { plan, input_bytes: before, output_bytes: expected, .. } =
            doer.does(doer.one(input, output), Planning)?;
        totals.add(before, expected);
        match arguments.quiet {
            0 if !arguments.json => crate::commands::advise::print(&plan, output::of(output).ok()),
            1 if !arguments.json => println!("{}: {}", input.display(), changed(before, expected)),
            _ => {}
        }
        Ok(plan)
    });
    totals.failed = failed.len();
    print_notes(notes::limits_missed(&plans));
    if arguments.json {
        println!("{}", crate::report::document(json!({ "dry_run": true, "plans": plans }), &failed, totals));
    } else if arguments.quiet < 2 {
        if jobs.len() + totals.skipped > 1 {
            println!("{}", totals.line(true));
        }
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
        .filter_map(|(index, variable)| {
            let name = variable.path.trim_start_matches('/').to_owned();
            let Action::Encode(choice) = &variable.action else { return None };
            let report = done.execution.variables.get(&index).copied().unwrap_or_default();
            Some(vec![
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
            ])
        })
        .collect();
    if !rows.is_empty() {
        print_table(&header, &rows);
    }
    if let Some(copied) = folded(copied(&done.plan)).filter(|_| done.copied.is_none()) {
        println!("{copied}");
    }
    println!(
        "{} in {:.2} s, of which choosing {:.2} s; {}",
        line(done),
        done.seconds,
        done.choosing_seconds,
        if done.copied.is_some() {
            "the bytes are those of the input"
        } else if done.is_plain() {
            "values as they are"
        } else if verified {
            "every chunk was decoded and compared before it was written"
        } else {
            "chunks were not verified (--no-verify)"
        }
    );
    println!("Energy: {}", energy(&done.energy));
    println!("A reader needs: {}", crate::report::reader_needed(done, codecs));
    if let Some(gains) = notes::gains_told(done) {
        println!("Other readers: {gains}");
    }
    if let Some(links) = notes::links_left_out(done) {
        println!("{links}");
    }
    if let Some(lost) = notes::not_kept(done) {
        println!("{lost}");
    }
    println!();
}

/// What became of a file, in one line.
fn line(done: &Repacked) -> String {
    let why = done.copied.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    let sizes = changed(done.input_bytes, done.output_bytes);
    format!("{} -> {}: {sizes}{why}", done.input.display(), done.output.display())
}

/// `20.0 kB -> 8.0 kB (2.50x)`.
fn changed(before: u64, after: u64) -> String {
    format!("{} -> {} ({}x)", table::bytes(before), table::bytes(after), table::ratio(before, after))
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

fn notes(choice: &Choice, report: &knarr_flow::pipeline::VariableReport) -> String {
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
