//! `knarr advise`: the chain recommended for each variable, and why.

use knarr_core::error::Result;
use knarr_core::plan::{Action, Plan};
use knarr_formats::notes;
use knarr_formats::repack::OutputFormat;

use crate::args::Advise;
use crate::inputs::Opener;
use crate::progress::Bar;
use crate::request::Request;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &Advise) -> Result<u8> {
    let request = Request::new(&arguments.wishes)?;
    let engine = crate::session::engine(&arguments.resources, &request.machine())?;
    let format = OutputFormat::of_suffix(&arguments.to).map_err(|error| error.at("--to"))?;
    let opener = Opener::new(&engine, &arguments.inputs)?;
    let mut plans = Vec::new();
    for path in crate::inputs::expand(&arguments.files)? {
        let settings = request.settings(&path)?;
        let source = opener.open(&path)?;
        let target = format.target(settings.portable)?;
        let progress = Bar::new(path.display().to_string());
        let plan = knarr_core::pipeline::advise(&engine, source.as_ref(), &settings, target, &progress)
            .map_err(|error| error.at_once(&path.display().to_string()))?;
        drop(progress);
        if !arguments.json {
            print(&plan);
        }
        plans.push(plan);
    }
    crate::repack::tell(notes::limits_missed(&plans));
    if arguments.json {
        println!("{}", serde_json::json!({ "plans": plans }));
    }
    Ok(0)
}

/// One table a file: what would be done and what it would give.
pub(crate) fn print(plan: &Plan) {
    println!(
        "{}: goal {}, readers: {}, speeds per core from the {} profile, energy from a {}",
        plan.input,
        plan.goal,
        plan.portable.in_words(),
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
        .map(|variable| {
            let name = variable.path.trim_start_matches('/').to_owned();
            match &variable.action {
                Action::Copy(why) => {
                    let dash = || "-".to_owned();
                    vec![name, "as it is".to_owned(), dash(), dash(), dash(), dash(), dash(), why.clone()]
                }
                Action::Encode(choice) => vec![
                    name,
                    choice.chain.to_string(),
                    format!("{:.2}", choice.expected.ratio),
                    format!("{:.0} MB/s", choice.expected.encode),
                    format!("{:.0} MB/s", choice.expected.decode),
                    format!("{:.0}", choice.expected.energy),
                    choice.candidates.get(1).map_or("-".to_owned(), |candidate| candidate.chain.to_string()),
                    choice.reason.clone(),
                ],
            }
        })
        .collect();
    print!("{}", table::render(&header, &rows));
    println!();
}
