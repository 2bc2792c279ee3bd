//! Options that say what may change in the data, for all variables or some.

use clap::Args;
use knarr_array::error::{Error, Result};
use knarr_array::quality::Quality;
use knarr_flow::settings::{Rule, Settings};
use serde::{Deserialize, Serialize};

/// Bounds as typed, and what is spared of them.
#[derive(Args, Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Largest absolute error allowed, in the variable's unit
    #[arg(long, value_name = "[VAR=]X")]
    pub(crate) max_abs_error: Vec<String>,
    /// Largest error allowed, as a fraction of the variable's valid range
    #[arg(long, value_name = "[VAR=]X")]
    pub(crate) max_range_error: Vec<String>,
    /// Largest error allowed, as a fraction of each value
    #[arg(long, value_name = "[VAR=]X")]
    pub(crate) max_rel_error: Vec<String>,
    /// Smallest absolute error that relative bounds, bits and digits can ask for
    #[arg(long, value_name = "[VAR=]X")]
    pub(crate) finest_abs_error: Vec<String>,
    /// Number of explicit mantissa bits that stay right
    #[arg(long, value_name = "[VAR=]N")]
    pub(crate) significant_bits: Vec<String>,
    /// Number of decimal digits that stay right
    #[arg(long, value_name = "[VAR=]N")]
    pub(crate) significant_digits: Vec<String>,
    /// Values up to X keep their bits under any bound, and no other value is rounded to one of them
    #[arg(long, value_name = "[VAR=]X")]
    pub(crate) exact_up_to: Vec<String>,
    /// Values from X on keep their bits under any bound, and no other value is rounded to one of them
    #[arg(long, value_name = "[VAR=]X")]
    pub(crate) exact_from: Vec<String>,
    /// Variable or pattern that keeps every bit, whatever bounds apply to others
    #[arg(long, value_name = "VAR")]
    pub(crate) lossless: Vec<String>,
}

impl Bounds {
    /// Texts of each part of a quality, by its name in `knarr.toml`.
    fn parts(&self) -> [(&'static str, &[String]); 8] {
        let Self {
            max_abs_error,
            max_range_error,
            max_rel_error,
            finest_abs_error,
            significant_bits,
            significant_digits,
            exact_up_to,
            exact_from,
            lossless: _,
        } = self;
        [
            ("max_abs_error", max_abs_error),
            ("max_range_error", max_range_error),
            ("max_rel_error", max_rel_error),
            ("finest_abs_error", finest_abs_error),
            ("significant_bits", significant_bits),
            ("significant_digits", significant_digits),
            ("exact_up_to", exact_up_to),
            ("exact_from", exact_from),
        ]
    }

    /// True if nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.lossless.is_empty() && self.parts().iter().all(|(_, texts)| texts.is_empty())
    }

    /// Adds what was asked for to `settings`, behind the rules that are there.
    ///
    /// # Errors
    /// `Usage` for what is no number, and for variables that are to stay lossless and have a bound.
    pub(crate) fn apply(&self, settings: &mut Settings) -> Result<()> {
        for (part, texts) in self.parts() {
            for text in texts {
                let (name, value) = split_variable(text, &[]).map_or((None, text.as_str()), |(n, v)| (Some(n), v));
                let mut quality = Quality::LOSSLESS;
                quality.set(part, value.trim()).map_err(|_| {
                    let flag = part.replace('_', "-");
                    Error::usage(format!("--{flag} '{text}' is not a number"))
                        .hint(format!("write --{flag} 3, or --{flag} T=3 for one variable"))
                })?;
                match name {
                    Some(name) if self.lossless.iter().any(|kept| kept == name) => {
                        return Err(Error::usage(format!(
                            "--lossless '{name}' and a bound for it contradict each other"
                        ))
                        .hint("keep one of them"));
                    }
                    Some(name) => settings.rules.push(rule(name, quality)),
                    None => settings.quality = settings.quality.refined(quality),
                }
            }
        }
        settings.rules.extend(self.lossless.iter().map(|name| rule(name.trim(), Quality::LOSSLESS)));
        Ok(())
    }
}

fn rule(name: &str, quality: Quality) -> Rule {
    Rule { pattern: name.to_owned(), quality: Some(quality), ..Rule::default() }
}

/// `NAME=VALUE`, unless one of `before` comes ahead of the `=`.
pub(crate) fn split_variable<'a>(text: &'a str, before: &[char]) -> Option<(&'a str, &'a str)> {
    let (name, value) = text.split_once('=')?;
    if name.contains(before) { None } else { Some((name.trim(), value.trim())) }
}
