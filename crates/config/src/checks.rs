//! Refuses rules whose values contradict each other, before a program starts.

use knarr_array::error::{Error, ErrorKind, Result};

use super::compress::{CompressRule, Output};
use super::restart::NamePattern;
use super::route::Route;
use super::rule::{FileRule, RouteRule};
use super::stage::StageRule;
use super::tier::TierRule;
use super::transfer::{InFlight, TransferRule};

/// Refuses values that make no sense, alone or together.
pub(super) fn check(rule: &FileRule, tiers: &[TierRule]) -> Result<()> {
    rule.settings()?;
    rule.compress().variables.iter().flatten().try_for_each(|(name, _)| check_name(name))?;
    let restart_files = rule.pattern.restart_files();
    if rule.route() != Route::Checkpoint && restart_files.is_some() {
        return Err(refuse("{step} and {rank} are for route \"checkpoint\"").hint("write * in their place"));
    }
    match &rule.keys {
        RouteRule::Compress(keys) => compress(keys),
        RouteRule::Estimate(_) | RouteRule::File => Ok(()),
        RouteRule::Checkpoint(keys) => {
            if keys.ranks.is_some() && restart_files.is_some_and(|files| !files.names.has_rank()) {
                return Err(refuse("a pattern without {rank} stands for one file in each step: it takes no 'ranks'")
                    .hint("remove 'ranks', or write where the rank stands: restart_{step}_{rank}.h5"));
            }
            keys.check()
        }
        RouteRule::Transfer(keys, kept) => transfer(&rule.pattern, keys, kept),
        RouteRule::Stage(own, keys) => stage(own, keys, tiers),
    }
}

fn stage(own: &StageRule, keys: &CompressRule, tiers: &[TierRule]) -> Result<()> {
    if tiers.len() < 2 {
        return Err(refuse("route = \"stage\" needs two tiers or more: those in which files wait, and their place").hint(
            "add a [[tier]] for each, the fastest first and the place of the files last; docs/run.md has an example",
        ));
    }
    if own.objective.is_some() && keys.goal.is_some() {
        return Err(refuse("'goal' says how each file is encoded, so there is nothing to choose by 'objective'")
            .hint("remove one of them"));
    }
    if matches!(keys.output(), Output::Zarr | Output::At(_)) {
        return Err(refuse("route = \"stage\" makes one file of each, and a Zarr store has many")
            .hint("write output = \"netcdf4\" or \"classic\", or route = \"compress\""));
    }
    compress(keys)
}

fn compress(keys: &CompressRule) -> Result<()> {
    classic(keys, keys.says_anything())?;
    let is_other = keys.output.as_ref().is_some_and(|output| *output != Output::Netcdf4);
    if keys.when.is_some() && (is_other || keys.wait.is_some()) {
        return Err(refuse(
            "when = \"close\" packs what the program has written itself: 'output' and 'wait' say nothing of that",
        )
        .hint("remove them, or remove 'when'"));
    }
    Ok(())
}

fn transfer(pattern: &NamePattern, keys: &TransferRule, kept: &CompressRule) -> Result<()> {
    let is_bounded = keys.in_flight() == InFlight::Bound;
    // Bounds may be meant for the way of the values.
    classic(kept, if is_bounded { kept.says_more_than_bounds() } else { kept.says_anything() })?;
    let leaves_none = |name: &NamePattern| matches!(name.as_str(), "*" | "**") || name.as_str() == pattern.as_str();
    if let Some(name) = keys.exclude.iter().flatten().find(|name| leaves_none(name)) {
        return Err(refuse(&format!("exclude = [\"{}\"] leaves no file to this rule", name.as_str()))
            .hint("exclude some of the names that 'pattern' matches, or remove the rule"));
    }
    if is_bounded && !kept.has_bounds() {
        return Err(refuse("in_flight = \"bound\" without a bound: no value could lose anything").hint(
            "state one, such as variables.T.max_rel_error = 1e-3, or write in_flight = \"auto\", which loses nothing",
        ));
    }
    if !keys.may_make_files() {
        if is_bounded && (kept.says_more_than_bounds() || kept.output.is_some()) {
            return Err(refuse(
                "no file is kept of the transfer: goals, formats, chains and chunks say nothing of it; bounds do",
            )
            .hint("remove them, or set keep = true or when_late = \"keep\""));
        }
        if !is_bounded && (kept.says_anything() || kept.output.is_some()) {
            let hint = "remove them, or set keep = true or when_late = \"keep\"; with in_flight = \"bound\" bounds hold on \
                        the way to other nodes";
            return Err(
                refuse("no file is kept of the transfer: goals, bounds and formats say nothing of it").hint(hint)
            );
        }
    }
    keys.check()
}

/// Refuses keys that have no effect on a classic file.
fn classic(keys: &CompressRule, asks: bool) -> Result<()> {
    if keys.output == Some(Output::Classic) && asks {
        return Err(refuse(
            "output = \"classic\" keeps values as they are: goals, bounds and readers say nothing of it",
        )
        .hint("remove them, or choose \"netcdf4\" or \"zarr\""));
    }
    Ok(())
}

/// Refuses names of variables that are meant as several and would match none.
fn check_name(name: &str) -> Result<()> {
    let inside = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    if name.is_empty() || inside.is_some_and(|(inside, _)| inside.contains(',')) {
        return Err(refuse(&format!("variables.\"{name}\" matches no variable"))
            .hint("write settings for each name, or a pattern with * and ?"));
    }
    Ok(())
}

fn refuse(message: &str) -> Error {
    Error::new(ErrorKind::Config, message)
}
