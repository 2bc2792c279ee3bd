//! `knarr.toml`: the one configuration file. Unknown keys are errors that show the line.
#![forbid(unsafe_code)]

mod dtf;
mod keys;
mod misread;
mod restart;
mod routes;
mod rule;
mod tier;

pub use restart::{NamePattern, Ranks, RestartFiles, Time};
pub use routes::*;
pub use rule::FileRule;
pub use tier::{Emulation, MEMORY, Rate, Size, TierRule};

use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::energy::Site;
use misread::misread;
use serde::de::{IgnoredAny, IntoDeserializer};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Config {
    /// The machine.
    pub machine: Machine,
    /// What the centre pays for stored bytes; without it, reports say nothing of that.
    pub site: Option<Site>,
    /// Where files of route `stage` wait, the fastest first; the last one is where they stay.
    #[serde(default)]
    pub tier: Vec<TierRule>,
    /// What matters for each family of files; the first match wins.
    pub file: Vec<FileRule>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    machine: Machine,
    site: Option<Site>,
    #[serde(default)]
    tier: Vec<TierRule>,
    /// Each is read as its route has it.
    #[serde(default)]
    #[expect(dead_code, reason = "here it is only to be a list")]
    file: Vec<IgnoredAny>,
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

impl Config {
    /// Reads a configuration file; one whose name ends in `.ini` is DTF's.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Config` with line and column for unknown keys and bad values.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::read(path, &error))?;
        let is_dtf = path.extension().is_some_and(|extension| extension == "ini");
        let dtf = |text: &str| dtf::parse(text).map(|file| Self { file, ..Self::default() });
        let config = if is_dtf { dtf(&text) } else { Self::parse(&text) };
        config.map_err(|error| error.at(path.display().to_string()))
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// `Config` with line and column.
    pub fn parse(text: &str) -> Result<Self> {
        let table = DeTable::parse(text).map_err(|error| misread(text, error))?;
        if table.get_ref().is_empty() {
            return Err(Error::new(ErrorKind::Config, "the file says nothing")
                .hint("add [[file]] with a pattern, such as pattern = \"*.nc\"; docs/run.md has an example"));
        }
        let rules = table.get_ref().get("file").and_then(|file| file.get_ref().as_array()).cloned();
        let keys = Keys::deserialize(table.into_deserializer()).map_err(|error| misread(text, error))?;
        let Keys { machine, site, tier, .. } = keys;
        if let Some(site) = &site {
            site.check()?;
        }
        tier::check(&tier)?;
        // Every rule is resolved once now, so that a mistake shows before any work is done.
        let rule = |file: Spanned<DeValue<'_>>| {
            let mut rule = keys::rule(text, file)?;
            let place = |error: Error| error.at(format!("[[file]] pattern '{}'", rule.pattern));
            rule.check(&tier).map_err(place)?;
            rule.place = tier.last().filter(|_| rule.stage().is_some()).and_then(TierRule::url).map(str::to_owned);
            Ok(rule)
        };
        let file = rules.into_iter().flatten().map(rule).collect::<Result<_>>()?;
        Ok(Self { machine, site, tier, file })
    }

    /// The first rule whose pattern matches `path`.
    pub fn rule_for(&self, path: &Path) -> Option<&FileRule> {
        self.rules_for(path).next()
    }

    /// All rules for `path`, in their order.
    pub fn rules_for(&self, path: &Path) -> impl Iterator<Item = &FileRule> {
        self.file.iter().filter(|rule| rule.pattern.matches(path) && !rule.transfer().excludes(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_checkpoint::{PackOptions, Scheme};

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
        assert_eq!(
            (config.file[0].checkpoint().scheme, config.file[0].checkpoint().group_size),
            (Some(Scheme::AwareBlock), Some(32))
        );
    }

    #[test]
    fn rules_of_restart_files_come_back_from_a_snapshot() {
        let text = "[[file]]\npattern = \"out/r_{step}_{rank}\"\nroute = \"checkpoint\"\n";
        for (ranks, expected) in [("4", 0..=3), ("\"1-4\"", 1..=4)] {
            let more =
                format!("ranks = {ranks}\nsets = \"s\"\nkeep = 2\nremove_originals = true\nsettle = \"1min 2s\"");
            let config = Config::parse(&format!("{text}{more}")).unwrap();
            assert_eq!(config.file[0].checkpoint().ranks, Some(Ranks(expected)));
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
            "[[file]]\npattern = \"*\"\nroute = \"checkpoint\"\nwhen = \"close\"\n",
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

    const CHECKPOINT: &str = "[[file]]\npattern = \"r_{step}_{rank}\"\nroute = \"checkpoint\"\n";

    const TRANSFER: &str = "[[file]]\npattern = \"*.nc\"\nroute = \"transfer\"\n";

    #[test]
    fn a_transfer_has_two_sides_and_may_keep_a_file() {
        let rule = |more: &str| Config::parse(&format!("{TRANSFER}from = \"a\"\nto = [\"b\"]\n{more}"));
        for (more, keep) in [("", false), ("keep = false", false), ("keep = true", true)] {
            assert_eq!(rule(more).unwrap().file[0].transfer().keep(), keep);
        }
        let kept = rule("keep = true\ngoal = \"ratio\"\n[file.compress]\nvariables.T.max_abs_error = 0.1\n").unwrap();
        assert_eq!((kept.file[0].settings().unwrap().rules.len(), kept.file[0].compress().goal.is_some()), (1, true));
        let bound = "in_flight = \"bound\"\nvariables.T.max_rel_error = 0.1\n";
        let meant = |more: &str| rule(&format!("{bound}{more}")).map(|config| config.file[0].transfer().in_flight());
        for more in [
            "",
            "keep = true\ngoal = \"ratio\"",
            "keep = true\noutput = \"classic\"",
            "when_late = \"discard\"",
            "when_late = \"keep\"\nvariables.T.chain = \"lz4\"",
        ] {
            assert_eq!(meant(more).unwrap(), InFlight::Bound, "{more}");
        }
        for (more, word) in [
            ("when_late = \"wait\"\ngoal = \"ratio\"", "goals"),
            ("when_late = \"wait\"\noutput = \"zarr\"", "formats"),
            ("when_late = \"discard\"\nvariables.U.chunks = \"keep\"", "chunks"),
            ("when_late = \"discard\"\nvariables.T.chain = \"lz4\"", "chains"),
            ("keep = true\noutput = \"classic\"\ngoal = \"ratio\"", "classic"),
        ] {
            let error = meant(more).unwrap_err();
            assert!(error.to_string().contains(word) && error.advice().is_some(), "{more}: {error}");
        }
        for more in ["in_flight = \"bound\"", "in_flight = \"bound\"\nvariables.T.quality = \"lossless\"\nkeep = true"]
        {
            let error = rule(more).unwrap_err();
            assert!(error.to_string().contains("without a bound") && error.advice().is_some(), "{error}");
        }
        let discards = "when_late = \"discard\"\nvariables.T.max_rel_error = 0.1\n";
        assert!(rule(discards).unwrap_err().to_string().contains("in_flight = \"bound\""));
        for more in [
            "when_late = \"wait\"\ngoal = \"ratio\"",
            "when_late = \"never\"",
            "keep = \"late\"",
            "keep = true\nwait = \"close\"",
            "keep = 3",
            "keep = \"never\"",
            "group_size = 2",
            "every = 0",
            "every = -6",
            "every = 1.5",
            "every = \"6\"",
            "timeout = \"0s\"",
            "exclude = [\"x*\", \"*\"]",
            "exclude = [\"*.nc\"]",
        ] {
            assert!(rule(more).is_err(), "{more}");
        }
        let read = |more: &str| -> Vec<u64> {
            let rule = rule(more).unwrap().file.remove(0).transfer().clone();
            (1..13).filter(|&session| rule.is_read(session)).collect()
        };
        assert_eq!((read("").len(), read("every = 1").len(), read("every = 6")), (12, 12, vec![6, 12]));
        for text in [
            format!("{CHECKPOINT}keep = true\n"),
            format!("{CHECKPOINT}from = \"a\"\n"),
            format!("{CHECKPOINT}every = 2\n"),
            "[[file]]\npattern = \"*\"\nevery = 2\n".to_owned(),
            "[[file]]\npattern = \"*\"\nkeep = true\n".to_owned(),
            TRANSFER.to_owned(),
            format!("{TRANSFER}from = \"a\"\nto = [\"b\", \"b\"]\n"),
            format!("{TRANSFER}from = \"..\"\nto = [\"b\"]\n"),
        ] {
            assert!(Config::parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_table_says_what_flat_keys_say() {
        let checkpoint = "group_size = 4\nscheme = \"aware\"\nblock_size = 512\nsimilar = [\"A[0-9]\"]\nbundle_below = 9\n\
                          copies = 2\nranks = 3\nsets = \"s\"\nkeep = 3\nremove_originals = true\nsettle = \"1s\"\n\
                          goal = \"speed\"\n";
        let compress = "when = \"close\"\ngoal = \"ratio\"\nportable = \"standard\"\nlow = \"v18\"\nhigh = \"v114\"\n\
                        variables.T.chain = \"zstd:9\"\n";
        let any = "[[file]]\npattern = \"*\"\n";
        let transfer = "from = \"a\"\nto = [\"b\", \"c d\"]\nkeep = true\nwhen_late = \"wait\"\npublish = \"sync\"\nevery = 6\nexclude = [\"x*\"]\nreplay = true\ntimeout = \"2s\"\nrendezvous = \"r\"\n";
        for (rule, table, keys) in
            [(CHECKPOINT, "checkpoint", checkpoint), (any, "compress", compress), (TRANSFER, "transfer", transfer)]
        {
            let flat = Config::parse(&format!("{rule}{keys}")).unwrap();
            assert_eq!(Config::parse(&format!("{rule}[file.{table}]\n{keys}")).unwrap(), flat);
            // Some here, some there.
            for (at, _) in keys.match_indices('\n') {
                let (before, after) = keys.split_at(at + 1);
                let mixed = Config::parse(&format!("{rule}{before}[file.{table}]\n{after}")).unwrap();
                assert_eq!(mixed, flat, "{before}");
            }
            let again: Config = serde_json::from_str(&serde_json::to_string(&flat).unwrap()).unwrap();
            assert_eq!(again, flat);
        }
    }

    #[test]
    fn a_rule_has_its_own_tables() {
        let config = Config::parse(&format!(
            "{CHECKPOINT}[file.checkpoint]\nkeep = 3\n\n[[file]]\npattern = \"*.nc\"\n[file.compress]\ngoal = \"ratio\"\n\
             [file.compress.variables.T]\nmax_abs_error = 0.1\n"
        ))
        .unwrap();
        let [restart, history] = config.file.as_slice() else { panic!("{config:?}") };
        assert_eq!(restart.checkpoint().keep.map(std::num::NonZeroU32::get), Some(3));
        assert_eq!(*restart.compress(), CompressRule::default());
        assert_eq!(history.settings().unwrap().rules[0].quality.unwrap().max_abs_error, Some(0.1));
        assert_eq!(*history.checkpoint(), CheckpointRule::default());
    }

    #[test]
    fn a_key_that_is_given_twice_is_named() {
        for (rule, table, key) in [
            (CHECKPOINT, "checkpoint", "keep = 3"),
            (CHECKPOINT, "checkpoint", "remove_originals = false"),
            (CHECKPOINT, "checkpoint", "similar = []"),
            (CHECKPOINT, "checkpoint", "goal = \"speed\""),
            ("[[file]]\npattern = \"*\"\n", "compress", "when = \"close\""),
            ("[[file]]\npattern = \"*\"\n", "compress", "goal = \"speed\""),
            ("[[file]]\npattern = \"*\"\n", "compress", "variables.T.chunks = \"auto\""),
        ] {
            let error = Config::parse(&format!("{rule}{key}\n[file.{table}]\n{key}\n")).unwrap_err();
            let name = key.split(['.', ' ']).next().unwrap();
            let (kind, text) = (error.kind(), error.to_string());
            assert!(kind == ErrorKind::Config && text.contains(&format!("'{name}'")), "{key}: {text}");
            assert!(text.contains(&format!("[file.{table}]")) && text.contains("pattern '"), "{key}: {text}");
        }
    }

    #[test]
    fn a_table_of_another_route_is_refused() {
        let message = |text: &str| Config::parse(text).unwrap_err().to_string();
        for route in ["", "route = \"compress\"\n", "route = \"file\"\n"] {
            let text = format!("[[file]]\npattern = \"*\"\n{route}[file.checkpoint]\nkeep = 3\n");
            assert!(message(&text).contains("[file.checkpoint] are for route \"checkpoint\""), "{text}");
        }
        let restart = message(&format!("{CHECKPOINT}[file.compress]\nportable = \"core\"\n"));
        assert!(restart.contains("[file.compress] are for route \"compress\""), "{restart}");
        let file = message("[[file]]\npattern = \"*\"\nroute = \"file\"\n[file.compress]\n");
        assert!(file.contains("[file.compress] are for route \"compress\""), "{file}");
    }

    #[test]
    fn keys_that_nobody_would_heed_are_refused() {
        for (keys, word) in [
            ("route = \"file\"\ngoal = \"ratio\"", "route = \"file\""),
            ("route = \"file\"\nwhen = \"close\"", "route = \"file\""),
            ("route = \"file\"\nvariables.T.max_abs_error = 0.1", "route = \"file\""),
            ("when = \"close\"\noutput = \"zarr\"", "when = \"close\""),
            ("when = \"close\"\nwait = \"close\"", "when = \"close\""),
            ("when = \"write\"", "no longer"),
        ] {
            let error = Config::parse(&format!("[[file]]\npattern = \"*\"\n{keys}\n")).unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(word), "{keys}: {error}");
        }
    }

    #[test]
    fn mistakes_in_tables_show_the_line() {
        for (text, line, word) in [
            (format!("{CHECKPOINT}[file.checkpoint]\nkep = 3\n"), 5, "keep"),
            (
                format!("{CHECKPOINT}[file.checkpoint]\nportable = \"core\"\n"),
                5,
                "'portable' is for route \"compress\"",
            ),
            (format!("{CHECKPOINT}[file.checkpoint]\nkeep = 0\n"), 5, "nonzero"),
            (format!("{TRANSFER}[file.compress]\nfrom = \"a\"\n"), 5, "'from' is"),
            (format!("{TRANSFER}[file.transfer]\ngoal = \"speed\"\n"), 5, "'goal' is"),
            (format!("{CHECKPOINT}checkpoint = 3\n"), 4, "a table of keys"),
            (format!("{CHECKPOINT}checkpoint = []\n"), 4, "a table of keys"),
            ("[[file]]\npattern = \"*\"\n[file.compress]\nwhen = \"now\"\n".to_owned(), 4, "is no value of 'when'"),
            ("[[file]]\npattern = \"*\"\n[file.compress.variables.T]\nchnks = 1\n".to_owned(), 4, "chunks"),
            ("[[file]]\npattern = \"*\"\n[file.stash]\n".to_owned(), 3, "unknown key 'stash'"),
        ] {
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}, column")) && error.contains(word), "{text}: {error}");
        }
    }
}
