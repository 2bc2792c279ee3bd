//! `knarr tiers`: what waits in the tiers of the runs that go on on this node.

use knarr_array::error::Result;
use knarr_run::launch::{HeldTier, RunningTiers, running_tiers};

use crate::arguments::args;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &args::Tiers) -> Result<u8> {
    let runs = running_tiers();
    if arguments.json {
        println!("{}", serde_json::json!({ "runs": runs.iter().map(json).collect::<Vec<_>>() }));
    } else if runs.is_empty() {
        println!("No 'knarr run' of yours on this node has tiers.");
    } else {
        print!("{}", runs.iter().map(text).collect::<Vec<_>>().join("\n"));
    }
    Ok(0)
}

fn text(run: &RunningTiers) -> String {
    let header = [
        ("tier", Align::Left),
        ("holds", Align::Right),
        ("copies", Align::Right),
        ("of", Align::Right),
        ("MB/s", Align::Right),
        ("emulated MB/s", Align::Right),
    ];
    let none = || "-".to_owned();
    let rate = |rate: Option<f64>| rate.map_or_else(none, |rate| format!("{:.0}", rate / 1e6));
    let last = run.tiers.len().saturating_sub(1);
    let row = |(number, tier): (usize, &HeldTier)| {
        vec![
            tier.name.clone(),
            if number == last { none() } else { table::bytes(tier.bytes) },
            if tier.copies == 0 { none() } else { table::bytes(tier.copies) },
            tier.capacity.map_or_else(none, table::bytes),
            rate(tier.bytes_per_second),
            rate(tier.emulated),
        ]
    };
    let rows: Vec<Vec<String>> = run.tiers.iter().enumerate().map(row).collect();
    let command = run.command.join(" ");
    let short: String = command.chars().take(60).collect();
    let short = if short.len() < command.len() { format!("{short}…") } else { short };
    let (encode, moving) = (run.to_encode, run.to_move);
    let last = run.tiers.last().map(|tier| tier.name.as_str()).unwrap_or_default();
    let took = run.seconds_to_move().filter(|_| moving.0 > 0);
    let took = took.map_or_else(String::new, |seconds| format!(", in about {seconds:.0} s"));
    format!(
        "Run {}: {short}\n{}{} ({}) to be encoded, {} ({}) to be moved to '{last}'{took}.\n",
        run.pid,
        table::render(&header, &rows),
        table::count(encode.0, "file"),
        table::bytes(encode.1),
        table::count(moving.0, "file"),
        table::bytes(moving.1),
    )
}

fn json(run: &RunningTiers) -> serde_json::Value {
    let tier = |tier: &HeldTier| {
        serde_json::json!({
            "name": tier.name, "bytes": tier.bytes, "copies_bytes": tier.copies, "capacity_bytes": tier.capacity,
            "bytes_per_second": tier.bytes_per_second, "emulated_bytes_per_second": tier.emulated,
        })
    };
    serde_json::json!({
        "pid": run.pid, "command": run.command, "tiers": run.tiers.iter().map(tier).collect::<Vec<_>>(),
        "to_encode": {"files": run.to_encode.0, "bytes": run.to_encode.1},
        "to_move": {"files": run.to_move.0, "bytes": run.to_move.1, "seconds": run.seconds_to_move()},
    })
}
