//! Reports of a repack: machine-readable and as a page.

mod axis;
mod bars;
mod facts;
mod html;
mod page;
mod phases;
mod scatter;
mod variables;

pub(crate) use facts::{LookInto, packages_needed, reader_needed, zarr_reader};

use knarr_array::error::Result;
use knarr_choose::plan::Action;
use knarr_formats::output;
use knarr_routes::compress::Repacked;
use knarr_routes::compress::notes;
use knarr_worker::Worker;
use std::path::Path;

use crate::batch::Failed;
use crate::printing::totals::Totals;

/// The result of one file as JSON.
pub(crate) fn json(done: &Repacked) -> serde_json::Value {
    let variables: Vec<_> = done
        .plan
        .variables
        .iter()
        .enumerate()
        .map(|(index, variable)| {
            let report = done.execution.variables.get(&index);
            let (chain, reason) = match &variable.action {
                Action::Copy(why) => (None, why.clone()),
                Action::Encode(choice) => (Some(choice.chain.to_string()), choice.reason.clone()),
            };
            serde_json::json!({
                "name": variable.path.trim_start_matches('/'), "chain": chain, "reason": reason,
                "raw_bytes": variable.raw_bytes, "measured": report,
            })
        })
        .collect();
    serde_json::json!({
        "input": done.input.display().to_string(), "output": done.output.display().to_string(),
        "input_bytes": done.input_bytes, "output_bytes": done.output_bytes,
        "seconds": done.seconds, "choosing_seconds": done.choosing_seconds, "energy": done.energy,
        "reader": done.reader.word(), "copied": done.copied,
        "other_readers": output::of(&done.output).map_or(Vec::new(), |kind| notes::gains(&done.plan, kind)),
        "notes": notes::all(done), "variables": variables,
    })
}

/// Version of the documents that `--json` prints; `docs/cli.md` describes them.
const VERSION: u32 = 1;

/// The document of `--json` for several files: what all of them have, and `result`.
pub(crate) fn document(mut result: serde_json::Value, failed: &[Failed], totals: Totals) -> serde_json::Value {
    let common = serde_json::json!({
        "version": VERSION, "program": concat!("knarr ", env!("CARGO_PKG_VERSION")),
        "exit_code": failed.first().map_or(0, |first| first.exit_code), "failed": failed, "totals": totals,
    });
    if let (Some(result), serde_json::Value::Object(common)) = (result.as_object_mut(), common) {
        result.extend(common);
    }
    result
}

/// The command as typed.
pub(crate) fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("knarr {}", words.join(" "))
}

/// Writes the page beside its place and renames it, so that an interrupted run leaves no half of it. Files are opened in
/// `worker` if there is one.
pub(crate) fn write<'r>(
    path: &Path,
    done: impl IntoIterator<Item = &'r Repacked>,
    failed: &[Failed],
    verified: bool,
    mut worker: Option<&mut Worker>,
) -> Result<()> {
    let codecs = knarr_native::codecs()?;
    let mut look = |path: &Path| match &mut worker {
        Some(worker) => LookInto::ask(worker, path),
        None => facts::stored(path, &codecs),
    };
    let files: Vec<_> = done.into_iter().map(|one| facts::File::new(one, &codecs, &mut look)).collect();
    let context = page::Context { verified, command: command_line(), when: knarr_flow::provenance::today() };
    knarr_flow::output::replace(path, page::render(&files, failed, &context).as_bytes())
}
