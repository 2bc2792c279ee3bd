//! `knarr checkpoint pack`.

use std::path::{Path, PathBuf};

use knarr_core::checkpoint::sets::whole;
use knarr_core::checkpoint::{PackOptions, Packed};
use knarr_core::codec::CodecList;
use knarr_core::error::Result;

use super::args::Pack;
use super::merging::Configured;
use crate::progress::Bar;
use crate::table::{self, Align};

pub(super) fn run(arguments: &Pack) -> Result<u8> {
    let configured = Configured::read(&arguments.merging)?;
    let engine = crate::session::engine(&arguments.resources, &configured.machine())?;
    let inputs = super::inputs::find(&arguments.files, arguments.pattern.as_deref())?;
    let base = match &arguments.base {
        None if !arguments.no_base => last_beside(&arguments.output, &engine.codecs),
        given => given.clone(),
    };
    let options = PackOptions { force: arguments.force, base, ..configured.options(&inputs)? };
    let progress = Bar::new(arguments.output.display().to_string());
    let packed = knarr_core::checkpoint::pack(
        &engine,
        &inputs,
        &arguments.output,
        &options,
        &knarr_formats::layout::read,
        &progress,
    )?;
    drop(progress);
    if arguments.json {
        println!("{}", json(arguments, &options, &packed));
    } else {
        print(arguments, &options, &packed);
    }
    Ok(0)
}

/// The set beside `output` that was completed last, of those that are whole.
fn last_beside(output: &Path, codecs: &CodecList) -> Option<PathBuf> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (sets, damaged) = whole(parent, codecs).ok()?;
    damaged.iter().for_each(|error| eprintln!("knarr: {error}; nothing is shared with that set"));
    sets.last().map(|set| set.path().to_owned())
}

fn print(arguments: &Pack, options: &PackOptions, packed: &Packed) {
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

fn json(arguments: &Pack, options: &PackOptions, packed: &Packed) -> serde_json::Value {
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
        "base": options.base.as_ref().filter(|_| packed.reused_bytes > 0),
        "scheme": options.scheme,
        "group_size": options.group_size,
        "verified": options.verify,
        "carried_whole": names.collect::<Vec<_>>(),
        "seconds": packed.seconds,
    })
}
