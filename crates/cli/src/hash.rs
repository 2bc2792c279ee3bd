//! `knarr hash`: content apart from storage.

use knarr_array::error::Result;
use knarr_capture::config::Machine;
use knarr_flow::content;

use crate::args::Hash;
use crate::inputs::{Opener, refuse_raw};
use crate::progress::Bar;

pub(crate) fn run(arguments: &Hash) -> Result<u8> {
    let engine = crate::session::engine(&arguments.resources, &Machine::default())?;
    let paths = crate::inputs::expand(&arguments.files)?;
    refuse_raw(&arguments.inputs, &paths)?;
    let opener = Opener::new(&engine, &arguments.inputs)?;
    let mut all = Vec::new();
    for path in &paths {
        let source = knarr_formats::whole_records(opener.open(path)?);
        let progress = Bar::new(path.display().to_string());
        let found = content::hash(&engine, source.as_ref(), &progress)?;
        drop(progress);
        if arguments.json {
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
            all.push(
                serde_json::json!({"path": path, "hash": found.hash, "variables": variables, "not_hashed": left_out}),
            );
            continue;
        }
        for variable in &found.variables {
            match &variable.hash {
                Ok(hash) => println!("{hash}  {}:{}", path.display(), variable.path),
                Err(why) => println!("{:64}  {}:{} ({why})", "not hashed", path.display(), variable.path),
            }
        }
        println!("{}  {}", found.hash, path.display());
    }
    if arguments.json {
        match all.as_slice() {
            [one] => println!("{one}"),
            _ => println!("{}", serde_json::json!({ "files": all })),
        }
    }
    Ok(0)
}
