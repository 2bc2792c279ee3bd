//! Groups and arrays of a store that is written: their metadata.

use crate::zarr::chunk::shard::{self, Sharding, Shards};
use crate::zarr::metadata::attributes;
use crate::zarr::metadata::stored::Version;
use crate::zarr::metadata::types::{self, ZarrType};
use crate::zarr::read::array::ZarrArray;
use knarr_array::array::DType;
use knarr_array::model::{Attribute, StorageLayout, Variable};
use knarr_array::{Error, Result};
use knarr_flow::store::{Encoding, Storage, Strings};
use serde_json::{Map, Value, json};

/// A group or an array.
#[derive(Debug)]
pub(in crate::zarr) struct Node {
    /// Path below the root without leading slash; empty for a lone array.
    pub(in crate::zarr) key: String,
    pub(in crate::zarr) metadata: Map<String, Value>,
    pub(in crate::zarr) attributes: Map<String, Value>,
    pub(in crate::zarr) array: Option<Array>,
}

/// What the writer knows of an array.
#[derive(Debug)]
pub(in crate::zarr) struct Array {
    pub(in crate::zarr) name: String,
    pub(in crate::zarr) dtype: DType,
    /// Number of chunks along each axis.
    pub(in crate::zarr) grid: Vec<u64>,
    pub(in crate::zarr) shards: Option<Shards>,
    /// False if chunks were copied as they are.
    pub(in crate::zarr) takes_chunks: bool,
}

/// `dimension_names` of an array. A store's own are kept as they are: names need not be unique there.
pub(in crate::zarr) fn dimension_names(variable: &Variable, stored: Option<&ZarrArray>) -> Option<(String, Value)> {
    let names = match stored.map(|stored| (stored.node.version, stored.dimension_names())) {
        Some((Version::V3, names)) => names.cloned()?,
        Some((Version::V2, Some(names))) => names.clone(),
        // xarray wants names even where there are no axes.
        _ if variable.shape.is_empty() || variable.dimensions.iter().any(Option::is_some) => json!(variable.dimensions),
        _ => return None,
    };
    Some(("dimension_names".to_owned(), names))
}

pub(in crate::zarr) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(in crate::zarr) fn refuse_copy(variable: &Variable) -> Error {
    let why = variable.copied_because.as_deref().unwrap_or("its type has no counterpart that readers agree on");
    Error::unsupported(format!("cannot be written as Zarr: {why}"))
        .hint("write netCDF-4 or HDF5 instead, or make a copy of the input without it")
}

/// Path below the root, checked: names come from other formats and become names of directories.
pub(in crate::zarr) fn node_key(path: &str) -> Result<&str> {
    let key = path.strip_prefix('/').unwrap_or(path);
    let bad = |name: &str| {
        name.is_empty()
            || name.bytes().all(|byte| byte == b'.')
            || name.starts_with("__")
            || name == "zarr.json"
            || name.contains('\0')
    };
    if !key.is_empty() && key.split('/').any(bad) {
        return Err(Error::unsupported(format!("'{}' cannot be the name of a Zarr node", path.escape_debug()))
            .hint("rename it, or write netCDF-4 or HDF5 instead"));
    }
    Ok(key)
}

pub(in crate::zarr) fn group_metadata() -> Map<String, Value> {
    object(json!({"zarr_format": 3, "node_type": "group"}))
}

/// Attributes of an array of another store: what JSON held, JSON holds again. Only `_FillValue` and the names
/// of dimensions follow the conventions of the version that is written.
pub(in crate::zarr) fn stored_attributes(variable: &Variable, stored: &ZarrArray) -> Result<Map<String, Value>> {
    let mut map = stored.node.attributes.clone();
    if stored.node.version == Version::V2 {
        map.remove("_ARRAY_DIMENSIONS");
    }
    let fill: Vec<Attribute> =
        variable.attributes.iter().filter(|attribute| attribute.name == "_FillValue").cloned().collect();
    map.extend(attributes::to_json(&fill, Some(variable.dtype))?);
    Ok(map)
}

pub(in crate::zarr) fn encoded_node(
    variable: &Variable,
    storage: &Storage,
    stored: Option<&ZarrArray>,
    strings: Option<Strings>,
    sharding: Sharding,
) -> Result<Node> {
    let key = node_key(&variable.path)?.to_owned();
    let Encoding::Zarr(inner) = &storage.encoding else {
        return Err(Error::internal("an HDF5 pipeline was given to the Zarr writer"));
    };
    let chunk = &storage.chunk;
    if chunk.len() != variable.shape.len() || chunk.contains(&0) {
        return Err(Error::internal(format!("chunk {chunk:?} does not fit shape {:?}", variable.shape)));
    }
    let is_bool = stored.is_some_and(|stored| stored.zarr_type == ZarrType::Bool);
    if variable.layout == StorageLayout::Null {
        return Err(refuse_copy(variable));
    }
    let data_type = if is_bool { Some(Value::from("bool")) } else { types::to_v3(variable.dtype, strings) };
    let data_type = data_type.ok_or_else(|| refuse_copy(variable))?;
    let fill_value = match strings {
        _ if is_bool => Value::from(variable.padding != 0),
        Some(Strings::Variable) => Value::from(""),
        _ => types::fill_to_json(variable.dtype, variable.padding),
    };
    let attributes = match stored {
        Some(stored) => stored_attributes(variable, stored)?,
        None => attributes::to_json(&variable.attributes, Some(variable.dtype))?,
    };
    let grid: Vec<u64> = variable.shape.iter().zip(chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
    let chunk_bytes = chunk.iter().fold(variable.dtype.size() as u64, |bytes, &n| bytes.saturating_mul(n));
    let shard = shard::shape(sharding, &grid, chunk_bytes);
    let (file_shape, codecs) = match &shard {
        Some(shard) => {
            let shape = chunk.iter().zip(shard).map(|(chunk, n)| chunk.saturating_mul(*n)).collect();
            (shape, shard::codecs(chunk, inner))
        }
        None => (chunk.clone(), inner.clone()),
    };
    let mut metadata = object(json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": variable.shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": file_shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": codecs,
        "storage_transformers": [],
    }));
    metadata.extend(dimension_names(variable, stored));
    let array = Array {
        name: variable.name().to_owned(),
        dtype: variable.dtype,
        shards: shard.map(|shape| Shards::new(shape, grid.clone())),
        grid,
        takes_chunks: true,
    };
    Ok(Node { key, metadata, attributes, array: Some(array) })
}
