//! Groups and arrays of a store that cannot tell what it holds, such as one on a web server: from its consolidated
//! metadata, which name them all.

use crate::zarr::metadata::json;
use crate::zarr::metadata::stored::{Node, below, object, v2_node, v3_node};
use knarr_array::{Error, ErrorKind, Result};
use knarr_flow::read_store::ReadStore;
use serde_json::{Map, Value};

/// All nodes of `store`, in any order.
pub(in crate::zarr) fn nodes(store: &dyn ReadStore) -> Result<Vec<Node>> {
    let nodes = match json::read(store, "zarr.json")?.and_then(object) {
        Some(root) => v3_nodes(root)?,
        None => v2_nodes(json::read(store, ".zmetadata")?)?,
    };
    let is_group = |folder: &str| nodes.iter().any(|node| !node.is_array && node.folder == folder);
    let parent = |node: &Node| node.folder.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    match nodes.iter().find(|node| !is_group(&parent(node))) {
        Some(node) => Err(Error::corrupt(format!("the consolidated metadata have no group '{}'", parent(node)))
            .hint("consolidate the metadata of the store again")
            .at(node.folder.clone())),
        None => Ok(nodes),
    }
}

fn absent() -> Error {
    Error::new(ErrorKind::Read, "the store has no consolidated metadata, and nobody can list what is at this address")
        .hint("consolidate the metadata of the store (zarr.consolidate_metadata), or copy it here")
}

fn v3_nodes(mut root: Map<String, Value>) -> Result<Vec<Node>> {
    let consolidated = root.remove("consolidated_metadata").and_then(object);
    let members = consolidated.and_then(|mut found| found.remove("metadata").and_then(object)).ok_or_else(absent)?;
    let mut nodes = vec![v3_node("", root)?];
    for (folder, document) in members {
        nodes.push(v3_node(&folder, document_of(document, &folder)?)?);
    }
    Ok(nodes)
}

fn v2_nodes(document: Option<Value>) -> Result<Vec<Node>> {
    let members = document.and_then(object).and_then(|mut found| found.remove("metadata").and_then(object));
    let mut members = members.ok_or_else(absent)?;
    let mut nodes = Vec::new();
    for (key, document) in members.clone() {
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", &key));
        let is_array = match name {
            ".zarray" => true,
            ".zgroup" => false,
            _ => continue,
        };
        let attributes = members.remove(&below(folder, ".zattrs"));
        nodes.push(v2_node(folder, (name, is_array), document_of(document, &key)?, attributes)?);
    }
    Ok(nodes)
}

fn document_of(value: Value, key: &str) -> Result<Map<String, Value>> {
    object(value).ok_or_else(|| Error::corrupt("no JSON object").at(format!("consolidated metadata of '{key}'")))
}
