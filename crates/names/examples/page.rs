//! Runs a command in a run in which so many names are pending: `page DIRECTORY COUNT COMMAND...`. For benchmarks.
#![allow(clippy::unwrap_used, reason = "a tool of the developers")]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use knarr_names::{Directory, Keeper, Key, Kind, Place};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let run = std::path::absolute(PathBuf::from(arguments.next().unwrap())).unwrap();
    let count: u32 = arguments.next().unwrap().to_str().unwrap().parse().unwrap();
    let keeper = Keeper::create(&run.join("names"), Duration::from_secs(60), None).unwrap();
    let directory = Directory::of(rustix::fs::CWD, run.as_os_str().as_encoded_bytes()).unwrap();
    for number in 0..count {
        let (last, place) = (format!("pending_{number:05}.nc"), format!("1-{number}"));
        let kind = Kind { may_be_given_up: true, ..Kind::default() };
        keeper
            .names()
            .enter(&Key::new(last.as_bytes(), directory), Place::new(place.as_bytes()).unwrap(), kind)
            .unwrap();
    }
    let status = Command::new(arguments.next().unwrap()).args(arguments).env("KNARR_RUN", &run).status().unwrap();
    drop(keeper);
    std::fs::remove_file(run.join("names")).unwrap();
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
