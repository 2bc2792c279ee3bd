//! `knarr checkpoint pack`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use knarr_array::comm::{self, Comm, ROOT, agree};
use knarr_array::error::Result;
use knarr_checkpoint::measured::{self, By, Measured};
use knarr_checkpoint::sets::{directory_of, whole};
use knarr_checkpoint::{Grouping, Member, PackOptions, Packed, Together, Tree, deal};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::Engine;
use serde::{Deserialize, Serialize};

use super::args::Pack;
use super::inputs::{self, LeftOut};
use super::merging::Configured;
use super::processes;
use crate::table::{self, Align};

pub(super) fn run(arguments: &Pack) -> Result<u8> {
    processes::on_all(|comm| pack(arguments, comm))
}

/// What rank 0 finds for all: what others find a moment later may be something else.
#[derive(Default, Serialize, Deserialize)]
struct Found {
    /// Path of the first file, as bytes.
    first: Option<Vec<u8>>,
    /// Path of the earlier set, as bytes.
    base: Option<Vec<u8>>,
    /// How many sets stay beside it, as far as that is known; not asked if the user names the earlier set.
    keep: Option<usize>,
}

impl Found {
    fn look(arguments: &Pack, own: &[Member], codecs: &CodecList) -> Self {
        let (base, keep) = match &arguments.base {
            None if !arguments.no_base => last_beside(&arguments.output, codecs),
            given => (given.clone(), None),
        };
        let bytes = |path: PathBuf| path.into_os_string().into_vec();
        Self { first: own.first().map(|member| bytes(member.input.path.clone())), base: base.map(bytes), keep }
    }
}

fn pack(arguments: &Pack, comm: &dyn Comm) -> Result<u8> {
    let (configured, engine, inputs) = agree(comm, prepared(arguments, comm))?;
    let inputs::Found { inputs, tree, left_out, .. } = inputs;
    let own: Vec<Member> = inputs.into_iter().enumerate().map(|(rank, input)| Member { rank, input }).collect();
    let engine = processes::sharing(comm, engine, &arguments.resources)?;
    let found = match comm.rank() {
        ROOT => Found::look(arguments, &own, &engine.codecs),
        _ => Found::default(),
    };
    let found = comm::share(comm, &found)?;
    let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
    let options = agree(comm, configured.options(found.first.map(path).as_deref()))?;
    let options = PackOptions { force: arguments.force, base: found.base.map(path), keep: found.keep, ..options };
    let groups = deal(comm, &own, Grouping::RankOrder, options.group_size)?;
    let mut together = Together::begin(&engine, comm, &arguments.output, &options)?;
    together.set_tree(tree);
    let progress = processes::progress(comm, arguments.output.display().to_string());
    let part = together.pack_groups(&groups, &knarr_formats::layout::read, &*progress);
    drop(progress);
    if let Some(packed) = together.finish(comm, part)? {
        measured::note(&arguments.output, &Measured::checkpoint(By::Pack, None, packed.seconds));
        if arguments.json {
            println!("{}", json(arguments, &options, &packed, &left_out));
        } else {
            print(arguments, &options, &packed, &left_out);
        }
    }
    Ok(0)
}

/// What a rank needs to begin. The files are found by rank 0, which names them for all.
fn prepared<'a>(arguments: &'a Pack, comm: &dyn Comm) -> Result<(Configured<'a>, Engine, inputs::Found)> {
    let configured = Configured::read(&arguments.merging)?;
    let engine = crate::session::engine(&arguments.resources, &configured.machine())?;
    let inputs = match comm.rank() {
        ROOT => inputs::find(&arguments.files, arguments.pattern.as_deref(), arguments.ranks.as_deref())?,
        _ => inputs::Found::default(),
    };
    Ok((configured, engine, inputs))
}

/// The set beside `output` that was completed last, of those that are whole, and how many sets are kept there.
fn last_beside(output: &Path, codecs: &CodecList) -> (Option<PathBuf>, Option<usize>) {
    let directory = directory_of(output);
    let (sets, damaged) = whole(directory, codecs).unwrap_or_default();
    damaged.iter().for_each(|error| errln!("knarr: {error}; nothing is shared with that set"));
    let keep = measured::kept(directory, sets.len()).and_then(|keep| usize::try_from(keep).ok());
    (sets.last().map(|set| set.path().to_owned()), keep)
}

