//! `knarr train`: learns from the user's files what their data makes of each chain.

use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_array::goal::{Goal, NAMED};
use knarr_array::model::Variable;
use knarr_choose::predictor::{Judged, Predictor, Quality, Record, fit, hold_out, judge};
use knarr_flow::calibrate::regret;
use knarr_flow::calibrate::{Origin, record};
use knarr_flow::engine::Engine;
use knarr_flow::store::Source;

use crate::arguments::args::Train;
use crate::arguments::resources::Resources;
use crate::output::write_json;
use crate::place::{self, Own};
use crate::printing::progress::Bar;
use crate::table::{self, Align};

/// Files that stay out together need others to learn from.
const LEAST_FILES: usize = 3;

pub(crate) fn run(arguments: &Train) -> Result<u8> {
    if !arguments.seconds.is_finite() || arguments.seconds <= 0.0 {
        return Err(
            Error::usage(format!("--seconds is {}", arguments.seconds)).hint("give a number above 0, such as 300")
        );
    }
    let usual = knarr_worker::means::user_model();
    let path = arguments.output.clone().or_else(|| usual.clone()).ok_or_else(|| {
        Error::usage("neither HOME nor XDG_CONFIG_HOME is set").hint("say where to write the model with --output")
    })?;
    // What lies where Knarr looks for a model is Knarr's, even if it cannot be read any more.
    if usual.as_ref() == Some(&path) {
        place::check_new(&path)?;
    } else {
        place::check(&path, Own::Model, None)?;
    }
    let resources = Resources { jobs: Some(1), max_mem: None, profile: arguments.profile.clone(), model: None };
    // Learning begins with the built-in model: training twice on the same files must not count them twice.
    let engine = crate::session::engine_without_model(&resources)?;
    let files = files(&arguments.files)?;
    let records = records(&engine, &files, arguments)?;
    let families: BTreeSet<&str> = records.iter().map(|record| record.family.as_str()).collect();
    let (base, profile, codecs) = (&*engine.predictor, &*engine.profile, &engine.codecs);
    // What choices use so far, if it is a model.
    let used = Predictor::read(&path).ok();
    let old = used.as_ref().unwrap_or(base);
    let name = format!("{} of {}", table::count(records.len(), "sample"), table::count(files.len(), "file"));
    let model = fit(&records, base, &name, profile, codecs)?;
    let held_out = hold_out(&records, base, profile, codecs)?;
    let trained = |family: &str| held_out.get(family).unwrap_or(base);
    let before = judge(&records, |_| old, profile, codecs);
    let after = judge(&records, trained, profile, codecs);
    let regrets = NAMED
        .iter()
        .map(|goal| Ok((*goal, Regrets::of(&records, &goal.parse()?, &engine, old, &trained))))
        .collect::<Result<Vec<_>>>()?;
    let losses = |side: fn(&Regrets) -> [f64; 2]| regrets.iter().flat_map(|(_, lost)| side(lost)).sum::<f64>();
    let better = losses(|lost| lost.after) < losses(|lost| lost.before);
    let written = better || arguments.force;
    if written {
        write_json(&path, &model, arguments.output.is_none())?;
    }
    if arguments.json {
        let goals: serde_json::Map<_, _> =
            regrets.iter().map(|(goal, lost)| ((*goal).to_owned(), lost.json())).collect();
        let report = json!({
            "model": path, "written": written, "better": better, "samples": records.len(), "families": families.len(),
            "quality": { "before": before, "after": after }, "regret": goals,
        });
        println!("{report}");
        return Ok(0);
    }
    let unit = if families.len() == files.len() { "files" } else { "variables" };
    println!("{name}; 'after' is told of each of {} {unit} by a model that did not learn from it", families.len());
    println!("'before' is {}\n", if used.is_some() { "the model that is there" } else { "the built-in model" });
    print_quality(&before, &after);
    print_regrets(&regrets);
    let at = path.display();
    if !written {
        println!(
            "not written: choices by the new model would lose more, or no less, than by the one in use; --force writes it"
        );
        return Ok(0);
    }
    if usual.as_ref() == Some(&path) {
        println!("written to {at}; every choice uses it from now on");
    } else {
        println!("written to {at}; choices use it with --model {at}, or with 'model' under [machine] in knarr.toml");
    }
    Ok(0)
}

