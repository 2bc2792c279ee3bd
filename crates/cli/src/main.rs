//! The `knarr` command.

#![deny(clippy::print_stderr)] // Lines of other ranks would break into it: `errln!` instead.

#[macro_use]
mod stderr;

mod advise;
mod args;
mod batch;
mod bounds;
mod chains;
mod checkpoint;
mod doctor;
mod explain;
mod generate;
mod hash;
mod hdf5_filter;
mod headings;
mod inputs;
mod inspect;
mod misread;
mod output;
mod place;
mod profile;
mod progress;
mod repack;
mod repack_tasks;
mod report;
mod request;
mod resources;
mod run;
mod session;
mod tasks;
mod terminal;
mod totals;
mod train;
mod verify;

use knarr_array::table;

use std::io::IsTerminal;
use std::process::ExitCode;

use args::Command;
use knarr_array::{Error, ErrorKind};

/// What ends a program whose output nobody reads, as if by SIGPIPE.
const CLOSED_PIPE: u8 = 141;

/// `println!` panics where standard output takes no more. A reader that closes the pipe has seen enough: the program
/// ends quietly. Results that a full disk swallows are an error. Everything else that panics is a defect.
fn main() -> ExitCode {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if unprinted(panic.payload()).is_none() {
            report(panic);
        }
    }));
    match std::panic::catch_unwind(run) {
        Ok(code) => code,
        Err(panic) => match unprinted(panic.as_ref()) {
            // What was found is not told by an exit code of 0: nobody has seen the rest of it.
            Some(why) if why.contains("os error 32") => ExitCode::from(CLOSED_PIPE),
            Some(why) => {
                let error = Error::new(ErrorKind::Write, why).hint("results were lost: print them to another place");
                ExitCode::from(tell(&error.at("standard output")))
            }
            None => ExitCode::from(ErrorKind::Internal.exit_code()),
        },
    }
}

/// Why standard output took no more, as `println!` says it.
fn unprinted(panic: &(dyn std::any::Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>()?.strip_prefix("failed printing to stdout: ")
}

fn run() -> ExitCode {
    session::outlive_file_limits();
    let arguments = match args::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            if let Some(error) = misread::misread(&error) {
                return ExitCode::from(tell(&error));
            }
            // Help and version are not errors; clap prints them to the right stream.
            let code = if error.use_stderr() { 2 } else { 0 };
            if error.use_stderr() && !std::io::stderr().is_terminal() {
                errln!("{}", error.to_string().trim_end());
            } else {
                // A closed pipe is the reader's choice.
                let _ = error.print();
            }
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
        Command::Worker => knarr_run::worker::serve(&tasks::all()).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(tell(&error)),
    }
}

/// Prints an error and returns its exit code.
fn tell(error: &Error) -> u8 {
    errln!("knarr: {error}");
    let stopped = session::interrupted_code().filter(|_| error.kind() == ErrorKind::Interrupted);
    stopped.unwrap_or_else(|| error.kind().exit_code())
}
