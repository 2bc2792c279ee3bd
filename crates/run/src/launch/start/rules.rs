//! Rules that no file can meet: a program should not run for hours before it learns of that.

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::codec::CodecList;
use knarr_config::{Config, FileRule, Route};
use knarr_flow::pipeline::check_chains;

use crate::launch::jobs::kind::kind_asked;

/// Refuses rules that are for no file, and chains that serve none.
///
/// # Errors
/// `Config`, `Usage`, `Unsupported` or `Quality`, with the rule.
pub(in crate::launch) fn check(config: &Config, codecs: &CodecList) -> Result<()> {
    if config.file.is_empty() {
        return Err(Error::new(ErrorKind::Config, "it has no rule, so nothing would be done with any file")
            .hint("add [[file]] with a pattern, such as pattern = \"*.nc\"; docs/run.md has an example"));
    }
    let rules = config.file.iter();
    rules.into_iter().try_for_each(|rule| {
        is_for_files(rule)
            .and_then(|()| chains(rule, codecs))
            .map_err(|error| error.at(format!("[[file]] pattern '{}'", rule.pattern)))
    })
}

/// Refuses a pattern with a directory that is relative: files are known by their names and by their whole paths.
fn is_for_files(rule: &FileRule) -> Result<()> {
    let text = rule.pattern.as_str();
    if rule.pattern.restart_files().is_some() || !text.contains('/') || text.starts_with(['/', '*', '?']) {
        return Ok(());
    }
    let name = text.trim_start_matches("./");
    let meant = if name.contains('/') { format!("*/{name}") } else { name.to_owned() };
    let what = "it matches no file: patterns are for names, or for whole paths from / on";
    Err(Error::new(ErrorKind::Config, what).hint(format!("write \"{meant}\"")))
}

fn chains(rule: &FileRule, codecs: &CodecList) -> Result<()> {
    if rule.route() == Route::Checkpoint {
        return Ok(());
    }
    let settings = rule.settings()?;
    check_chains(codecs, &settings, kind_asked(rule.compress().output()).limits(settings.portable)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_no_file_meets_are_refused() {
        let codecs = knarr_native::codecs().unwrap();
        let check = |text: &str| check(&Config::parse(text).unwrap(), &codecs);
        let said = |more: &str| {
            let error = check(&format!("[[file]]\npattern = \"*\"\n{more}\n")).unwrap_err();
            assert!(error.advice().is_some(), "{error}");
            error.to_string()
        };
        assert!(check("[machine]\n").unwrap_err().to_string().contains("no rule"));
        for (pattern, meant) in [("./hist.nc", "\"hist.nc\""), ("out/hist_*.nc", "\"*/out/hist_*.nc\"")] {
            let error = check(&format!("[[file]]\npattern = \"{pattern}\"\n")).unwrap_err();
            assert!(error.advice().is_some_and(|advice| advice.contains(meant)), "{error}");
        }
        for pattern in ["*/hist.nc", "/out/hist.nc", "hist.nc", "hist_{member}.nc"] {
            check(&format!("[[file]]\npattern = \"{pattern}\"\n")).unwrap();
        }
        assert!(said("variables.T.chain = \"zsdt:3\"").contains("zsdt"));
        assert!(said("variables.T.chain = \"zstd:99\"").contains("zstd"));
        assert!(said("portable = \"core\"\nvariables.T.chain = \"zstd\"").contains("portable"));
        assert!(said("variables.T.chain = \"round:abs=1 | deflate\"").contains("changes values"));
        for chain in ["zstd:3", "shuffle | gzip:4", "bitshuffle | lz4"] {
            check(&format!("[[file]]\npattern = \"*\"\nvariables.T.chain = \"{chain}\"\n")).unwrap();
        }
    }
}
