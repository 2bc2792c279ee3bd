//! `knarr explain`: the saved plan, for people.

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_choose::plan::{Action, VariablePlan};
use knarr_flow::settings::glob_matches;
use knarr_formats::output::{self, OutputKind};
use knarr_routes::compress::{named_plan, read_plan};
use std::path::Path;

use crate::arguments::args::Explain;
use crate::table;

pub(crate) fn run(arguments: &Explain) -> Result<u8> {
    let path = named_plan(&arguments.file);
    if output::of(&arguments.file).is_ok_and(OutputKind::is_plain) && arguments.file.exists() && !path.exists() {
        return Err(Error::new(ErrorKind::NotFound, "CSV and raw files have no plan: they keep values as they are")
            .hint("ask for a .nc, .h5 or .zarr output")
            .at(arguments.file.display().to_string()));
    }
    let mut plan = read_plan(&path)?;
    if arguments.json {
        let text = std::fs::read_to_string(&path).map_err(|error| Error::read(&path, &error))?;
        println!("{text}");
        return Ok(0);
    }
    // The plan of OUT lies in OUT.knarr.json.
    let output = arguments.file.to_string_lossy();
    let output = output.strip_suffix(".knarr.json").unwrap_or(&output);
    let is_wanted = |variable: &VariablePlan| {
        let name = variable.path.trim_start_matches('/');
        let is_meant = |pattern: &String| glob_matches(pattern, name) || glob_matches(pattern, &variable.path);
        arguments.variable.is_empty() || arguments.variable.iter().any(is_meant)
    };
    if !plan.variables.iter().any(is_wanted) {
        let names: Vec<_> = plan.variables.iter().map(|variable| variable.path.trim_start_matches('/')).collect();
        return Err(Error::new(ErrorKind::Usage, "no variable of that name")
            .hint(format!("the plan has: {}", names.join(", ")))
            .at(path.display().to_string()));
    }
    plan.variables.retain(is_wanted);
    let kind = output::of(Path::new(output)).ok();
    crate::commands::advise::print(&plan, kind);
    plan.variables.iter().for_each(|variable| print(variable, kind));
    Ok(0)
}

fn print(variable: &VariablePlan, kind: Option<&dyn OutputKind>) {
    println!(
        "{}: {} {}, {}",
        variable.path.trim_start_matches('/'),
        variable.dtype,
        table::shape(&variable.shape),
        table::bytes(variable.raw_bytes)
    );
    match &variable.action {
        Action::Copy(why) => println!("  copied as it is: {why}\n"),
        Action::Encode(choice) => {
            let reader = kind.map_or_else(|| choice.reader.in_words(), |kind| kind.opened_by(choice.reader));
            println!("{}", choice.explained(reader));
        }
    }
}
