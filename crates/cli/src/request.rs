//! Flags and `knarr.toml` become settings.

use std::path::{Path, PathBuf};

use knarr_core::chain::ChainSpec;
use knarr_core::config::{Config, Machine, Route};
use knarr_core::energy::Site;
use knarr_core::error::{Error, Result};
use knarr_core::quality::Quality;
use knarr_core::settings::{Rule, Settings};

use crate::args::Wishes;

/// What was asked for, before it is known which file.
pub(crate) struct Request {
    config: Option<(PathBuf, Config)>,
    wishes: Wishes,
}

impl Request {
    /// Reads the configuration if one was named.
    pub(crate) fn new(wishes: &Wishes) -> Result<Self> {
        let config = match &wishes.config {
            Some(path) => Some((path.clone(), Config::read(path)?)),
            None => None,
        };
        let request = Self { config, wishes: wishes.clone() };
        // Flags are checked before any file is opened.
        request.apply(Settings::default())?;
        Ok(request)
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
                    .mend("add one, or leave --config out")
                    .at(path.display().to_string()));
            };
            let meant = match rule.route {
                Route::Compress => None,
                Route::File => Some("\"file\": it is to stay untouched"),
                Route::Checkpoint => Some("\"checkpoint\": it is for 'knarr checkpoint pack' and 'knarr run'"),
            };
            if let Some(meant) = meant {
                return Err(Error::usage(format!("'{}' has route {meant}", input.display()))
                    .mend("change the route to \"compress\", or leave --config out")
                    .at(path.display().to_string()));
            }
            settings = rule.settings()?;
        }
        self.apply(settings)
    }

    fn apply(&self, mut settings: Settings) -> Result<Settings> {
        let wishes = &self.wishes;
        if let Some(goal) = &wishes.goal {
            settings.goal = goal.parse().map_err(|error: Error| error.at("--goal"))?;
        }
        if let Some(portable) = &wishes.portable {
            settings.portable = portable.parse().map_err(|error: Error| error.at("--portable"))?;
        }
        for text in &wishes.chain {
            // A chain has '=' only inside options, after a ':'.
            match split_variable(text, &[':', '|']) {
                Some((name, chain)) => rule(&mut settings, name).chain = Some(chain.parse::<ChainSpec>()?),
                None => settings.chain = Some(text.parse()?),
            }
        }
        let in_chunks = |error: Error| error.at("--chunks");
        for text in &wishes.chunks {
            match split_variable(text, &[]) {
                Some((name, chunks)) => rule(&mut settings, name).chunks = Some(chunks.parse().map_err(in_chunks)?),
                None => settings.chunks = text.parse().map_err(in_chunks)?,
            }
        }
        self.apply_quality(&mut settings)?;
        Ok(settings)
    }

    fn apply_quality(&self, settings: &mut Settings) -> Result<()> {
        let wishes = &self.wishes;
        let mut set = |texts: &[String], flag: &str, put: &dyn Fn(&mut Quality, &str) -> bool| -> Result<()> {
            for text in texts {
                let (name, value) = split_variable(text, &[]).map_or((None, text.as_str()), |(n, v)| (Some(n), v));
                let quality = match name {
                    Some(name) => rule(settings, name).quality.get_or_insert(Quality::LOSSLESS),
                    None => &mut settings.quality,
                };
                if !put(quality, value.trim()) {
                    return Err(Error::usage(format!("--{flag} '{text}' is not a number"))
                        .mend(format!("write --{flag} 0.01, or --{flag} T=0.01 for one variable")));
                }
            }
            Ok(())
        };
        set(&wishes.max_abs_error, "max-abs-error", &|q, v| put_float(&mut q.max_abs_error, v))?;
        set(&wishes.max_range_error, "max-range-error", &|q, v| put_float(&mut q.max_range_error, v))?;
        set(&wishes.max_rel_error, "max-rel-error", &|q, v| put_float(&mut q.max_rel_error, v))?;
        set(&wishes.finest_abs_error, "finest-abs-error", &|q, v| put_float(&mut q.finest_abs_error, v))?;
        set(&wishes.significant_bits, "significant-bits", &|q, v| put_count(&mut q.significant_bits, v))?;
        set(&wishes.significant_digits, "significant-digits", &|q, v| put_count(&mut q.significant_digits, v))?;
        set(&wishes.exact_up_to, "exact-up-to", &|q, v| put_float(&mut q.exact_up_to, v))?;
        set(&wishes.exact_from, "exact-from", &|q, v| put_float(&mut q.exact_from, v))?;
        settings.quality.validate(knarr_core::array::DType::F64)?;
        for rule in &settings.rules {
            if let Some(quality) = rule.quality {
                quality.validate(knarr_core::array::DType::F64).map_err(|error| error.at_variable(&rule.pattern))?;
            }
        }
        Ok(())
    }
}

