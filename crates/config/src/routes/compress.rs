//! What the route `compress` can be asked for: `[file.compress]`.

use std::collections::BTreeMap;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::goal::Goal;
use knarr_array::libver::Release;
use knarr_array::quality::Quality;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::settings::{Rule, Settings};
use knarr_flow::urls::{is_below_bucket, written_schemes};
use serde::{Deserialize, Serialize};

use super::traits::{Traits, UNTOUCHED, keys_of};
use crate::misread::refuse;

pub(super) const COMPRESS: Traits = Traits {
    word: "compress",
    does: "makes one compressed file of each",
    compress: keys_of::<CompressRule>,
    is_told: true,
    is_done_when_closed: true,
    may_be_replaced: true,
    is_handed_over: true,
    not_repacked: None,
    ..UNTOUCHED
};

/// When `knarr run` compresses what a program writes with HDF5. If it is not said, the program hands values over, and no plain file
/// is written. Other commands take no notice of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum When {
    /// The program writes as it always does; closed files are packed beside it and put in their place.
    Close,
}

impl TryFrom<String> for When {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.as_str() {
            "close" => Ok(Self::Close),
            "write" => Err(Error::new(
                ErrorKind::Config,
                "'write' is no longer a value of 'when': leave the key out, and plain files never reach the disk",
            )),
            _ => Err(Error::new(ErrorKind::Config, format!("'{text}' is no value of 'when': write close"))),
        }
    }
}

impl From<When> for String {
    fn from(_: When) -> Self {
        "close".to_owned()
    }
}

/// What becomes of files whose values a program hands over. Files that it writes by itself stay what they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Output {
    /// netCDF-4, compressed.
    #[default]
    Netcdf4,
    /// Classic netCDF, as the program's own library writes it.
    Classic,
    /// A Zarr v3 store, compressed, beside where the file would be: `hist.zarr` of `hist.nc`.
    Zarr,
    /// The same below this URL of a bucket: `s3://bucket/prefix`.
    At(String),
}

impl Output {
    /// The URL below which stores are made, if they are made elsewhere.
    pub fn url(&self) -> Option<&str> {
        if let Self::At(url) = self { Some(url) } else { None }
    }
}

impl TryFrom<String> for Output {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.as_str() {
            "netcdf4" => Ok(Self::Netcdf4),
            "classic" => Ok(Self::Classic),
            "zarr" => Ok(Self::Zarr),
            _ if is_below_bucket(&text) => Ok(Self::At(text)),
            _ => {
                let urls = written_schemes().map(|scheme| format!("{scheme}://BUCKET or {scheme}://BUCKET/PREFIX"));
                let urls = urls.collect::<Vec<_>>().join(", ");
                let what = format!("'{text}' is no output: write netcdf4, classic, zarr, {urls}");
                Err(Error::new(ErrorKind::Config, what))
            }
        }
    }
}

impl From<Output> for String {
    fn from(output: Output) -> Self {
        match output {
            Output::Netcdf4 => "netcdf4".to_owned(),
            Output::Classic => "classic".to_owned(),
            Output::Zarr => "zarr".to_owned(),
            Output::At(url) => url,
        }
    }
}

/// What the call waits for that closes a file whose values are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// The file is made, safe on the disk, and has its name.
    Close,
}

/// `[file.compress]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of keys")]
pub struct CompressRule {
    /// When `knarr run` compresses.
    pub when: Option<When>,
    /// Named goal, weights or limits, as on the command line.
    pub goal: Option<String>,
    /// Most demanding reader allowed: core, standard or knarr.
    pub portable: Option<String>,
    /// Oldest form of HDF5 objects that is written: see [`Release`].
    pub low: Option<Release>,
    /// Newest form of HDF5 objects that is allowed.
    pub high: Option<Release>,
    /// Format of files whose values are handed over.
    pub output: Option<Output>,
    /// What closing such a file waits for; for nothing if it is not said.
    pub wait: Option<Wait>,
    /// Per variable or pattern.
    pub variables: Option<BTreeMap<String, VariableRule>>,
}

/// `variables.NAME`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of settings")]
pub struct VariableRule {
    /// `"lossless"`, or bounds in one line: `"max_abs_error=0.01, significant_digits=4"`.
    pub quality: Option<String>,
    /// See [`Quality::max_abs_error`].
    pub max_abs_error: Option<f64>,
    /// See [`Quality::max_range_error`].
    pub max_range_error: Option<f64>,
    /// See [`Quality::max_rel_error`].
    pub max_rel_error: Option<f64>,
    /// See [`Quality::finest_abs_error`].
    pub finest_abs_error: Option<f64>,
    /// See [`Quality::significant_bits`].
    pub significant_bits: Option<u32>,
    /// See [`Quality::significant_digits`].
    pub significant_digits: Option<u32>,
    /// See [`Quality::exact_up_to`].
    pub exact_up_to: Option<f64>,
    /// See [`Quality::exact_from`].
    pub exact_from: Option<f64>,
    /// Chain to use without choosing.
    pub chain: Option<String>,
    /// `auto`, `keep`, `decomposition` or a shape such as `1x180x360`.
    pub chunks: Option<String>,
}

