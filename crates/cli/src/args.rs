//! The command line. `docs/cli.md` is generated from it.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use knarr_array::libver::Release;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

use crate::bounds::Bounds;
use crate::resources::Resources;

/// Repacks netCDF, HDF5 and Zarr data with the chain that suits each variable, and proves that nothing was lost.
#[derive(Parser, Debug)]
#[command(name = "knarr", version, after_help = EXIT_CODES)]
pub(crate) struct Knarr {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command line of this process.
pub(crate) fn parse() -> Result<Knarr, clap::Error> {
    let mut command = taking_negative_numbers(Knarr::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Knarr::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Lets every option take a number below 0: what is wrong with it is said where values are judged, and not that there
/// is no option `-1`.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| {
            let is_option = argument.get_action().takes_values() && !argument.is_positional();
            if is_option { argument.allow_negative_numbers(true) } else { argument }
        })
        .mut_subcommands(taking_negative_numbers)
}

const EXIT_CODES: &str = "Exit codes:
  0    done; files are equal or within their bounds
  1    files differ, or a bound does not hold
  2    the command line or knarr.toml is wrong
  3    an input is missing, unreadable, corrupt, or needs a filter that is not there
  4    an output exists already or cannot be written
  5    the quality or chain that was asked for cannot be served
  70   a defect of knarr: please report it
  130  interrupted";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Variables, shapes, chunks, filters by name, ratio, and what a reader needs
    Inspect(Inspect),
    /// The chain recommended for each variable, what it would give, and why; changes nothing
    Advise(Advise),
    /// Write the same data smaller: netCDF-4, HDF5 or Zarr v3, by the suffix of the output
    Repack(Repack),
    /// Run a program; the HDF5 and netCDF-4 files it writes become smaller, as knarr.toml says
    Run(Run),
    Checkpoint(crate::checkpoint::args::Checkpoint),
    /// Compare two files: equal bits, or the largest error against the promised bound
    Verify(Verify),
    /// Content hash per variable and file that does not depend on chunks, chain or container
    Hash(Hash),
    /// Write test data: named patterns of any type and shape, with noise and missing values
    Generate(Generate),
    /// Measure this machine's codecs and write the profile that choices use
    Profile(Profile),
    /// Learn from your own files what their data makes of each chain, and write the model that choices use
    Train(Train),
    /// Show the saved plan of an output: features, candidates tried, scores, the choice
    Explain(Explain),
    /// Which filters, plugins and paths are present or missing, for C, Python and Fortran readers
    Doctor(Doctor),
    /// Client data of Knarr's HDF5 filter (45223) for other programs: h5repack, nccopy, ncgen, h5py
    Hdf5Filter(Hdf5Filter),
    /// The codecs that '--chain' takes, with their options, in Markdown
    Chains,
    /// Works for another knarr, on a socket that is its standard input
    #[command(hide = true)]
    Worker,
}

/// What a plan says, too.
const ASKED_OTHERWISE: [&str; 13] = [
    "goal",
    "portable",
    "chain",
    "chunks",
    "max_abs_error",
    "max_range_error",
    "max_rel_error",
    "finest_abs_error",
    "significant_bits",
    "significant_digits",
    "exact_up_to",
    "exact_from",
    "lossless",
];

/// Heading of options about what is written and printed.
pub(crate) const OUTPUT: &str = "Output";

/// What inputs do not say of themselves.
#[derive(Args, Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// What the bytes of raw files mean: 'shape=24x180x360,type=float32', with order=big, offset=512, name=T if need be
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) raw: Option<String>,
}