fn put_float(slot: &mut Option<f64>, text: &str) -> bool {
    text.parse().map(|value| *slot = Some(value)).is_ok()
}

fn put_count(slot: &mut Option<u32>, text: &str) -> bool {
    text.parse().map(|value| *slot = Some(value)).is_ok()
}

/// The rule made by flags for this variable; one a name, so that flags add up.
fn rule<'a>(settings: &'a mut Settings, name: &str) -> &'a mut Rule {
    let index = settings.rules.iter().position(|rule| rule.pattern == name).unwrap_or_else(|| {
        settings.rules.push(Rule { pattern: name.to_owned(), ..Rule::default() });
        settings.rules.len() - 1
    });
    &mut settings.rules[index]
}

/// `NAME=VALUE`, unless one of `before` comes ahead of the `=`.
pub(crate) fn split_variable<'a>(text: &'a str, before: &[char]) -> Option<(&'a str, &'a str)> {
    let (name, value) = text.split_once('=')?;
    if name.contains(before) { None } else { Some((name.trim(), value.trim())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes() -> Wishes {
        Wishes {
            config: None,
            goal: None,
            portable: None,
            chain: vec![],
            chunks: vec![],
            max_abs_error: vec![],
            max_range_error: vec![],
            max_rel_error: vec![],
            finest_abs_error: vec![],
            significant_bits: vec![],
            significant_digits: vec![],
            exact_up_to: vec![],
            exact_from: vec![],
        }
    }

    fn settings(wishes: Wishes) -> Result<Settings> {
        Request::new(&wishes)?.settings(Path::new("a.nc"))
    }

    #[test]
    fn flags_for_all_and_for_one_variable() {
        let found = settings(Wishes {
            chain: vec!["shuffle | zstd:level=3".into(), "T=deflate:5".into()],
            chunks: vec!["keep".into(), "T=1x2".into()],
            max_abs_error: vec!["0.1".into(), "T=0.5".into()],
            significant_digits: vec!["T=3".into()],
            ..wishes()
        })
        .unwrap();
        assert_eq!(found.chain.unwrap().to_string(), "shuffle | zstd:level=3");
        assert_eq!(found.rules.len(), 1);
        assert_eq!(found.quality.max_abs_error, Some(0.1));
        let quality = found.rules[0].quality.unwrap();
        assert_eq!((quality.max_abs_error, quality.significant_digits), (Some(0.5), Some(3)));
    }

    #[test]
    fn mistakes_are_refused_before_any_file_is_opened() {
        for bad in [
            Wishes { goal: Some("fast".into()), ..wishes() },
            Wishes { portable: Some("anywhere".into()), ..wishes() },
            Wishes { chain: vec!["T=|".into()], ..wishes() },
            Wishes { max_abs_error: vec!["T=small".into()], ..wishes() },
            Wishes { max_abs_error: vec!["-1".into()], ..wishes() },
            Wishes { finest_abs_error: vec!["0.1".into()], ..wishes() },
            Wishes { exact_from: vec!["T=5".into()], ..wishes() },
        ] {
            assert!(Request::new(&bad).is_err(), "{bad:?}");
        }
    }
}
