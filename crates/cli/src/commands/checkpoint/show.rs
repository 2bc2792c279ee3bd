//! `knarr checkpoint list`, `info`, `verify` and `explain`.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;

use knarr_array::comm::{self, ROOT};
use knarr_array::error::{Error, Result};
use knarr_checkpoint::decision::Decision;
use knarr_checkpoint::manifest::Summary;
use knarr_checkpoint::set::is_set;
use knarr_checkpoint::{Set, Tree, natural};
use knarr_flow::settings::{glob_matches, nearest};

use super::args::{Explain, Info, List, Verify};
use super::{processes, tell_spared};
use crate::printing::progress::Bar;
use crate::table::{self, Align};

pub(super) fn list(arguments: &List) -> Result<u8> {
    let codecs = knarr_native::codecs()?;
    let directory = &arguments.directory;
    let entries = std::fs::read_dir(directory).map_err(|error| Error::read(directory, &error))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| is_set(path)).collect();
    if paths.is_empty() && is_set(directory) {
        paths.push(directory.clone());
    }
    paths.sort_by(|a, b| natural(a.as_os_str().as_encoded_bytes(), b.as_os_str().as_encoded_bytes()));
    let mut rows = Vec::new();
    let mut sets = Vec::new();
    let mut disk = OnDisk::default();
    for path in paths {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        match Set::open(&path, &codecs).and_then(|set| set.check_files().map(|()| set)) {
            Ok(set) => {
                let (ranks, raw, stored) = (set.manifest().ranks.len(), set.manifest().raw_bytes(), set.stored_bytes());
                let Summary { scheme, unproven, .. } = &set.manifest().summary;
                let frees = disk.take(&set);
                sets.push(serde_json::json!({
                    "set": path, "ranks": ranks, "raw_bytes": raw, "stored_bytes": stored, "scheme": scheme,
                    "frees_bytes": frees, "unproven": unproven,
                }));
                rows.push(vec![
                    name,
                    ranks.to_string(),
                    table::bytes(raw),
                    table::bytes(stored),
                    table::ratio(raw, stored),
                    table::bytes(frees),
                    match unproven {
                        None => scheme.to_string(),
                        Some(_) => format!("{scheme}; perhaps torn, see 'info'"),
                    },
                ]);
            }
            Err(error) => {
                sets.push(serde_json::json!({ "set": path, "error": error.to_string() }));
                let dash = || "-".to_owned();
                rows.push(vec![name, dash(), dash(), dash(), dash(), dash(), error.to_string()]);
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::json!({ "sets": sets, "disk_bytes": disk.bytes }));
        return Ok(0);
    }
    let header = [
        ("set", Align::Left),
        ("ranks", Align::Right),
        ("raw", Align::Right),
        ("stored", Align::Right),
        ("ratio", Align::Right),
        ("frees", Align::Right),
        ("scheme", Align::Left),
    ];
    print!("{}", table::render(&header, &rows));
    if disk.sets > 0 {
        println!(
            "on disk: {}, with what sets share counted once; a set frees what no other has",
            table::bytes(disk.bytes)
        );
    }
    Ok(0)
}

/// What files of sets take on disk, those that sets share once.
#[derive(Default)]
struct OnDisk {
    seen: HashSet<(u64, u64)>,
    bytes: u64,
    sets: usize,
}

impl OnDisk {
    /// Counts the files of a set. Returns how many bytes its removal frees: those of files without another name.
    fn take(&mut self, set: &Set) -> u64 {
        self.sets += 1;
        let mut frees = 0;
        for name in set.file_names() {
            let Ok(found) = set.path().join(name).metadata() else { continue };
            if self.seen.insert((found.dev(), found.ino())) {
                self.bytes += found.len();
            }
            if found.nlink() == 1 {
                frees += found.len();
            }
        }
        frees
    }
}