/// The files named, those that match, and those in directories that are no stores.
fn files(names: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in crate::arguments::inputs::expand(names)? {
        if path.is_dir() && !is_data(&path) {
            let entries = std::fs::read_dir(&path).map_err(|error| Error::read(&path, &error))?;
            let mut found: Vec<PathBuf> =
                entries.flatten().map(|entry| entry.path()).filter(|path| is_data(path)).collect();
            found.sort();
            if found.is_empty() {
                return Err(Error::usage("the directory holds no HDF5, netCDF or Zarr data")
                    .hint("name the files, or a pattern")
                    .at(path.display().to_string()));
            }
            files.extend(found);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// True for names that files and stores of the formats usually have.
fn is_data(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    suffix.is_some_and(|suffix| ["nc", "nc4", "cdf", "h5", "hdf5", "he5", "zarr"].contains(&suffix))
}

/// Samples of the files. What is learnt is judged on whole files that were kept out or, where there are few, on
/// variables.
fn records(engine: &Engine, files: &[PathBuf], arguments: &Train) -> Result<Vec<Record>> {
    let sources =
        files.iter().map(|path| knarr_formats::open(path, &engine.codecs)).collect::<Result<Vec<Box<dyn Source>>>>()?;
    let by_file = files.len() >= LEAST_FILES;
    let families: Vec<_> = files
        .iter()
        .map(|path| {
            let file = path.display().to_string();
            move |variable: &Variable| if by_file { file.clone() } else { format!("{file}:{}", variable.path) }
        })
        .collect();
    let origins: Vec<Origin<'_>> =
        sources.iter().zip(&families).map(|(source, family)| Origin { source: source.as_ref(), family }).collect();
    let progress = Bar::new("training");
    let samples = usize::try_from(arguments.samples).unwrap_or(1);
    record(engine, &origins, samples, arguments.seconds, &knarr_flow::energy::thread_seconds, &progress)
}

/// What choices for one goal lose on average, before and after training: shares of what the best of all would give. One
/// that misses a limit of the goal loses all.
struct Regrets {
    before: [f64; 2],
    after: [f64; 2],
}

impl Regrets {
    fn of<'a>(
        records: &[Record],
        goal: &Goal,
        engine: &Engine,
        base: &'a Predictor,
        trained: &impl Fn(&str) -> &'a Predictor,
    ) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "some thousands of samples")]
        let count = records.len().max(1) as f64;
        let mean = |model: &dyn Fn(&Record) -> &'a Predictor| {
            let lost =
                records.iter().map(|record| regret(record, model(record), goal, &engine.profile, &engine.codecs));
            let share = |lost: f64| 1.0 - (-lost).exp();
            let sums = lost.fold([0.0; 2], |[a, b], lost| [a + share(lost.predicted), b + share(lost.tried)]);
            sums.map(|sum| sum / count)
        };
        Self { before: mean(&|_| base), after: mean(&|record| trained(&record.family)) }
    }

    fn json(&self) -> serde_json::Value {
        let side = |[predicted, tried]: [f64; 2]| json!({ "predicted": predicted, "tried": tried });
        json!({ "before": side(self.before), "after": side(self.after) })
    }
}

fn print_quality(before: &Judged, after: &Judged) {
    let header = [
        ("prediction of", Align::Left),
        ("R2 before", Align::Right),
        ("after", Align::Right),
        ("typical factor before", Align::Right),
        ("after", Align::Right),
    ];
    let row = |name: &str, before: &Quality, after: &Quality| {
        let numbers = [before.r2, after.r2, before.factor, after.factor];
        std::iter::once(name.to_owned()).chain(numbers.map(|number| format!("{number:.2}"))).collect()
    };
    let rows = [
        row("ratio", &before.ratio, &after.ratio),
        row("time to encode", &before.encode, &after.encode),
        row("time to decode", &before.decode, &after.decode),
    ];
    println!("{}", table::render(&header, &rows));
}

fn print_regrets(regrets: &[(&str, Regrets)]) {
    let header = [
        ("goal", Align::Left),
        ("lost untried, before", Align::Right),
        ("after", Align::Right),
        ("lost with trials, before", Align::Right),
        ("after", Align::Right),
    ];
    let rows: Vec<Vec<String>> = regrets
        .iter()
        .map(|(goal, Regrets { before, after })| {
            let shares = [before[0], after[0], before[1], after[1]];
            let cells = shares.map(|share| format!("{:.1} %", 100.0 * share));
            std::iter::once((*goal).to_owned()).chain(cells).collect()
        })
        .collect();
    println!("{}", table::render(&header, &rows));
}
