//! The command line. `docs/cli.md` is generated from it.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use knarr_array::libver::Release;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::arguments::bounds::Bounds;
use crate::arguments::headings::OUTPUT;
use crate::arguments::resources::Resources;

/// Write netCDF, HDF5 and Zarr data smaller, with a compression chain chosen for each variable, and check every chunk.
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

/// What is said of options that name an output.
fn output_file() -> String {
    format!("Output file ({})", knarr_formats::output::suffixes())
}

const EXIT_CODES: &str = "Exit codes:
  0    done; files are equal or within their bounds
  1    files differ, or an error bound does not hold
  2    the command line or knarr.toml is wrong
  3    an input is missing, unreadable, corrupt, or needs a filter that is not there
  4    an output exists already or cannot be written
  5    the requested quality or chain cannot be provided
  70   a bug in knarr: please report it
  130  interrupted";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show variables, shapes, chunks, filters, compression ratios, and what a reader needs
    Inspect(Inspect),
    /// Recommend a chain for each variable, with the expected result; write nothing
    Advise(Advise),
    /// Write the same data smaller; the suffix of the output decides the format
    Repack(Repack),
    /// Run a program and compress the files that it writes, as knarr.toml says
    Run(Run),
    Checkpoint(crate::commands::checkpoint::args::Checkpoint),
    /// Compare two files bit for bit, or check the largest error against the promised bound
    Verify(Verify),
    /// Print a content hash per variable and file that does not depend on storage
    Hash(Hash),
    /// Write test data of any type and shape from named patterns
    Generate(Generate),
    /// Measure the codecs on this machine and save the profile that later choices use
    Profile(Profile),
    /// Show what waits in the tiers of runs that go on on this node, and when it is in its place
    Tiers(Tiers),
    /// Measure chains on samples of your own files and save the model that later choices use
    Train(Train),
    /// Show the saved plan of an output: features, candidates tried, scores and choices
    Explain(Explain),
    /// Show which filters and plugins C, Python and Fortran readers have and lack
    Doctor(Doctor),
    /// Print the client data of Knarr's HDF5 filter (45223) for other programs
    Hdf5Filter(Hdf5Filter),
    /// List the codecs that '--chain' accepts, with their options, in Markdown
    Chains,
    /// Works for another knarr, on a socket that is its standard input
    #[command(hide = true, name = knarr_worker::COMMAND)]
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

/// What inputs do not say of themselves.
#[derive(Args, Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// Layout of raw input files: 'shape=24x180x360,type=float32', optionally with order=big, offset=512, name=T
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) raw: Option<String>,
}

/// What the result should be like.
#[derive(Args, Debug, Clone, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Compression")]
pub(crate) struct CompressionOptions {
    /// Configuration file; the first [[file]] whose pattern matches the input sets the defaults
    #[arg(short, long, value_name = "FILE")]
    #[serde(with = "knarr_array::path_bytes::option")]
    pub(crate) config: Option<PathBuf>,
    /// What to optimise: speed, balanced, ratio, archive or energy; weights such as 'ratio=0.4,encode=0.3,decode=0.3'; limits such as 'encode>=300MB/s' [default: balanced]
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<String>,
    /// What readers must have at most: core (any HDF5 or Zarr v3 library), standard (hdf5plugin, plugins of netCDF-C, numcodecs) or knarr (Knarr's filter plugin) [default: core for netCDF and Zarr, standard for HDF5]
    #[arg(long, value_name = "READER")]
    pub(crate) portable: Option<String>,
    /// Chain to use instead of choosing one: 'shuffle | zstd:3', or for one variable 'T=shuffle | zstd:3'
    #[arg(long, value_name = "[VAR=]CHAIN")]
    pub(crate) chain: Vec<String>,
    /// Chunk shape: auto, keep, along dimensions 'time=12' or 'time/12,lat/45', or for one variable 'T=1x180x360' [default: auto]
    #[arg(long, value_name = "[NAME=]CHUNKS")]
    pub(crate) chunks: Vec<String>,
    /// Oldest HDF5 object format to write: earliest, v18, v110, v112, v114 or latest, as in h5repack [default: earliest]
    #[arg(long, value_name = "RELEASE")]
    pub(crate) low: Option<Release>,
    /// Newest HDF5 object format allowed; an object that needs a newer one is an error [default: latest]
    #[arg(long, value_name = "RELEASE")]
    pub(crate) high: Option<Release>,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// Files or glob patterns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Advise {
    /// Files or glob patterns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Output format to advise for: nc, h5 or zarr
    #[arg(long, value_name = "SUFFIX", default_value = "nc")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) compression: CompressionOptions,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// JSON on standard output: the plans
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Repack {
    /// Files or glob patterns: HDF5, netCDF-4, netCDF-3 (CDF-1, 2, 5), Zarr v2 and v3 (.zarr, .zip), NumPy (.npy), CSV;
    /// raw with --raw
    #[arg(required = true, value_name = "IN")]
    pub(crate) files: Vec<String>,
    #[arg(short, long, value_name = "OUT", help = format!("{}, or an existing directory for outputs of the same names", output_file()))]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Write only this variable (CSV and raw outputs)
    #[arg(long, value_name = "VAR")]
    pub(crate) variable: Vec<String>,
    #[command(flatten)]
    pub(crate) compression: CompressionOptions,
    /// Use the chains, chunks and bounds of this earlier output, or of its plan (OUT.knarr.json), without choosing again. Variables that the plan lacks are chosen for
    #[arg(long, value_name = "OUT", help_heading = "Compression", conflicts_with_all = ASKED_OTHERWISE)]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace existing outputs
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// Skip inputs whose output exists and whose plan records the input's present size and modification time
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) skip_existing: bool,
    /// Plan and print; write nothing
    #[arg(short = 'n', long, help_heading = OUTPUT)]
    pub(crate) dry_run: bool,
    /// Do not decode and compare every chunk before it is written; the result records this
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_verify: bool,
    /// Print one line per file instead of tables; -qq: only warnings and errors
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = OUTPUT)]
    pub(crate) quiet: u8,
    /// Write a self-contained HTML page with plots to FILE
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

