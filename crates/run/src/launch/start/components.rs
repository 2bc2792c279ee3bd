//! Which component of the rules the program is, and where it meets the others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_capture::meeting::{Component, Launcher};
use knarr_config::{Config, FileRule, TransferRule};

/// The directories in which the program meets others, as the component `name`, and that name; `None` without transfers.
///
/// Rules then say where that is.
///
/// # Errors
/// `Usage` if the rules and the name do not go together.
pub(in crate::launch) fn places(
    config: &mut Config,
    name: Option<&str>,
    beside: &Path,
) -> Result<Option<(String, BTreeSet<PathBuf>)>> {
    let rules: Vec<&mut TransferRule> = config.file.iter_mut().filter_map(FileRule::transfer_mut).collect();
    let known: BTreeSet<String> = rules.iter().flat_map(|rule| rule.components()).map(ToOwned::to_owned).collect();
    let names = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let name = match name {
        None if known.is_empty() => return Ok(None),
        None => {
            return Err(Error::usage("rules have route \"transfer\", and nothing says which component the program is")
                .hint(format!("add --as NAME; the components are {names}")));
        }
        Some(name) if known.is_empty() => {
            return Err(Error::usage(format!("--as {name}, but no rule has route \"transfer\""))
                .hint("add a rule for the files that programs transfer to each other, or leave --as out"));
        }
        Some(name) if !known.contains(name) => {
            return Err(Error::usage(format!("no rule knows a component '{name}'"))
                .hint(format!("the components are {names}: correct --as, or 'from' and 'to'")));
        }
        Some(name) => name,
    };
    let mut places = BTreeSet::new();
    for rule in rules {
        rule.beside(beside);
        if rule.components().any(|component| component == name) {
            places.insert(rule.rendezvous().to_owned());
        }
    }
    Ok(Some((name.to_owned(), places)))
}

/// Enters these directories, as this component; `who` is this launcher.
///
/// # Errors
/// As for [`Component::enter`].
pub(in crate::launch) fn enter(places: Option<(String, BTreeSet<PathBuf>)>, who: &Launcher) -> Result<Vec<Component>> {
    let Some((name, places)) = places else { return Ok(Vec::new()) };
    places.iter().map(|rendezvous| Component::enter(rendezvous, &name, who)).collect()
}
