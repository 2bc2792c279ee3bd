//! Groups and arrays of a store, found by walking its folders.

use crate::zarr::metadata::stored::{Node, below, is_metadata, object, v2_node, v3_node};
use crate::zarr::{metadata::consolidated, metadata::json};
use knarr_array::{Error, Result};
use knarr_flow::directory::Directory;
use knarr_flow::read_store::{Entry, ReadStore};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Deepest nesting of groups that is followed; symbolic links can make a directory endless.
const DEEPEST: usize = 64;

/// Threads that wait for a store which lies elsewhere.
const ASKING: usize = 16;

/// True if `folder` of `store` is a Zarr group or array.
///
/// # Errors
/// Why the first of its objects could not be looked for, if none was found.
pub(in crate::zarr) fn is_node(store: &dyn ReadStore, folder: &str) -> Result<bool> {
    let mut failed = None;
    for name in NODES {
        match store.has(&below(folder, name)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // Servers may forbid to look for what is not there.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(false), Err)
}

/// True if directory `dir` is a Zarr group or array.
pub(in crate::zarr) fn is_node_at(dir: &Path) -> bool {
    is_node(&Directory::new(dir), "").unwrap_or(false)
}

/// Names of the objects that make a folder a node.
const NODES: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// A file in the groups of the store `dir` that is none of Zarr. Arrays may hold any: names of chunks are up to who made
/// them.
pub(in crate::zarr) fn foreign(dir: &Path) -> Option<PathBuf> {
    let is_array = dir.join(".zarray").is_file()
        || json::read(&Directory::new(dir), "zarr.json")
            .ok()
            .flatten()
            .is_some_and(|node| node["node_type"] == "array");
    if is_array {
        return None;
    }
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().find_map(|path| {
        let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let is_known = path.file_name().and_then(|name| name.to_str()).is_some_and(is_metadata);
        if is_directory { foreign(&path) } else { (!is_known).then_some(path) }
    })
}

/// All nodes of `store`, parents first, siblings in the order in which consolidated metadata name them: the one in which
/// their writer defined them, by which netCDF numbers variables. Those that they do not name follow, by name.
pub(in crate::zarr) fn walk(store: &dyn ReadStore) -> Result<Vec<Node>> {
    let Some(top) = read_node(store, "")? else {
        return Err(Error::corrupt(format!("the {} holds no zarr.json, .zgroup or .zarray", kind_of(store)))
            .hint(format!("give the {} of a Zarr group or array", kind_of(store))));
    };
    if top.is_array {
        return Ok(vec![top]);
    }
    let order = top.order.clone();
    let mut nodes = vec![top];
    match store.list("")? {
        Some(entries) => children(store, ("", entries), 0, &mut nodes)?,
        None => nodes = consolidated::nodes(store)?,
    }
    arrange(&mut nodes, &order);
    Ok(nodes)
}

/// Puts nodes in this order of their folders, each behind its parent.
fn arrange(nodes: &mut [Node], order: &[String]) {
    let places: HashMap<&str, usize> =
        order.iter().enumerate().map(|(place, folder)| (folder.as_str(), place)).collect();
    nodes.sort_by_cached_key(|node| {
        let folder = node.folder.as_str();
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]).filter(|&end| end > 0);
        ends.map(|end| (places.get(&folder[..end]).copied().unwrap_or(usize::MAX), folder[..end].to_owned()))
            .collect::<Vec<_>>()
    });
}

/// In words, what a store is.
fn kind_of(store: &dyn ReadStore) -> &'static str {
    if store.file("").is_some() { "directory" } else { "address" }
}

fn children(
    store: &dyn ReadStore,
    (folder, entries): (&str, Vec<Entry>),
    depth: usize,
    nodes: &mut Vec<Node>,
) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::corrupt(format!("groups are nested deeper than {DEEPEST}"))
            .hint("look for a symbolic link that leads back up")
            .at(folder));
    }
    let entries: Vec<Entry> = entries.into_iter().filter(|entry| entry.is_folder).collect();
    let folders: Vec<String> = entries.iter().map(|entry| below(folder, &entry.name)).collect();
    let found = read_nodes(store, &folders);
    for ((entry, child), node) in entries.into_iter().zip(folders).zip(found) {
        if let Some(node) = node? {
            let is_array = node.is_array;
            nodes.push(node);
            if !is_array {
                let entries = store.list(&child)?.unwrap_or_default();
                children(store, (&child, entries), depth + 1, nodes)?;
            }
        } else if !entry.name.starts_with('.') && !entry.name.starts_with("__") {
            refuse_hidden(store, &child)?;
        }
    }
    Ok(())
}

