//! `knarr checkpoint restore`.

use std::path::PathBuf;
use std::time::Instant;

use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::{Error, Result};
use knarr_checkpoint::measured::{self, By, Measured};
use knarr_checkpoint::tree::Growing;
use knarr_checkpoint::{Damage, Set, extract, holders, refuse_existing_files, restore};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Vacant;
use knarr_watch::ranks::{Ranges, listed};
use serde::{Deserialize, Serialize};

use super::args::Restore;
use super::processes;
use crate::table;

pub(super) fn run(arguments: &Restore) -> Result<u8> {
    processes::on_all(|comm| restored(arguments, comm))
}

/// What was brought back: by one process, then by all.
#[derive(Default, Serialize, Deserialize)]
struct Done {
    files: Vec<Written>,
    bytes: u64,
    read_bytes: u64,
    damage: Vec<Damage>,
    /// What is wrong with one of two copies.
    spared: Vec<Error>,
}

/// A file that was written.
#[derive(Serialize, Deserialize)]
struct Written {
    /// Its number.
    rank: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
    path: String,
}

fn restored(arguments: &Restore, comm: &dyn Comm) -> Result<u8> {
    let begin = Instant::now();
    let (engine, set, ranks) = agree(comm, prepared(arguments, comm))?;
    // Before any process makes it; all have ended when the first one goes on.
    let mut vacant = if comm.rank() == ROOT { Vacant::of(&arguments.directory) } else { Vacant::default() };
    let engine = processes::sharing(comm, engine, &arguments.resources)?;
    let progress = processes::progress(comm, arguments.set.display().to_string());
    let own = share(&set, &ranks, comm);
    if arguments.variables.is_empty() {
        let names = own.iter().filter_map(|&rank| Some(set.manifest().ranks.get(rank)?.name.as_slice()));
        agree(comm, refuse_existing_files(names, &arguments.directory, arguments.force))?;
    }
    let is_whole = arguments.variables.is_empty() && arguments.ranks.is_none();
    let tree = &set.manifest().tree;
    let growing = match comm.rank() {
        ROOT if is_whole => tree.begin(&arguments.directory, arguments.force).map(Some),
        _ => Ok(None),
    };
    let growing = agree(comm, growing)?;
    let done = bring_back(arguments, &engine, &set, &own, &*progress);
    drop(progress);
    let done = comm::collect(comm, &agree(comm, done)?)?;
    let came = done.as_ref().is_some_and(|parts| parts.iter().any(|part| !part.files.is_empty()));
    // Links come when all files are there.
    agree(comm, growing.filter(|_| came).map_or(Ok(()), Growing::finish))?;
    let code = done.map_or(0, |parts| {
        let mut all = Done::default();
        for part in parts {
            all.files.extend(part.files);
            all.bytes += part.bytes;
            all.read_bytes += part.read_bytes;
            all.damage.extend(part.damage);
            all.spared.extend(part.spared);
        }
        all.files.sort_by_key(|file| file.rank);
        all.damage.sort_by_key(|damage| damage.rank);
        if !all.files.is_empty() {
            vacant.keep();
        }
        let took = begin.elapsed();
        if arguments.variables.is_empty() && all.files.len() == set.manifest().ranks.len() {
            measured::note(&arguments.set, &Measured::restart(By::Restore, took));
        }
        print(arguments, &set, &ranks, &all, took.as_secs_f64());
        all.spared.iter().for_each(super::tell_spared);
        super::report(&all.damage)
    });
    comm::share(comm, &code)
}

/// The set, and the ranks that are wanted of it.
fn prepared(arguments: &Restore, comm: &dyn Comm) -> Result<(Engine, Set, Vec<usize>)> {
    let engine = crate::session::engine_without_profile(&arguments.resources)?;
    let set = match comm.rank() {
        ROOT => super::open(&arguments.set, &engine.codecs)?,
        _ => Set::open(&arguments.set, &engine.codecs)?,
    };
    let numbers: Vec<u64> = set.manifest().ranks.iter().map(|rank| rank.number).collect();
    let ranks = match &arguments.ranks {
        Some(text) => ranks(text, &numbers)?,
        None => (0..numbers.len()).collect(),
    };
    let ranks = if arguments.variables.is_empty() { ranks } else { holders(&set, &ranks, &arguments.variables)? };
    Ok((engine, set, ranks))
}

