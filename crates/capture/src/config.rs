//! `knarr.toml`: the one configuration file. Unknown keys are errors that show the line.

mod restart;

pub use restart::{NamePattern, Ranks, RestartFiles, Time};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::goal::Goal;
use knarr_array::libver::Release;
use knarr_array::quality::Quality;
use knarr_checkpoint::grouping::check_sizes;
use knarr_checkpoint::similarity::{BUNDLE_BELOW, Similarity};
use knarr_checkpoint::{PackOptions, Scheme};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::ReaderLevel;
use knarr_flow::energy::Site;
use knarr_flow::settings::{Rule, Settings};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The machine.
    #[serde(default)]
    pub machine: Machine,
    /// What the centre pays for stored bytes; without it, reports say nothing of that.
    pub site: Option<Site>,
    /// What matters for each family of files; the first match wins.
    #[serde(default)]
    pub file: Vec<FileRule>,
}

/// `[machine]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Profile written by `knarr profile`; relative to the configuration file.
    pub profile: Option<PathBuf>,
    /// Model written by `knarr train`; relative to the configuration file.
    pub model: Option<PathBuf>,
}

impl Machine {
    /// The same with paths that are relative to the configuration file `config` resolved.
    #[must_use]
    pub fn beside(&self, config: &Path) -> Self {
        let resolved = |path: &Option<PathBuf>| Some(config.parent().unwrap_or(Path::new("")).join(path.as_ref()?));
        Self { profile: resolved(&self.profile), model: resolved(&self.model) }
    }
}

/// Where the values of a family of files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// A standard file with chosen chains.
    #[default]
    Compress,
    /// Untouched.
    File,
    /// Packed with those of other ranks into a set.
    Checkpoint,
}

/// When `knarr run` compresses what a program writes. Other commands take no notice of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// The program writes as it always does; closed files are packed beside it and put in their place.
    #[default]
    Close,
    /// New variables get lossless standard filters as the program creates them.
    Write,
}

/// `[[file]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRule {
    /// Pattern of file names with `*` and `?`; for the route `checkpoint` also with `{step}` and `{rank}`.
    pub pattern: NamePattern,
    /// Where the values go.
    #[serde(default)]
    pub route: Route,
    /// When `knarr run` compresses.
    #[serde(default)]
    pub when: When,
    /// Named goal, weights or limits, as on the command line.
    pub goal: Option<String>,
    /// Most demanding reader allowed: core, standard or knarr.
    pub portable: Option<String>,
    /// Oldest form of HDF5 objects that is written: see [`Release`].
    pub low: Option<Release>,
    /// Newest form of HDF5 objects that is allowed.
    pub high: Option<Release>,
    /// Per variable or pattern.
    #[serde(default)]
    pub variables: BTreeMap<String, VariableRule>,
    /// Route `checkpoint`: ranks that share a file of frames.
    pub group_size: Option<usize>,
    /// Route `checkpoint`: how ranks' files are merged.
    pub scheme: Option<Scheme>,
    /// Route `checkpoint`: bytes of the blocks of schemes with blocks.
    pub block_size: Option<u64>,
    /// Route `checkpoint`: regular expressions that make names similar, see [`Similarity::new`].
    #[serde(default)]
    pub similar: Vec<String>,
    /// Route `checkpoint`: variables of fewer bytes are bundled.
    pub bundle_below: Option<u64>,
    /// Route `checkpoint`: copies of what sets share, 1 or 2.
    pub copies: Option<u8>,
    /// Route `checkpoint` of `knarr run`: the ranks that write a file in each step.
    pub ranks: Option<Ranks>,
    /// Route `checkpoint` of `knarr run`: directory for sets, relative to the configuration file.
    pub sets: Option<PathBuf>,
    /// Route `checkpoint` of `knarr run`: how many of the newest sets stay.
    pub keep: Option<NonZeroU32>,
    /// Route `checkpoint` of `knarr run`: files are removed when their set is complete and safe on disk.
    #[serde(default)]
    pub remove_originals: bool,
    /// Route `checkpoint` of `knarr run`: a file that was not written to for so long is finished.
    pub settle: Option<Time>,
}

