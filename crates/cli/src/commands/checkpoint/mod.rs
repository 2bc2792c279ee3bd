//! `knarr checkpoint`: sets of the restart files of many ranks.

mod advise;
pub(crate) mod args;
mod inputs;
mod merging;
mod pack;
mod processes;
mod prune;
mod restore;
mod scavenge;
mod show;
mod watch;

use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_checkpoint::{Damage, Set};
use knarr_codec::codec::CodecList;

use crate::stderr::Lines;
use args::{Checkpoint, Command};

pub(crate) fn run(arguments: &Checkpoint) -> Result<u8> {
    match &arguments.command {
        Command::Advise(arguments) => advise::run(arguments),
        Command::Watch(arguments) => watch::run(arguments),
        Command::Prune(arguments) => prune::run(arguments),
        Command::Scavenge(arguments) => scavenge::run(arguments),
        Command::Pack(arguments) => pack::run(arguments),
        Command::Restore(arguments) => restore::run(arguments),
        Command::List(arguments) => show::list(arguments),
        Command::Info(arguments) => show::info(arguments),
        Command::Verify(arguments) => show::verify(arguments),
        Command::Explain(arguments) => show::explain(arguments),
    }
}

/// Opens a set, and tells if its manifest is damaged.
fn open(path: &Path, codecs: &CodecList) -> Result<Set> {
    knarr_run::sets::open(path, codecs, &Lines { quiet: false })
}

/// Says that one of two copies is damaged.
fn tell_spared(error: &Error) {
    errln!("knarr: {error}; the other copy serves, but make a new set soon");
}

/// Says on standard error which ranks and variables are damaged, and returns the exit code.
fn report(damage: &[Damage]) -> u8 {
    for damage in damage {
        let what = match damage.variables.as_slice() {
            [] => "what is no variable".to_owned(),
            variables => format!("variables {}", variables.join(", ")),
        };
        errln!("knarr: rank {} ({}): {what}: {}", damage.rank, damage.name, damage.error);
    }
    damage.iter().map(|damage| damage.error.kind().exit_code()).max().unwrap_or(0)
}

fn json(damage: &[Damage]) -> serde_json::Value {
    let one = |damage: &Damage| {
        serde_json::json!({
            "rank": damage.rank,
            "name": damage.name,
            "variables": damage.variables,
            "error": damage.error.to_string(),
        })
    };
    damage.iter().map(one).collect()
}
