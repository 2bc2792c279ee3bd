//! What a session takes of the machine, whatever becomes of what it hands over. Every door is told it by words.

use std::path::PathBuf;

use knarr_array::error::{Error, Result};
use knarr_flow::engine::{Engine, parse_size};

/// What a session takes of the machine.
#[derive(Clone)]
pub struct Resources {
    /// Where values lie until they are delivered; if nothing is named, in memory (`/dev/shm`) or else on a disk. Ranks of one
    /// node have to see it alike.
    pub spool: Option<PathBuf>,
    /// Threads that deliver, at least 1. The program computes meanwhile.
    pub jobs: usize,
    /// Bytes that delivering may take, besides the values that wait for it.
    pub max_mem: u64,
}

impl Default for Resources {
    /// A quarter of the cores.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { spool: None, jobs: (cores / 4).max(1), max_mem: 1 << 30 }
    }
}

impl Resources {
    /// Sets what `key` stands for: `spool`, `jobs` or `max_mem`. False for another key.
    ///
    /// # Errors
    /// `Usage` for values that mean nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "spool" => self.spool = Some(PathBuf::from(value)),
            "jobs" => self.jobs = count(value)?,
            "max_mem" => self.max_mem = parse_size(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `engine` with these resources, and a switch of its own: what ends here must not stop other work.
    pub fn engine(&self, engine: &Engine) -> Engine {
        Engine { jobs: self.jobs.max(1), max_mem: self.max_mem, cancel: std::sync::Arc::default(), ..engine.clone() }
    }
}

/// The value of an option that counts something.
///
/// # Errors
/// `Usage` for 0 and for what is no whole number.
pub fn count(text: &str) -> Result<usize> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| Error::usage("not a whole number of at least 1"))
}

/// The value of an option that is wanted or not.
///
/// # Errors
/// `Usage` for anything but `yes` and `no`.
pub fn yes(text: &str) -> Result<bool> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Error::usage("neither yes nor no")),
    }
}
