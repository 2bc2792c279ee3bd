//! Words for files and chains, in which all pages of a run agree.

use std::path::Path;

use knarr_choose::plan::{Action, Plan};

pub(super) fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| found.len())
}

/// The path from here, if the file lies below.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// The chains that were used, most bytes first.
pub(super) fn chains(plan: &Plan) -> String {
    const SHOWN: usize = 3;
    let mut chains: Vec<(String, u64)> = Vec::new();
    for variable in &plan.variables {
        if let Action::Encode(choice) = &variable.action {
            let name = choice.chain.to_string();
            match chains.iter_mut().find(|(other, _)| *other == name) {
                Some((_, bytes)) => *bytes += variable.raw_bytes,
                None => chains.push((name, variable.raw_bytes)),
            }
        }
    }
    // Of a file whose variables are all as they were, why they are.
    let copied = plan.variables.iter().find_map(|variable| match &variable.action {
        Action::Copy(why) => Some(why.clone()),
        Action::Encode(_) => None,
    });
    if let (true, Some(why)) = (chains.is_empty(), copied) {
        return why;
    }
    chains.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let more = chains.len().saturating_sub(SHOWN);
    let mut text = chains.into_iter().take(SHOWN).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
