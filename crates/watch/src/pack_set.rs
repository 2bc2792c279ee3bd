//! A set that is packed in a process of its own.

use std::path::{Path, PathBuf};

use knarr_array::error::Result;
use knarr_checkpoint::{Input, PackOptions, pack};
use knarr_flow::engine::{Engine, Progress};
use serde::{Deserialize, Serialize};

use knarr_worker::Task;

/// Which files become which set, and how.
#[derive(Serialize, Deserialize)]
pub struct PackSet {
    inputs: Vec<File>,
    #[serde(with = "knarr_array::path_bytes")]
    target: PathBuf,
    /// But for the earlier set.
    options: PackOptions,
    #[serde(with = "knarr_array::path_bytes::option")]
    base: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct File {
    #[serde(with = "knarr_array::path_bytes")]
    path: PathBuf,
    name: Vec<u8>,
    number: u64,
}

/// What is told of it.
#[derive(Serialize, Deserialize)]
pub struct PackedSet {
    /// Bytes of the ranks' files.
    pub raw_bytes: u64,
    /// Bytes that were written.
    pub packed_bytes: u64,
    /// Wall time.
    pub seconds: f64,
}

impl PackSet {
    pub(crate) fn new(inputs: &[Input], target: &Path, options: &PackOptions) -> Self {
        let file = |input: &Input| {
            let Input { path, name, number } = input.clone();
            File { path, name, number }
        };
        Self {
            inputs: inputs.iter().map(file).collect(),
            target: target.to_owned(),
            options: PackOptions { base: None, ..options.clone() },
            base: options.base.clone(),
        }
    }
}

impl Task for PackSet {
    const NAME: &'static str = "pack set";
    type Answer = PackedSet;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<PackedSet> {
        let inputs = self.inputs.into_iter().map(|File { path, name, number }| Input { path, name, number });
        let inputs: Vec<Input> = inputs.collect();
        let options = PackOptions { base: self.base, ..self.options };
        let packed = pack(engine, &inputs, &self.target, &options, &knarr_formats::layout::read, progress)?;
        let (raw_bytes, packed_bytes, seconds) = (packed.raw_bytes, packed.packed_bytes, packed.seconds);
        Ok(PackedSet { raw_bytes, packed_bytes, seconds })
    }
}
