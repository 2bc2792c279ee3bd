//! `knarr checkpoint restore`.

use knarr_core::checkpoint::{extract, restore};
use knarr_core::error::{Error, Result};

use super::args::Restore;
use crate::progress::Bar;
use crate::table;

pub(super) fn run(arguments: &Restore) -> Result<u8> {
    let engine = crate::session::engine_without_profile(&arguments.resources)?;
    let set = super::open(&arguments.set, &engine.codecs)?;
    let count = set.manifest().ranks.len();
    let ranks = match &arguments.ranks {
        Some(text) => ranks(text, count)?,
        None => (0..count).collect(),
    };
    let begin = std::time::Instant::now();
    let progress = Bar::new(arguments.set.display().to_string());
    let (target, force) = (&arguments.directory, arguments.force);
    if !arguments.variables.is_empty() {
        let done = extract(&engine, &set, &ranks, &arguments.variables, target, force, &progress)?;
        drop(progress);
        let seconds = begin.elapsed().as_secs_f64();
        if arguments.json {
            let file = |(rank, variable, path): &(usize, String, std::path::PathBuf)| serde_json::json!({ "rank": rank, "variable": variable, "path": path });
            let files: Vec<_> = done.files.iter().map(file).collect();
            let damage = super::json(&done.damage);
            let (read, index) = (done.read_bytes, set.manifest_bytes());
            println!(
                "{}",
                serde_json::json!({ "files": files, "read_bytes": read, "index_bytes": index, "damage": damage,
                                    "seconds": seconds })
            );
        } else {
            println!(
                "{} variables of {} ranks to {} in {seconds:.2} s; {} of frames were read",
                done.files.len(),
                ranks.len(),
                target.display(),
                table::bytes(done.read_bytes)
            );
        }
        return Ok(super::report(&done.damage));
    }
    let done = restore(&engine, &set, &ranks, target, force, &progress)?;
    drop(progress);
    let seconds = begin.elapsed().as_secs_f64();
    if arguments.json {
        let file = |(rank, path): &(usize, std::path::PathBuf)| serde_json::json!({ "rank": rank, "path": path });
        let files: Vec<_> = done.files.iter().map(file).collect();
        let damage = super::json(&done.damage);
        let (read, index) = (done.read_bytes, set.manifest_bytes());
        println!(
            "{}",
            serde_json::json!({ "files": files, "bytes": done.bytes, "read_bytes": read, "index_bytes": index,
                                "damage": damage, "seconds": seconds })
        );
    } else {
        println!(
            "{} of {} files, {}, to {} in {seconds:.2} s; each has the hash of the original",
            done.files.len(),
            ranks.len(),
            table::bytes(done.bytes),
            target.display()
        );
    }
    Ok(super::report(&done.damage))
}

/// `0-31,40` as numbers below `count`.
fn ranks(text: &str, count: usize) -> Result<Vec<usize>> {
    let refuse = || {
        Error::usage(format!("--ranks '{text}' are no ranks of the set"))
            .mend(format!("write them like 0-31,40; the set has ranks 0 to {}", count.saturating_sub(1)))
    };
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().map_err(|_| refuse())?;
        let last: usize = last.trim().parse().map_err(|_| refuse())?;
        if first > last || last >= count {
            return Err(refuse());
        }
        ranks.extend(first..=last);
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn ranks_are_read_as_people_write_them() {
        assert_eq!(ranks("0-2, 5", 6).unwrap(), [0, 1, 2, 5]);
        for text in ["", "6", "2-1", "a", "-1", "0-99999999999999999999"] {
            assert!(ranks(text, 6).is_err(), "{text}");
        }
    }
}