/// What this process brings back: ranks of one group share frames, so they stay together as far as they can.
fn share(set: &Set, ranks: &[usize], comm: &dyn Comm) -> Vec<usize> {
    let mut ranks = ranks.to_vec();
    ranks.sort_by_key(|&rank| (set.manifest().ranks.get(rank).map(|file| file.group), rank));
    ranks.dedup();
    let end = |process: usize| process * ranks.len() / comm.size();
    ranks.get(end(comm.rank())..end(comm.rank() + 1)).unwrap_or_default().to_vec()
}

fn bring_back(
    arguments: &Restore,
    engine: &Engine,
    set: &Set,
    ranks: &[usize],
    progress: &dyn Progress,
) -> Result<Done> {
    let (target, force) = (&arguments.directory, arguments.force);
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    let number = |rank: usize| set.manifest().ranks.get(rank).map_or(0, |file| file.number);
    if arguments.variables.is_empty() {
        let done = restore(engine, set, ranks, target, force, progress)?;
        let file = |(rank, path)| Written { rank: number(rank), variable: None, path: shown(path) };
        let files = done.files.into_iter().map(file).collect();
        let spared = set.spared();
        return Ok(Done { files, bytes: done.bytes, read_bytes: done.read_bytes, damage: done.damage, spared });
    }
    if ranks.is_empty() {
        return Ok(Done::default());
    }
    let done = extract(engine, set, ranks, &arguments.variables, target, force, progress)?;
    let file = |(rank, variable, path)| Written { rank: number(rank), variable: Some(variable), path: shown(path) };
    let files = done.files.into_iter().map(file).collect();
    Ok(Done { files, bytes: 0, read_bytes: done.read_bytes, damage: done.damage, spared: set.spared() })
}

fn print(arguments: &Restore, set: &Set, ranks: &[usize], done: &Done, seconds: f64) {
    let target = arguments.directory.display();
    if arguments.json {
        let mut said = serde_json::json!({
            "files": done.files,
            "read_bytes": done.read_bytes,
            "index_bytes": set.manifest_bytes(),
            "damage": super::json(&done.damage),
            "seconds": seconds,
        });
        if arguments.variables.is_empty() {
            said["bytes"] = done.bytes.into();
        }
        if arguments.variables.is_empty() && arguments.ranks.is_none() {
            said["links"] = set.manifest().tree.links.len().into();
            said["directories"] = set.manifest().tree.directories.len().into();
        }
        println!("{said}");
    } else if arguments.variables.is_empty() {
        println!(
            "{} of {}, {}, to {target} in {seconds:.2} s; each has the hash of the original",
            done.files.len(),
            table::count(ranks.len(), "file"),
            table::bytes(done.bytes),
        );
        let links = set.manifest().tree.links.len();
        if links > 0 && arguments.ranks.is_none() {
            println!("{}", table::count(links, "link"));
        }
    } else {
        println!(
            "{} of {} to {target} in {seconds:.2} s; {} of frames were read",
            table::count(done.files.len(), "variable"),
            table::count(ranks.len(), "rank"),
            table::bytes(done.read_bytes)
        );
    }
}

/// Places in the set of the ranks `0-31,40`; `numbers` are those of all its ranks, in order.
fn ranks(text: &str, numbers: &[u64]) -> Result<Vec<usize>> {
    let refuse = || {
        Error::usage(format!("--ranks '{text}' are no ranks of the set"))
            .hint(format!("write them like 0-31,40; the set has {}", Ranges::of(numbers).in_words()))
    };
    let mut ranks = Vec::new();
    for range in listed(text).map_err(|_| refuse())? {
        let (first, last) = range.into_inner();
        let place = |number: u64| numbers.binary_search(&number).map_err(|_| refuse());
        ranks.extend(place(first)?..=place(last)?);
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn ranks_are_read_as_people_write_them() {
        assert_eq!(ranks("0-2, 5", &[0, 1, 2, 3, 4, 5]).unwrap(), [0, 1, 2, 5]);
        assert_eq!(ranks("4-8", &[1, 4, 7, 8]).unwrap(), [1, 2, 3]);
        for text in ["", "6", "2-1", "a", "-1", "0-99999999999999999999", "1-3,2"] {
            assert!(ranks(text, &[0, 1, 2, 3, 4, 5]).is_err(), "{text}");
        }
    }
}
