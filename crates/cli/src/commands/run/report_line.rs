//! The line of one file in the report. The table, the JSON document, the totals and the lines of failures are all made from it:
//! each outcome is put into words here and nowhere else, but for what a route tells of files that stay as they are.

use std::path::Path;

use knarr_array::error::Error;
use knarr_routes::compress::notes;
use knarr_run::launch::{Done, Outcome};
use serde_json::{Value, json};

use super::words::{shown, size};

/// What became of a file.
pub(super) struct ReportLine<'d> {
    /// In one word, for programs.
    pub(super) outcome: &'static str,
    /// Bytes before and after, as far as they are known.
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    /// False if the sizes are in no total, because no file is made here.
    pub(super) counts: bool,
    /// Of Knarr's work.
    pub(super) seconds: Option<f64>,
    /// Chains, or why it is as it was.
    pub(super) words: String,
    /// The same for programs, if there are no variables to tell of.
    pub(super) reason: Option<String>,
    /// What went wrong.
    pub(super) error: Option<&'d Error>,
    /// A line that is printed even if nothing else is.
    pub(super) failure: Option<String>,
    /// What the document says besides, or in place of sizes.
    pub(super) more: Value,
}

impl<'d> ReportLine<'d> {
    /// A file that stays as the program wrote it.
    fn stays(path: &Path, outcome: &'static str, words: impl Into<String>) -> Self {
        let (size, words) = (size(path), words.into());
        let reason = Some(words.clone());
        let (seconds, error, failure, more) = (None, None, None, Value::Null);
        Self { outcome, before: size, after: size, counts: true, seconds, words, reason, error, failure, more }
    }

    /// A file of which there is none here.
    fn elsewhere(path: &Path, outcome: &'static str, words: String) -> Self {
        Self { before: None, after: None, counts: false, ..Self::stays(path, outcome, words) }
    }

    /// A file of which something went wrong; `failure` is what to say of the error, which names the file.
    fn failed(path: &Path, error: &'d Error, words: &str, failure: impl FnOnce(Error) -> String) -> Self {
        let failure = Some(failure(error.clone().at_once(&shown(path))));
        let reason = Some(error.to_string());
        Self { error: Some(error), failure, reason, ..Self::stays(path, "failed", words) }
    }
}

pub(super) fn report_line(done: &Done) -> ReportLine<'_> {
    let Done { path, outcome, note, .. } = done;
    match outcome {
        Outcome::Packed(done) => {
            let mut more = crate::report::json(done);
            let mut words = done.copied.clone().unwrap_or_else(|| notes::chains(&done.plan));
            if !note.is_empty() {
                words.push_str(&format!("; {note}"));
                more["note"] = note.as_str().into();
            }
            ReportLine {
                before: Some(done.input_bytes),
                after: Some(done.output_bytes),
                seconds: Some(done.seconds),
                reason: None,
                more,
                ..ReportLine::stays(path, "packed", words)
            }
        }
        Outcome::Told(told) => {
            ReportLine { more: told.more.clone(), ..ReportLine::stays(path, told.outcome, told.words.as_str()) }
        }
        Outcome::Left(why) | Outcome::Changed(why) => ReportLine::stays(path, "left", why.as_str()),
        Outcome::Failed(error) | Outcome::Died(error) => {
            let failure = |error| format!("{error}; the file is as the program wrote it");
            ReportLine::failed(path, error, "packing failed, see above", failure)
        }
        Outcome::Displaced(error) => {
            ReportLine::failed(path, error, "it has another name, see above", |error| error.to_string())
        }
        Outcome::Undelivered(error, directory) => {
            let directory = directory.parent().unwrap_or(directory).display();
            ReportLine::failed(path, error, "not delivered, see above", |error| {
                format!(
                    "{error}\n  what the program has handed over is kept: 'knarr run --recover {directory}' makes a file of it"
                )
            })
        }
        Outcome::Lost(error) => ReportLine {
            before: None,
            after: None,
            ..ReportLine::failed(path, error, "lost, see above", |error| error.to_string())
        },
        Outcome::Transferred { bytes, words } => ReportLine {
            before: Some(*bytes).filter(|bytes| *bytes > 0),
            reason: Some(words.clone()),
            more: json!({ "input_bytes": bytes, "note": Some(note).filter(|note| !note.is_empty()) }),
            ..ReportLine::elsewhere(
                path,
                "transferred",
                if note.is_empty() { words.clone() } else { format!("{words}; {note}") },
            )
        },
        // It was told as it happened.
        Outcome::Missed(error) => ReportLine {
            counts: false,
            error: Some(error),
            reason: Some(error.to_string()),
            ..ReportLine::stays(path, "missed", format!("not transferred whole: {}", error.message()))
        },
        // It was told as it happened.
        Outcome::Discarded(error) => ReportLine {
            counts: false,
            error: Some(error),
            reason: Some(error.to_string()),
            before: None,
            after: None,
            ..ReportLine::stays(path, "discarded", format!("values are lost: {}", error.message()))
        },
        Outcome::GivenUp => {
            let words = "the program removed it, or wrote it anew, before it was made";
            ReportLine::elsewhere(path, "given_up", words.to_owned())
        }
        // Its sizes are in the table of the other node.
        Outcome::Gathered { node } => ReportLine::elsewhere(path, "gathered", format!("node '{node}' tells of it")),
    }
}