impl CompressRule {
    /// Format of files whose values are handed over.
    pub fn output(&self) -> &Output {
        self.output.as_ref().unwrap_or(&Output::Netcdf4)
    }

    /// The settings it stands for.
    ///
    /// # Errors
    /// As for [`FileRule::settings`](crate::FileRule::settings).
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        if let Some(goal) = &self.goal {
            settings.goal = goal.parse::<Goal>()?;
        }
        if let Some(portable) = &self.portable {
            settings.portable = Some(portable.parse::<ReaderLevel>()?);
        }
        settings.libver = settings.libver.with(self.low, self.high)?;
        for (name, rule) in self.variables.iter().flatten() {
            settings.rules.push(rule.resolve(name).map_err(|error| error.at_variable(name))?);
        }
        settings.check_qualities()?;
        Ok(settings)
    }

    /// Refuses values that contradict each other.
    pub(super) fn check(&self) -> Result<()> {
        self.check_classic(self.says_anything())?;
        let is_other = self.output.as_ref().is_some_and(|output| *output != Output::Netcdf4);
        if self.when.is_some() && (is_other || self.wait.is_some()) {
            return Err(refuse(
                "when = \"close\" packs what the program has written itself: 'output' and 'wait' say nothing of that",
            )
            .hint("remove them, or remove 'when'"));
        }
        Ok(())
    }

    /// Refuses keys that have no effect on a classic file, if there are any.
    pub(super) fn check_classic(&self, asks: bool) -> Result<()> {
        if self.output == Some(Output::Classic) && asks {
            return Err(refuse(
                "output = \"classic\" keeps values as they are: goals, bounds and readers say nothing of it",
            )
            .hint("remove them, or choose \"netcdf4\" or \"zarr\""));
        }
        Ok(())
    }

    /// True if it asks for anything that could not be served.
    pub(crate) fn says_anything(&self) -> bool {
        let Self { when: _, output: _, wait: _, goal, portable, low, high, variables } = self;
        let files = goal.is_some() || portable.is_some() || low.is_some() || high.is_some();
        files || variables.as_ref().is_some_and(|variables| !variables.is_empty())
    }

    /// True if it asks for anything of the kind besides bounds.
    pub(super) fn says_more_than_bounds(&self) -> bool {
        let of_files = |rule: &VariableRule| rule.chain.is_some() || rule.chunks.is_some();
        let files = Self { variables: None, ..self.clone() };
        files.says_anything() || self.variables.iter().flatten().any(|(_, rule)| of_files(rule))
    }

    /// True if some variable may lose something.
    pub(super) fn has_bounds(&self) -> bool {
        let is_lossy = |rule: Rule| rule.quality.is_some_and(|quality| !quality.is_lossless());
        self.variables.iter().flatten().any(|(name, rule)| rule.resolve(name).is_ok_and(is_lossy))
    }
}

impl VariableRule {
    /// The rule for variables that `pattern` matches. Its quality may need those of other rules to make sense, see
    /// [`Settings::check_qualities`].
    ///
    /// # Errors
    /// `Usage` for chains, chunks and qualities that do not parse, and for a quality beside bounds of its own.
    pub fn resolve(&self, pattern: &str) -> Result<Rule> {
        let mut quality = match &self.quality {
            Some(text) => text.parse()?,
            None => Quality::LOSSLESS,
        };
        let stated = Quality {
            max_abs_error: self.max_abs_error,
            max_range_error: self.max_range_error,
            max_rel_error: self.max_rel_error,
            finest_abs_error: self.finest_abs_error,
            significant_bits: self.significant_bits,
            significant_digits: self.significant_digits,
            exact_up_to: self.exact_up_to,
            exact_from: self.exact_from,
        };
        if stated != Quality::LOSSLESS {
            if self.quality.is_some() {
                return Err(
                    Error::usage("'quality' and a bound of its own contradict each other").hint("keep one of them")
                );
            }
            quality = stated;
        }
        Ok(Rule {
            pattern: pattern.to_owned(),
            quality: (self.quality.is_some() || stated != Quality::LOSSLESS).then_some(quality),
            chain: self.chain.as_deref().map(str::parse::<ChainSpec>).transpose()?,
            chunks: self.chunks.as_deref().map(str::parse).transpose()?,
        })
    }
}
