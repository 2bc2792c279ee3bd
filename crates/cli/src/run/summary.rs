//! What a run did, for people and for programs.

use std::path::Path;

use knarr_choose::plan::Action;
use knarr_flow::energy::Energy;
use knarr_routes::compress::Repacked;
use knarr_run::launch::{Became, Crossed, Done, Flown, Outcome, Ran, Row};

use crate::batch::Failed;
use crate::table::{self, Align};

/// Files in the order in which they were done, and time steps of route `checkpoint`.
pub(super) struct Summary<'a> {
    pub(super) files: &'a [Done],
    pub(super) steps: &'a [Row],
}

impl Summary<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.steps.is_empty()
    }

    /// Lines for files that could not be packed.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        self.files.iter().filter_map(|entry| match &entry.outcome {
            Outcome::Failed(error) | Outcome::Died(error) => {
                Some(format!("{}; the file is as the program wrote it", error.clone().at_once(&shown(&entry.path))))
            }
            Outcome::Displaced(error) => Some(error.clone().at_once(&shown(&entry.path)).to_string()),
            Outcome::Undelivered(error, directory) => Some(format!(
                "{}\n  what the program has handed over is kept: 'knarr run --recover {}' makes a file of it",
                error.clone().at_once(&shown(&entry.path)),
                directory.parent().unwrap_or(directory).display()
            )),
            Outcome::Written(Err(error), _) => {
                let error = error.clone().at_once(&shown(&entry.path));
                Some(format!("{error}; nothing was learnt of the file, which is as the program wrote it"))
            }
            _ => None,
        })
    }

    /// One line a file or step.
    pub(super) fn table(&self) -> String {
        let header = [
            ("file", Align::Left),
            ("before", Align::Right),
            ("after", Align::Right),
            ("ratio", Align::Right),
            ("seconds", Align::Right),
            ("chains, or why it is as it was", Align::Left),
        ];
        let mut rows: Vec<Vec<String>> = self
            .steps
            .iter()
            .map(cells)
            .chain(self.files.iter().map(|Done { path, outcome, note, .. }| {
                let left = |why: &str| {
                    let size = size(path).map_or_else(none, table::bytes);
                    vec![shown(path), size.clone(), size, "-".to_owned(), "-".to_owned(), why.to_owned()]
                };
                match outcome {
                    Outcome::Packed(done) => vec![
                        shown(path),
                        table::bytes(done.input_bytes),
                        table::bytes(done.output_bytes),
                        table::ratio(done.input_bytes, done.output_bytes),
                        format!("{:.2}", done.seconds),
                        if note.is_empty() { chains(done) } else { format!("{}; {note}", chains(done)) },
                    ],
                    Outcome::Written(found, seconds) => {
                        let (raw, size) = (found.as_ref().ok().map(|found| found.encoded.raw_bytes), size(path));
                        vec![
                            shown(path),
                            raw.map_or_else(none, table::bytes),
                            size.map_or_else(none, table::bytes),
                            raw.zip(size).map_or_else(none, |(raw, size)| table::ratio(raw, size)),
                            format!("{seconds:.2}"),
                            match found {
                                Ok(found) => format!("{note}; {}", took(&found.encoded.energy)),
                                Err(_) => note.clone(),
                            },
                        ]
                    }
                    Outcome::Left(why) | Outcome::Changed(why) => left(why),
                    Outcome::Failed(_) | Outcome::Died(_) => left("packing failed, see above"),
                    Outcome::Displaced(_) => left("it has another name, see above"),
                    Outcome::Undelivered(..) => left("not delivered, see above"),
                    Outcome::Transferred { bytes, words } => {
                        let bytes = if *bytes > 0 { table::bytes(*bytes) } else { none() };
                        let words = if note.is_empty() { words.clone() } else { format!("{words}; {note}") };
                        vec![shown(path), bytes, none(), none(), none(), words]
                    }
                    // Its sizes are in the table of the other node.
                    Outcome::Gathered { node } => {
                        vec![shown(path), none(), none(), none(), none(), told_by(node)]
                    }
                    // It was told as it happened.
                    Outcome::Missed(error) => left(&format!("not transferred whole: {}", error.message())),
                }
            }))
            .collect();
        if rows.len() > 1 {
            let Totals { before, after, seconds } = self.totals();
            let (sizes, ratio) = ([before, after].map(table::bytes), table::ratio(before, after));
            let [before, after] = sizes;
            rows.push(vec!["total".to_owned(), before, after, ratio, format!("{seconds:.2}"), String::new()]);
        }
        table::render(&header, &rows)
    }

    /// What crossed the network of variables that may lose something on their way, one line each; empty if that is nothing.
    pub(super) fn in_flight(&self) -> String {
        let header = [
            ("file", Align::Left),
            ("variable", Align::Left),
            ("values", Align::Right),
            ("in flight", Align::Right),
            ("ratio", Align::Right),
            ("max error", Align::Right),
            ("relative", Align::Right),
            ("bound", Align::Left),
        ];
        let flown = self.files.iter().flat_map(|done| done.flown.iter().map(move |flown| (&done.path, flown)));
        let rows: Vec<Vec<String>> = flown
            .map(|(path, Flown { variable, bound, crossed: Crossed { raw, sent, worst } })| {
                let error = |error: f64| if error == 0.0 { "0".to_owned() } else { format!("{error:.2e}") };
                let (bytes, ratio) = ([raw, sent].map(|bytes| table::bytes(*bytes)), table::ratio(*raw, *sent));
                let [raw, sent] = bytes;
                let errors = [worst.max_abs, worst.max_rel].map(error);
                let [abs, rel] = errors;
                vec![shown(path), variable.clone(), raw, sent, ratio, abs, rel, bound.clone()]
            })
            .collect();
        if rows.is_empty() { String::new() } else { table::render(&header, &rows) }
    }

    /// Over all files and steps whose size before and after is known.
    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in self.files {
            match &entry.outcome {
                Outcome::Packed(done) => totals.add(done.input_bytes, done.output_bytes, done.seconds),
                Outcome::Written(Ok(found), seconds) => {
                    size(&entry.path).into_iter().for_each(|size| totals.add(found.encoded.raw_bytes, size, *seconds));
                }
                // No file is made of it.
                Outcome::Transferred { .. } | Outcome::Missed(_) | Outcome::Gathered { .. } => {}
                _ => size(&entry.path).into_iter().for_each(|size| totals.add(size, size, 0.0)),
            }
        }
        for step in self.steps {
            if let Became::Packed { raw_bytes, packed_bytes, seconds, .. } = step.became {
                totals.add(raw_bytes, packed_bytes, seconds);
            }
        }
        totals
    }

    /// The machine-readable result: what `knarr repack` gives, and what only a run has.
    pub(super) fn json(&self, ran: &Ran) -> serde_json::Value {
        let failed: Vec<Failed> = self.files.iter().filter_map(failed).collect();
        let Totals { before, after, seconds } = self.totals();
        let count = |is: fn(&Outcome) -> bool| self.files.iter().filter(|entry| is(&entry.outcome)).count();
        let totals = crate::totals::Totals {
            files: self.files.len() - failed.len(),
            copied: count(|outcome| matches!(outcome, Outcome::Packed(done) if done.copied.is_some())),
            skipped: count(|outcome| matches!(outcome, Outcome::Left(_) | Outcome::Changed(_))),
            failed: failed.len(),
            input_bytes: before,
            output_bytes: after,
        };
        #[expect(clippy::cast_precision_loss, reason = "bytes of files")]
        let saved = before as f64 - after as f64;
        let result = serde_json::json!({
            // Packing proves every chunk.
            "verified": failed.is_empty(), "saved_per_year": ran.site.map(|site| site.yearly(saved)),
            "hdf5_calls_seen": ran.calls_seen, "sent_to_nodes": ran.sent, "files": self.files.iter().map(json).collect::<Vec<_>>(),
        });
        let mut all = crate::report::document(result, &failed, totals);
        if let Some(all) = all.as_object_mut() {
            // That of the program, most of the time: files that failed do not change it.
            all.insert("exit_code".to_owned(), ran.code.into());
            if let Some(totals) = all.get_mut("totals").and_then(serde_json::Value::as_object_mut) {
                totals.insert("seconds".to_owned(), seconds.into());
            }
            if !self.steps.is_empty() {
                all.insert("checkpoints".to_owned(), self.steps.iter().map(step_json).collect());
            }
        }
        all
    }
}

