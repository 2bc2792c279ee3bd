//! What a run did, for people and for programs.

use std::collections::BTreeMap;

use knarr_array::error::ErrorKind;
use knarr_run::launch::{
    Became, CopiesUsed, Crossed, Done, Forecasts, Latencies, LossyTransfer, NameWaits, Ran, Row, SpoolUsage, TierUsage,
    packed,
};

use super::estimates;
use super::report_line::{ReportLine, report_line};
use super::words::shown;
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
        self.files.iter().filter_map(|file| report_line(file).failure)
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
        let mut rows: Vec<Vec<String>> =
            self.steps.iter().map(cells).chain(self.files.iter().map(file_cells)).collect();
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
        let lossy =
            self.files.iter().flat_map(|done| done.lossy_transfers.iter().map(move |stats| (&done.path, stats)));
        let rows: Vec<Vec<String>> = lossy
            .map(|(path, LossyTransfer { variable, bound, crossed: Crossed { raw, sent, worst } })| {
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

    /// What values took that waited for their files; empty if none did.
    pub(super) fn spool(usage: &SpoolUsage) -> String {
        match (usage.memory_bytes, usage.disk_bytes) {
            (0, 0) => String::new(),
            (memory, 0) => format!("Values that waited for their files took up to {} of memory.", table::bytes(memory)),
            (memory, disk) => {
                let [memory, disk] = [memory, disk].map(table::bytes);
                format!("Values that waited for their files took up to {memory} of memory and {disk} on the disk.")
            }
        }
    }

    /// What waited in which tiers, and how fast it moved to its place; empty if nothing did.
    pub(super) fn tiers(usage: &SpoolUsage) -> String {
        let Some((last, waiting)) = usage.tiers.split_last() else { return String::new() };
        let held = waiting.iter().filter(|tier| tier.most_bytes > 0);
        let held = held.map(|tier| format!("'{}' ({} at most)", tier.name, table::bytes(tier.most_bytes)));
        let held = held.collect::<Vec<_>>().join(", ");
        if held.is_empty() {
            return String::new();
        }
        let speed = |rate: f64| match rate {
            1e6.. => format!("{:.0} MB/s", rate / 1e6),
            _ => format!("{:.0} kB/s", rate / 1e3),
        };
        let rate = last.bytes_per_second.map_or_else(String::new, |rate| format!(" at {}", speed(rate)));
        let emulated = usage.tiers.iter().filter_map(|tier| Some((&tier.name, tier.emulated?)));
        let emulated: Vec<_> = emulated.map(|(name, rate)| format!("'{name}' {}", speed(rate))).collect();
        let label = if emulated.is_empty() { String::new() } else { format!(" (emulated: {})", emulated.join(", ")) };
        format!("Files waited in {held} and moved to '{}'{rate}{label}.", last.name)
    }

    /// How soon files that waited in tiers were safe; empty if there were none.
    pub(super) fn latencies(latencies: &Latencies) -> String {
        let Some(durable) = latencies.durable else { return String::new() };
        let local = latencies
            .local
            .map_or_else(String::new, |local| format!("safe in a tier after {local:.1} s at most, and "));
        format!("Files were {local}in their places {durable:.1} s after they were closed, at most.")
    }

    /// What stayed in tiers when it was in its place, and how often that was read; empty if nothing did.
    pub(super) fn copies(copies: &CopiesUsed) -> String {
        let CopiesUsed { files, most_bytes, reads } = *copies;
        if files == 0 {
            return String::new();
        }
        let (files, bytes) =
            (table::count(usize::try_from(files).unwrap_or(usize::MAX), "file"), table::bytes(most_bytes));
        let reads = if reads == 1 { "once".to_owned() } else { format!("{reads} times") };
        format!("Copies of {files} stayed in tiers ({bytes} at most), and were opened {reads} to read.")
    }

    /// At which levels files were encoded that waited in tiers, and how well that was predicted.
    pub(super) fn forecasts(forecasts: &Forecasts) -> String {
        let of = |level: &(&str, u32)| format!("{} at level '{}'", table::count(level.1 as usize, "file"), level.0);
        let levels = forecasts.levels.iter().map(of).collect::<Vec<_>>().join(", ");
        let off = |[error, _]: [Option<f64>; 2]| error.map_or_else(none, |error| format!("{:.0} %", error * 100.0));
        let (files, saved) = forecasts.improved;
        let improved = match files {
            0 => String::new(),
            1 => format!(" 1 file was encoded again while there was time, and became {} smaller.", table::bytes(saved)),
            _ => format!(
                " {files} files were encoded again while there was time, and became {} smaller.",
                table::bytes(saved)
            ),
        };
        format!(
            "Encoded {levels}.{improved} Of {}, ratios were predicted {} off and times {}.",
            table::count(usize::try_from(forecasts.variables).unwrap_or(usize::MAX), "variable"),
            off(forecasts.ratio),
            off(forecasts.time)
        )
    }

    /// Which calls waited for files that were not there yet; empty if none did.
    pub(super) fn name_waits(waits: &NameWaits) -> String {
        let Some((longest, name)) = &waits.longest else { return String::new() };
        let calls = waits.calls.iter().map(|(call, count)| format!("{} {count}", call.word()));
        format!(
            "{} waited {:.1} s for names of files ({}; longest {:.1} s: {name}).",
            if waits.count() == 1 { "1 call".to_owned() } else { format!("{} calls", waits.count()) },
            waits.time.as_secs_f64(),
            calls.collect::<Vec<_>>().join(", "),
            longest.as_secs_f64()
        )
    }

    /// Over all files and steps whose size before and after is known.
    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for ReportLine { before, after, seconds, .. } in
            self.files.iter().map(report_line).filter(|report_line| report_line.counts)
        {
            after.into_iter().for_each(|after| totals.add(before.unwrap_or(after), after, seconds.unwrap_or(0.0)));
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
        let failed: Vec<Failed> = self.files.iter().filter_map(|file| failed(file, ran.code)).collect();
        let Totals { before, after, seconds } = self.totals();
        let totals = crate::printing::totals::Totals {
            files: self.files.len() - failed.len(),
            copied: packed(self.files).filter(|done| done.copied.is_some()).count(),
            skipped: self.files.iter().filter(|file| report_line(file).outcome == "left").count(),
            failed: failed.len(),
            input_bytes: before,
            output_bytes: after,
        };
        #[expect(clippy::cast_precision_loss, reason = "bytes of files")]
        let saved = before as f64 - after as f64;
        let result = serde_json::json!({
            // Packing proves every chunk.
            "verified": failed.is_empty(), "saved_per_year": ran.site.map(|site| site.yearly(saved)),
            "hdf5_calls_seen": ran.calls_seen, "sent_to_nodes": ran.sent,
            "name_waits": name_waits_json(&ran.name_waits),
            "given_up": self.files.iter().filter(|file| report_line(file).outcome == "given_up").count(),
            "spool": {"memory_bytes": ran.usage.memory_bytes, "disk_bytes": ran.usage.disk_bytes},
            "tiers": ran.usage.tiers.iter().map(tier_json).collect::<Vec<_>>(),
            "longest_until": {"local_s": ran.latencies.local, "durable_s": ran.latencies.durable},
            "copies": {"files": ran.copies.files, "most_bytes": ran.copies.most_bytes, "reads": ran.copies.reads},
            "forecasts": ran.forecasts.as_ref().map(forecasts_json), "files": self.files.iter().map(json).collect::<Vec<_>>(),
        });
        let mut all = crate::report::document(result, &failed, totals);
        if let Some(all) = all.as_object_mut() {
            // That of the program, most of the time: files that failed do not change it.
            all.insert("exit_code".to_owned(), ran.code.into());
            if let Some(totals) = all.get_mut("totals").and_then(serde_json::Value::as_object_mut) {
                totals.insert("seconds".to_owned(), seconds.into());
            }
            if let Some(estimated) = estimates::totals(self.files) {
                all.insert("estimated".to_owned(), estimated);
            }
            if !self.steps.is_empty() {
                all.insert("checkpoints".to_owned(), self.steps.iter().map(step_json).collect());
            }
        }
        all
    }
}

/// What there is to say of a file that could not be packed in a run that ended with this code.
fn failed(file: &Done, code: u8) -> Option<Failed> {
    let error = report_line(file).error?;
    Some(Failed {
        input: file.path.clone(),
        output: file.path.clone(),
        error: error.to_string(),
        // Which signal it was only the run knows.
        exit_code: if error.kind() == ErrorKind::Interrupted && code != 0 { code } else { error.kind().exit_code() },
    })
}

fn name_waits_json(waits: &NameWaits) -> serde_json::Value {
    let by_call: serde_json::Map<_, _> =
        waits.calls.iter().map(|(call, count)| (call.word().to_owned(), (*count).into())).collect();
    serde_json::json!({
        "calls": waits.count(), "seconds": waits.time.as_secs_f64(), "by_call": by_call,
        "longest_seconds": waits.longest.as_ref().map(|(longest, _)| longest.as_secs_f64()),
        "longest_name": waits.longest.as_ref().map(|(_, name)| name.as_str()),
    })
}

fn json(file: &Done) -> serde_json::Value {
    let ReportLine { outcome, before, after, reason, more, .. } = report_line(file);
    let name = file.path.display().to_string();
    let mut all = serde_json::json!({
        "input": name, "output": name, "input_bytes": before, "output_bytes": after, "outcome": outcome,
    });
    if let Some(all) = all.as_object_mut() {
        all.extend(reason.map(|reason| ("reason".to_owned(), reason.into())));
        if let serde_json::Value::Object(more) = more {
            all.extend(more);
        }
        if !file.lossy_transfers.is_empty() {
            all.insert("in_flight".to_owned(), file.lossy_transfers.iter().map(lossy_json).collect());
        }
    }
    all
}

/// A variable that may lose something on its way. An error that is infinite relative to a value is `null`.
fn lossy_json(stats: &LossyTransfer) -> serde_json::Value {
    let LossyTransfer { variable, bound, crossed: Crossed { raw, sent, worst } } = stats;
    serde_json::json!({
        "variable": variable, "bound": bound, "raw_bytes": raw, "sent_bytes": sent, "max_abs_error": worst.max_abs,
        "max_rel_error": worst.max_rel, "changed": worst.changed,
    })
}

fn file_cells(file: &Done) -> Vec<String> {
    let ReportLine { before, after, seconds, words, .. } = report_line(file);
    let ratio = before.zip(after).filter(|_| seconds.is_some());
    vec![
        shown(&file.path),
        before.map_or_else(none, table::bytes),
        after.map_or_else(none, table::bytes),
        ratio.map_or_else(none, |(before, after)| table::ratio(before, after)),
        seconds.map_or_else(none, |seconds| format!("{seconds:.2}")),
        words,
    ]
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

fn tier_json(tier: &TierUsage) -> serde_json::Value {
    serde_json::json!({
        "name": tier.name, "capacity_bytes": tier.capacity, "most_bytes": tier.most_bytes,
        "bytes_per_second": tier.bytes_per_second, "emulated_bytes_per_second": tier.emulated,
    })
}

fn forecasts_json(forecasts: &Forecasts) -> serde_json::Value {
    let Forecasts {
        costs,
        levels,
        improved: (improved, saved),
        variables,
        ratio: [ratio_error, ratio],
        time: [time_error, time],
    } = forecasts;
    let levels: BTreeMap<&str, u32> = levels.iter().copied().collect();
    serde_json::json!({
        "choosing_seconds": { "decisions": costs.decisions, "monitor": costs.monitor, "feedback": costs.feedback },
        "levels": levels, "encoded_again": improved, "encoded_again_saved_bytes": saved, "variables": variables, "ratio_error": ratio_error, "ratio_r_squared": ratio,
        "time_error": time_error, "time_r_squared": time,
    })
}

impl Totals {
    fn add(&mut self, before: u64, after: u64, seconds: f64) {
        self.before += before;
        self.after += after;
        self.seconds += seconds;
    }
}

fn none() -> String {
    "-".to_owned()
}
