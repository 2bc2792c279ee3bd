//! Flags and `knarr.toml` become settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_choose::plan::Plan;
use knarr_codec::chain::ChainSpec;
use knarr_config::{Config, Machine};
use knarr_flow::energy::Site;
use knarr_flow::settings::{Name, Rule, Settings};
use knarr_routes::compress::{named_plan, read_plan};

use crate::arguments::args::CompressionOptions;
use crate::arguments::bounds::split_variable;

/// What was asked for, before it is known which file.
pub(crate) struct Request {
    config: Option<(PathBuf, Config)>,
    compression: CompressionOptions,
    plan: Option<Arc<Plan>>,
}

impl Request {
    /// Reads the configuration if one was named.
    pub(crate) fn new(compression: &CompressionOptions) -> Result<Self> {
        let config = match &compression.config {
            Some(path) => Some((path.clone(), Config::read(path)?)),
            None => None,
        };
        let request = Self { config, compression: compression.clone(), plan: None };
        // Flags are checked before any file is opened. What they leave to the configuration depends on the file.
        let settings = request.apply(Settings::default())?;
        if request.config.is_none() {
            settings.check_qualities()?;
        }
        Ok(request)
    }

    /// The same for what the plan at `path` says; for `None` nothing else.
    ///
    /// # Errors
    /// As for [`read_plan`].
    pub(crate) fn by_plan(mut self, path: Option<&Path>) -> Result<Self> {
        self.plan = path.map(|path| read_plan(&named_plan(path))).transpose()?.map(Arc::new);
        Ok(self)
    }

    /// What the configuration says of the machine.
    pub(crate) fn machine(&self) -> Machine {
        self.config.as_ref().map(|(path, config)| config.machine.beside(path)).unwrap_or_default()
    }

    /// What the centre pays for stored bytes, if the configuration says so.
    pub(crate) fn site(&self) -> Option<Site> {
        self.config.as_ref()?.1.site
    }

    /// Settings for the file `input`: those of its rule in the configuration, then the flags.
    pub(crate) fn settings(&self, input: &Path) -> Result<Settings> {
        let mut settings = Settings::default();
        if let Some((path, config)) = &self.config {
            let Some(rule) = config.rule_for(input) else {
                return Err(Error::usage(format!("no [[file]] pattern matches '{}'", input.display()))
                    .hint("add one, or leave --config out")
                    .at(path.display().to_string()));
            };
            if let Some(why) = rule.route().traits().not_repacked {
                return Err(Error::usage(format!(
                    "'{}' has route \"{}\": {why}",
                    input.display(),
                    rule.route().traits().word
                ))
                .hint("change the route to \"compress\", or leave --config out")
                .at(path.display().to_string()));
            }
            settings = rule.settings()?;
        }
        let settings = self.apply(settings)?;
        settings.check_qualities().map_err(|error| self.blame(error, input))?;
        Ok(settings)
    }

    /// An error about what was asked of the file `input` says where that was asked, if it was not (only) on the command
    /// line.
    pub(crate) fn blame(&self, error: Error, input: &Path) -> Error {
        let is_about_options = match error.kind() {
            ErrorKind::Usage | ErrorKind::Config | ErrorKind::Quality => true,
            ErrorKind::Unsupported => error.message().starts_with("chain '"),
            _ => false,
        };
        let Some((path, config)) = self.config.as_ref().filter(|_| is_about_options) else { return error };
        let Some(rule) = config.rule_for(input).filter(|rule| rule.says_anything()) else { return error };
        let place = format!("{}: [[file]] pattern '{}'", path.display(), rule.pattern);
        error.at_once(&if self.says_anything() { format!("{place}, and the command line") } else { place })
    }

    /// True if the command line asks for anything that `knarr.toml` can.
    fn says_anything(&self) -> bool {
        let CompressionOptions { config: _, goal, portable, chain, chunks, low, high, bounds } = &self.compression;
        let all = goal.is_some() || portable.is_some() || low.is_some() || high.is_some();
        all || !chain.is_empty() || !chunks.is_empty() || !bounds.is_empty()
    }

    /// Checks that each name and pattern is in one of several inputs: what one of them lacks is no mistake then. `lacking`
    /// says what an input lacks of its settings; no more inputs are looked at than it takes to find all. What cannot be
    /// looked at says so when its turn comes.
    ///
    /// # Errors
    /// `Usage` for a name that none has, with the names of the first input that was meant to have it; as for
    /// [`Request::settings`].
    pub(crate) fn check_names(
        &self,
        inputs: &[&Path],
        mut lacking: impl FnMut(&Path, &Settings) -> Result<Vec<(Name, Error)>>,
    ) -> Result<()> {
        let settings = inputs.iter().map(|input| self.settings(input)).collect::<Result<Vec<_>>>()?;
        let mut wanted: BTreeMap<Name, Option<Error>> =
            settings.iter().flat_map(Settings::names).map(|name| (name, None)).collect();
        for (settings, input) in settings.iter().zip(inputs) {
            let names = settings.names();
            if !names.iter().any(|name| wanted.contains_key(name)) {
                continue;
            }
            let Ok(lacking) = lacking(input, settings) else { continue };
            let mut lacking: BTreeMap<Name, Error> = lacking.into_iter().collect();
            wanted.retain(|name, _| !names.contains(name) || lacking.contains_key(name));
            for (name, error) in wanted.iter_mut().filter(|(_, error)| error.is_none()) {
                *error = lacking.remove(name).map(|error| self.blame(error, input));
            }
        }
        let among = |error: Error| error.at(format!("{} inputs, none of which has it", inputs.len()));
        wanted.into_values().flatten().next().map_or(Ok(()), |error| Err(among(error)))
    }

