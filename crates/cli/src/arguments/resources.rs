//! What a command may use of the machine.

use std::path::PathBuf;

use clap::Args;
use knarr_array::error::Result;
use knarr_config::Machine;
use knarr_worker::means::{self, Means};

/// Threads, memory, profile and model, for every command that works on values.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Resources")]
pub(crate) struct Resources {
    /// Number of worker threads [default: SLURM_CPUS_PER_TASK, else all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) jobs: Option<u32>,
    /// Memory limit for chunks, buffers and caches, such as 512M [default: 1G]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_mem: Option<String>,
    /// Machine profile written by 'knarr profile' [default: the user's, else the built-in one]
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Model written by 'knarr train' [default: the user's, else the built-in one]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

impl Resources {
    /// What they ask for.
    pub(crate) fn asked(&self) -> means::Resources {
        let Self { jobs, max_mem, profile, model } = self.clone();
        means::Resources { jobs, max_mem, profile, model }
    }

    /// What engines are made of, with what the configuration says of the machine.
    pub(crate) fn means(&self, machine: &Machine) -> Result<Means> {
        Means::new(&self.asked(), machine)
    }
}
