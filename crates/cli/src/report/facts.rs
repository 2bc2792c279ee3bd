//! What the page shows: plan, measurement and stored sizes brought together, one row a variable.

use knarr_array::model::Variable;
use knarr_choose::plan::{Action, Choice, VariablePlan};
use knarr_codec::codec::{CodecList, ReaderLevel, filter_name, registered};
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_flow::pipeline::VariableReport;
use knarr_formats::output::{self, Content, OutputKind};
use knarr_routes::compress::Repacked;
use knarr_routes::compress::notes;
use knarr_worker::{Effort, Task, Worker};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// One repacked file.
pub(super) struct File<'a> {
    pub(super) done: &'a Repacked,
    /// Largest variable first.
    pub(super) rows: Vec<Row<'a>>,
    /// What a reader of the output needs, in words.
    pub(super) reader: String,
    /// What other readers would gain, in words, if that is worth telling.
    pub(super) gains: Option<String>,
    /// What there is to be said of the output besides.
    pub(super) notes: Vec<String>,
}

/// One variable.
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) variable: &'a VariablePlan,
    /// Bytes in the input file; the size of the values where the format does not say.
    pub(super) before: u64,
    /// Bytes in the output file.
    pub(super) after: u64,
    /// The chain in the input, in words, if it could be read again.
    pub(super) chain_before: Option<String>,
    /// What execution measured; absent for copied variables.
    pub(super) report: Option<VariableReport>,
}

impl<'a> Row<'a> {
    /// The choice, unless the variable was copied.
    pub(super) fn choice(&self) -> Option<&'a Choice> {
        match &self.variable.action {
            Action::Encode(choice) => Some(choice),
            Action::Copy(_) => None,
        }
    }

    /// True if the choice was to store the bytes as they are.
    pub(super) fn is_raw(&self) -> bool {
        self.choice().is_some_and(|choice| choice.chain.is_raw())
    }

    /// Measured encoding speed of one core, MB/s of raw bytes.
    pub(super) fn encode_speed(&self) -> Option<f64> {
        let report = self.report?;
        (report.encode_seconds > 0.0).then(|| float(report.raw_bytes) / 1e6 / report.encode_seconds)
    }

    /// Measured decoding speed of one core, MB/s of raw bytes; only where the proof decoded.
    pub(super) fn decode_speed(&self) -> Option<f64> {
        let report = self.report?;
        (report.decode_seconds > 0.0).then(|| float(report.raw_bytes) / 1e6 / report.decode_seconds)
    }

    /// Raw bytes over bytes written.
    pub(super) fn ratio(&self) -> Option<f64> {
        let report = self.report.filter(|report| report.encoded_bytes > 0)?;
        Some(float(report.raw_bytes) / float(report.encoded_bytes))
    }
}

impl<'a> File<'a> {
    /// Gathers the facts. Sizes per variable come from the two files themselves, which `look` opens; if one cannot be
    /// opened again, the plan's and the execution's numbers serve.
    pub(super) fn new(done: &'a Repacked, codecs: &CodecList, look: Look<'_>) -> Self {
        let before = look(&done.input);
        let after = look(&done.output);
        let mut rows: Vec<Row<'a>> = done
            .plan
            .variables
            .iter()
            .enumerate()
            .map(|(index, variable)| {
                let report = done.execution.variables.get(&index).copied();
                let bytes = |of: &Stored| of.get(&variable.path).and_then(|known| known.bytes);
                let before_bytes = bytes(&before).unwrap_or(variable.raw_bytes);
                let written = report.map(|report| report.encoded_bytes);
                Row {
                    name: variable.path.trim_start_matches('/'),
                    variable,
                    before: before_bytes,
                    after: written.or_else(|| bytes(&after)).unwrap_or(before_bytes),
                    chain_before: before.get(&variable.path).map(|known| known.chain.clone()),
                    report,
                }
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.before, row.variable.raw_bytes)));
        Self {
            done,
            rows,
            reader: reader_needed(done, codecs),
            gains: notes::gains_told(done),
            notes: notes::all(done),
        }
    }

    /// Bytes of all values when not compressed.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.variable.raw_bytes).sum()
    }

    /// Expected energy to encode, store and decode everything once, in joules.
    pub(super) fn joules(&self) -> f64 {
        let of =
            |row: &Row<'_>| row.choice().map(|choice| choice.expected.energy * float(row.variable.raw_bytes) / 1e9);
        self.rows.iter().filter_map(of).sum()
    }

    /// Variables with a lossy quality.
    pub(super) fn lossy(&self) -> usize {
        self.rows.iter().filter(|row| row.choice().is_some_and(|choice| choice.bound.is_some())).count()
    }

    /// Chunks, and those of them that were stored or kept lossless against the plan.
    pub(super) fn chunks(&self) -> VariableReport {
        let reports = self.rows.iter().filter_map(|row| Some((row.report?, row.is_raw())));
        reports.fold(VariableReport::default(), |sum, (report, is_raw)| VariableReport {
            chunks: sum.chunks + report.chunks,
            stored_chunks: sum.stored_chunks + if is_raw { 0 } else { report.stored_chunks },
            fallback_chunks: sum.fallback_chunks + report.fallback_chunks,
            refuted_chunks: sum.refuted_chunks + report.refuted_chunks,
            ..sum
        })
    }
}

/// How a variable is stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredVariable {
    bytes: Option<u64>,
    /// In words.
    chain: String,
}

