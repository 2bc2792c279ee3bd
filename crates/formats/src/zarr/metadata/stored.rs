//! Groups and arrays as they are stored: what the objects that describe them say.

use crate::zarr::{metadata::json, metadata::types};
use knarr_array::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// Version of the format of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::zarr) enum Version {
    V2,
    V3,
}

/// A group or an array.
#[derive(Debug, Clone)]
pub(in crate::zarr) struct Node {
    /// `/` or `/group/T`.
    pub(in crate::zarr) path: String,
    /// Where its objects are: `""` or `group/T`.
    pub(in crate::zarr) folder: String,
    pub(in crate::zarr) version: Version,
    /// `zarr.json`, `.zarray` or `.zgroup` without attributes.
    pub(in crate::zarr) metadata: Map<String, Value>,
    pub(in crate::zarr) attributes: Map<String, Value>,
    pub(in crate::zarr) is_array: bool,
    /// Folders of the nodes below it, as consolidated metadata of version 3 name them.
    pub(in crate::zarr) order: Vec<String>,
}

/// Names of the objects that describe nodes.
const METADATA: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"];

/// True for the name of an object that describes a node.
pub(in crate::zarr) fn is_metadata(name: &str) -> bool {
    METADATA.contains(&name)
}

/// The key of what is called `name` in `folder`.
pub(in crate::zarr) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The node in `folder` whose `zarr.json` this is.
pub(in crate::zarr) fn v3_node(folder: &str, mut metadata: Map<String, Value>) -> Result<Node> {
    let key = below(folder, "zarr.json");
    check_version(&metadata, 3, &key)?;
    let attributes = metadata.remove("attributes").and_then(object).unwrap_or_default();
    let consolidated = metadata.remove("consolidated_metadata").and_then(object);
    let members = consolidated.and_then(|mut found| found.remove("metadata")).and_then(object).unwrap_or_default();
    let is_array = match metadata.get("node_type").and_then(Value::as_str) {
        Some("group") => false,
        Some("array") => true,
        _ => return Err(Error::corrupt("'node_type' is neither 'group' nor 'array'").at(key)),
    };
    let order = members.into_iter().map(|(name, _)| name).collect();
    Ok(Node { order, ..node(folder, Version::V3, metadata, attributes, is_array) })
}

/// The node in `folder` whose `.zarray` or `.zgroup` this is.
pub(in crate::zarr) fn v2_node(
    folder: &str,
    (name, is_array): (&str, bool),
    metadata: Map<String, Value>,
    attributes: Option<Value>,
) -> Result<Node> {
    check_version(&metadata, 2, &below(folder, name))?;
    Ok(node(folder, Version::V2, metadata, attributes.and_then(object).unwrap_or_default(), is_array))
}

fn node(
    folder: &str,
    version: Version,
    mut metadata: Map<String, Value>,
    attributes: Map<String, Value>,
    is_array: bool,
) -> Node {
    metadata.values_mut().for_each(json::round_wide);
    types::make_fill_whole(&mut metadata);
    let order = Vec::new();
    Node { path: format!("/{folder}"), folder: folder.to_owned(), version, metadata, attributes, is_array, order }
}

/// Refuses metadata that says it is of another version than files of this name are.
fn check_version(metadata: &Map<String, Value>, known: u64, key: &str) -> Result<()> {
    match metadata.get("zarr_format") {
        Some(other) if other.as_u64() != Some(known) => {
            Err(Error::new(ErrorKind::Read, format!("'zarr_format' is {other}, Knarr knows {known} in such a file"))
                .hint("write the store again as version 3, with a program that reads it")
                .at(key))
        }
        _ => Ok(()),
    }
}

pub(in crate::zarr) fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}
