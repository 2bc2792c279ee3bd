//! `knarr run`: options for the launcher, and what came of the run in words.

mod estimates;
mod report_line;
mod summary;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::Result;
use knarr_choose::plan::Plan;
use knarr_config::Machine;
use knarr_routes::compress::notes;
use knarr_run::launch::{
    CANNOT_BEGIN, CopiesUsed, Done, Ended, Latencies, Launch, NameWaits, Options, Ran, SpoolUsage, packed, undelivered,
};
use knarr_worker::Worker;
use knarr_worker::means::Means;

use crate::arguments::args::Run;
use crate::place::{self, Own};
use crate::printing::terminal::print_notes;
use crate::stderr::Lines;
use summary::Summary;
use words::shown;

pub(crate) fn run(arguments: &Run) -> Result<u8> {
    if let Some(directory) = &arguments.recover {
        return recover(arguments, directory);
    }
    if let Some(launcher) = arguments.with {
        return Ok(match knarr_run::launch::join(launcher, &arguments.program) {
            Ok(Ok(code)) => code,
            Ok(Err(not_started)) => {
                errln!("knarr: {}", not_started.why);
                not_started.code
            }
            Err(error) => {
                errln!("knarr: {error}; the program was not started");
                CANNOT_BEGIN
            }
        });
    }
    let launch = match prepare(arguments) {
        Ok(launch) => launch,
        Err(error) => {
            errln!("knarr: {error}; the program was not started");
            return Ok(CANNOT_BEGIN);
        }
    };
    let ran = match launch.run()? {
        Ok(Ended::Ran(ran)) => ran,
        Ok(Ended::Served(code)) => return Ok(code),
        Err(not_started) => {
            errln!("knarr: {}", not_started.why);
            return Ok(not_started.code);
        }
    };
    match say(arguments, &ran) {
        // A failure of the program says more than a page that has no place.
        Err(error) if ran.code != 0 => errln!("knarr: {error}"),
        said => said?,
    }
    Ok(ran.code)
}

/// `--recover`: no program is started.
fn recover(arguments: &Run, directory: &Path) -> Result<u8> {
    let means = Means::new(&arguments.resources.asked(), &Machine::default())?;
    let words = (crate::report::command_line(), knarr_flow::provenance::today());
    let files = knarr_run::launch::recover(&means, directory, arguments.config.as_deref(), (&words.0, &words.1))?;
    let code = undelivered(&files);
    let (steps, sent) = (Vec::new(), BTreeMap::new());
    say(
        arguments,
        &Ran {
            code,
            calls_seen: true,
            files,
            steps,
            site: None,
            sent,
            usage: SpoolUsage::default(),
            forecasts: None,
            latencies: Latencies::default(),
            copies: CopiesUsed::default(),
            name_waits: NameWaits::default(),
            means,
            node: None,
        },
    )?;
    Ok(code)
}

fn prepare(arguments: &Run) -> Result<Launch> {
    for (path, own) in [(&arguments.report, Own::Page), (&arguments.json, Own::Outcome)] {
        let Some(path) = path else { continue };
        // The program may yet make its directory.
        let is_missing = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists());
        if is_missing { place::refuse_other(path, own, None)? } else { place::check(path, own, None)? }
    }
    let options = Options {
        config: arguments.config().to_owned(),
        resources: arguments.resources.asked(),
        program: arguments.program.clone(),
        component: arguments.component.clone(),
        restart: arguments.restart,
        force: arguments.force,
        filter: crate::commands::hdf5_filter::plugin(),
        command: crate::report::command_line(),
        when: knarr_flow::provenance::today(),
    };
    Launch::prepare(options, Arc::new(Lines { quiet: arguments.quiet }))
}

