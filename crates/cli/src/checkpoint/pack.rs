//! `knarr checkpoint pack`.

use std::path::{Path, PathBuf};

use knarr_core::checkpoint::set::is_set;
use knarr_core::checkpoint::similarity::BUNDLE_BELOW;
use knarr_core::checkpoint::{Input, PackOptions, Packed, Similarity};
use knarr_core::config::{Config, Route};
use knarr_core::error::{Error, Result};

use super::args::Pack;
use crate::progress::Bar;
use crate::table::{self, Align};

pub(super) fn run(arguments: &Pack) -> Result<u8> {
    let config = match &arguments.config {
        Some(path) => Some((path, Config::read(path)?)),
        None => None,
    };
    let profile = config
        .as_ref()
        .and_then(|(path, config)| Some(path.parent().unwrap_or(Path::new("")).join(config.machine.profile.as_ref()?)));
    let engine = crate::session::engine(&arguments.resources, profile)?;
    let inputs = super::inputs::find(&arguments.files, arguments.pattern.as_deref())?;
    let mut options = options(arguments, config.as_ref().map(|(path, config)| (path.as_path(), config)), &inputs)?;
    if options.base.is_none() && !arguments.no_base {
        options.base = last_beside(&arguments.output);
    }
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

/// What the configuration says of the first file, then the flags.
fn options(arguments: &Pack, config: Option<(&Path, &Config)>, inputs: &[Input]) -> Result<PackOptions> {
    let mut options = PackOptions { verify: !arguments.no_verify, force: arguments.force, ..PackOptions::default() };
    options.base.clone_from(&arguments.base);
    let mut rule = None;
    if let Some(((path, config), first)) = config.zip(inputs.first()) {
        let found = config.rule_for(&first.path).ok_or_else(|| {
            Error::usage(format!("no [[file]] pattern matches '{}'", first.path.display()))
                .mend("add one, or leave --config out")
                .at(path.display().to_string())
        })?;
        if found.route != Route::Checkpoint {
            return Err(Error::usage(format!("'{}' has another route than \"checkpoint\"", first.path.display()))
                .mend("change the route, or leave --config out")
                .at(path.display().to_string()));
        }
        options.goal = found.settings()?.goal;
        options.scheme = found.scheme.unwrap_or(options.scheme);
        options.group_size = found.group_size.unwrap_or(options.group_size);
        options.block_size = found.block_size.unwrap_or(options.block_size);
        rule = Some(found);
    }
    if let Some(goal) = &arguments.goal {
        options.goal = goal.parse().map_err(|error: Error| error.at("--goal"))?;
    }
    if let Some(scheme) = &arguments.scheme {
        options.scheme = scheme.parse().map_err(|error: Error| error.at("--scheme"))?;
    }
    options.group_size = arguments.group_size.unwrap_or(options.group_size);
    options.block_size = arguments.block_size.unwrap_or(options.block_size);
    let none = Vec::new();
    let (similar, bundle_below) = rule.map_or((&none, None), |rule| (&rule.similar, rule.bundle_below));
    let similar = if arguments.similar.is_empty() { similar } else { &arguments.similar };
    options.similarity = Similarity::new(similar, arguments.bundle_below.or(bundle_below).unwrap_or(BUNDLE_BELOW))?;
    Ok(options)
}

/// The set beside `output` that was completed last.
fn last_beside(output: &Path) -> Option<PathBuf> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(parent).ok()?.flatten();
    let sets = entries
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .filter(|entry| is_set(&entry.path()));
    let completed =
        |path: &Path| path.join(knarr_core::checkpoint::set::MANIFEST).metadata().and_then(|m| m.modified()).ok();
    sets.map(|entry| entry.path()).filter_map(|path| Some((completed(&path)?, path))).max().map(|(_, path)| path)
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
