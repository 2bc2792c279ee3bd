//! Reports of a repack: machine-readable and as a page.

mod axis;
mod bars;
mod facts;
mod html;
mod page;
mod phases;
mod scatter;
mod variables;

pub(crate) use facts::{LookInto, reader_needed, zarr_reader};

use knarr_array::error::Result;
use knarr_choose::plan::Action;
use knarr_routes::compress::notes;
use knarr_routes::compress::{OutputFormat, Repacked};
use knarr_run::worker::Worker;
use std::path::Path;

use crate::batch::Failed;
use crate::totals::Totals;

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
        "other_readers": OutputFormat::of(&done.output).map_or(Vec::new(), |format| notes::gains(&done.plan, format)),
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

/// Today's date and time, UTC, ISO 8601.
pub(crate) fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Gregorian date of a day count since 1970-01-01 (Howard Hinnant, 'chrono-Compatible Low-Level Date Algorithms').
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
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
    let context = page::Context { verified, command: command_line(), when: today() };
    knarr_flow::output::replace(path, page::render(&files, failed, &context).as_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_civil() {
        assert_eq!(super::civil(0), (1970, 1, 1));
        assert_eq!(super::civil(11_016), (2000, 2, 29));
        assert_eq!(super::civil(20_778), (2026, 11, 21));
    }
}
