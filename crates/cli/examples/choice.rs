//! How good choices are: for every variable of some files, every candidate is tried on up to 8 MiB of whole chunks,
//! and each goal's choice is compared with the best of all candidates for that goal. `bench/run.py choice` runs it.
//!
//! The first argument is what readers have: `core`, `standard` or `knarr`. Prints one JSON object a line: the ratios of
//! all candidates of a variable, and the choice of each goal. The ratios of an earlier output (an argument that ends in
//! `.jsonl`) are not measured again.

#![expect(clippy::unwrap_used, reason = "a benchmark on known files")]

use std::collections::HashMap;
use std::path::Path;

use knarr_array::goal::Goal;
use knarr_array::model::Variable;
use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use knarr_choose::choose::{candidates, trial};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::Action;
use knarr_choose::profile::SpeedFactors;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::pipeline::advise;
use knarr_flow::settings::{ChunkRule, Settings, chunk_shape};
use knarr_flow::store::Source;

/// Bytes of a variable that every candidate encodes.
const LOOKED_AT: u64 = 8 << 20;
const SMALLEST: u64 = 300_000;
const GOALS: [&str; 5] = ["speed", "balanced", "ratio", "archive", "energy"];

fn main() {
    let engine = Engine::new(knarr_native::codecs().unwrap());
    let mut arguments = std::env::args().skip(1);
    let target = FormatLimits::hdf5(arguments.next().unwrap().parse::<ReaderLevel>().unwrap());
    let (known, paths): (Vec<_>, Vec<_>) = arguments.partition(|path| path.ends_with(".jsonl"));
    let known: HashMap<String, Ratios> = known.iter().flat_map(|path| read(path)).collect();
    for path in paths {
        let source = knarr_formats::open(Path::new(&path), &engine.codecs).unwrap();
        let plans = GOALS.map(|goal| {
            let settings = Settings { goal: goal.parse().unwrap(), ..Settings::default() };
            advise(&engine, source.as_ref(), &settings, target, &Silent).unwrap()
        });
        for (index, variable) in source.model().variables.iter().enumerate() {
            if variable.raw_bytes() < SMALLEST {
                continue;
            }
            let samples = chunks(source.as_ref(), index, variable);
            let Some((spec, _)) = samples.first() else { continue };
            let ratios: Vec<_> = candidates(&engine.codecs, spec, target, None)
                .into_iter()
                .map(|chain| {
                    let measured = known.get(variable.name()).and_then(|ratios| ratios.get(&chain.to_string()));
                    let ratio = measured.and_then(serde_json::Value::as_f64).unwrap_or_else(|| {
                        let tried = trial(&engine.codecs, &chain, &samples, None);
                        if tried.failed.is_none() { tried.ratio } else { 0.0 }
                    });
                    (chain, ratio)
                })
                .collect();
            for (goal, plan) in GOALS.iter().zip(&plans) {
                let Action::Encode(choice) = &plan.variables[index].action else { continue };
                let parsed: Goal = goal.parse().unwrap();
                let score = |chain: &ChainSpec, ratio| {
                    let known = choice.candidates.iter().find(|known| known.chain == *chain);
                    let pace = known.map_or_else(SpeedFactors::default, |known| known.pace);
                    parsed.score(&engine.profile.paced_merits(&engine.codecs, chain, ratio, pace))
                };
                let best = ratios
                    .iter()
                    .filter(|(_, ratio)| *ratio > 0.0)
                    .map(|(chain, ratio)| (chain.to_string(), score(chain, *ratio), *ratio))
                    .max_by(|a, b| a.1.total_cmp(&b.1))
                    .unwrap();
                let mine = ratios.iter().find(|(chain, _)| *chain == choice.chain);
                let mine = mine.map_or(1.0, |(_, ratio)| *ratio);
                let row = serde_json::json!({
                    "variable": variable.name(), "raw_bytes": variable.raw_bytes(), "goal": goal,
                    "chosen": choice.chain.to_string(), "ratio": mine, "loss": best.1 - score(&choice.chain, mine),
                    "best": best.0, "best_ratio": best.2, "candidates": ratios.len(),
                });
                println!("{row}");
            }
            let all: Ratios =
                ratios.iter().map(|(chain, ratio)| (chain.to_string(), serde_json::json!(ratio))).collect();
            println!("{}", serde_json::json!({"variable": variable.name(), "ratios": all}));
        }
    }
}

/// Ratios by chain.
type Ratios = serde_json::Map<String, serde_json::Value>;

/// Ratios of an earlier output, by variable.
fn read(path: &str) -> Vec<(String, Ratios)> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    rows.filter_map(|row| Some((row["variable"].as_str()?.to_owned(), row.get("ratios")?.as_object()?.clone())))
        .collect()
}

/// Whole chunks, spread over the variable, of at most [`LOOKED_AT`] bytes.
fn chunks(source: &dyn Source, index: usize, variable: &Variable) -> Vec<(knarr_array::array::ArraySpec, Vec<u8>)> {
    let chunk = chunk_shape(&ChunkRule::Auto, variable).unwrap();
    let count = chunk_count(&variable.shape, &chunk);
    let size: u64 = chunk.iter().product::<u64>() * variable.dtype.size() as u64;
    let wanted = (LOOKED_AT / size.max(1)).clamp(1, count.max(1));
    (0..wanted.min(count))
        .map(|n| {
            let position = chunk_position(&variable.shape, &chunk, n * count / wanted);
            let region = chunk_region(&variable.shape, &chunk, &position);
            let mut bytes = Vec::new();
            source.read_region(index, &region, &mut bytes).unwrap();
            (variable.chunk_spec(&region.count), bytes)
        })
        .collect()
}
