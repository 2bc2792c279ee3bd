//! Values that lose accuracy, within bounds, on their way to components on other nodes: which bounds hold, and what was sent.
//!
//! The node that publishes a file answers which bounds there are, because it has the header. It reads that by the rules of `knarr
//! repack`, so a bound means the same in flight as in a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Datasets, HandedOver};
use knarr_config::InFlight;
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_formats::described;
use knarr_handover::{Crossed, Question, TransferBound};
use serde::{Deserialize, Serialize};

use knarr_worker::means::Means;
use knarr_worker::{Effort, Task, Worker};

/// Files that are remembered.
const MOST: usize = 256;

/// What crossed the network of a variable with a bound.
#[derive(Debug, Clone, PartialEq)]
pub struct LossyTransfer {
    /// The variable.
    pub variable: String,
    /// What was asked for, in words.
    pub bound: String,
    /// How much, and how far off it was.
    pub crossed: Crossed,
}

/// What crossed the network of files with bounds.
#[derive(Debug, Default)]
pub(in crate::launch) struct LossyTransfers(BTreeMap<PathBuf, Vec<LossyTransfer>>);

impl LossyTransfers {
    /// More of a variable has crossed.
    pub(in crate::launch) fn add(&mut self, target: &Path, stats: LossyTransfer) {
        let all = self.0.entry(target.to_owned()).or_default();
        match all.iter_mut().find(|known| known.variable == stats.variable && known.bound == stats.bound) {
            Some(known) => known.crossed = known.crossed.and(stats.crossed),
            None => all.push(stats),
        }
    }

    pub(in crate::launch) fn into_files(self) -> impl Iterator<Item = (PathBuf, Vec<LossyTransfer>)> {
        self.0.into_iter()
    }
}

/// Which bounds hold for a file that is offered, in a process of its own: what reads headers may crash.
#[derive(Serialize, Deserialize)]
pub(crate) struct FindBounds {
    #[serde(with = "knarr_array::path_bytes")]
    directory: PathBuf,
}

/// What was found: the bounds by the numbers of variables, and bounds that cannot be served.
type Found = (Vec<(usize, TransferBound)>, Vec<String>);

impl Task for FindBounds {
    const NAME: &'static str = "bounds";
    type Answer = Found;

    fn run(self, engine: &Engine, _: &dyn Progress) -> Result<Found> {
        let gone = || Error::new(ErrorKind::NotFound, "the session is gone");
        let handed = HandedOver::find(&self.directory)?.ok_or_else(gone)?;
        let header = self.directory.join(HandedOver::PUBLISHED);
        let datasets = Datasets::read(&self.directory)?;
        let addresses = datasets.as_ref().map(|datasets| datasets.addresses.as_slice());
        let (model, numbers) = described(&header, addresses, &engine.codecs)?;
        let (settings, coordinates) = (handed.rule.settings()?, Coordinates::of(&model));
        let (mut bounds, mut unserved) = (Vec::new(), Vec::new());
        for (number, index) in numbers.into_iter().enumerate() {
            let Some(variable) = index.and_then(|index: usize| model.variables.get(index)) else { continue };
            match settings.of(&coordinates, variable) {
                Ok(own) if own.quality.is_lossless() => {}
                Ok(own) => {
                    let spec = variable.chunk_spec(&[]);
                    let (name, quality) = (variable.name().to_owned(), own.quality.to_string());
                    let (dtype, endian, fills) = (spec.dtype, spec.endian, spec.fills);
                    bounds.push((number, TransferBound { variable: name, dtype, endian, fills, quality }));
                }
                Err(error) => unserved.push(error.to_string()),
            }
        }
        unserved.extend(settings.lacking(&model).into_iter().map(|(_, error)| error.to_string()));
        Ok((bounds, unserved))
    }
}

/// The bounds of files that this node offers or has parts of, and what it has sent of them.
pub(in crate::launch) struct TransferBounds {
    worker: Mutex<Worker>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the names of directories.
    known: BTreeMap<String, Known>,
    lossy: LossyTransfers,
    /// Bounds that cannot be served, by files.
    unserved: BTreeMap<PathBuf, Vec<String>>,
}

/// Values that are being sent.
pub(in crate::launch) struct Sending {
    target: PathBuf,
    variable: String,
    bound: String,
}

#[derive(Clone)]
struct Known {
    target: PathBuf,
    /// The rule says that bounds hold on the way.
    may_lose: bool,
    /// The answer to who asks for bounds, and what the header was then.
    answer: Option<(Vec<u8>, u64)>,
}