/// How the variables of a file are stored, by their paths. Nothing if it cannot be read.
pub(crate) type Stored = BTreeMap<String, StoredVariable>;

/// Opens files for that: here, or in another process where one that crashes must not end this.
pub(crate) type Look<'l> = &'l mut dyn FnMut(&Path) -> Stored;

/// Opens the file here.
pub(crate) fn stored(path: &Path, codecs: &CodecList) -> Stored {
    if output::of(path).is_ok_and(OutputKind::is_plain) {
        // Values take the bytes that they take.
        return BTreeMap::new();
    }
    let Ok(source) = knarr_formats::open(path, codecs) else { return BTreeMap::new() };
    let variables = source.model().variables.iter();
    variables
        .map(|variable| {
            let (bytes, chain) = (variable.stored_bytes, variable.chain.clone());
            (variable.path.clone(), StoredVariable { bytes, chain })
        })
        .collect()
}

/// [`stored`] for another process.
#[derive(Serialize, Deserialize)]
pub(crate) struct LookInto(#[serde(with = "knarr_array::path_bytes")] PathBuf);

impl Task for LookInto {
    const NAME: &'static str = "look into";
    type Answer = Stored;

    fn run(self, engine: &Engine, _progress: &dyn Progress) -> knarr_array::Result<Stored> {
        Ok(stored(&self.0, &engine.codecs))
    }
}

impl LookInto {
    /// Has `worker` look.
    pub(crate) fn ask(worker: &mut Worker, path: &Path) -> Stored {
        let effort = Effort { jobs: 1, background: false, memory: None };
        worker.ask(&Self(path.to_owned()), effort, &AtomicBool::new(false), &Silent).unwrap_or_default()
    }
}

/// What a reader of the output needs, one clause a package.
pub(crate) fn reader_needed(done: &Repacked, codecs: &CodecList) -> String {
    match output::of(&done.output).map(OutputKind::content) {
        Ok(Content::Values(kind)) => {
            let one = match done.plan.variables.as_slice() {
                [one] => Some(Variable::plain(one.path.clone(), one.dtype, one.shape.clone())),
                _ => None,
            };
            if let Some(needs) = (kind.needs)(one.as_ref()) {
                return needs;
            }
        }
        Ok(Content::Chunks(kind)) => {
            if let Some(library) = kind.names_codecs() {
                let found = stored(&done.output, codecs);
                return zarr_reader(library, found.values().map(|variable| variable.chain.as_str()));
            }
        }
        Err(_) => {}
    }
    packages_needed(done).unwrap_or_else(|| done.reader.in_words().to_owned())
}

/// The packages that a reader of a netCDF or HDF5 file needs beside HDF5, in words; `None` if that is enough.
pub(crate) fn packages_needed(done: &Repacked) -> Option<String> {
    let mut packages: BTreeMap<&str, BTreeMap<u32, String>> = BTreeMap::new();
    for &id in done.filters.iter().filter(|id| !matches!(id, 1..=6)) {
        let package = match ReaderLevel::of_filters([id].into_iter()) {
            ReaderLevel::NetCdf => ReaderLevel::NetCdf.in_words(),
            _ => registered(id).map_or("an unknown plugin", |known| known.provider.package()),
        };
        packages.entry(package).or_default().insert(id, filter_name(id));
    }
    let clauses: Vec<String> = packages
        .iter()
        .map(|(package, filters)| {
            let names: Vec<String> = filters.iter().map(|(id, name)| format!("{name} ({id})")).collect();
            format!("{package}, for {}", names.join(", "))
        })
        .collect();
    (!clauses.is_empty()).then(|| clauses.join("; "))
}

/// What a reader of variables with these chains in a Zarr store needs, in words. `format` is that of the store: `Zarr v3`.
pub(crate) fn zarr_reader<'v>(format: &str, chains: impl IntoIterator<Item = &'v str>) -> String {
    // A shard holds the steps of its inner chain in parentheses.
    let steps = chains.into_iter().flat_map(|chain| chain.split(['|', '(', ')']));
    let names: BTreeSet<&str> = steps.map(|step| step.split(':').next().unwrap_or(step).trim()).collect();
    let codecs = names.into_iter().filter(|name| !matches!(*name, "" | "raw"));
    let (own, others): (Vec<&str>, Vec<&str>) = codecs.partition(|name| name.starts_with("knarr."));
    let library = match others.as_slice() {
        [] => format!("any {format} library"),
        others => format!("a {format} library with the codecs {}", others.join(", ")),
    };
    match own.as_slice() {
        [] => library,
        own => format!("Knarr, which alone has {}; for the other variables {library}", own.join(", ")),
    }
}

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_zarr_readers_need_follows_from_the_chains() {
        let needed = |chains: &[&str]| zarr_reader("Zarr v3", chains.iter().copied());
        assert_eq!(needed(&["raw"]), "any Zarr v3 library");
        assert_eq!(needed(&["shuffle | zstd:3", "zstd:1"]), "a Zarr v3 library with the codecs shuffle, zstd");
        assert_eq!(needed(&["sharding(raw)", "crc32c"]), "a Zarr v3 library with the codecs crc32c, sharding");
        assert!(needed(&["sharding(shuffle | zstd:3)"]).ends_with("codecs sharding, shuffle, zstd"));
        let own = needed(&["knarr.grid", "zstd:3"]);
        assert!(own.starts_with("Knarr, which alone has knarr.grid") && own.contains("codecs zstd"), "{own}");
    }
}
