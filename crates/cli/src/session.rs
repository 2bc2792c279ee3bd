//! The engine of one invocation: threads, memory, profile, model, and what an interrupt does.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use knarr_array::error::{Error, Result};
use knarr_capture::config::Machine;
use knarr_choose::predictor::Predictor;
use knarr_choose::profile::Profile;
use knarr_flow::engine::{Engine, parse_size};
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

/// A limit of file sizes (`ulimit -f`) is an error of the write that meets it, told as others are, and not the end of
/// the program. Programs that are started get what they would have got.
pub(crate) fn outlive_file_limits() {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Where an engine has its threads, memory, profile and model from: enough to set up the same one in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Means {
    /// All cores if nothing is said.
    jobs: Option<usize>,
    max_mem: u64,
    /// Built in if there is none, as the model.
    #[serde(with = "crate::path_bytes::option")]
    profile: Option<PathBuf>,
    #[serde(with = "crate::path_bytes::option")]
    model: Option<PathBuf>,
}

impl Means {
    /// Those of the command line, else of the configuration, else of the user.
    pub(crate) fn new(resources: &Resources, machine: &Machine) -> Result<Self> {
        Ok(Self {
            profile: named(resources.profile.as_ref(), machine.profile.as_ref(), user_profile()),
            model: named(resources.model.as_ref(), machine.model.as_ref(), user_model()),
            ..Self::without_costs(resources)?
        })
    }

    fn without_costs(resources: &Resources) -> Result<Self> {
        let jobs = resources.jobs.map(|jobs| usize::try_from(jobs).unwrap_or(1)).or_else(slurm_cpus);
        let max_mem = parse_size(&resources.max_mem).map_err(|error| error.at("--max-mem"))?;
        Ok(Self { jobs, max_mem, profile: None, model: None })
    }

    /// The engine, for a command that handles signals itself.
    pub(crate) fn engine(&self) -> Result<Engine> {
        let mut engine = Engine::new(knarr_native::codecs()?);
        engine.jobs = self.jobs.unwrap_or(engine.jobs);
        engine.max_mem = self.max_mem;
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

/// Sets up codecs, threads, memory, profile, model and what Ctrl-C and termination do.
pub(crate) fn engine(resources: &Resources, machine: &Machine) -> Result<Engine> {
    engine_of(&Means::new(resources, machine)?)
}

/// As [`engine`], from what was found already.
pub(crate) fn engine_of(means: &Means) -> Result<Engine> {
    let engine = means.engine()?;
    register(&engine)?;
    Ok(engine)
}

/// As [`engine`], with the user's profile and the built-in model.
pub(crate) fn engine_without_model(resources: &Resources) -> Result<Engine> {
    let profile = named(resources.profile.as_ref(), None, user_profile());
    engine_of(&Means { profile, ..Means::without_costs(resources)? })
}

/// As [`engine`], with the built-in profile and model whatever the user has.
pub(crate) fn engine_without_profile(resources: &Resources) -> Result<Engine> {
    engine_of(&Means::without_costs(resources)?)
}

/// The file that was asked for, else the one that is configured, else the user's if there is one.
fn named(asked: Option<&PathBuf>, configured: Option<&PathBuf>, users: Option<PathBuf>) -> Option<PathBuf> {
    asked.or(configured).cloned().or_else(|| users.filter(|path| path.exists()))
}

/// With less memory than this, what the allocator keeps of freed blocks is a large part of it.
const AMPLE: u64 = 512 << 20;

fn register(engine: &Engine) -> Result<()> {
    for signal in STOPPING {
        let number = usize::try_from(signal).unwrap_or(0);
        signal_hook::flag::register(signal, Arc::clone(&engine.cancel))
            .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(stopped_by()), number))
            .map_err(|error| Error::internal(format!("cannot handle signals: {error}")))?;
    }
    Ok(())
}

/// Signals that stop at the next chunk, with nothing left behind.
const STOPPING: [i32; 3] = [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// Number of the signal that came; 0 if none did. Signals belong to the process, not to an engine.
fn stopped_by() -> &'static Arc<AtomicUsize> {
    static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
    SIGNAL.get_or_init(Arc::default)
}

/// Exit code after an interrupt: 128 and the number of the signal, as shells count.
pub(crate) fn interrupted_code() -> Option<u8> {
    let signal = stopped_by().load(Ordering::Relaxed);
    u8::try_from(128 + signal).ok().filter(|_| signal > 0)
}

/// Where the user's profile lies: `$XDG_CONFIG_HOME/knarr/profile.json`, else below `~/.config`.
pub(crate) fn user_profile() -> Option<PathBuf> {
    user_file("profile.json")
}

/// Where the user's model lies: `model.json` beside the profile.
pub(crate) fn user_model() -> Option<PathBuf> {
    user_file("model.json")
}

fn user_file(name: &str) -> Option<PathBuf> {
    // The specification takes an empty variable for none.
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))?;
    Some(base.join("knarr").join(name))
}

/// Whether the user or the batch system says how many threads this process may have.
pub(crate) fn is_told_jobs(resources: &Resources) -> bool {
    resources.jobs.is_some() || slurm_cpus().is_some()
}

fn slurm_cpus() -> Option<usize> {
    std::env::var("SLURM_CPUS_PER_TASK").ok()?.parse().ok().filter(|&cpus| cpus > 0)
}