    fn apply(&self, mut settings: Settings) -> Result<Settings> {
        let compression = &self.compression;
        if let Some(goal) = &compression.goal {
            settings.goal = goal.parse().map_err(|error: Error| error.at("--goal"))?;
        }
        if let Some(portable) = &compression.portable {
            settings.portable = Some(portable.parse().map_err(|error: Error| error.at("--portable"))?);
        }
        settings.libver =
            settings.libver.with(compression.low, compression.high).map_err(|error| error.at("--low, --high"))?;
        for text in &compression.chain {
            // A chain has '=' only inside options, after a ':'.
            match split_variable(text, &[':', '|']) {
                Some((name, chain)) => {
                    let chain = Some(chain.parse::<ChainSpec>()?);
                    settings.rules.push(Rule { pattern: name.to_owned(), chain, ..Rule::default() });
                }
                None => settings.chain = Some(text.parse()?),
            }
        }
        let in_chunks = |error: Error| error.at("--chunks");
        for text in &compression.chunks {
            match split_variable(text, &[]) {
                Some((name, chunks)) => {
                    let chunks = Some(chunks.parse().map_err(in_chunks)?);
                    settings.rules.push(Rule { pattern: name.to_owned(), chunks, ..Rule::default() });
                }
                None => settings.chunks = text.parse().map_err(in_chunks)?,
            }
        }
        compression.bounds.apply(&mut settings)?;
        if let Some(plan) = &self.plan {
            settings.goal = plan.goal.clone();
            settings.portable = Some(plan.portable);
            settings.plan = Some(Arc::clone(plan));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::bounds::Bounds;
    use knarr_array::array::DType;
    use knarr_array::model::{Model, Variable};
    use knarr_flow::settings::ChunkRule;

    fn settings(compression: CompressionOptions) -> Result<Settings> {
        Request::new(&compression)?.settings(Path::new("a.nc"))
    }

    #[test]
    fn flags_for_all_and_for_one_variable() {
        let found = settings(CompressionOptions {
            chain: vec!["shuffle | zstd:level=3".into(), "T=deflate:5".into()],
            chunks: vec!["keep".into(), "T=1x2".into()],
            bounds: Bounds {
                max_abs_error: vec!["0.1".into(), "T=0.5".into()],
                significant_digits: vec!["T=3".into()],
                ..Bounds::default()
            },
            ..CompressionOptions::default()
        })
        .unwrap();
        let of = |name: &str| {
            let variable = Variable::plain(name, DType::F32, vec![4, 4]);
            let model = Model { groups: vec![], variables: vec![variable] };
            found.of(&knarr_array::coordinates::Coordinates::of(&model), &model.variables[0]).unwrap()
        };
        let (named, other) = (of("/T"), of("/U"));
        assert_eq!(named.chain.unwrap().to_string(), "deflate:5");
        assert_eq!(other.chain.unwrap().to_string(), "shuffle | zstd:level=3");
        assert_eq!((named.chunks, other.chunks), (ChunkRule::Shape(vec![1, 2]), ChunkRule::Keep));
        assert_eq!((named.quality.max_abs_error, named.quality.significant_digits), (Some(0.5), Some(3)));
        assert_eq!((other.quality.max_abs_error, other.quality.significant_digits), (Some(0.1), None));
    }

    #[test]
    fn flags_that_meet_one_variable_hold_together_in_the_order_typed() {
        let quality = |bounds: Bounds| {
            let found = settings(CompressionOptions { bounds, ..CompressionOptions::default() }).unwrap();
            let model = Model { groups: vec![], variables: vec![Variable::plain("/air", DType::F32, vec![4])] };
            found
                .of(&knarr_array::coordinates::Coordinates::of(&model), &model.variables[0])
                .unwrap()
                .quality
                .to_string()
        };
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let met = Bounds {
            max_abs_error: texts(&["air=0.01", "a*=0.5"]),
            significant_digits: texts(&["a*=4", "*=3", "a*=2"]),
            ..Bounds::default()
        };
        assert_eq!(quality(met.clone()), "max_abs_error=0.01, significant_digits=2");
        assert_eq!(quality(Bounds { lossless: texts(&["?ir"]), ..met.clone() }), "max_abs_error=0.01");
        assert_eq!(quality(Bounds { max_abs_error: texts(&["1"]), lossless: texts(&["air"]), ..met }), "lossless");
    }

    #[test]
    fn mistakes_are_refused_before_any_file_is_opened() {
        let bounds = |bounds| CompressionOptions { bounds, ..CompressionOptions::default() };
        for bad in [
            CompressionOptions { goal: Some("fast".into()), ..CompressionOptions::default() },
            CompressionOptions { portable: Some("anywhere".into()), ..CompressionOptions::default() },
            CompressionOptions { chain: vec!["T=|".into()], ..CompressionOptions::default() },
            bounds(Bounds { max_abs_error: vec!["T=small".into()], ..Bounds::default() }),
            bounds(Bounds { max_abs_error: vec!["-1".into()], ..Bounds::default() }),
            bounds(Bounds { max_abs_error: vec!["T=-1".into()], ..Bounds::default() }),
            bounds(Bounds { finest_abs_error: vec!["0.1".into()], ..Bounds::default() }),
            bounds(Bounds { exact_from: vec!["T=5".into()], ..Bounds::default() }),
            bounds(Bounds { max_abs_error: vec!["T=5".into()], lossless: vec!["T".into()], ..Bounds::default() }),
        ] {
            assert!(Request::new(&bad).is_err(), "{bad:?}");
        }
    }
}