/// Values that programs hand over count, too.
const RUN_MEMORY: &str = "Memory limit, such as 8G: half of it for values that programs hand over, half for chunks, buffers and \
                          caches [default: a quarter of the free memory, and 1G]";

#[derive(Args, Debug)]
#[command(after_help = RUN_EXIT_CODES, mut_arg("max_mem", |limit| limit.help(RUN_MEMORY)))]
pub(crate) struct Run {
    /// Configuration file; the first [[file]] whose pattern matches a file decides how it is handled. With --recover: rules that
    /// count in place of those that the run had [default: knarr.toml]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The name of the program among those that transfer files to each other: 'from' or 'to' of rules with route
    /// "transfer"
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) component: Option<String>,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Write a self-contained HTML page with plots to FILE
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,
    /// Write the result as JSON to FILE; standard output belongs to the program
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) json: Option<PathBuf>,
    /// Print only failures
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Restore the restart files of the newest complete set before the program starts
    #[arg(long, help_heading = "Restart")]
    pub(crate) restart: bool,
    /// With --restart: replace files of that step that differ from those of the set
    #[arg(long, requires = "restart", help_heading = "Restart")]
    pub(crate) force: bool,
    /// Finish what runs that were killed have left in memory: in DIR, or in all of /dev/shm. No program is started
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        default_missing_value = "/dev/shm",
        conflicts_with_all = ["restart", "report"],
        help_heading = "Recovery"
    )]
    pub(crate) recover: Option<PathBuf>,
    /// Let PROGRAM read files of the run whose launcher is process PID, also those that are not in their places yet. The program is no
    /// part of that run: what it writes, it writes by itself
    #[arg(
        long,
        value_name = "PID",
        conflicts_with_all = ["config", "component", "report", "json", "restart", "recover"],
        help_heading = "Reading"
    )]
    pub(crate) with: Option<u32>,
    /// The program and its arguments, preferably after '--'
    #[arg(
        required_unless_present = "recover",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        help_heading = None::<&'static str>
    )]
    pub(crate) program: Vec<OsString>,
}

impl Run {
    /// The configuration that a run has.
    pub(crate) fn config(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new("knarr.toml"))
    }
}

