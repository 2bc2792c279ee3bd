//! `knarr checkpoint prune`: the newest sets stay.

use knarr_array::error::{Error, Result};
use knarr_checkpoint::measured;
use knarr_checkpoint::sets::{Pruned, prune};

use super::args::Prune;

pub(super) fn run(arguments: &Prune) -> Result<u8> {
    let keep = usize::try_from(arguments.keep).unwrap_or(usize::MAX);
    let pruned = prune(&arguments.sets, keep, &knarr_native::codecs()?, arguments.dry_run)?;
    pruned.failed.iter().for_each(|error| errln!("knarr: {error}"));
    if !arguments.dry_run {
        measured::note_kept(&arguments.sets, arguments.keep);
    }
    let code = pruned.failed.first().map_or(0, |error| error.kind().exit_code());
    if arguments.json {
        println!("{}", json(&pruned));
        return Ok(code);
    }
    let verb = if arguments.dry_run { "would be removed" } else { "removed" };
    pruned.removed.iter().for_each(|path| println!("{verb}  {}", path.display()));
    pruned.kept.iter().for_each(|path| println!("kept  {}", path.display()));
    for error in &pruned.damaged {
        errln!("knarr: {error}; the set was not counted and left alone");
    }
    Ok(code)
}

fn json(pruned: &Pruned) -> serde_json::Value {
    let texts = |errors: &[Error]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (damaged, failed) = (texts(&pruned.damaged), texts(&pruned.failed));
    serde_json::json!({"kept": pruned.kept, "removed": pruned.removed, "damaged": damaged, "failed": failed})
}
