//! `knarr explain`: the saved plan, for people.

use knarr_core::error::{Error, ErrorKind, Result};
use knarr_core::plan::{Action, Choice, Plan, VariablePlan};
use knarr_core::settings::glob_matches;
use std::path::PathBuf;

use crate::args::Explain;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &Explain) -> Result<u8> {
    let path = plan_file(&arguments.file);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Error::read(&path, &error)
            .mend("give an output of 'knarr repack', which saves its plan beside it, or 'knarr advise' the file")
    })?;
    let plan: Plan = serde_json::from_str(&text)
        .map_err(|error| Error::corrupt(format!("not a plan: {error}")).at(path.display().to_string()))?;
    if arguments.json {
        println!("{text}");
        return Ok(0);
    }
    crate::advise::print(&plan);
    let mut shown = 0;
    for variable in &plan.variables {
        let name = variable.path.trim_start_matches('/');
        let wanted = arguments.variable.is_empty()
            || arguments
                .variable
                .iter()
                .any(|pattern| glob_matches(pattern, name) || glob_matches(pattern, &variable.path));
        if wanted {
            print(variable);
            shown += 1;
        }
    }
    if shown == 0 {
        let names: Vec<_> = plan.variables.iter().map(|variable| variable.path.trim_start_matches('/')).collect();
        return Err(Error::new(ErrorKind::Usage, "no variable of that name")
            .mend(format!("the plan has: {}", names.join(", "))));
    }
    Ok(0)
}

fn plan_file(file: &std::path::Path) -> PathBuf {
    if file.to_string_lossy().ends_with(".json") { file.to_owned() } else { knarr_formats::repack::plan_path(file) }
}

fn print(variable: &VariablePlan) {
    println!(
        "{}: {} {}, {}",
        variable.path.trim_start_matches('/'),
        variable.dtype,
        table::shape(&variable.shape),
        table::bytes(variable.raw_bytes)
    );
    match &variable.action {
        Action::Copy(why) => println!("  copied as it is: {why}\n"),
        Action::Encode(choice) => print_choice(choice),
    }
}

fn print_choice(choice: &Choice) {
    println!("  chain    {}", choice.chain);
    println!("  chunks   {}", table::shape(&choice.chunk));
    println!("  quality  {}", choice.quality);
    println!("  reader   {}", crate::inspect::reader_in_words(choice.reader));
    println!("  why      {}", choice.reason);
    let features = &choice.features;
    let list = |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(" ");
    let range = features.range.map_or("-".to_owned(), |(low, high)| format!("{low} to {high}"));
    println!(
        "  data     {:?}, {} elements looked at, range {range}, fill {:.1} %, repeats {:.1} %, distinct {:.1} %, trailing zero bits {}",
        features.class,
        features.elements,
        features.fill * 100.0,
        features.repeats * 100.0,
        features.distinct * 100.0,
        features.trailing_zeros
    );
    println!(
        "           entropy per byte plane {}, of differences {}",
        list(&features.plane_entropy),
        list(&features.delta_entropy)
    );
    println!("           bits of difference per axis {}", list(&features.axis_bits));
    println!("  choosing took {:.1} ms on {} of samples", choice.seconds * 1e3, table::bytes(choice.sample_bytes));
    let header = [
        ("  candidate", Align::Left),
        ("score", Align::Right),
        ("predicted", Align::Right),
        ("tried", Align::Right),
        ("encode", Align::Right),
        ("decode", Align::Right),
        ("J/GB", Align::Right),
        ("", Align::Left),
    ];
    let rows: Vec<Vec<String>> = choice
        .candidates
        .iter()
        .map(|candidate| {
            vec![
                format!("  {}", candidate.chain),
                format!("{:.3}", candidate.score),
                format!("{:.2}", candidate.predicted_ratio),
                candidate.tried_ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
                format!("{:.0} MB/s", candidate.merits.encode),
                format!("{:.0} MB/s", candidate.merits.decode),
                format!("{:.0}", candidate.merits.energy),
                candidate.dropped.clone().map(|why| format!("dropped: {why}")).unwrap_or_default(),
            ]
        })
        .collect();
    println!("{}", table::render(&header, &rows));
}