/// What the result should be like.
#[derive(Args, Debug, Clone, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Compression")]
pub(crate) struct Wishes {
    /// Configuration: the first [[file]] whose pattern matches the input gives the defaults
    #[arg(short, long, value_name = "FILE")]
    #[serde(with = "crate::path_bytes::option")]
    pub(crate) config: Option<PathBuf>,
    /// speed, balanced, ratio, archive or energy; weights such as 'ratio=0.4,encode=0.3,decode=0.3'; limits such as 'encode>=300MB/s' [default: balanced]
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<String>,
    /// Most demanding reader allowed: core (every HDF5, every Zarr v3 library), standard (hdf5plugin, plugins of netCDF-C, numcodecs), knarr [default: core for netCDF and Zarr, standard for HDF5]
    #[arg(long, value_name = "READER")]
    pub(crate) portable: Option<String>,
    /// Use this chain instead of choosing: 'shuffle | zstd:3', for one variable 'T=shuffle | zstd:3'
    #[arg(long, value_name = "[VAR=]CHAIN")]
    pub(crate) chain: Vec<String>,
    /// Chunks: auto, keep, along dimensions 'time=12' or 'time/12,lat/45', for one variable 'T=1x180x360' [default: auto]
    #[arg(long, value_name = "[NAME=]CHUNKS")]
    pub(crate) chunks: Vec<String>,
    /// Oldest form of HDF5 objects that is written: earliest, v18, v110, v112, v114 or latest, as in h5repack [default: earliest]
    #[arg(long, value_name = "RELEASE")]
    pub(crate) low: Option<Release>,
    /// Newest form of HDF5 objects that is allowed: what needs a newer one is an error [default: latest]
    #[arg(long, value_name = "RELEASE")]
    pub(crate) high: Option<Release>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// Files or patterns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// Files or patterns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Output kind to advise for: nc, h5 or zarr
    #[arg(long, value_name = "SUFFIX", default_value = "nc")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) wishes: Wishes,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Machine-readable output: the plans
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Repack {
    /// Files or patterns: HDF5, netCDF-4, netCDF-3 (CDF-1, 2, 5), Zarr v2 and v3, CSV; raw with --raw
    #[arg(required = true, value_name = "IN")]
    pub(crate) files: Vec<String>,
    /// Output file (.nc, .h5, .zarr, .csv, .tsv, .bin), or a directory for outputs of the same names
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Write only this variable; for CSV and raw outputs
    #[arg(long, value_name = "VAR")]
    pub(crate) variable: Vec<String>,
    #[command(flatten)]
    pub(crate) wishes: Wishes,
    /// Use the chains, chunks and bounds of this earlier output, or of its plan (OUT.knarr.json), without choosing again. Variables that the plan lacks are chosen for
    #[arg(long, value_name = "OUT", help_heading = "Compression", conflicts_with_all = ASKED_OTHERWISE)]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace existing outputs
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// Leave outputs that are there and, as their plans say, were made from the input as it is: same size and time of change
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) skip_existing: bool,
    /// Plan and print, write nothing
    #[arg(short = 'n', long, help_heading = OUTPUT)]
    pub(crate) dry_run: bool,
    /// Do not decode and compare every chunk before it is written; the report says so
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_verify: bool,
    /// One line a file instead of tables; -qq: nothing but warnings and errors
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = OUTPUT)]
    pub(crate) quiet: u8,
    /// Write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// Machine-readable result on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = RUN_EXIT_CODES)]
pub(crate) struct Run {
    /// Configuration: the first [[file]] whose pattern matches a file says what becomes of it
    #[arg(short, long, value_name = "FILE", default_value = "knarr.toml")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// Write the machine-readable result; standard output is the program's
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) json: Option<PathBuf>,
    /// Say nothing, unless something failed
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Bring the restart files of the newest whole set back before the program starts
    #[arg(long, help_heading = "Restart")]
    pub(crate) restart: bool,
    /// With --restart: replace files of its step that differ from those of the set
    #[arg(long, requires = "restart", help_heading = "Restart")]
    pub(crate) force: bool,
    /// The program and its arguments, best behind '--'
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

