//! `knarr checkpoint scavenge`: what a node has of the newest steps, before it is given back.

use knarr_array::error::Result;
use knarr_checkpoint::levels::{Scavenged, scavenge};

use super::args::Scavenge;
use crate::printing::progress::Bar;

pub(super) fn run(arguments: &Scavenge) -> Result<u8> {
    let engine = crate::session::engine_without_profile(&arguments.resources)?;
    let progress = Bar::new(arguments.output.display().to_string());
    let found = scavenge(&engine, &arguments.directories, &arguments.output, &progress);
    drop(progress);
    let (found, damaged) = found?;
    damaged.iter().for_each(|error| errln!("knarr: {error}; other nodes may have a copy"));
    if arguments.json {
        println!("{}", found.iter().map(json).collect::<serde_json::Value>());
    } else {
        found.iter().for_each(print);
    }
    Ok(0)
}

fn json(one: &Scavenged) -> serde_json::Value {
    let (step, state, missing) = match one {
        Scavenged::There(step) => (step, "there", &[][..]),
        Scavenged::Complete(step) => (step, "complete", &[][..]),
        Scavenged::Waits(step, missing) => (step, "waits", missing.as_slice()),
        Scavenged::Older(step) => (step, "older", &[][..]),
    };
    serde_json::json!({"step": step, "state": state, "missing": missing})
}

fn print(one: &Scavenged) {
    match one {
        Scavenged::There(step) => println!("step {step}: is in the directory of sets"),
        Scavenged::Complete(step) => println!("step {step}: complete"),
        Scavenged::Older(step) => println!("step {step}: the directory of sets has a newer one"),
        Scavenged::Waits(step, missing) => println!("step {step}: waits for {} of other nodes", missing.join(", ")),
    }
}