pub(super) fn info(arguments: &Info) -> Result<u8> {
    let set = super::open(&arguments.set, &knarr_native::codecs()?)?;
    let manifest = set.manifest();
    if arguments.json {
        let rank = |rank: &knarr_checkpoint::rank_file::RankFile| {
            let layout = &rank.layout.layout;
            let variables = layout.variables.iter().map(|variable| {
                serde_json::json!({ "path": variable.path, "type": variable.dtype.to_string(), "shape": variable.shape })
            });
            let hash: String = rank.hash.iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({
                "rank": rank.number, "name": rank.display(), "group": rank.group,
                "mode": rank.attributes.map(|known| format!("{:04o}", known.mode)), "bytes": rank.layout.file_length(),
                "format": layout.format, "blake3": hash, "variables": variables.collect::<Vec<_>>(),
                "unfiltered_chunks": rank.layout.unfiltered().0,
            })
        };
        let ranks: Vec<_> = manifest.ranks.iter().map(rank).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let link =
            |(name, target): &(Vec<u8>, Vec<u8>)| serde_json::json!({"name": text(name), "target": text(target)});
        let links: Vec<_> = manifest.tree.links.iter().map(link).collect();
        println!(
            "{}",
            serde_json::json!({
                "set": arguments.set, "program": manifest.summary.program, "scheme": manifest.summary.scheme,
                "goal": manifest.summary.goal, "group_size": manifest.summary.group_size,
                "raw_bytes": manifest.raw_bytes(), "stored_bytes": set.stored_bytes(),
                "index_bytes": set.manifest_bytes(), "ranks": ranks, "links": links,
                "directories": manifest.tree.directories.len(), "unproven": manifest.summary.unproven,
            })
        );
        return Ok(0);
    }
    let (raw, stored) = (manifest.raw_bytes(), set.stored_bytes());
    println!(
        "{}: {} in {}, {} in {} ({}x), of which the index {}; scheme {}, goal {}, by {}",
        arguments.set.display(),
        table::count(manifest.ranks.len(), "rank"),
        table::count(manifest.ranks.last().map_or(0, |rank| rank.group + 1), "group"),
        table::bytes(raw),
        table::bytes(stored),
        table::ratio(raw, stored),
        table::bytes(set.manifest_bytes()),
        manifest.summary.scheme,
        manifest.summary.goal,
        manifest.summary.program
    );
    let unfiltered = manifest.ranks.iter().map(|rank| rank.layout.unfiltered());
    let (chunks, bytes) = unfiltered.fold((0, 0), |sum, (chunks, bytes)| (sum.0 + chunks, sum.1 + bytes));
    if chunks > 0 {
        println!(
            "held as values without their filters: {}, {} of the files",
            table::count(chunks, "chunk"),
            table::bytes(bytes)
        );
    }
    if let Some(why) = &manifest.summary.unproven {
        println!("perhaps torn: {why}");
    }
    let copied: u64 = manifest.stores.iter().filter(|store| store.has_copy).map(|store| store.length).sum();
    if copied > 0 {
        println!("of {} that are shared with other sets there are two copies", table::bytes(copied));
    }
    let Tree { links, directories } = &manifest.tree;
    if !links.is_empty() {
        println!("{} links", links.len());
    }
    if !directories.is_empty() {
        println!("{} directories with their permissions", directories.len());
    }
    let rows: Vec<Vec<String>> = manifest
        .ranks
        .iter()
        .map(|rank| {
            let layout = &rank.layout.layout;
            vec![
                rank.number.to_string(),
                rank.group.to_string(),
                table::bytes(rank.layout.file_length()),
                layout.variables.len().to_string(),
                layout.format.clone(),
                rank.display(),
            ]
        })
        .collect();
    let header = [
        ("rank", Align::Right),
        ("group", Align::Right),
        ("size", Align::Right),
        ("variables", Align::Right),
        ("format", Align::Left),
        ("file", Align::Left),
    ];
    print!("{}", table::render(&header, &rows));
    Ok(0)
}

/// Under mpirun one process does it: it is said once, and all end with the same exit code.
pub(super) fn verify(arguments: &Verify) -> Result<u8> {
    processes::on_all(|comm| {
        let code = if comm.rank() == ROOT { verified(arguments) } else { Ok(0) };
        comm::share(comm, &comm::agree(comm, code)?)
    })
}