impl TransferBounds {
    pub(in crate::launch) fn new(means: Means) -> Self {
        Self { worker: Mutex::new(Worker::new(means)), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a file, of which a directory of the spool holds a part.
    fn known(&self, file: &str, directory: &Path) -> Result<Known> {
        if let Some(known) = self.state().known.get(file) {
            return Ok(known.clone());
        }
        let gone = || Error::new(ErrorKind::NotFound, format!("nothing is handed over as '{file}'"));
        let handed = HandedOver::find(directory)?.ok_or_else(gone)?;
        let may_lose = handed.rule.transfer().in_flight() == InFlight::Bound;
        let known = Known { target: handed.target, may_lose, answer: None };
        let mut state = self.state();
        if state.known.len() >= MOST {
            state.known.clear();
        }
        state.known.insert(file.to_owned(), known.clone());
        Ok(known)
    }

    /// The answer to [`Question::Bounds`].
    ///
    /// # Errors
    /// `NotFound` for what is not there; `Read`, `Corrupt` for a header that makes no sense.
    pub(in crate::launch) fn bounds(&self, file: &str, directory: &Path) -> Result<Vec<u8>> {
        // Ranks ask at the same time, and the first one has the work done for all.
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let header = directory.join(HandedOver::PUBLISHED);
        let length = header.metadata().map_err(|error| Error::read(&header, &error))?.len();
        let known = self.known(file, directory)?;
        if let Some((answer, _)) = known.answer.filter(|(_, before)| *before == length) {
            return Ok(answer);
        }
        let (bounds, unserved) = if known.may_lose {
            let task = FindBounds { directory: directory.to_owned() };
            let effort = Effort { jobs: 1, background: false, memory: None };
            worker.ask(&task, effort, &AtomicBool::new(false), &Silent)?
        } else {
            Found::default()
        };
        let answer = serde_json::to_vec(&bounds).map_err(|error| Error::internal(error.to_string()))?;
        let mut state = self.state();
        if !unserved.is_empty() {
            state.unserved.insert(known.target, unserved);
        }
        if let Some(known) = state.known.get_mut(file) {
            known.answer = Some((answer.clone(), length));
        }
        Ok(answer)
    }

    /// A question about values of a file: they lose nothing if the rule on this node does not say that they may. Returns what
    /// has to be told of them, if their variable has a bound.
    ///
    /// # Errors
    /// `NotFound`, `Read`, `Corrupt`.
    pub(in crate::launch) fn validate(
        &self,
        question: &mut Question,
        file: &str,
        directory: &Path,
    ) -> Result<Option<Sending>> {
        let Question::Values { within: Some((within, loses)), .. } = question else { return Ok(None) };
        let Known { target, may_lose, .. } = self.known(file, directory)?;
        *loses &= may_lose;
        Ok(Some(Sending { target, variable: within.variable.clone(), bound: within.quality.clone() }))
    }

    /// Values of a variable with a bound were sent.
    pub(in crate::launch) fn sent(&self, sending: Sending, crossed: Crossed) {
        let Sending { target, variable, bound } = sending;
        self.state().lossy.add(&target, LossyTransfer { variable, bound, crossed });
    }

    /// What was sent, and which bounds could not be served.
    pub(in crate::launch) fn take(&self) -> (LossyTransfers, BTreeMap<PathBuf, Vec<String>>) {
        let mut state = self.state();
        (std::mem::take(&mut state.lossy), std::mem::take(&mut state.unserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{DType, Endian};
    use knarr_array::quality::Observed;
    use knarr_config::Config;
    use knarr_worker::means::Resources;

    const RULE: &str = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"a\"\nto = [\"b\"]\n";

    fn within() -> TransferBound {
        let (variable, dtype, endian, fills) = ("T".to_owned(), DType::F32, Endian::Little, Vec::new());
        TransferBound { variable, dtype, endian, fills, quality: "max_abs_error=0.1".to_owned() }
    }

    #[test]
    fn values_lose_nothing_unless_the_rule_of_this_node_says_so() {
        let folder = std::env::temp_dir().join(format!("knarr-flight-{}", std::process::id()));
        let resources = Resources { jobs: Some(1), max_mem: None, profile: None, model: None };
        let bounds = TransferBounds::new(Means::without_costs(&resources).unwrap());
        let bound = "in_flight = \"bound\"\nvariables.T.max_abs_error = 0.1\n";
        for (file, more, may_lose) in [("auto", "", false), ("bound", bound, true)] {
            let directory = folder.join(file);
            std::fs::create_dir_all(&directory).unwrap();
            let rule = Config::parse(&format!("{RULE}{more}")).unwrap().file.remove(0);
            HandedOver::new(PathBuf::from("/data/x.nc"), rule, 1).begin(&directory).unwrap();
            std::fs::write(directory.join(HandedOver::PUBLISHED), b"header").unwrap();
            if !may_lose {
                assert_eq!(bounds.bounds(file, &directory).unwrap(), b"[]");
            }
            for asked in [true, false] {
                let (file, runs) = (file.to_owned(), Vec::new());
                let within = Some((within(), asked));
                let mut question = Question::Values { file, rank: 0, more: false, runs, packed: None, within };
                let sending = bounds.validate(&mut question, "f", &directory).unwrap().unwrap();
                let Question::Values { within: Some((_, loses)), .. } = question else { unreachable!() };
                assert_eq!(loses, asked && may_lose);
                bounds.sent(sending, Crossed { raw: 8, sent: 5, worst: Observed::default() });
            }
            bounds.state().known.clear();
        }
        let mut log = Question::Log { file: "auto".to_owned(), rank: 0, from: 0 };
        assert!(bounds.validate(&mut log, "auto", &folder.join("auto")).unwrap().is_none());
        let missing = bounds.bounds("gone", &folder.join("gone")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let (lossy, unserved) = bounds.take();
        let all: Vec<_> = lossy.into_files().collect();
        let crossed = Crossed { raw: 32, sent: 20, worst: Observed::default() };
        let stats = LossyTransfer { variable: "T".to_owned(), bound: "max_abs_error=0.1".to_owned(), crossed };
        assert_eq!(all, [(PathBuf::from("/data/x.nc"), vec![stats])]);
        assert!(unserved.is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
