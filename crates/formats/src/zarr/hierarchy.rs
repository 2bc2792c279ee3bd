//! Groups and arrays of a store, found by walking its directories.

use super::{json, types};
use knarr_array::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Deepest nesting of groups that is followed; symbolic links can make a directory endless.
const DEEPEST: usize = 64;

/// Version of the format of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
}

/// A group or an array.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// `/` or `/group/T`.
    pub(super) path: String,
    pub(super) dir: PathBuf,
    pub(super) version: Version,
    /// `zarr.json`, `.zarray` or `.zgroup` without attributes.
    pub(super) metadata: Map<String, Value>,
    pub(super) attributes: Map<String, Value>,
    pub(super) is_array: bool,
}

/// True if `dir` is a Zarr group or array.
pub(super) fn is_node(dir: &Path) -> bool {
    ["zarr.json", ".zgroup", ".zarray"].iter().any(|name| dir.join(name).is_file())
}

/// A file in the groups of the store `dir` that is none of Zarr. Arrays may hold any: names of chunks are up to who made
/// them.
pub(super) fn foreign(dir: &Path) -> Option<PathBuf> {
    const METADATA: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"];
    let is_array = dir.join(".zarray").is_file()
        || json::read(&dir.join("zarr.json")).ok().flatten().is_some_and(|node| node["node_type"] == "array");
    if is_array {
        return None;
    }
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().find_map(|path| {
        let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let is_metadata = path.file_name().is_some_and(|name| METADATA.iter().any(|known| name == *known));
        if is_directory { foreign(&path) } else { (!is_metadata).then_some(path) }
    })
}

/// All nodes below and at `root`, parents first, siblings in order of their names.
pub(super) fn walk(root: &Path) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    let Some(top) = read_node(root, "/")? else {
        return Err(Error::corrupt("the directory holds no zarr.json, .zgroup or .zarray")
            .hint("give the directory of a Zarr group or array"));
    };
    let is_array = top.is_array;
    nodes.push(top);
    if !is_array {
        children(root, "/", 0, &mut nodes)?;
    }
    Ok(nodes)
}

fn children(dir: &Path, path: &str, depth: usize, nodes: &mut Vec<Node>) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::corrupt(format!("groups are nested deeper than {DEEPEST}"))
            .hint("look for a symbolic link that leads back up")
            .at(dir.display().to_string()));
    }
    let read_error = |error: std::io::Error| Error::read(dir, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(read_error)? {
        let entry = entry.map_err(read_error)?;
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    for name in names {
        let child_dir = dir.join(&name);
        let child_path = if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
        if !child_dir.is_dir() {
            continue;
        }
        if let Some(node) = read_node(&child_dir, &child_path)? {
            let is_array = node.is_array;
            nodes.push(node);
            if !is_array {
                children(&child_dir, &child_path, depth + 1, nodes)?;
            }
        } else if !name.starts_with('.') && !name.starts_with("__") {
            refuse_hidden(&child_dir, &child_path)?;
        }
    }
    Ok(())
}

/// Directories below one that is no node, down to which nodes are looked for.
const HIDDEN: usize = 8;

/// Refuses a directory that is no node and holds some: no reader would find them, and nobody would miss them.
fn refuse_hidden(dir: &Path, path: &str) -> Result<()> {
    let Some(hidden) = node_below(dir, HIDDEN) else { return Ok(()) };
    let (file, text) = match hidden.join("zarr.json").is_file() {
        true => ("zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#),
        false => (".zgroup", r#"{"zarr_format": 2}"#),
    };
    let hidden = hidden.strip_prefix(dir).unwrap_or(&hidden);
    Err(Error::corrupt(format!("'{}' lies below it, and it is no group: it has no {file}", hidden.display()))
        .hint(format!("make it a group by a file {file} in it that holds {text}, or move it out of the store"))
        .at(format!("directory '{}'", &path[1..])))
}

/// The first node below `dir`, by name; links are not followed.
fn node_below(dir: &Path, depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let mut inner: Vec<PathBuf> =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect();
    inner.sort_unstable();
    let below = |dir: &PathBuf| if is_node(dir) { Some(dir.clone()) } else { node_below(dir, depth.checked_sub(1)?) };
    inner.iter().find_map(below)
}

fn read_node(dir: &Path, path: &str) -> Result<Option<Node>> {
    let node = |version, metadata, attributes, is_array| {
        Some(Node { path: path.to_owned(), dir: dir.to_owned(), version, metadata, attributes, is_array })
    };
    let wrong = |name: &str, what: &str| Error::corrupt(what).at(dir.join(name).display().to_string());
    if let Some(document) = json::read(&dir.join("zarr.json"))? {
        let mut metadata = object(document).ok_or_else(|| wrong("zarr.json", "no JSON object"))?;
        check_version(&metadata, 3, &dir.join("zarr.json"))?;
        let attributes = metadata.remove("attributes").and_then(object).unwrap_or_default();
        metadata.remove("consolidated_metadata");
        metadata.values_mut().for_each(json::round_wide);
        types::make_fill_whole(&mut metadata);
        return match metadata.get("node_type").and_then(Value::as_str) {
            Some("group") => Ok(node(Version::V3, metadata, attributes, false)),
            Some("array") => Ok(node(Version::V3, metadata, attributes, true)),
            _ => Err(wrong("zarr.json", "'node_type' is neither 'group' nor 'array'")),
        };
    }
    for (name, is_array) in [(".zarray", true), (".zgroup", false)] {
        if let Some(document) = json::read(&dir.join(name))? {
            let mut metadata = object(document).ok_or_else(|| wrong(name, "no JSON object"))?;
            check_version(&metadata, 2, &dir.join(name))?;
            metadata.values_mut().for_each(json::round_wide);
            types::make_fill_whole(&mut metadata);
            let attributes = json::read(&dir.join(".zattrs"))?.and_then(object).unwrap_or_default();
            return Ok(node(Version::V2, metadata, attributes, is_array));
        }
    }
    Ok(None)
}

/// Refuses metadata that says it is of another version than files of this name are.
fn check_version(metadata: &Map<String, Value>, known: u64, path: &Path) -> Result<()> {
    match metadata.get("zarr_format") {
        Some(other) if other.as_u64() != Some(known) => {
            Err(Error::new(ErrorKind::Read, format!("'zarr_format' is {other}, Knarr knows {known} in such a file"))
                .hint("write the store again as version 3, with a program that reads it")
                .at(path.display().to_string()))
        }
        _ => Ok(()),
    }
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// Bytes of all files below `dir` but metadata: what the chunks of an array take.
pub(super) fn chunk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => chunk_bytes(&entry.path()),
            Ok(kind) if kind.is_file() => {
                let name = entry.file_name();
                let is_metadata = name == "zarr.json" || name.to_string_lossy().starts_with(".z");
                if is_metadata { 0 } else { entry.metadata().map_or(0, |metadata| metadata.len()) }
            }
            _ => 0,
        })
        .sum()
}
