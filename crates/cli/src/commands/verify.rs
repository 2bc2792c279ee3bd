//! `knarr verify`: equal bits, or the largest error against the promised bound.

use knarr_array::error::Result;
use knarr_config::Machine;
use knarr_flow::content::{self, Difference, MetadataDifference, VariableComparison};

use crate::arguments::args::Verify;
use crate::arguments::inputs::{Opener, refuse_raw};
use crate::printing::progress::Bar;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &Verify) -> Result<u8> {
    let engine = crate::session::engine(&arguments.resources, &Machine::default())?;
    refuse_raw(&arguments.inputs, [&arguments.original, &arguments.copy])?;
    let opener = Opener::new(&engine, &arguments.inputs)?;
    let open = |path| opener.open(path).map(knarr_formats::whole_records);
    let (original, copy) = (open(&arguments.original)?, open(&arguments.copy)?);
    let progress = Bar::new(arguments.copy.display().to_string());
    let found = content::verify(&engine, original.as_ref(), copy.as_ref(), arguments.values_only, &progress)?;
    drop(progress);
    if arguments.json {
        println!("{}", serde_json::json!(found));
    } else {
        print(&found.variables, &found.metadata);
    }
    Ok(u8::from(!found.equal))
}

fn print(found: &[VariableComparison], metadata: &[MetadataDifference]) {
    let header = [
        ("variable", Align::Left),
        ("result", Align::Left),
        ("max abs error", Align::Right),
        ("max rel error", Align::Right),
        ("promised", Align::Left),
    ];
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|variable| {
            let error = |value: fn(&knarr_array::quality::Observed) -> f64| {
                variable.observed.as_ref().map_or("-".to_owned(), |seen| {
                    if value(seen) == 0.0 { "0".to_owned() } else { format!("{:.3e}", value(seen)) }
                })
            };
            let result = match &variable.difference {
                Difference::Equal => "equal".to_owned(),
                Difference::WithinBound => "within bound".to_owned(),
                Difference::Differs(why) => format!("DIFFERS: {why}"),
                Difference::Unlike(why) => format!("UNLIKE: {why}"),
                Difference::NotCompared(why) => format!("not compared: {why}"),
            };
            vec![
                variable.path.trim_start_matches('/').to_owned(),
                result,
                error(|seen| seen.max_abs),
                error(|seen| seen.max_rel),
                variable.promised.to_string(),
            ]
        })
        .collect();
    print!("{}", table::render(&header, &rows));
    let failing = found.iter().filter(|variable| !variable.passes()).count();
    let skipped = found.iter().filter(|variable| matches!(variable.difference, Difference::NotCompared(_))).count();
    for difference in metadata {
        println!("{}: {}", difference.place, difference.what);
    }
    if failing > 0 {
        println!("{failing} of {} differ", table::count(found.len(), "variable"));
    } else {
        println!("{}: equal, or within the promised bound", table::count(found.len() - skipped, "variable"));
    }
    if skipped > 0 {
        println!("{skipped} not compared");
    }
    if !metadata.is_empty() {
        println!("{} apart from values", table::count(metadata.len(), "difference"));
    }
}
