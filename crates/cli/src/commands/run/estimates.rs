//! What compressing files would give that a run has only looked at, for people and for programs.

use knarr_choose::plan::Action;
use knarr_routes::compress::{Forecast, expected_bytes};
use knarr_run::launch::{Done, Outcome};

use crate::printing::terminal::{copied, folded};
use crate::printing::totals::Totals;
use crate::table::{self, Align};

/// The estimates among these files.
pub(super) fn estimates(files: &[Done]) -> impl Iterator<Item = &Forecast> {
    files.iter().filter_map(|done| match &done.outcome {
        Outcome::Told(told) => told.forecast.as_ref(),
        _ => None,
    })
}

/// Variables of the same path and chain, in all files.
struct Variable<'f> {
    name: &'f str,
    chain: String,
    files: usize,
    raw_bytes: u64,
    expected_bytes: u64,
    reason: &'f str,
}

/// The chain of each variable, and the sum of all files; nothing if none was estimated.
pub(super) fn page(files: &[Done]) -> Option<String> {
    let mut totals = Totals::default();
    let (mut variables, mut seconds): (Vec<Variable<'_>>, f64) = (Vec::new(), 0.0);
    for forecast in estimates(files) {
        totals.add(forecast.input_bytes, forecast.file_bytes());
        seconds += forecast.seconds;
        for planned in &forecast.plan.variables {
            let (Action::Encode(choice), Some(bytes)) = (&planned.action, expected_bytes(planned)) else { continue };
            let (name, chain) = (planned.path.trim_start_matches('/'), choice.chain.to_string());
            match variables.iter_mut().find(|known| known.name == name && known.chain == chain) {
                Some(known) => {
                    known.files += 1;
                    known.raw_bytes += planned.raw_bytes;
                    known.expected_bytes += bytes;
                }
                None => variables.push(Variable {
                    name,
                    chain,
                    files: 1,
                    raw_bytes: planned.raw_bytes,
                    expected_bytes: bytes,
                    reason: &choice.reason,
                }),
            }
        }
    }
    if totals.files == 0 {
        return None;
    }
    let header = [
        ("variable", Align::Left),
        ("chain", Align::Left),
        ("files", Align::Right),
        ("values", Align::Right),
        ("about", Align::Right),
        ("ratio", Align::Right),
        ("why", Align::Left),
    ];
    let row = |variable: &Variable<'_>| {
        vec![
            variable.name.to_owned(),
            variable.chain.clone(),
            variable.files.to_string(),
            table::bytes(variable.raw_bytes),
            table::bytes(variable.expected_bytes),
            table::ratio(variable.raw_bytes, variable.expected_bytes),
            variable.reason.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = variables.iter().map(row).collect();
    let mut text = if rows.is_empty() { String::new() } else { table::render(&header, &rows) };
    if let (1, Some(copied)) = (totals.files, estimates(files).find_map(|forecast| folded(copied(&forecast.plan)))) {
        text.push_str(&format!("{copied}\n"));
    }
    text.push_str(&format!(
        "estimate of {}, in about {seconds:.2} s of one core; nothing was written: route \"compress\" does it\n",
        totals.line(true)
    ));
    Some(text)
}

/// The sum of all estimates, for the document of a run; nothing if there are none.
pub(super) fn totals(files: &[Done]) -> Option<serde_json::Value> {
    let all: Vec<&Forecast> = estimates(files).collect();
    let sum = |of: fn(&Forecast) -> u64| all.iter().map(|forecast| of(forecast)).sum::<u64>();
    (!all.is_empty()).then(|| {
        serde_json::json!({
            "files": all.len(), "input_bytes": sum(|forecast| forecast.input_bytes), "expected_bytes": sum(Forecast::file_bytes),
            "expected_seconds": all.iter().map(|forecast| forecast.seconds).sum::<f64>(),
        })
    })
}
