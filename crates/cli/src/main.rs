//! The `knarr` command.
//!
//! Reading order: `arguments`, `session` (the engine of one invocation), `commands`, `printing`, `report`.

#![deny(clippy::print_stderr)] // Lines of other ranks would break into it: `errln!` instead.

#[macro_use]
mod stderr;

mod arguments;
mod batch;
mod commands;
mod output;
mod place;
mod printing;
mod report;
mod session;

use knarr_array::table;

use std::io::IsTerminal;
use std::process::ExitCode;

use arguments::args::Command;
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
                ExitCode::from(report_error(&error.at("standard output")))
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
    let arguments = match arguments::args::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            if let Some(error) = arguments::misread::misread(&error) {
                return ExitCode::from(report_error(&error));
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
        Command::Inspect(arguments) => commands::inspect::run(arguments),
        Command::Advise(arguments) => commands::advise::run(arguments),
        Command::Repack(arguments) => commands::repack::run(arguments),
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Checkpoint(arguments) => commands::checkpoint::run(arguments),
        Command::Verify(arguments) => commands::verify::run(arguments),
        Command::Hash(arguments) => commands::hash::run(arguments),
        Command::Generate(arguments) => commands::generate::run(arguments),
        Command::Profile(arguments) => commands::profile::run(arguments),
        Command::Tiers(arguments) => commands::tiers::run(arguments),
        Command::Train(arguments) => commands::train::run(arguments),
        Command::Explain(arguments) => commands::explain::run(arguments),
        Command::Doctor(arguments) => commands::doctor::run(arguments),
        Command::Hdf5Filter(arguments) => commands::hdf5_filter::run(arguments),
        Command::Chains => commands::chains::run(),
        Command::Worker => knarr_worker::serve(&commands::tasks::all()).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(report_error(&error)),
    }
}

/// Prints an error and returns its exit code.
fn report_error(error: &Error) -> u8 {
    errln!("knarr: {error}");
    let stopped = session::interrupted_code().filter(|_| error.kind() == ErrorKind::Interrupted);
    stopped.unwrap_or_else(|| error.kind().exit_code())
}