fn verified(arguments: &Verify) -> Result<u8> {
    let engine = crate::session::engine_without_profile(&arguments.resources)?;
    let set = super::open(&arguments.set, &engine.codecs)?;
    let progress = Bar::new(arguments.set.display().to_string());
    let done = knarr_checkpoint::verify(&engine, &set, &progress)?;
    drop(progress);
    if let Some(damage) = &done.copy_damage {
        errln!("knarr: {damage}; the manifest itself serves, but make a new set soon");
    }
    done.spared.iter().for_each(tell_spared);
    let manifest_damage = set.manifest_damage().or(done.copy_damage.as_ref());
    if arguments.json {
        println!(
            "{}",
            serde_json::json!({
                "set": arguments.set, "read_bytes": done.read_bytes, "damage": super::json(&done.damage),
                "manifest_damage": manifest_damage.map(ToString::to_string),
                "copy_damage": done.spared.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        );
    } else if done.damage.is_empty() {
        println!(
            "{}: every frame decodes to what was packed; {} were read",
            arguments.set.display(),
            table::bytes(done.read_bytes)
        );
    }
    let damaged = manifest_damage.into_iter().chain(&done.spared).map(|damage| damage.kind().exit_code()).max();
    let damaged = damaged.unwrap_or(0);
    Ok(super::report(&done.damage).max(damaged))
}

pub(super) fn explain(arguments: &Explain) -> Result<u8> {
    let set = super::open(&arguments.set, &knarr_native::codecs()?)?;
    let summary = &set.manifest().summary;
    let is_wanted = |decision: &&Decision| {
        arguments.variable.is_empty()
            || arguments.variable.iter().any(|pattern| {
                let (name, _) = decision.class.split_once('_').unwrap_or((&decision.class, ""));
                glob_matches(pattern, &decision.class) || glob_matches(pattern, name)
            })
    };
    let mut decisions: Vec<&Decision> = summary.decisions.iter().filter(is_wanted).collect();
    if decisions.is_empty() && !arguments.variable.is_empty() {
        let wanted = arguments.variable.join("', '");
        let mut classes: Vec<&str> = summary.decisions.iter().map(|decision| decision.class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        return Err(Error::usage(format!("no class of variables matches '{wanted}'"))
            .hint(format!("the set has: {}", nearest(&wanted, classes.into_iter(), 8)))
            .at(arguments.set.display().to_string()));
    }
    if arguments.json {
        println!("{}", serde_json::json!({ "set": arguments.set, "scheme": summary.scheme, "decisions": decisions }));
        return Ok(0);
    }
    decisions.sort_by_key(|decision| std::cmp::Reverse(decision.packed_bytes));
    let header = [
        ("class", Align::Left),
        ("group", Align::Right),
        ("raw", Align::Right),
        ("packed", Align::Right),
        ("ratio", Align::Right),
        ("order", Align::Left),
        ("chain", Align::Left),
        ("why", Align::Left),
    ];
    let rows: Vec<Vec<String>> = decisions
        .iter()
        .map(|decision| {
            vec![
                decision.class.clone(),
                decision.group.to_string(),
                table::bytes(decision.raw_bytes),
                table::bytes(decision.packed_bytes),
                table::ratio(decision.raw_bytes, decision.packed_bytes),
                decision.order.to_string(),
                decision.chains.first().map_or("stored".to_owned(), ToString::to_string),
                decision.reason.clone(),
            ]
        })
        .collect();
    print!("{}", table::render(&header, &rows));
    let mut orders: BTreeMap<String, (usize, u64, u64)> = BTreeMap::new();
    for decision in &decisions {
        let sum = orders.entry(decision.order.to_string()).or_default();
        *sum = (sum.0 + 1, sum.1 + decision.raw_bytes, sum.2 + decision.packed_bytes);
    }
    for (order, (classes, raw, packed)) in orders {
        println!(
            "{} of similar variables, stored {order}: {} in {}",
            table::count(classes, "class"),
            table::bytes(raw),
            table::bytes(packed)
        );
    }
    Ok(0)
}