fn print(arguments: &Pack, options: &PackOptions, packed: &Packed, left_out: &[LeftOut]) {
    let header = [
        ("set", Align::Left),
        ("ranks", Align::Right),
        ("files", Align::Right),
        ("raw", Align::Right),
        ("packed", Align::Right),
        ("ratio", Align::Right),
        ("scheme", Align::Left),
        ("time", Align::Right),
    ];
    let row = vec![
        arguments.output.display().to_string(),
        packed.manifest.ranks.len().to_string(),
        packed.manifest.stores.len().to_string(),
        table::bytes(packed.raw_bytes),
        table::bytes(packed.packed_bytes),
        table::ratio(packed.raw_bytes, packed.packed_bytes),
        options.scheme.to_string(),
        format!("{:.2} s", packed.seconds),
    ];
    print!("{}", table::render(&header, &[row]));
    if packed.repeated_bytes > 0 {
        println!("{} repeat other content of the set", table::bytes(packed.repeated_bytes));
    }
    if let Some(base) = options.base.as_ref().filter(|_| packed.reused_bytes > 0) {
        println!("{} are shared with {}", table::bytes(packed.reused_bytes), base.display());
    }
    if packed.copied_bytes > 0 {
        println!("{} of it were copied, so that there are two (--copies 2)", table::bytes(packed.copied_bytes));
    }
    if let Some(keep) = options.keep.filter(|_| packed.apart_bytes > 0) {
        println!(
            "{} of the set before are stored again: with {keep} sets kept, its files would take more room than that",
            table::bytes(packed.apart_bytes)
        );
    }
    let Tree { links, directories } = &packed.manifest.tree;
    if !links.is_empty() {
        println!("{} links are stored as such", links.len());
    }
    if !directories.is_empty() {
        println!("{} directories keep their permissions", directories.len());
    }
    if !left_out.is_empty() {
        println!("{}", words(left_out));
    }
    for (name, why) in &packed.carried_whole {
        println!("{} is carried as bytes: {why}", String::from_utf8_lossy(name));
    }
    println!(
        "{}",
        if options.verify {
            "every frame was decoded and compared before it was written"
        } else {
            "frames were not verified (--no-verify)"
        }
    );
}

/// What a set does not hold, in words: `left out: 2 pipes (a, b), 1 socket (s)`.
fn words(left_out: &[LeftOut]) -> String {
    const SHOWN: usize = 4;
    let mut by_kind: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    left_out.iter().for_each(|one| by_kind.entry(one.kind).or_default().push(&one.name));
    let kinds = by_kind.into_iter().map(|(kind, names)| {
        let plural = if names.len() == 1 { "" } else { "s" };
        let more = if names.len() > SHOWN { ", …" } else { "" };
        let names = names.iter().take(SHOWN).map(|name| name.escape_debug().to_string()).collect::<Vec<_>>();
        (names.join(", ") + more, kind, plural)
    });
    let counts = |kind: &str| left_out.iter().filter(|one| one.kind == kind).count();
    let kinds = kinds.map(|(names, kind, plural)| format!("{} {kind}{plural} ({names})", counts(kind)));
    format!("left out: {}", kinds.collect::<Vec<_>>().join(", "))
}

fn json(arguments: &Pack, options: &PackOptions, packed: &Packed, left_out: &[LeftOut]) -> serde_json::Value {
    let names = packed
        .carried_whole
        .iter()
        .map(|(name, why)| serde_json::json!({ "name": String::from_utf8_lossy(name), "reason": why }));
    serde_json::json!({
        "set": arguments.output,
        "ranks": packed.manifest.ranks.len(),
        "files": packed.manifest.stores.len(),
        "raw_bytes": packed.raw_bytes,
        "packed_bytes": packed.packed_bytes,
        "repeated_bytes": packed.repeated_bytes,
        "reused_bytes": packed.reused_bytes,
        "apart_bytes": packed.apart_bytes,
        "copied_bytes": packed.copied_bytes,
        "base": options.base.as_ref().filter(|_| packed.reused_bytes > 0),
        "scheme": options.scheme,
        "group_size": options.group_size,
        "verified": options.verify,
        "carried_whole": names.collect::<Vec<_>>(),
        "links": packed.manifest.tree.links.len(),
        "directories": packed.manifest.tree.directories.len(),
        "left_out": left_out,
        "seconds": packed.seconds,
    })
}
