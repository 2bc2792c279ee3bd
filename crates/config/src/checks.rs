//! Whether a rule makes sense: keys that its route would not heed are refused before a program starts.

use knarr_array::error::{Error, ErrorKind, Result};

use super::compress::{CompressRule, Output, When};
use super::restart::NamePattern;
use super::route::Route;
use super::rule::FileRule;
use super::transfer::InFlight;

/// Refuses values that make no sense, and keys that the route would not heed.
pub(super) fn check(rule: &FileRule) -> Result<()> {
    rule.settings()?;
    rule.compress.variables.iter().flatten().try_for_each(|(name, _)| check_name(name))?;
    match rule.route {
        Route::Compress => compress(rule),
        Route::File => untouched(rule),
        Route::Estimate => estimate(rule),
        Route::Checkpoint => checkpoint(rule),
        Route::Transfer => transfer(rule),
    }
}

fn compress(rule: &FileRule) -> Result<()> {
    others(rule)?;
    let CompressRule { when, output, wait, .. } = &rule.compress;
    let is_other = output.as_ref().is_some_and(|output| *output != Output::Netcdf4);
    if *when == Some(When::Write) && (is_other || wait.is_some()) {
        return Err(refuse(
            "when = \"write\" compresses what HDF5 itself writes: 'output' and 'wait' say nothing of that",
        )
        .hint("remove them, or remove 'when'"));
    }
    Ok(())
}

fn untouched(rule: &FileRule) -> Result<()> {
    others(rule)?;
    let CompressRule { when, output, wait, .. } = &rule.compress;
    if rule.compress.says_anything() || when.is_some() || output.is_some() || wait.is_some() {
        return Err(refuse("route = \"file\" leaves files as they are: goals, bounds and formats say nothing of them")
            .hint("remove them, or choose the route \"compress\""));
    }
    Ok(())
}

fn estimate(rule: &FileRule) -> Result<()> {
    others(rule)?;
    let CompressRule { when, high, output, wait, .. } = &rule.compress;
    if when.is_some() || high.is_some() || output.is_some() || wait.is_some() {
        return Err(refuse("an estimate writes no file: 'when', 'high', 'output' and 'wait' say nothing of it")
            .hint("remove them until the route is \"compress\""));
    }
    Ok(())
}

fn transfer(rule: &FileRule) -> Result<()> {
    others(rule)?;
    if rule.compresses_writes() || rule.compress.when.is_some() || rule.compress.wait.is_some() {
        return Err(refuse("'when' and 'wait' say nothing of transfers").hint("remove them"));
    }
    let leaves_none =
        |name: &NamePattern| matches!(name.as_str(), "*" | "**") || name.as_str() == rule.pattern.as_str();
    if let Some(name) = rule.transfer.exclude.iter().flatten().find(|name| leaves_none(name)) {
        return Err(refuse(&format!("exclude = [\"{}\"] leaves no file to this rule", name.as_str()))
            .hint("exclude some of the names that 'pattern' matches, or remove the rule"));
    }
    let may_be_kept = rule.transfer.may_make_files();
    if rule.transfer.in_flight() == InFlight::Bound {
        if !rule.compress.has_bounds() {
            return Err(refuse("in_flight = \"bound\" without a bound: no value could lose anything").hint(
                "state one, such as variables.T.max_rel_error = 1e-3, or write in_flight = \"auto\", which loses nothing",
            ));
        }
        if !may_be_kept && (rule.compress.says_more_than_bounds() || rule.compress.output.is_some()) {
            return Err(refuse(
                "no file is kept of the transfer: goals, formats, chains and chunks say nothing of it; bounds do",
            )
            .hint("remove them, or set keep = true or when_late = \"keep\""));
        }
    } else if !may_be_kept && (rule.compress.says_anything() || rule.compress.output.is_some()) {
        let hint = "remove them, or set keep = true or when_late = \"keep\"; with in_flight = \"bound\" bounds hold on the way \
                    to other nodes";
        return Err(refuse("no file is kept of the transfer: goals, bounds and formats say nothing of it").hint(hint));
    }
    rule.transfer.check()
}

fn checkpoint(rule: &FileRule) -> Result<()> {
    if rule.transfer.says_anything() {
        return Err(refuse(
            "from, to, publish, every, exclude, replay, write_only, in_flight, when_late, timeout, rendezvous and keep = true are for route \"transfer\"",
        )
        .hint("remove them; 'keep' is the number of sets that stay"));
    }
    let CompressRule { when, portable, low, high, output, wait, variables, .. } = &rule.compress;
    if variables.as_ref().is_some_and(|variables| !variables.is_empty()) {
        return Err(refuse("checkpoints keep every byte: they take no settings of variables")
            .hint("remove 'variables', or choose the route \"compress\""));
    }
    let says_of_files = portable.is_some() || low.is_some() || high.is_some();
    let says_of_files = says_of_files || output.is_some() || wait.is_some();
    if when.is_some_and(|when| when != When::Close) || says_of_files {
        return Err(refuse(
            "checkpoints are packed once they are written, into sets: 'when', 'portable', 'low', 'high', 'output' and \
             'wait' say nothing of them",
        )
        .hint("remove them, or choose the route \"compress\""));
    }
    if rule.checkpoint.ranks.is_some() && rule.pattern.restart_files().is_some_and(|files| !files.names.has_rank()) {
        return Err(refuse("a pattern without {rank} stands for one file in each step: it takes no 'ranks'")
            .hint("remove 'ranks', or write where the rank stands: restart_{step}_{rank}.h5"));
    }
    rule.checkpoint.check()
}

/// What all routes but `checkpoint` have in common.
fn others(rule: &FileRule) -> Result<()> {
    let CompressRule { goal, portable, low, high, output, variables, .. } = &rule.compress;
    let asks = goal.is_some() || portable.is_some() || low.is_some() || high.is_some();
    // Bounds may be meant for the way of the values.
    let asks = asks || variables.as_ref().is_some_and(|variables| !variables.is_empty());
    let is_lost_in_flight = rule.transfer.in_flight() == InFlight::Bound;
    let asks = if is_lost_in_flight { rule.compress.says_more_than_bounds() } else { asks };
    if *output == Some(Output::Classic) && asks {
        return Err(refuse(
            "output = \"classic\" keeps values as they are: goals, bounds and readers say nothing of it",
        )
        .hint("remove them, or choose \"netcdf4\" or \"zarr\""));
    }
    if rule.pattern.restart_files().is_some() {
        return Err(refuse("{step} and {rank} are for route \"checkpoint\"").hint("write * in their place"));
    }
    if rule.route != Route::Transfer && rule.transfer.says_anything() {
        return Err(refuse(
            "from, to, publish, every, exclude, replay, write_only, in_flight, when_late, timeout, rendezvous and keep = true are for route \"transfer\"",
        )
        .hint("add route = \"transfer\", or remove them"));
    }
    if rule.checkpoint.says_anything() {
        return Err(refuse(
            "group_size, scheme, block_size, similar, bundle_below, copies, ranks, sets, keep, remove_originals and \
             settle are for route \"checkpoint\"",
        )
        .hint("add route = \"checkpoint\", or remove them"));
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
