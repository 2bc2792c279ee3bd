//! `knarr hash`: content apart from storage.

use knarr_array::error::Result;
use knarr_config::Machine;
use knarr_flow::content::{self, FileHash};
use std::path::Path;

use crate::arguments::args::Hash;
use crate::arguments::inputs::{Opener, refuse_raw};
use crate::batch::{code_of, each_alone, there};
use crate::printing::progress::Bar;

pub(crate) fn run(arguments: &Hash) -> Result<u8> {
    let engine = crate::session::engine(&arguments.resources, &Machine::default())?;
    let (paths, mut missing) = there(crate::arguments::inputs::find(&arguments.files)?)?;
    refuse_raw(&arguments.inputs, &paths)?;
    let opener = Opener::new(&engine, &arguments.inputs)?;
    let (all, failed) = each_alone(&paths, |path| {
        missing.remove(path).map_or(Ok(()), Err)?;
        let source = knarr_formats::whole_records(opener.open(path)?);
        let progress = Bar::new(path.display().to_string());
        let found = content::hash(&engine, source.as_ref(), &progress)
            .map_err(|error| error.at_once(&path.display().to_string()))?;
        drop(progress);
        if !arguments.json {
            print(path, &found);
        }
        Ok((path.to_owned(), found))
    });
    if arguments.json {
        match all.as_slice() {
            [(path, found)] if failed.is_empty() => println!("{}", json(path, found)),
            _ => {
                let files: Vec<_> = all.iter().map(|(path, found)| json(path, found)).collect();
                println!("{}", serde_json::json!({ "files": files, "failed": failed }));
            }
        }
    }
    Ok(code_of(&failed, paths.len()))
}

fn print(path: &Path, found: &FileHash) {
    for variable in &found.variables {
        match &variable.hash {
            Ok(hash) => println!("{hash}  {}:{}", path.display(), variable.path),
            Err(why) => println!("{:64}  {}:{} ({why})", "not hashed", path.display(), variable.path),
        }
    }
    println!("{}  {}", found.hash, path.display());
}

fn json(path: &Path, found: &FileHash) -> serde_json::Value {
    let name = |path: &str| path.trim_start_matches('/').to_owned();
    let variables: serde_json::Map<_, _> = found
        .variables
        .iter()
        .filter_map(|variable| Some((name(&variable.path), variable.hash.as_ref().ok()?.clone().into())))
        .collect();
    let left_out: serde_json::Map<_, _> = found
        .variables
        .iter()
        .filter_map(|variable| Some((name(&variable.path), variable.hash.as_ref().err()?.clone().into())))
        .collect();
    serde_json::json!({ "path": path, "hash": found.hash, "variables": variables, "not_hashed": left_out })
}
