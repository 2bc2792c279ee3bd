//! The `knarr` command.

mod advise;
mod args;
mod bounds;
mod chains;
mod checkpoint;
mod doctor;
mod explain;
mod generate;
mod hash;
mod hdf5_filter;
mod inputs;
mod inspect;
mod output;
mod profile;
mod progress;
mod repack;
mod report;
mod request;
mod run;
mod session;
mod train;
mod verify;

use knarr_core::table;

use clap::Parser;
use std::process::ExitCode;

use args::{Command, Knarr};
use knarr_core::{Error, ErrorKind};

/// A reader that closes the pipe has seen enough: the program ends quietly. Everything else that panics is a defect.
fn main() -> ExitCode {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_closed_pipe(panic.payload()) {
            report(panic);
        }
    }));
    match std::panic::catch_unwind(run) {
        Ok(code) => code,
        Err(panic) if is_closed_pipe(panic.as_ref()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(ErrorKind::Internal.exit_code()),
    }
}

/// What `println!` says when standard output is gone.
fn is_closed_pipe(panic: &(dyn std::any::Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|text| text.starts_with("failed printing to stdout"))
}

fn run() -> ExitCode {
    let arguments = match Knarr::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are not errors; clap prints them to the right stream.
            let code = if error.use_stderr() { 2 } else { 0 };
            // A closed pipe is the reader's choice.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let result = match &arguments.command {
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Advise(arguments) => advise::run(arguments),
        Command::Repack(arguments) => repack::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Checkpoint(arguments) => checkpoint::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Hash(arguments) => hash::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Profile(arguments) => profile::run(arguments),
        Command::Train(arguments) => train::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Hdf5Filter(arguments) => hdf5_filter::run(arguments),
        Command::Chains => chains::run(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(tell(&error)),
    }
}

/// Prints an error and returns its exit code.
fn tell(error: &Error) -> u8 {
    eprintln!("knarr: {error}");
    let stopped = session::interrupted_code().filter(|_| error.kind() == ErrorKind::Interrupted);
    stopped.unwrap_or_else(|| error.kind().exit_code())
}
