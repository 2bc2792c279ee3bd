//! `knarr advise`: the chain recommended for each variable, and why.

use std::path::PathBuf;

use knarr_array::error::Result;
use knarr_choose::plan::{Action, Plan};
use knarr_flow::settings::Settings;
use knarr_formats::output::{self, OutputKind};
use knarr_routes::compress::Forecast;
use knarr_routes::compress::notes;

use crate::arguments::args::Advise;
use crate::arguments::inputs::{Opener, refuse_raw};
use crate::arguments::request::Request;
use crate::batch::{code_of, each_alone, there};
use crate::printing::progress::Bar;
use crate::printing::terminal::{copied, folded, print_notes, print_table};
use crate::printing::totals::Totals;
use crate::table::Align;

pub(crate) fn run(arguments: &Advise) -> Result<u8> {
    let request = Request::new(&arguments.compression)?;
    let engine = crate::session::engine(&arguments.resources, &request.machine())?;
    let kind = output::of_suffix(&arguments.to).map_err(|error| error.at("--to"))?;
    let (inputs, mut missing) = there(crate::arguments::inputs::find(&arguments.files)?)?;
    refuse_raw(&arguments.inputs, &inputs)?;
    let opener = Opener::new(&engine, &arguments.inputs)?;
    let present: Vec<_> = inputs.iter().map(PathBuf::as_path).filter(|path| !missing.contains_key(*path)).collect();
    let names_of_many = present.len() > 1;
    if names_of_many {
        request.check_names(&present, |path, settings| Ok(settings.lacking(opener.open(path)?.model())))?;
    }
    let mut totals = Totals::default();
    let (plans, failed) = each_alone(&inputs, |path| {
        if let Some(error) = missing.remove(path) {
            return Err(error);
        }
        let settings = Settings { names_of_many, ..request.settings(path)? };
        let source = opener.open(path)?;
        let target = kind.limits(settings.portable)?;
        let progress = Bar::new(path.display().to_string());
        let plan = knarr_flow::pipeline::advise(&engine, source.as_ref(), &settings, target, &progress)
            .map_err(|error| request.blame(error.at_once(&path.display().to_string()), path))?;
        drop(progress);
        let Forecast { plan, input_bytes, output_bytes, .. } = Forecast::of(plan, source.as_ref(), kind, &settings);
        totals.add(input_bytes, output_bytes);
        if !arguments.json {
            print(&plan, Some(kind));
        }
        Ok(plan)
    });
    totals.failed = failed.len();
    print_notes(notes::limits_missed(&plans));
    if arguments.json {
        println!("{}", crate::report::document(serde_json::json!({ "plans": plans }), &failed, totals));
    } else if inputs.len() > 1 {
        println!("{}", totals.line(true));
    }
    Ok(code_of(&failed, inputs.len()))
}

/// One table a file: what would be done and what it would give, for an output of this kind if that is known.
pub(crate) fn print(plan: &Plan, kind: Option<&dyn OutputKind>) {
    println!(
        "{}: goal {}, readers: {}, speeds per core from the {} profile, energy from a {}",
        plan.input,
        plan.goal,
        kind.map_or_else(|| plan.portable.in_words(), |kind| kind.opened_by(plan.portable)),
        plan.profile,
        plan.energy_source
    );
    let header = [
        ("variable", Align::Left),
        ("chain", Align::Left),
        ("ratio", Align::Right),
        ("encode", Align::Right),
        ("decode", Align::Right),
        ("J/GB", Align::Right),
        ("runner-up", Align::Left),
        ("why", Align::Left),
    ];
    let rows: Vec<Vec<String>> = plan
        .variables
        .iter()
        .filter_map(|variable| {
            let Action::Encode(choice) = &variable.action else { return None };
            Some(vec![
                variable.path.trim_start_matches('/').to_owned(),
                choice.chain.to_string(),
                format!("{:.2}", choice.expected.ratio),
                format!("{:.0} MB/s", choice.expected.encode),
                format!("{:.0} MB/s", choice.expected.decode),
                format!("{:.0}", choice.expected.energy),
                choice.candidates.get(1).map_or("-".to_owned(), |candidate| candidate.chain.to_string()),
                choice.reason.clone(),
            ])
        })
        .collect();
    if !rows.is_empty() {
        print_table(&header, &rows);
    }
    if let Some(copied) = folded(copied(plan)) {
        println!("{copied}");
    }
    if let Some(gains) = kind.and_then(|kind| notes::in_words(&notes::gains(plan, kind))) {
        println!("Other readers: {gains}");
    }
    println!();
}
