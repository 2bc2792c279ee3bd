//! `knarr explain`: the saved plan, for people.

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_choose::plan::{Action, Plan, VariablePlan};
use knarr_flow::settings::glob_matches;
use knarr_routes::compress::{OutputFormat, opened_by};
use std::path::{Path, PathBuf};

use crate::args::Explain;
use crate::table;

pub(crate) fn run(arguments: &Explain) -> Result<u8> {
    let path = plan_file(&arguments.file);
    if OutputFormat::of(&arguments.file).is_ok_and(OutputFormat::is_plain) && arguments.file.exists() && !path.exists()
    {
        return Err(Error::new(ErrorKind::NotFound, "CSV and raw files have no plan: they keep values as they are")
            .hint("ask for a .nc, .h5 or .zarr output")
            .at(arguments.file.display().to_string()));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Error::read(&path, &error)
            .hint("give an output of 'knarr repack', which saves its plan beside it, or 'knarr advise' the file")
    })?;
    let mut plan: Plan = serde_json::from_str(&text).map_err(|error| {
        Error::corrupt(format!("not a plan of this version of knarr: {error}"))
            .hint("give an output of 'knarr repack' or the NAME.knarr.json beside it; 'knarr advise' makes a new plan")
            .at(path.display().to_string())
    })?;
    if arguments.json {
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
    let format = OutputFormat::of(Path::new(output)).ok();
    crate::advise::print(&plan, format);
    plan.variables.iter().for_each(|variable| print(variable, format));
    Ok(0)
}

fn plan_file(file: &Path) -> PathBuf {
    if file.to_string_lossy().ends_with(".json") { file.to_owned() } else { knarr_routes::compress::plan_path(file) }
}

fn print(variable: &VariablePlan, format: Option<OutputFormat>) {
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
            let reader = format.map_or_else(|| choice.reader.in_words(), |format| opened_by(format, choice.reader));
            println!("{}", choice.explained(reader));
        }
    }
}
