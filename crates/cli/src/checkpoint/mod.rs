//! `knarr checkpoint`: restart files of many ranks in sets.

mod advise;
pub(crate) mod args;

use knarr_core::error::Result;

use args::Checkpoint;

pub(crate) fn run(command: &Checkpoint) -> Result<u8> {
    match command {
        Checkpoint::Advise(arguments) => advise::run(arguments),
    }
}