fn say(arguments: &Run, ran: &Ran) -> Result<()> {
    let summary = Summary { files: &ran.files, steps: &ran.steps };
    for line in summary.failures() {
        errln!("knarr: {line}");
    }
    if !arguments.quiet {
        let estimated = estimates::estimates(&ran.files).map(|forecast| &forecast.plan);
        let plans: Vec<&Plan> = packed(&ran.files).map(|done| &done.plan).chain(estimated).collect();
        print_notes(notes::limits_missed(plans.iter().copied()));
        print_notes(notes::settings_unmet(packed(&ran.files).map(|done| (done.output.as_path(), &done.plan))));
        print_notes(notes::names_lacking(plans));
        print_notes(packed(&ran.files).filter_map(notes::references_lost));
        print_notes(more_than_hdf5(&ran.files));
        if !summary.is_empty() {
            errln!("{}", summary.table().trim_end());
            let in_flight = summary.in_flight();
            if !in_flight.is_empty() {
                errln!("Lost on the way to other nodes, within bounds:\n{}", in_flight.trim_end());
            }
            let forecasts = ran.forecasts.as_ref().map(Summary::forecasts).unwrap_or_default();
            let (spool, tiers) = (Summary::spool(&ran.usage), Summary::tiers(&ran.usage));
            let (latencies, copies) = (Summary::latencies(&ran.latencies), Summary::copies(&ran.copies));
            let lines = [spool, tiers, latencies, copies, forecasts, Summary::name_waits(&ran.name_waits)];
            for line in lines.iter().filter(|line| !line.is_empty()) {
                errln!("{line}");
            }
            if let Some(page) = estimates::page(&ran.files) {
                errln!("\n{}", page.trim_end());
            }
        } else if let Some(directory) = &arguments.recover {
            errln!("knarr: nothing in {} was handed over and not delivered", directory.display());
            if !directory.ends_with(".knarr") {
                errln!("  what was moved to a disk lies in the .knarr beside knarr.toml");
            }
        } else if let Some(component) = arguments.component.as_ref().filter(|_| ran.calls_seen) {
            errln!(
                "knarr: component '{component}' has read no session to its end, and has written no file that a pattern \
                 of {} matches",
                arguments.config().display()
            );
        } else if ran.calls_seen {
            errln!("knarr: no file that the program wrote matches a pattern of {}", arguments.config().display());
        } else {
            errln!(
                "knarr: no file that a pattern of {} matches was seen: the program writes none with HDF5, netCDF or \
                 PnetCDF, or is linked statically, or changes its user; see docs/run.md",
                arguments.config().display()
            );
        }
    }
    if let Some(path) = &arguments.json {
        let text = format!("{}\n", summary.json(ran));
        knarr_flow::output::replace(&beside(path, ran.node.as_deref()), text.as_bytes())?;
    }
    if let Some(path) = &arguments.report {
        crate::report::write(
            &beside(path, ran.node.as_deref()),
            packed(&ran.files),
            &[],
            true,
            Some(&mut Worker::new(ran.means.clone())),
        )?;
    }
    Ok(())
}

/// What readers of netCDF and HDF5 files need that have other filters than those of HDF5 itself, and which files these are.
fn more_than_hdf5(files: &[Done]) -> Vec<String> {
    let mut needs: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for done in packed(files) {
        if let Some(packages) = crate::report::packages_needed(done) {
            needs.entry(packages).or_default().push(&done.output);
        }
    }
    let line = |(packages, outputs): (String, Vec<&Path>)| {
        let others = match outputs.len() - 1 {
            0 => String::new(),
            1 => " and of another file".to_owned(),
            others => format!(" and of {others} others"),
        };
        format!("a reader of {}{others} needs: {packages}", shown(outputs[0]))
    };
    needs.into_iter().map(line).collect()
}

/// The name of a page of which each node has its own: `result.json` is `result.n2.json` on node `n2`.
fn beside(path: &Path, node: Option<&str>) -> PathBuf {
    let Some(node) = node else { return path.to_owned() };
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(node.replace('/', "-"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