/// What there is to say of a file that could not be packed, or not be looked at.
fn failed(file: &Done) -> Option<Failed> {
    let error = match &file.outcome {
        Outcome::Failed(error) | Outcome::Died(error) | Outcome::Displaced(error) => error,
        Outcome::Written(Err(error), _) | Outcome::Undelivered(error, _) | Outcome::Missed(error) => error,
        Outcome::Packed(_) | Outcome::Written(Ok(_), _) | Outcome::Left(_) | Outcome::Changed(_) => return None,
        Outcome::Transferred { .. } | Outcome::Gathered { .. } => return None,
    };
    Some(Failed {
        input: file.path.clone(),
        output: file.path.clone(),
        error: error.to_string(),
        exit_code: error.kind().exit_code(),
    })
}

fn json(file: &Done) -> serde_json::Value {
    let mut all = outcome_json(file);
    if let (Some(all), false) = (all.as_object_mut(), file.flown.is_empty()) {
        all.insert("in_flight".to_owned(), file.flown.iter().map(flown_json).collect());
    }
    all
}

/// A variable that may lose something on its way. An error that is infinite relative to a value is `null`.
fn flown_json(flown: &Flown) -> serde_json::Value {
    let Flown { variable, bound, crossed: Crossed { raw, sent, worst } } = flown;
    serde_json::json!({
        "variable": variable, "bound": bound, "raw_bytes": raw, "sent_bytes": sent, "max_abs_error": worst.max_abs,
        "max_rel_error": worst.max_rel, "changed": worst.changed,
    })
}