const RUN_EXIT_CODES: &str = "Exit codes: those of the program, or
  125  knarr could not begin: knarr.toml is missing or wrong, or cannot be served
  126  the program cannot be executed
  127  the program was not found
  128 and the number of the signal that ended the program, or ended knarr after it";

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The original
    #[arg(value_name = "A")]
    pub(crate) original: PathBuf,
    /// The copy; its recorded bounds are checked
    #[arg(value_name = "B")]
    pub(crate) copy: PathBuf,
    /// Compare values only, not dimensions, types and attributes
    #[arg(long)]
    pub(crate) values_only: bool,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Machine-readable output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Hash {
    /// Files or patterns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Machine-readable output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// Variables: 'simplex', 'T=fractal:octaves=5'
    #[arg(required_unless_present = "list", value_name = "[VAR=]PATTERN[:OPTIONS]")]
    pub(crate) fields: Vec<String>,
    /// Output file (.nc, .h5, .zarr, .csv, .tsv, .bin)
    #[arg(short, long, value_name = "OUT", required_unless_present = "list")]
    pub(crate) output: Option<PathBuf>,
    /// Print the patterns and their options
    #[arg(long)]
    pub(crate) list: bool,
    /// Extents, slowest first: 24x180x360, or scalar
    #[arg(long, value_name = "[VAR=]SHAPE")]
    pub(crate) shape: Vec<String>,
    /// int8 to int64, uint8 to uint64, float16, float32, float64 [default: that of the pattern]
    #[arg(long = "type", value_name = "[VAR=]TYPE")]
    pub(crate) dtype: Vec<String>,
    /// Names of the dimensions: time,lat,lon
    #[arg(long, value_name = "[VAR=]NAMES")]
    pub(crate) dims: Vec<String>,
    /// Smallest and largest value before noise: 250:310 [default: -1:1; 0:1000 for integers, 0:100 for those of 8 bits]
    #[arg(long, value_name = "[VAR=]LOW:HIGH", allow_hyphen_values = true)]
    pub(crate) range: Vec<String>,
    /// Noise on top: standard deviation in the variable's unit; 'uniform:X' within ±X; 'relative:X' as a fraction of each value
    #[arg(long, value_name = "[VAR=][KIND:]X")]
    pub(crate) noise: Vec<String>,
    /// Fraction of missing values: at random points, or 'region:0.3' in regions of the last two dimensions
    #[arg(long, value_name = "[VAR=][KIND:]X")]
    pub(crate) fill: Vec<String>,
    /// The value that means 'missing', recorded as _FillValue [default: 1e20, or a limit of an integer type]
    #[arg(long, value_name = "[VAR=]X", allow_hyphen_values = true)]
    pub(crate) fill_value: Vec<String>,
    /// Same seed, same bytes, on any machine; a seed of the file gives each variable one of its own [default: 0]
    #[arg(long, value_name = "[VAR=]N")]
    pub(crate) seed: Vec<String>,
    #[command(flatten)]
    pub(crate) wishes: Wishes,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace an existing output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// Machine-readable result on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Profile {
    /// Where to write it [default: the user's configuration directory, where it is found again]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Seconds to spend, roughly
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    pub(crate) seconds: f64,
}

#[derive(Args, Debug)]
pub(crate) struct Train {
    /// Files, patterns, or directories whose files are looked at
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Where to write the model [default: the user's configuration directory, where it is found again]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Seconds of one core to spend on running chains, roughly
    #[arg(long, value_name = "S", default_value_t = 300.0)]
    pub(crate) seconds: f64,
    /// Chunks of each variable to look at, at most
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) samples: u32,
    /// Profile written by 'knarr profile' [default: the user's, else the built-in one]
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Write the model even if choices by it are no better than by the one in use
    #[arg(long)]
    pub(crate) force: bool,
    /// Machine-readable result
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// An output of 'knarr repack', or its plan (NAME.knarr.json)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only these variables, names or patterns
    #[arg(long, value_name = "VAR")]
    pub(crate) variable: Vec<String>,
    /// The plan as it is saved
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Files to check against what is installed
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Hdf5Filter {
    /// speed, balanced, ratio, archive or energy; weights such as 'ratio=0.4,encode=0.3,decode=0.3'; limits such as 'encode>=300MB/s'
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub(crate) goal: String,
    /// Largest absolute error, in the variable's unit
    #[arg(long, value_name = "X")]
    pub(crate) max_abs_error: Option<f64>,
    /// Largest error as a fraction of the range of each chunk's valid values
    #[arg(long, value_name = "X")]
    pub(crate) max_range_error: Option<f64>,
    /// Largest error relative to each value
    #[arg(long, value_name = "X")]
    pub(crate) max_rel_error: Option<f64>,
    /// Absolute error below which relative bounds, bits and digits ask for nothing
    #[arg(long, value_name = "X")]
    pub(crate) finest_abs_error: Option<f64>,
    /// Mantissa bits that stay right
    #[arg(long, value_name = "N")]
    pub(crate) significant_bits: Option<u32>,
    /// Decimal digits that stay right
    #[arg(long, value_name = "N")]
    pub(crate) significant_digits: Option<u32>,
    /// Values up to this keep their bits under any bound, and no other value becomes one of them
    #[arg(long, value_name = "X")]
    pub(crate) exact_up_to: Option<f64>,
    /// The same for values from this on
    #[arg(long, value_name = "X")]
    pub(crate) exact_from: Option<f64>,
    /// A value that stays exact beside the dataset's fill value
    #[arg(long, value_name = "X")]
    pub(crate) missing_value: Option<f64>,
    /// Machine-readable output
    #[arg(long)]
    pub(crate) json: bool,
}
