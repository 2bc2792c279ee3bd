//! How good the predictor is on families of data that it did not see, and the model that comes with the program.
//! `bench/run.py model` runs it.
//!
//! `model RECORDS FAMILIES FILES...` records samples of the files into RECORDS (JSON, one a line) if that is not there;
//! FAMILIES is a JSON object from variables to families. Prints one JSON object a line:
//! quality and regrets of the rule of thumb and of models that did not see the family, and then the model trained on
//! everything.

#![expect(clippy::unwrap_used, reason = "a benchmark on known files")]

use std::collections::HashMap;
use std::path::Path;

use knarr_array::model::Variable;
use knarr_choose::predictor::{Predictor, Record, fit, hold_out, judge};
use knarr_flow::calibrate::regret;
use knarr_flow::calibrate::{Origin, record};
use knarr_flow::energy::thread_seconds;
use knarr_flow::engine::{Engine, Silent};

const GOALS: [&str; 5] = ["speed", "balanced", "ratio", "archive", "energy"];
/// Chunks of each variable that are looked at.
const SAMPLES: usize = 2;

fn main() {
    let engine = Engine::new(knarr_native::codecs().unwrap());
    let mut arguments = std::env::args().skip(1);
    let (records, families) = (arguments.next().unwrap(), arguments.next().unwrap());
    let files: Vec<String> = arguments.collect();
    if !Path::new(&records).exists() {
        measure(&engine, &families, &files, &records);
    }
    let records: Vec<Record> =
        std::fs::read_to_string(&records).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (profile, codecs) = (&engine.profile, &engine.codecs);
    let rule = Predictor::rule_of_thumb();
    let models = hold_out(&records, &rule, profile, codecs).unwrap();
    let judged = |name: &str, quality| println!("{}", serde_json::json!({"predictor": name, "quality": quality}));
    judged("rule of thumb", judge(&records, |_| &rule, profile, codecs));
    judged("model, family not seen", judge(&records, |family| &models[family], profile, codecs));
    for record in &records {
        for goal in GOALS {
            let lost = |predictor| regret(record, predictor, &goal.parse().unwrap(), profile, codecs);
            let (rule, model) = (lost(&rule), lost(&models[&record.family]));
            let row = serde_json::json!({
                "family": record.family, "variable": record.variable, "goal": goal,
                "rule_predicted": rule.predicted, "rule_tried": rule.tried,
                "model_predicted": model.predicted, "model_tried": model.tried,
            });
            println!("{row}");
        }
    }
    let model = fit(&records, &rule, "built-in", profile, codecs).unwrap();
    println!("{}", serde_json::json!({ "model": model }));
}

fn measure(engine: &Engine, families: &str, files: &[String], path: &str) {
    let families: HashMap<String, String> = serde_json::from_str(&std::fs::read_to_string(families).unwrap()).unwrap();
    let family = |variable: &Variable| families[variable.name()].clone();
    let sources: Vec<_> =
        files.iter().map(|file| knarr_formats::open(Path::new(file), &engine.codecs).unwrap()).collect();
    let origins: Vec<_> = sources.iter().map(|source| Origin { source: source.as_ref(), family: &family }).collect();
    let records = record(engine, &origins, SAMPLES, f64::INFINITY, &thread_seconds, &Silent).unwrap();
    let lines: Vec<String> = records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
    std::fs::write(path, lines.concat()).unwrap();
}
