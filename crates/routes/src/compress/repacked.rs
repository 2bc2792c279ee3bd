//! What a repack did, and what it took.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knarr_array::filter::FilterId;
use knarr_array::goal::Goal;
use knarr_array::model::Variable;
use knarr_choose::form::Form;

use knarr_choose::plan::Plan;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::energy::{Energy, Moved, Phases};
use knarr_flow::engine::Engine;
use knarr_flow::generate::Generated;
use knarr_flow::pipeline::Execution;
use knarr_flow::store::Source;
use knarr_flow::urls::url_of;
use knarr_formats::Selected;
use knarr_formats::hdf5::AsMade;
use knarr_formats::output::{self, Losses, OutputKind};
use serde::{Deserialize, Serialize};

/// What a repack did. Serialized without the names of files, which need not be text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repacked {
    /// Input as named.
    #[serde(skip)]
    pub input: PathBuf,
    /// Output as named.
    #[serde(skip)]
    pub output: PathBuf,
    /// Size of the input in bytes: of all its files together, of what they hold of the variables that were selected, or
    /// of generated values.
    pub input_bytes: u64,
    /// Size of the output in bytes.
    pub output_bytes: u64,
    /// The plan that was carried out.
    pub plan: Plan,
    /// What was measured.
    pub execution: Execution,
    /// What it took, from choosing to the last write.
    pub energy: Energy,
    /// Wall time of everything, in seconds.
    pub seconds: f64,
    /// Wall time of choosing, in seconds.
    pub choosing_seconds: f64,
    /// What readers of the output need.
    pub reader: ReaderLevel,
    /// Filters that chunks of an HDF5 output went through.
    pub filters: BTreeSet<FilterId>,
    /// References of the input whose objects are gone: in the output they are null.
    pub references_lost: usize,
    /// What the output does not keep of the input, or holds and some readers do not find.
    pub losses: Losses,
    /// Variables and dimensions whose chunks were asked for to no effect.
    pub chunks_unheard: Vec<String>,
    /// Steps of chains that were asked for and have no use where they stand, in words.
    pub idle_steps: Vec<String>,
    /// Why the output is the input byte for byte, if it is.
    pub copied: Option<String>,
    /// How the input stores variables that have other filters or chunks in an HDF5 output.
    #[serde(default)]
    pub as_made: AsMade,
}

impl Repacked {
    /// A file of so many bytes that is to be as it is, for the reason `why`: what is in it is not looked at.
    pub fn as_it_is(engine: &Engine, bytes: u64, why: &str, seconds: f64) -> Self {
        let plan = Plan {
            version: knarr_choose::plan::VERSION,
            program: concat!("knarr ", env!("CARGO_PKG_VERSION")).to_owned(),
            input: String::new(),
            input_file: None,
            destination: Form::Values,
            goal: Goal::balanced(),
            portable: ReaderLevel::Core,
            profile: engine.profile.machine.clone(),
            energy_source: engine.profile.power.source.clone(),
            variables: Vec::new(),
            lacking: Vec::new(),
            left_out: None,
        };
        let energy = energy(engine, &plan, &Execution::default(), (bytes, bytes), None);
        Self {
            copied: Some(why.to_owned()),
            ..Self::of_values(plan, Execution::default(), energy, (bytes, bytes), seconds)
        }
    }

    /// What was made of values without a choice of chains: `sizes` are bytes of the input and of the output.
    pub(super) fn of_values(
        plan: Plan,
        execution: Execution,
        energy: Energy,
        (input_bytes, output_bytes): (u64, u64),
        seconds: f64,
    ) -> Self {
        Self {
            input: PathBuf::new(),
            output: PathBuf::new(),
            input_bytes,
            output_bytes,
            energy,
            plan,
            execution,
            seconds,
            choosing_seconds: 0.0,
            reader: ReaderLevel::Core,
            filters: BTreeSet::new(),
            references_lost: 0,
            losses: Losses::default(),
            chunks_unheard: Vec::new(),
            idle_steps: Vec::new(),
            copied: None,
            as_made: AsMade::new(),
        }
    }

    /// True if the output holds nothing but values.
    pub fn is_plain(&self) -> bool {
        output::of(&self.output).is_ok_and(OutputKind::is_plain)
    }
}

/// What a run took that read and wrote so many bytes.
pub(super) fn energy(
    engine: &Engine,
    plan: &Plan,
    execution: &Execution,
    (read, written): (u64, u64),
    counted: Option<f64>,
) -> Energy {
    let choose = plan.choices().map(|choice| choice.seconds);
    let phases = Phases { choose: choose.sum(), ..execution.phases };
    let raw = plan.variables.iter().enumerate().filter_map(|(index, variable)| match execution.variables.get(&index) {
        Some(report) => Some(report.raw_bytes),
        // Values that go into a format that holds nothing else.
        None => execution.variables.is_empty().then_some(variable.raw_bytes),
    });
    let moved = Moved { raw: raw.sum(), read, written };
    Energy::of(&phases, moved, &engine.profile.power, counted)
}

/// Bytes of the input: those that are read, or of the values if there is no file.
pub(super) fn input_bytes(source: &dyn Source) -> u64 {
    if source.as_any().is::<Generated>() {
        return source.model().variables.iter().map(Variable::raw_bytes).sum();
    }
    read_bytes(source)
}

/// Bytes of the files; of what they hold of their variables, if some were selected or the files lie elsewhere.
pub fn read_bytes(source: &dyn Source) -> u64 {
    if !source.as_any().is::<Selected>() && url_of(source.path()).is_none() {
        return size_of(source.path());
    }
    let variables = source.model().variables.iter();
    variables.map(|variable| variable.stored_bytes.unwrap_or_else(|| variable.raw_bytes())).sum()
}

/// Bytes of a file, or of all files below a directory.
pub fn size_of(path: &Path) -> u64 {
    let Ok(found) = std::fs::metadata(path) else { return 0 };
    if found.is_file() {
        return found.len();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries.flatten().map(|entry| size_of(&entry.path())).sum()
}
