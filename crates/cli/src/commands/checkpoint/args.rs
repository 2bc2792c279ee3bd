//! The command line of `knarr checkpoint`.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

use crate::arguments::headings::OUTPUT;
use crate::arguments::resources::Resources;

/// Pack restart files of many ranks into compressed sets, and restore them byte for byte
#[derive(Args, Debug)]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Pack the files of all ranks into a set
    Pack(Pack),
    /// Restore files, or single variables as NumPy files
    Restore(Restore),
    /// List the sets in a directory
    List(List),
    /// Show ranks, groups, formats and variables of a set
    Info(Info),
    /// Read and check every frame of a set; change nothing
    Verify(Verify),
    /// Show how each class of similar variables was merged and compressed, and why
    Explain(Explain),
    /// Pack each time step of a running program when all its files are finished
    Watch(Watch),
    /// Remove all but the newest sets
    Prune(Prune),
    /// Bring steps from the memory and the disk of this node to the directory of sets, after the program has ended
    Scavenge(Scavenge),
    /// Show how long to compute between two checkpoints, by the formulas of Young and Daly
    Advise(Advise),
}

/// How files are merged and compressed.
#[derive(Args, Debug)]
pub(crate) struct Merging {
    /// Configuration file; the first [[file]] whose pattern matches the first file sets the defaults
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Number of ranks whose data share one file of the set [default: 32]
    #[arg(long, value_name = "N")]
    pub(crate) group_size: Option<usize>,
    /// What is merged, and in which order: agnostic, agnostic-block, aware, aware-block, separate or auto [default: auto]
    #[arg(long, value_name = "SCHEME")]
    pub(crate) scheme: Option<String>,
    /// Block size of agnostic-block and aware-block [default: 4096]
    #[arg(long, value_name = "BYTES")]
    pub(crate) block_size: Option<u64>,
    /// Regular expression: names that match it with equal capture groups count as similar, as in 'Grid[0-9]+/(.*)'
    #[arg(long, value_name = "REGEX")]
    pub(crate) similar: Vec<String>,
    /// Variables smaller than this in a rank are bundled [default: 100]
    #[arg(long, value_name = "BYTES")]
    pub(crate) bundle_below: Option<u64>,
    /// Copies of data shared with earlier sets, 1 or 2; with 2, damage to one copy leaves the data readable [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) copies: Option<u8>,
    /// What to optimise, as for 'knarr repack' [default: ratio=0.97,encode=0.02,decode=0.01]
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<String>,
    /// Do not decode and compare every frame before it is written
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// Files, one per rank, glob patterns, or a directory that holds the files
    #[arg(required = true, value_name = "FILES|DIR")]
    pub(crate) files: Vec<String>,
    /// Set to write: a directory that is created
    #[arg(short, long, value_name = "SET")]
    pub(crate) output: PathBuf,
    /// File names to pack, and the position of the rank in them: 'restart_{rank}.h5' [default: all files, ranks in the order of names]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// With --pattern: the expected ranks, as their number, counted from 0; a range such as 1-64; or a list such as 0-31,40 [default: 0 to the last one found]
    #[arg(long, value_name = "RANKS")]
    pub(crate) ranks: Option<String>,
    #[command(flatten)]
    pub(crate) merging: Merging,
    /// Earlier set whose content is shared and not stored again [default: the last complete set in the same directory]
    #[arg(long, value_name = "SET", conflicts_with = "no_base")]
    pub(crate) base: Option<PathBuf>,
    /// Store everything; share nothing with earlier sets
    #[arg(long)]
    pub(crate) no_base: bool,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace an existing set
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// Directory to write the files into
    #[arg(short, long, value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Restore only these ranks: '0-31,40'
    #[arg(long, value_name = "RANKS")]
    pub(crate) ranks: Option<String>,
    /// Restore only these variables (names, or patterns such as 'Grid*/Density'), as DIR/FILE/VARIABLE.npy
    #[arg(long, value_name = "VAR")]
    pub(crate) variables: Vec<String>,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace existing files
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Directory that holds sets
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// Show only classes that match (names or patterns)
    #[arg(long, value_name = "VAR")]
    pub(crate) variable: Vec<String>,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Directory that the program writes its restart files into
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Names of restart files below DIR; {step} and {rank} stand for decimal numbers, * and ? work as in shells
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: String,
    /// Number of ranks, counted from 0, or a range such as 1-64
    #[arg(long, value_name = "N")]
    pub(crate) ranks: String,
    /// Directory for the sets, one per time step
    #[arg(short, long, value_name = "SETS")]
    pub(crate) output: PathBuf,
    /// A file is finished if it was not written for this time and no process has it open for writing
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) settle: Duration,
    /// If no file of a step arrived for this time, missing ranks are an error; a failed set is tried again after this time
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = humantime::parse_duration)]
    pub(crate) patience: Duration,
    /// Keep only this many of the newest sets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Remove restart files once their set is complete and synced to disk
    #[arg(long)]
    pub(crate) remove: bool,
    /// Pack a step again if its files are written again after it was packed
    #[arg(long)]
    pub(crate) force: bool,
    /// Pack the steps that exist now, then exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) merging: Merging,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// JSON on standard output, at the end
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Prune {
    /// Directory of sets
    #[arg(value_name = "SETS")]
    pub(crate) sets: PathBuf,
    /// Number of newest sets to keep; damaged sets are neither counted nor removed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,
    /// Print what would be removed; remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Scavenge {
    /// Directories of this node: what the program had as options 'memory' and 'local'
    #[arg(value_name = "DIRECTORY", required = true)]
    pub(crate) directories: Vec<PathBuf>,
    /// Directory of sets of the program
    #[arg(short, long, value_name = "SETS")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// Directory of sets, with the times that 'knarr run', 'watch', the library, 'pack' and 'restore' measured there
    #[arg(value_name = "SETS", default_value = ".")]
    pub(crate) sets: PathBuf,
    /// Mean time between failures of the whole job, such as 8h: that of one node, divided by the number of nodes
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) mtbf: Duration,
    /// Time for which a checkpoint stops the program, such as 12s or '1min 30s' [default: as measured]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) cost: Option<Duration>,
    /// Time from a failure until the program computes again [default: the measured time to restore files or arrays]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) restart: Option<Duration>,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