const RUN_EXIT_CODES: &str = "Exit codes: those of the program, or
  125  knarr could not start: knarr.toml is missing or wrong, or asks for something impossible
  126  the program cannot be executed
  127  the program was not found
  128 + the number of the signal that ended the program, or that ended knarr afterwards";

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The original file
    #[arg(value_name = "A")]
    pub(crate) original: PathBuf,
    /// The copy, whose recorded bounds are checked
    #[arg(value_name = "B")]
    pub(crate) copy: PathBuf,
    /// Compare values only, without dimensions, types and attributes
    #[arg(long)]
    pub(crate) values_only: bool,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Hash {
    /// Files or glob patterns
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// Variables: 'simplex', 'T=fractal:octaves=5'
    #[arg(required_unless_present = "list", value_name = "[VAR=]PATTERN[:OPTIONS]")]
    pub(crate) fields: Vec<String>,
    #[arg(short, long, value_name = "OUT", required_unless_present = "list", help = output_file())]
    pub(crate) output: Option<PathBuf>,
    /// Print the patterns and their options
    #[arg(long)]
    pub(crate) list: bool,
    /// Shape, slowest dimension first: 24x180x360, or scalar
    #[arg(long, value_name = "[VAR=]SHAPE")]
    pub(crate) shape: Vec<String>,
    /// Type: int8 to int64, uint8 to uint64, float16, float32, float64 [default: that of the pattern]
    #[arg(long = "type", value_name = "[VAR=]TYPE")]
    pub(crate) dtype: Vec<String>,
    /// Names of the dimensions: time,lat,lon
    #[arg(long, value_name = "[VAR=]NAMES")]
    pub(crate) dims: Vec<String>,
    /// Smallest and largest value before noise: 250:310 [default: -1:1; 0:1000 for integers, 0:100 for those of 8 bits]
    #[arg(long, value_name = "[VAR=]LOW:HIGH", allow_hyphen_values = true)]
    pub(crate) range: Vec<String>,
    /// Noise to add: standard deviation in the variable's unit; 'uniform:X' within ±X; 'relative:X' as a fraction of each value
    #[arg(long, value_name = "[VAR=][KIND:]X")]
    pub(crate) noise: Vec<String>,
    /// Fraction of missing values: at random points, or 'region:0.3' in regions of the last two dimensions
    #[arg(long, value_name = "[VAR=][KIND:]X")]
    pub(crate) fill: Vec<String>,
    /// Value that means 'missing', recorded as _FillValue [default: 1e20, or a limit of an integer type]
    #[arg(long, value_name = "[VAR=]X", allow_hyphen_values = true)]
    pub(crate) fill_value: Vec<String>,
    /// Seed: equal seeds give equal bytes on any machine; a seed without a name gives each variable its own [default: 0]
    #[arg(long, value_name = "[VAR=]N")]
    pub(crate) seed: Vec<String>,
    #[command(flatten)]
    pub(crate) compression: CompressionOptions,
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Replace an existing output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Profile {
    /// File to write [default: in the user's configuration directory, where later commands find it]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Approximate time to spend, in seconds
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    pub(crate) seconds: f64,
    /// Measure directories in which staged files could wait instead, the place of the files last, and print [[tier]] for
    /// knarr.toml [default: what this machine usually has, and the current directory]
    #[arg(long, value_name = "DIR", num_args = 0.., conflicts_with_all = ["output", "seconds"])]
    pub(crate) tiers: Option<Vec<PathBuf>>,
}

#[derive(Args, Debug)]
pub(crate) struct Tiers {
    /// JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Train {
    /// Files, glob patterns, or directories whose files are sampled
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// File to write [default: in the user's configuration directory, where later commands find it]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Approximate time to spend on running chains, in seconds of one core
    #[arg(long, value_name = "S", default_value_t = 300.0)]
    pub(crate) seconds: f64,
    /// Largest number of chunks to sample from each variable
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) samples: u32,
    /// Machine profile written by 'knarr profile' [default: the user's, else the built-in one]
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Save the model even if it does not choose better than the one in use
    #[arg(long)]
    pub(crate) force: bool,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// An output of 'knarr repack', or its plan (NAME.knarr.json)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show only these variables (names or patterns)
    #[arg(long, value_name = "VAR")]
    pub(crate) variable: Vec<String>,
    /// Print the plan as it is saved, in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Files to check against the installed readers, and programs to be run under 'knarr run'
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Hdf5Filter {
    /// What to optimise: speed, balanced, ratio, archive or energy; weights such as 'ratio=0.4,encode=0.3,decode=0.3'; limits such as 'encode>=300MB/s'
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub(crate) goal: String,
    /// Largest absolute error allowed, in the variable's unit
    #[arg(long, value_name = "X")]
    pub(crate) max_abs_error: Option<f64>,
    /// Largest error allowed, as a fraction of the range of each chunk's valid values
    #[arg(long, value_name = "X")]
    pub(crate) max_range_error: Option<f64>,
    /// Largest error allowed, as a fraction of each value
    #[arg(long, value_name = "X")]
    pub(crate) max_rel_error: Option<f64>,
    /// Smallest absolute error that relative bounds, bits and digits can ask for
    #[arg(long, value_name = "X")]
    pub(crate) finest_abs_error: Option<f64>,
    /// Number of explicit mantissa bits that stay right
    #[arg(long, value_name = "N")]
    pub(crate) significant_bits: Option<u32>,
    /// Number of decimal digits that stay right
    #[arg(long, value_name = "N")]
    pub(crate) significant_digits: Option<u32>,
    /// Values up to X keep their bits under any bound, and no other value is rounded to one of them
    #[arg(long, value_name = "X")]
    pub(crate) exact_up_to: Option<f64>,
    /// Values from X on keep their bits under any bound, and no other value is rounded to one of them
    #[arg(long, value_name = "X")]
    pub(crate) exact_from: Option<f64>,
    /// Value that stays exact in addition to the dataset's fill value
    #[arg(long, value_name = "X")]
    pub(crate) missing_value: Option<f64>,
    /// JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
