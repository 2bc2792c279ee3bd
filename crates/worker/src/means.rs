//! Where an engine has its threads, memory, profile and model from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::Result;
use knarr_choose::predictor::Predictor;
use knarr_choose::profile::Profile;
use knarr_config::Machine;
use knarr_flow::engine::{Engine, parse_size};
use serde::{Deserialize, Serialize};

/// What the user lets the work have.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Worker threads; what the batch system says, else all cores, if `None`.
    pub jobs: Option<u32>,
    /// Memory for chunks, buffers and caches, such as `512M`; 1 GiB if `None`.
    pub max_mem: Option<String>,
    /// Profile of the machine; that of the configuration, else the user's, else the one that is built in, if `None`.
    pub profile: Option<PathBuf>,
    /// Model of the predictor, as the profile.
    pub model: Option<PathBuf>,
}

impl Resources {
    /// True if the user or the batch system says how many threads this process may have.
    pub fn says_jobs(&self) -> bool {
        self.jobs.is_some() || slurm_cpus().is_some()
    }

    /// Bytes of memory, if the user says how many.
    fn memory(&self) -> Result<Option<u64>> {
        self.max_mem.as_deref().map(parse_size).transpose().map_err(|error| error.at("--max-mem"))
    }
}

/// What an engine is made of: enough to set up the same one in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Means {
    /// All cores if nothing is said.
    jobs: Option<usize>,
    max_mem: u64,
    /// What the user says is so many times as much.
    mem_asked: u64,
    /// Built in if there is none, as the model.
    #[serde(with = "knarr_array::path_bytes::option")]
    profile: Option<PathBuf>,
    #[serde(with = "knarr_array::path_bytes::option")]
    model: Option<PathBuf>,
}

impl Means {
    /// Those of the command line, else of the configuration, else of the user.
    ///
    /// # Errors
    /// `Usage` for a size of memory that is none.
    pub fn new(resources: &Resources, machine: &Machine) -> Result<Self> {
        Ok(Self {
            profile: named(resources.profile.as_ref(), machine.profile.as_ref(), user_profile()),
            model: named(resources.model.as_ref(), machine.model.as_ref(), user_model()),
            ..Self::without_costs(resources)?
        })
    }

    /// Those of a run, and the memory that values may take which programs hand over, if the user limits it: each has half of
    /// what is said.
    ///
    /// # Errors
    /// As for [`Means::new`].
    pub fn of_run(resources: &Resources, machine: &Machine) -> Result<(Self, Option<u64>)> {
        let (means, half) = (Self::new(resources, machine)?, resources.memory()?.map(|bytes| bytes / PARTS));
        Ok((Self { max_mem: half.unwrap_or(means.max_mem), mem_asked: PARTS, ..means }, half))
    }

    /// With the user's profile and the built-in model.
    ///
    /// # Errors
    /// As for [`Means::new`].
    pub fn without_model(resources: &Resources) -> Result<Self> {
        let profile = named(resources.profile.as_ref(), None, user_profile());
        Ok(Self { profile, ..Self::without_costs(resources)? })
    }

    /// With the built-in profile and model, whatever the user has.
    ///
    /// # Errors
    /// As for [`Means::new`].
    pub fn without_costs(resources: &Resources) -> Result<Self> {
        let jobs = resources.jobs.map(|jobs| usize::try_from(jobs).unwrap_or(1)).or_else(slurm_cpus);
        let max_mem = resources.memory()?.unwrap_or(MEMORY);
        Ok(Self { jobs, max_mem, mem_asked: 1, profile: None, model: None })
    }

    /// The file with the profile; `None` if that is built in.
    pub fn profile(&self) -> Option<&Path> {
        self.profile.as_deref()
    }

    /// The engine. What a signal does is for the caller to say.
    ///
    /// # Errors
    /// Why profile or model cannot be read.
    pub fn engine(&self) -> Result<Engine> {
        let mut engine = Engine::new(knarr_native::codecs()?);
        engine.jobs = self.jobs.unwrap_or(engine.jobs);
        engine.max_mem = self.max_mem;
        engine.mem_asked = self.mem_asked;
        engine.stores = Some(knarr_s3::stores());
        if engine.max_mem < AMPLE {
            knarr_native::give_back_freed();
        }
        if let Some(path) = &self.profile {
            engine.profile = Arc::new(Profile::read(path)?);
        }
        if let Some(path) = &self.model {
            engine.predictor = Arc::new(Predictor::read(path)?);
        }
        Ok(engine)
    }
}

/// The file that was asked for, else the one that is configured, else the user's if there is one.
fn named(asked: Option<&PathBuf>, configured: Option<&PathBuf>, users: Option<PathBuf>) -> Option<PathBuf> {
    asked.or(configured).cloned().or_else(|| users.filter(|path| path.exists()))
}

/// Memory for chunks, buffers and caches where nothing is said.
const MEMORY: u64 = 1 << 30;
/// What a run is allowed is for values and for chunks, buffers and caches, each half.
const PARTS: u64 = 2;
/// With less memory than this, what the allocator keeps of freed blocks is a large part of it.
const AMPLE: u64 = 512 << 20;

/// Where the user's profile lies: `$XDG_CONFIG_HOME/knarr/profile.json`, else below `~/.config`.
pub fn user_profile() -> Option<PathBuf> {
    user_file("profile.json")
}

/// Where the user's model lies: `model.json` beside the profile.
pub fn user_model() -> Option<PathBuf> {
    user_file("model.json")
}

fn user_file(name: &str) -> Option<PathBuf> {
    // The specification takes an empty variable for none.
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))?;
    Some(base.join("knarr").join(name))
}

fn slurm_cpus() -> Option<usize> {
    std::env::var("SLURM_CPUS_PER_TASK").ok()?.parse().ok().filter(|&cpus| cpus > 0)
}