/// `variables.NAME`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// `auto`, `keep` or a shape such as `1x180x360`.
    pub chunks: Option<String>,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Config` with line and column for unknown keys and bad values.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::read(path, &error))?;
        Self::parse(&text).map_err(|error| error.at(path.display().to_string()))
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// `Config` with line and column.
    pub fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| misread(&error))?;
        if let Some(site) = &config.site {
            site.check()?;
        }
        // Every rule is resolved once now, so that a mistake shows before any work is done.
        for rule in &config.file {
            let place = |error: Error| error.at(format!("[[file]] pattern '{}'", rule.pattern));
            rule.settings().map_err(place)?;
            rule.check_route().map_err(place)?;
        }
        Ok(config)
    }

    /// The first rule whose pattern matches `path`.
    pub fn rule_for(&self, path: &Path) -> Option<&FileRule> {
        self.file.iter().find(|rule| rule.pattern.matches(path))
    }
}

impl FileRule {
    /// The settings this rule stands for.
    ///
    /// # Errors
    /// `Usage` for goals, chains, chunks or qualities that do not parse or contradict each other.
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        if let Some(goal) = &self.goal {
            settings.goal = goal.parse::<Goal>()?;
        }
        if let Some(portable) = &self.portable {
            settings.portable = Some(portable.parse::<ReaderLevel>()?);
        }
        settings.libver = settings.libver.with(self.low, self.high)?;
        for (name, rule) in &self.variables {
            settings.rules.push(rule.resolve(name).map_err(|error| error.at_variable(name))?);
        }
        settings.check_qualities()?;
        Ok(settings)
    }
}

impl FileRule {
    /// What counts as similar in a checkpoint.
    ///
    /// # Errors
    /// As for [`Similarity::new`].
    pub fn similarity(&self) -> Result<Similarity> {
        Similarity::new(&self.similar, self.bundle_below.unwrap_or(BUNDLE_BELOW))
    }

    /// How its files are merged and compressed into a set.
    ///
    /// # Errors
    /// `Usage` for a goal or expressions that make no sense, which reading the configuration refuses.
    pub fn pack_options(&self) -> Result<PackOptions> {
        let mut options = PackOptions { similarity: self.similarity()?, attributes: true, ..PackOptions::default() };
        if self.goal.is_some() {
            options.goal = self.settings()?.goal;
        }
        options.scheme = self.scheme.unwrap_or(options.scheme);
        options.group_size = self.group_size.unwrap_or(options.group_size);
        options.copies = self.copies.unwrap_or(options.copies);
        options.block_size = self.block_size.unwrap_or(options.block_size);
        Ok(options)
    }

    /// True if it asks for anything that could not be served.
    pub fn says_anything(&self) -> bool {
        let files = self.goal.is_some() || self.portable.is_some() || self.low.is_some() || self.high.is_some();
        files || !self.variables.is_empty()
    }

    /// Refuses keys that the route would not heed.
    fn check_route(&self) -> Result<()> {
        let error = |message: &str| Error::new(ErrorKind::Config, message);
        if self.route == Route::Checkpoint {
            if !self.variables.is_empty() {
                return Err(error("checkpoints keep every byte: they take no settings of variables")
                    .hint("remove 'variables', or choose the route \"compress\""));
            }
            let says_of_files = self.portable.is_some() || self.low.is_some() || self.high.is_some();
            if self.when != When::Close || says_of_files {
                return Err(error(
                    "checkpoints are packed once they are written, into sets: 'when', 'portable', 'low' and 'high' say \
                     nothing of them",
                )
                .hint("remove them, or choose the route \"compress\""));
            }
            if self.ranks.is_some() && self.pattern.restart_files().is_some_and(|files| !files.names.has_rank()) {
                return Err(error("a pattern without {rank} stands for one file in each step: it takes no 'ranks'")
                    .hint("remove 'ranks', or write where the rank stands: restart_{step}_{rank}.h5"));
            }
            let sizes = check_sizes(self.group_size.unwrap_or(1), self.block_size.unwrap_or(1));
            sizes.map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
            if self.copies.is_some_and(|copies| !(1..=2).contains(&copies)) {
                return Err(error("what sets share is there once or twice").hint("write copies = 1 or copies = 2"));
            }
            return self.similarity().map(drop);
        }
        if self.pattern.restart_files().is_some() {
            return Err(error("{step} and {rank} are for route \"checkpoint\"").hint("write * in their place"));
        }
        let how = self.group_size.is_some() || self.scheme.is_some() || self.block_size.is_some();
        let what = !self.similar.is_empty() || self.bundle_below.is_some();
        let when = self.ranks.is_some() || self.sets.is_some() || self.keep.is_some() || self.settle.is_some();
        let what = what || self.copies.is_some();
        if how || what || when || self.remove_originals {
            return Err(error(
                "group_size, scheme, block_size, similar, bundle_below, copies, ranks, sets, keep, remove_originals and \
                 settle are for route \"checkpoint\"",
            )
            .hint("add route = \"checkpoint\", or remove them"));
        }
        Ok(())
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

/// An error of the parser, which speaks of the types of this program.
fn misread(error: &toml::de::Error) -> Error {
    const WORDS: [(&str, &str); 9] = [
        ("struct VariableRule", "a table of settings"),
        ("unknown variant", "unknown value"),
        ("a sequence", "a list"),
        ("f64", "a number"),
        ("f32", "a number"),
        ("usize", "a whole number from 0 on"),
        ("u64", "a whole number from 0 on"),
        ("u32", "a whole number from 0 on"),
        ("u8", "a whole number from 0 on"),
    ];
    let said = error.message();
    let plain = WORDS.iter().fold(said.to_owned(), |said, (type_name, words)| said.replace(type_name, words));
    let hint = match said {
        "invalid type: map, expected a sequence" => "write [[file]], in double brackets: there may be several",
        _ => "the keys are described in docs/cli.md",
    };
    Error::new(ErrorKind::Config, error.to_string().replace(said, &plain).trim_end().to_owned()).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_design_is_read() {
        let config = Config::parse(
            r#"
[machine]
profile = "knarr-profile.json"
model   = "/site/model.json"
[[file]]
pattern = "history_*.nc"
route   = "compress"
goal    = "balanced"
variables.T.max_abs_error = 0.01
variables."*".quality = "lossless"
"#,
        )
        .unwrap();
        let rule = config.rule_for(Path::new("/data/history_2020.nc")).unwrap();
        let settings = rule.settings().unwrap();
        assert_eq!(settings.rules.len(), 2);
        assert_eq!(settings.rules[1].pattern, "T");
        assert_eq!(settings.rules[1].quality.unwrap().max_abs_error, Some(0.01));
        assert!(config.rule_for(Path::new("restart.nc")).is_none());
        let machine = config.machine.beside(Path::new("run/knarr.toml"));
        assert_eq!(machine.profile.unwrap(), Path::new("run/knarr-profile.json"));
        assert_eq!(machine.model.unwrap(), Path::new("/site/model.json"));
        let config = Config::parse(
            r#"
[[file]]
pattern = "restart_*.h5"
route   = "checkpoint"
group_size = 32
scheme  = "aware-block"
similar = ["Grid[0-9]+/(.*)"]
"#,
        )
        .unwrap();
        assert_eq!((config.file[0].scheme, config.file[0].group_size), (Some(Scheme::AwareBlock), Some(32)));
    }

    #[test]
    fn rules_of_restart_files_come_back_from_a_snapshot() {
        let text = "[[file]]\npattern = \"out/r_{step}_{rank}\"\nroute = \"checkpoint\"\n";
        for (ranks, expected) in [("4", 0..=3), ("\"1-4\"", 1..=4)] {
            let more =
                format!("ranks = {ranks}\nsets = \"s\"\nkeep = 2\nremove_originals = true\nsettle = \"1min 2s\"");
            let config = Config::parse(&format!("{text}{more}")).unwrap();
            assert_eq!(config.file[0].ranks, Some(Ranks(expected)));
            let again: Config = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
            assert_eq!(again, config);
            assert!(again.rule_for(Path::new("/a/out/r_1_2")).is_some());
        }
    }

    #[test]
    fn a_rule_without_a_goal_has_that_of_checkpoints() {
        let rule = |more: &str| {
            let text = format!("[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\n{more}");
            Config::parse(&text).unwrap().file.remove(0)
        };
        assert_eq!(rule("").pack_options().unwrap().goal, PackOptions::default().goal);
        let speed = rule("goal = \"speed\"\ngroup_size = 7").pack_options().unwrap();
        assert_eq!((speed.goal, speed.group_size), ("speed".parse().unwrap(), 7));
    }

    #[test]
    fn bounds_of_names_and_patterns_hold_together() {
        let text = "[[file]]\npattern = \"*\"\nvariables.\"*\".max_rel_error = 0.1\n\
                    variables.T.finest_abs_error = 1e-6\nvariables.U.quality = \"lossless\"\n";
        let settings = Config::parse(text).unwrap().file[0].settings().unwrap();
        let of = |path: &str| {
            let variable = knarr_array::model::Variable::plain(path, knarr_array::array::DType::F32, vec![4]);
            let model = knarr_array::model::Model { groups: vec![], variables: vec![variable] };
            settings
                .of(&knarr_array::coordinates::Coordinates::of(&model), &model.variables[0])
                .unwrap()
                .quality
                .to_string()
        };
        assert_eq!(of("/T"), "max_rel_error=0.1, finest_abs_error=0.000001");
        assert_eq!((of("/U"), of("/V")), ("lossless".to_owned(), "max_rel_error=0.1".to_owned()));
    }

    #[test]
    fn mistakes_show_the_line() {
        let unknown = Config::parse("[[file]]\npattern = \"*\"\ngaol = \"speed\"\n").unwrap_err().to_string();
        assert!(unknown.contains("gaol") && unknown.contains("line 3"), "{unknown}");
        for line in ["ranks = 0", "ranks = \"4-2\"", "ranks = -1", "keep = 0", "settle = \"soon\"", "settle = 2"] {
            let text = format!("[[file]]\npattern = \"r{{step}}_{{rank}}\"\nroute = \"checkpoint\"\n{line}\n");
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains("line 4"), "{line}: {error}");
        }
        for text in [
            "[[file]]\npattern = \"*\"\ngoal = \"fastest\"\n",
            "[[file]]\npattern = \"*\"\nvariables.T.chain = \"no such|\"\n",
            "[[file]]\npattern = \"*\"\nvariables.T.max_abs_error = -1.0\n",
            "[[file]]\npattern = \"*\"\nvariables.T.exact_from = 5.0\n",
            "[[file]]\npattern = \"*\"\nvariables.T = { quality = \"lossless\", max_abs_error = 1.0 }\n",
            "[[file]]\npattern = \"*\"\nroute = \"teleport\"\n",
            "[[file]]\npattern = \"*\"\nscheme = \"aware\"\n",
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\nscheme = \"clever\"\n",
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\ngroup_size = 0\n",
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\nblock_size = 0\n",
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\nsimilar = [\"Grid[\"]\n",
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\nvariables.T.max_abs_error = 0.1\n",
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\nwhen = \"write\"\n",
            "[[file]]\npattern = \"r{step}\"\n",
            "[[file]]\npattern = \"r{step}\"\nroute = \"checkpoint\"\nranks = 3\n",
            "[[file]]\npattern = \"*\"\nkeep = 3\n",
            "[[file]]\npattern = \"*\"\nremove_originals = true\n",
        ] {
            assert!(Config::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_without_the_names_of_types() {
        let message = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(message("[file]\npattern = \"*\"\n").contains("[[file]], in double brackets"));
        for line in ["variables.T = 3", "variables.T.max_abs_error = \"a\"", "group_size = \"a\"", "when = \"now\""] {
            let message = message(&format!("[[file]]\npattern = \"*\"\n{line}\n"));
            for word in ["struct", "f64", "usize", "u64", "variant"] {
                assert!(!message.contains(word), "{line}: {message}");
            }
        }
    }
}
