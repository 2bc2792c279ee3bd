//! `knarr checkpoint prune`: the newest sets stay.

use knarr_core::checkpoint::sets::{Pruned, prune};
use knarr_core::error::Result;

use super::args::Prune;

pub(super) fn run(arguments: &Prune) -> Result<u8> {
    let keep = usize::try_from(arguments.keep).unwrap_or(usize::MAX);
    let pruned = prune(&arguments.sets, keep, &knarr_native::codecs()?, arguments.dry_run)?;
    if arguments.json {
        println!("{}", json(&pruned));
        return Ok(0);
    }
    let verb = if arguments.dry_run { "would be removed" } else { "removed" };
    pruned.removed.iter().for_each(|path| println!("{verb}  {}", path.display()));
    pruned.kept.iter().for_each(|path| println!("kept  {}", path.display()));
    for error in &pruned.damaged {
        eprintln!("knarr: {error}; the set was not counted and left alone");
    }
    Ok(0)
}

fn json(pruned: &Pruned) -> serde_json::Value {
    let damaged: Vec<String> = pruned.damaged.iter().map(ToString::to_string).collect();
    serde_json::json!({"kept": pruned.kept, "removed": pruned.removed, "damaged": damaged})
}
