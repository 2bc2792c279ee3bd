//! The command line of `knarr checkpoint`.

use std::time::Duration;

use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub(crate) enum Checkpoint {
    /// How long to compute between two checkpoints, after Young and Daly
    Advise(Advise),
}

#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// For how long a checkpoint stops the program, such as 12s or 1min 30s
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) cost: Duration,
    /// From a failure until the program computes again
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) restart: Duration,
    /// Mean time between failures of the whole job: that of one node divided by the number of nodes
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) mtbf: Duration,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}
