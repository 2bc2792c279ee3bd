//! Runs a command in a run in which so many names are pending: `page DIRECTORY COUNT COMMAND...`. With `COUNT:TAIL` the run has
//! several nodes, and names that end so may be pending on another one. For benchmarks.
#![allow(clippy::unwrap_used, reason = "a tool of the developers")]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use knarr_names::{Directory, Keeper, Key, Kind, OtherNodes, SpoolName};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let run = std::path::absolute(PathBuf::from(arguments.next().unwrap())).unwrap();
    let count = arguments.next().unwrap().into_string().unwrap();
    let (count, tail) = count.split_once(':').map_or((&*count, None), |(count, tail)| (count, Some(tail.to_owned())));
    let (count, tails): (u32, Vec<String>) = (count.parse().unwrap(), tail.into_iter().collect());
    let notes = run.join("pending");
    std::fs::create_dir_all(&notes).unwrap();
    let other_nodes =
        OtherNodes { directory: &notes, launcher: "this", tails: &tails, has_stores: false, has_locks: true };
    let other_nodes = Some(&other_nodes).filter(|other_nodes| !other_nodes.tails.is_empty());
    let keeper = Keeper::create(&run.join("names"), Duration::from_secs(60), other_nodes).unwrap();
    let directory = Directory::of(rustix::fs::CWD, run.as_os_str().as_encoded_bytes()).unwrap();
    for number in 0..count {
        let (last, place) = (format!("pending_{number:05}.nc"), format!("1-{number}"));
        let kind = Kind { may_be_given_up: true, ..Kind::default() };
        keeper
            .names()
            .enter(&Key::new(last.as_bytes(), directory), SpoolName::new(place.as_bytes()).unwrap(), kind)
            .unwrap();
    }
    let status = Command::new(arguments.next().unwrap()).args(arguments).env("KNARR_RUN", &run).status().unwrap();
    drop(keeper);
    std::fs::remove_file(run.join("names")).unwrap();
    std::fs::remove_dir(notes).unwrap();
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
