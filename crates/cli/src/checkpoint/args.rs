//! The command line of `knarr checkpoint`.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

use crate::resources::Resources;

/// The restart files of many ranks in one compressed, checksummed set, and back byte for byte
#[derive(Args, Debug)]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Pack the files of all ranks into a set
    Pack(Pack),
    /// Bring files back, or single variables as NumPy files
    Restore(Restore),
    /// The sets in a directory
    List(List),
    /// Ranks, groups, formats and variables of a set
    Info(Info),
    /// Read and check every frame; changes nothing
    Verify(Verify),
    /// How each class of similar variables was merged and compressed, and why
    Explain(Explain),
    /// Pack each time step of a running program once its last file is closed
    Watch(Watch),
    /// Remove all but the newest sets
    Prune(Prune),
    /// How long to compute between two checkpoints, after Young and Daly
    Advise(Advise),
}

/// How files are merged and compressed.
#[derive(Args, Debug)]
pub(crate) struct Merging {
    /// Configuration: the first [[file]] whose pattern matches the first file gives the defaults
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Ranks that share a file of frames [default: 32]
    #[arg(long, value_name = "N")]
    pub(crate) group_size: Option<usize>,
    /// agnostic, agnostic-block, aware, aware-block, separate or auto [default: auto]
    #[arg(long, value_name = "SCHEME")]
    pub(crate) scheme: Option<String>,
    /// Bytes of the blocks of schemes with blocks [default: 4096]
    #[arg(long, value_name = "BYTES")]
    pub(crate) block_size: Option<u64>,
    /// Names that match this regular expression are similar if what its groups hold is: 'Grid[0-9]+/(.*)'
    #[arg(long, value_name = "REGEX")]
    pub(crate) similar: Vec<String>,
    /// Variables of fewer bytes are bundled [default: 100]
    #[arg(long, value_name = "BYTES")]
    pub(crate) bundle_below: Option<u64>,
    /// Copies of what is shared with earlier sets, 1 or 2: with 2, damage of one file leaves a set readable [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) copies: Option<u8>,
    /// speed, balanced, ratio, archive or energy; weights; limits: as for 'knarr repack' [default: ratio=0.97,encode=0.02,decode=0.01]
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<String>,
    /// Do not decode and compare every frame before it is written
    #[arg(long)]
    pub(crate) no_verify: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// Files, one per rank, or a directory that holds them; patterns
    #[arg(required = true, value_name = "FILES|DIR")]
    pub(crate) files: Vec<String>,
    /// The set: a directory that is made
    #[arg(short, long, value_name = "SET")]
    pub(crate) output: PathBuf,
    /// Names that count, and where in them the rank is: 'restart_{rank}.h5' [default: all, ranks in the order of names]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
    /// Which ranks there are: their number, counted from 0, or the first and the last, such as 1-64, or several such as 0-31,40 [default: 0 to the last one found]
    #[arg(long, value_name = "RANKS")]
    pub(crate) ranks: Option<String>,
    #[command(flatten)]
    pub(crate) merging: Merging,
    /// An earlier set, whose content is not stored again [default: the last set beside the output]
    #[arg(long, value_name = "SET", conflicts_with = "no_base")]
    pub(crate) base: Option<PathBuf>,
    /// Store everything, whatever earlier sets hold
    #[arg(long)]
    pub(crate) no_base: bool,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace an existing set
    #[arg(long)]
    pub(crate) force: bool,
    /// Machine-readable result on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// Directory that the files are written into
    #[arg(short, long, value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Only these ranks: '0-31,40'
    #[arg(long, value_name = "RANKS")]
    pub(crate) ranks: Option<String>,
    /// Only these variables, names or patterns such as 'Grid*/Density', as DIR/FILE/VARIABLE.npy
    #[arg(long, value_name = "VAR")]
    pub(crate) variables: Vec<String>,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Machine-readable result on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Directory that holds sets
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// Machine-readable output
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
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The set
    #[arg(value_name = "SET")]
    pub(crate) set: PathBuf,
    /// Only classes that match: names or patterns
    #[arg(long, value_name = "VAR")]
    pub(crate) variable: Vec<String>,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Directory that the program writes its restart files to
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Names of restart files below it: {step} and {rank} are decimal numbers, * and ? as in shells
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: String,
    /// Number of ranks, counted from 0, or the first and the last, such as 1-64
    #[arg(long, value_name = "N")]
    pub(crate) ranks: String,
    /// Directory for sets, one for each time step
    #[arg(short, long, value_name = "SETS")]
    pub(crate) output: PathBuf,
    /// A file that was not written to for so long, and that no process has open for writing, is finished
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) settle: Duration,
    /// When no file of a step has come for so long, the missing ranks are an error; what could not be written is tried again after it
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = humantime::parse_duration)]
    pub(crate) patience: Duration,
    /// Keep only so many of the newest sets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Remove restart files when their set is complete and safe on disk
    #[arg(long)]
    pub(crate) remove: bool,
    /// Pack steps again that are written again after they were packed
    #[arg(long)]
    pub(crate) force: bool,
    /// Pack the steps that are there and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) merging: Merging,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Machine-readable result on standard output, at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Prune {
    /// Directory of sets
    #[arg(value_name = "SETS")]
    pub(crate) sets: PathBuf,
    /// How many of the newest sets stay; damaged ones do not count and are left alone
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,
    /// Say what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Machine-readable result on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// Directory of sets: what 'knarr run', 'watch', the library, 'pack' and 'restore' measured there counts
    #[arg(value_name = "SETS", default_value = ".")]
    pub(crate) sets: PathBuf,
    /// Mean time between failures of the whole job, such as 8h: that of one node divided by the number of nodes
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) mtbf: Duration,
    /// For how long a checkpoint stops the program, such as 12s or 1min 30s [default: as measured]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) cost: Option<Duration>,
    /// From a failure until the program computes again [default: the time of bringing files or arrays back, as measured]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) restart: Option<Duration>,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}
