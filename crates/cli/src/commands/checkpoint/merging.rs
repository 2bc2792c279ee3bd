//! How files are merged and compressed, as the configuration and then the flags say.

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_checkpoint::similarity::BUNDLE_BELOW;
use knarr_checkpoint::{PackOptions, Similarity};
use knarr_config::{Config, FileRule, Machine, Route};

use super::args::Merging;

/// The flags, and the configuration they name.
pub(super) struct Configured<'a> {
    flags: &'a Merging,
    config: Option<(&'a Path, Config)>,
}

impl<'a> Configured<'a> {
    /// # Errors
    /// `Config`, or why the configuration cannot be read.
    pub(super) fn read(flags: &'a Merging) -> Result<Self> {
        let config = flags.config.as_deref().map(|path| Ok::<_, Error>((path, Config::read(path)?))).transpose()?;
        Ok(Self { flags, config })
    }

    /// Profile and model that the configuration names.
    pub(super) fn machine(&self) -> Machine {
        self.config.as_ref().map_or_else(Machine::default, |(path, config)| config.machine.beside(path))
    }

    /// What holds for a set of files, of which this is the first: its rule counts.
    ///
    /// # Errors
    /// `Usage` if no rule matches, or flags make no sense.
    pub(super) fn options(&self, first: Option<&Path>) -> Result<PackOptions> {
        let flags = self.flags;
        let rule = first.map(|first| self.rule(first)).transpose()?.flatten();
        let mut options = rule.map_or_else(|| Ok(PackOptions::default()), FileRule::pack_options)?;
        options.verify = !flags.no_verify;
        options.attributes = true;
        if let Some(goal) = &flags.goal {
            options.goal = goal.parse().map_err(|error: Error| error.at("--goal"))?;
        }
        if let Some(scheme) = &flags.scheme {
            options.scheme = scheme.parse().map_err(|error: Error| error.at("--scheme"))?;
        }
        options.group_size = flags.group_size.unwrap_or(options.group_size);
        options.copies = flags.copies.unwrap_or(options.copies);
        options.block_size = flags.block_size.unwrap_or(options.block_size);
        let rule = rule.map(|rule| rule.checkpoint().clone()).unwrap_or_default();
        let similar = if flags.similar.is_empty() { rule.similar() } else { &flags.similar };
        options.similarity =
            Similarity::new(similar, flags.bundle_below.or(rule.bundle_below).unwrap_or(BUNDLE_BELOW))?;
        Ok(options)
    }

    fn rule(&self, first: &Path) -> Result<Option<&FileRule>> {
        let Some((path, config)) = &self.config else { return Ok(None) };
        let refuse = |why: String, hint: &str| Err(Error::usage(why).hint(hint).at(path.display().to_string()));
        match config.rule_for(first) {
            None => {
                refuse(format!("no [[file]] pattern matches '{}'", first.display()), "add one, or leave --config out")
            }
            Some(rule) if rule.route() != Route::Checkpoint => refuse(
                format!("'{}' has another route than \"checkpoint\"", first.display()),
                "change the route, or leave --config out",
            ),
            rule => Ok(rule),
        }
    }
}