fn outcome_json(file: &Done) -> serde_json::Value {
    let Done { path, outcome, note, .. } = file;
    let (name, size) = (path.display().to_string(), size(path));
    let as_it_was = |outcome: &str, reason: String| {
        serde_json::json!({
            "input": name, "output": name, "input_bytes": size, "output_bytes": size, "outcome": outcome,
            "reason": reason,
        })
    };
    match outcome {
        Outcome::Written(found, seconds) => {
            let encoded = found.as_ref().ok().map(|found| &found.encoded);
            serde_json::json!({
                "input": name, "output": name, "outcome": "written", "reason": note, "seconds": seconds,
                "input_bytes": encoded.map(|encoded| encoded.raw_bytes), "output_bytes": size,
                "energy": encoded.map(|encoded| &encoded.energy),
            })
        }
        Outcome::Packed(done) => {
            let mut file = crate::report::json(done);
            if let Some(file) = file.as_object_mut() {
                file.insert("outcome".to_owned(), "packed".into());
                if !note.is_empty() {
                    file.insert("note".to_owned(), note.as_str().into());
                }
            }
            file
        }
        Outcome::Transferred { bytes, words } => serde_json::json!({
            "input": name, "output": name, "input_bytes": bytes, "output_bytes": null, "outcome": "transferred",
            "reason": words, "note": if note.is_empty() { None } else { Some(note) },
        }),
        Outcome::Gathered { node } => serde_json::json!({
            "input": name, "output": name, "input_bytes": null, "output_bytes": null, "outcome": "gathered",
            "reason": told_by(node),
        }),
        Outcome::Missed(error) => as_it_was("missed", error.to_string()),
        Outcome::Left(why) | Outcome::Changed(why) => as_it_was("left", why.clone()),
        Outcome::Failed(error) | Outcome::Died(error) | Outcome::Displaced(error) | Outcome::Undelivered(error, _) => {
            as_it_was("failed", error.to_string())
        }
    }
}

fn cells(row: &Row) -> Vec<String> {
    let name = row.step.map_or_else(|| row.pattern.clone(), |step| format!("{}, step {step}", row.pattern));
    match &row.became {
        Became::Packed { set, files, raw_bytes, packed_bytes, seconds, unproven } => vec![
            name,
            table::bytes(*raw_bytes),
            table::bytes(*packed_bytes),
            table::ratio(*raw_bytes, *packed_bytes),
            format!("{seconds:.2}"),
            match unproven {
                None => format!("{} in {}", table::count(*files, "file"), shown(set)),
                Some(why) => {
                    let files = table::count(*files, "file");
                    format!("{files} in {}, perhaps torn, and kept: {why}", shown(set))
                }
            },
        ],
        Became::Left(why) => vec![name, none(), none(), none(), none(), why.clone()],
    }
}

fn step_json(row: &Row) -> serde_json::Value {
    let Row { pattern, step, became } = row;
    match became {
        Became::Packed { set, files, raw_bytes, packed_bytes, seconds, unproven } => serde_json::json!({
            "pattern": pattern, "step": step, "outcome": "packed", "set": set, "files": files,
            "raw_bytes": raw_bytes, "packed_bytes": packed_bytes, "seconds": seconds, "unproven": unproven,
        }),
        Became::Left(why) => {
            serde_json::json!({ "pattern": pattern, "step": step, "outcome": "left", "reason": why })
        }
    }
}

/// Sums over files and steps.
#[derive(Default)]
struct Totals {
    before: u64,
    after: u64,
    /// Of Knarr's work.
    seconds: f64,
}

impl Totals {
    fn add(&mut self, before: u64, after: u64, seconds: f64) {
        self.before += before;
        self.after += after;
        self.seconds += seconds;
    }
}

/// What encoding took the program.
fn took(energy: &Energy) -> String {
    let Energy { source, joules, seconds, .. } = energy;
    format!("encoding took it {:.2} s of one core and {joules:.2} J ({source})", seconds.encode)
}

fn told_by(node: &str) -> String {
    format!("node '{node}' tells of it")
}

fn none() -> String {
    "-".to_owned()
}

fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| found.len())
}

/// The path from here, if the file lies below.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// The chains that were used, most bytes first.
fn chains(done: &Repacked) -> String {
    const SHOWN: usize = 3;
    let mut chains: Vec<(String, u64)> = Vec::new();
    for variable in &done.plan.variables {
        if let Action::Encode(choice) = &variable.action {
            let name = choice.chain.to_string();
            match chains.iter_mut().find(|(other, _)| *other == name) {
                Some((_, bytes)) => *bytes += variable.raw_bytes,
                None => chains.push((name, variable.raw_bytes)),
            }
        }
    }
    chains.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let more = chains.len().saturating_sub(SHOWN);
    let mut text = chains.into_iter().take(SHOWN).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