/// Folders below one that is no node, down to which nodes are looked for.
const HIDDEN: usize = 8;

/// Refuses a folder that is no node and holds some: no reader would find them, and nobody would miss them.
fn refuse_hidden(store: &dyn ReadStore, folder: &str) -> Result<()> {
    let Some(hidden) = node_below(store, folder, HIDDEN) else { return Ok(()) };
    let (file, text) = match store.has(&below(&hidden, "zarr.json")) {
        Ok(true) => ("zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#),
        _ => (".zgroup", r#"{"zarr_format": 2}"#),
    };
    let hidden = hidden.strip_prefix(folder).map_or(hidden.as_str(), |hidden| hidden.trim_start_matches('/'));
    Err(Error::corrupt(format!("'{hidden}' lies below it, and it is no group: it has no {file}"))
        .hint(format!("make it a group by a file {file} in it that holds {text}, or move it out of the store"))
        .at(format!("directory '{folder}'")))
}

/// The first node below `folder`, by name; links are not followed.
fn node_below(store: &dyn ReadStore, folder: &str, depth: usize) -> Option<String> {
    let entries = store.list(folder).ok()??;
    let inner = entries.into_iter().filter(|entry| entry.is_folder && !entry.is_link);
    inner.map(|entry| below(folder, &entry.name)).find_map(|inner| {
        if is_node(store, &inner).unwrap_or(false) {
            Some(inner)
        } else {
            node_below(store, &inner, depth.checked_sub(1)?)
        }
    })
}

/// What [`read_node`] finds in each of these folders. A store that lies elsewhere is asked for many at a time.
fn read_nodes(store: &dyn ReadStore, folders: &[String]) -> Vec<Result<Option<Node>>> {
    let next = AtomicUsize::new(0);
    let ask = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(folder) = folders.get(number) else { return found };
            found.push((number, read_node(store, folder)));
        }
    };
    let others = if store.is_remote() { folders.len().min(ASKING) } else { 0 };
    let mut found = std::thread::scope(|scope| {
        let others: Vec<_> =
            (0..others).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, ask).ok()).collect();
        let mut found = ask();
        for other in others {
            match other.join() {
                Ok(others) => found.extend(others),
                Err(payload) => std::panic::resume_unwind(payload),
            }
        }
        found
    });
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, node)| node).collect()
}

fn read_node(store: &dyn ReadStore, folder: &str) -> Result<Option<Node>> {
    let key = below(folder, "zarr.json");
    if let Some(document) = json::read(store, &key)? {
        return v3_node(folder, object_at(document, &key)?).map(Some);
    }
    for (name, is_array) in [(".zarray", true), (".zgroup", false)] {
        let key = below(folder, name);
        if let Some(document) = json::read(store, &key)? {
            let document = object_at(document, &key)?;
            let attributes = json::read(store, &below(folder, ".zattrs"))?;
            return v2_node(folder, (name, is_array), document, attributes).map(Some);
        }
    }
    Ok(None)
}

fn object_at(document: Value, key: &str) -> Result<Map<String, Value>> {
    object(document).ok_or_else(|| Error::corrupt("no JSON object").at(key))
}

/// Bytes of all objects below `folder` but metadata: what the chunks of an array take; `None` if the store cannot tell.
pub(in crate::zarr) fn chunk_bytes(store: &dyn ReadStore, folder: &str) -> Option<u64> {
    let mut bytes = 0u64;
    // A list of its own, as names may be of ten thousands of folders.
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = store.list(&folder) else { continue };
        for entry in entries?.into_iter().filter(|entry| !entry.is_link) {
            if entry.is_folder {
                folders.push(below(&folder, &entry.name));
            } else if entry.name != "zarr.json" && !entry.name.starts_with(".z") {
                bytes = bytes.saturating_add(entry.length);
            }
        }
    }
    Some(bytes)
}
