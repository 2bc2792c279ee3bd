//! Writing Zarr v3.

use super::array::ZarrArray;
use super::fixed::FixedType;
use super::hierarchy::Version;
use super::shard::{self, Sharding, Shards};
use super::source::ZarrSource;
use super::types::ZarrType;
use super::{attributes, json, plain, strings, types};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use knarr_array::array::DType;
use knarr_array::model::{Attribute, StorageLayout, Variable};
use knarr_array::{Error, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::output::{Kind, Staging, Store};
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage, Strings};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::Path;
use zarrs::array::{ArrayMetadataV2, ArrayMetadataV3};
use zarrs::convert::{ArrayMetadataV2ToV3Error, array_metadata_v2_to_v3, codec_metadata_v2_to_v3};
use zarrs::metadata::v3::MetadataV3;

/// Choices of the Zarr writer.
#[derive(Debug, Clone, Default)]
pub struct ZarrOptions {
    /// Replace an existing store.
    pub force: bool,
    /// Whether chunks share files.
    pub sharding: Sharding,
    /// For what the sink encodes itself, strings of variable length. Without a codec `zstd` they are not compressed.
    pub codecs: CodecList,
}

/// A Zarr v3 store being written.
#[derive(Debug)]
pub struct ZarrSink {
    store: Box<dyn Store>,
    /// Path and `zarr.json` without attributes, of every node but the root, parents first.
    nodes: Vec<Node>,
    /// Node that variable `i` is, if it is written.
    by_variable: Vec<Option<usize>>,
    root_attributes: Map<String, Value>,
}

#[derive(Debug)]
struct Node {
    /// Path below the root without leading slash; empty for a lone array.
    key: String,
    metadata: Map<String, Value>,
    attributes: Map<String, Value>,
    array: Option<Array>,
}

#[derive(Debug)]
struct Array {
    name: String,
    dtype: DType,
    /// Number of chunks along each axis.
    grid: Vec<u64>,
    shards: Option<Shards>,
    /// False if chunks were copied as they are.
    takes_chunks: bool,
}

/// What is staged.
const STORE: Kind =
    Kind { noun: "Zarr store", is: super::hierarchy::is_node, foreign: super::hierarchy::foreign, many_files: true };

impl ZarrSink {
    fn node_of(&mut self, variable: usize) -> Result<&mut Node> {
        let node = self.by_variable.get(variable).copied().flatten();
        node.and_then(|node| self.nodes.get_mut(node)).ok_or_else(|| not_written(variable))
    }

    /// Starts a store that will be `path`, with the groups, attributes and variables of `source`. Variables that
    /// `storages` names are encoded by the caller. Others are written as plain bytes, or copied chunk by chunk from
    /// another store if they are not numbers.
    ///
    /// # Errors
    /// `Exists`, `Write`, or `Unsupported` for a variable that Zarr or this writer cannot hold.
    pub fn create(path: &Path, source: &dyn Source, storages: &[Storage], options: ZarrOptions) -> Result<Self> {
        let staging = Staging::create(path, STORE, options.force)?;
        Self::over(Box::new(staging), source, storages, options)
    }

    /// The same in any store, which is empty.
    ///
    /// # Errors
    /// As for [`ZarrSink::create`].
    pub fn over(
        store: Box<dyn Store>,
        source: &dyn Source,
        storages: &[Storage],
        options: ZarrOptions,
    ) -> Result<Self> {
        let output = store.place();
        let place = |error: Error| error.at(output.clone());
        let model = source.model();
        let zarr = source.as_any().downcast_ref::<ZarrSource>();
        let mut sink = Self {
            store,
            nodes: Vec::new(),
            by_variable: vec![None; model.variables.len()],
            root_attributes: Map::new(),
        };
        for (index, group) in model.groups.iter().enumerate() {
            let attributes = match zarr.and_then(|zarr| zarr.group_attributes(index)) {
                Some(stored) => stored.clone(),
                None => attributes::to_json(&group.attributes, None)
                    .map_err(|error| place(error.at(format!("group '{}'", group.path))))?,
            };
            match node_key(&group.path).map_err(place)? {
                "" => sink.root_attributes = attributes,
                key => {
                    sink.nodes.push(Node { key: key.to_owned(), metadata: group_metadata(), attributes, array: None })
                }
            }
        }
        let by_variable: HashMap<usize, &Storage> =
            storages.iter().map(|storage| (storage.variable, storage)).collect();
        for (index, variable) in model.variables.iter().enumerate() {
            let storage = by_variable.get(&index).copied();
            let stored = zarr.and_then(|zarr| zarr.array(index));
            let at_variable = |error: Error| place(error.at_variable(variable.name()));
            let own = if storage.is_some() || !stored.is_none_or(ZarrArray::is_decoded) {
                None
            } else if source.strings(index) == Some(Strings::Variable) {
                Some(strings::storage(index, variable, &options.codecs).map_err(at_variable)?)
            } else {
                Some(plain::storage(index, variable))
            };
            let node = match (storage.or(own.as_ref()), stored) {
                (Some(storage), stored) => {
                    encoded_node(variable, storage, stored, source.strings(index), options.sharding)
                }
                (None, Some(stored)) => sink.copied_node(variable, stored),
                (None, None) => Err(refuse_copy(variable)),
            }
            .map_err(at_variable)?;
            sink.by_variable[index] = Some(sink.nodes.len());
            sink.nodes.push(node);
            match &own {
                None => Ok(()),
                Some(storage) if source.strings(index) == Some(Strings::Variable) => {
                    strings::copy_values(&mut sink, source, variable, storage, &options.codecs)
                }
                Some(storage) => plain::copy_values(&mut sink, source, variable, storage),
            }
            .map_err(at_variable)?;
        }
        Ok(sink)
    }

    /// Copies the chunks of a Zarr array as they are.
    fn copied_node(&mut self, variable: &Variable, stored: &ZarrArray) -> Result<Node> {
        let key = node_key(&variable.path)?.to_owned();
        let metadata = match stored.node.version {
            Version::V3 => {
                let mut metadata = Value::Object(stored.node.metadata.clone());
                json::spell(&mut metadata);
                object(metadata)
            }
            Version::V2 => {
                // What `stored` opened may stand for plain chunks.
                let mut document = spelled(&stored.node.metadata);
                let is_bytes = matches!(stored.zarr_type, ZarrType::Bytes(_));
                if is_bytes {
                    // zarrs 0.23.14 does not convert byte strings; their codecs are those of bytes.
                    document.insert("dtype".to_owned(), json!("|u1"));
                    document.insert("fill_value".to_owned(), json!(0));
                }
                let v2: ArrayMetadataV2 = serde_json::from_value(Value::Object(document))
                    .map_err(|error| Error::corrupt(format!("array metadata: {error}")))?;
                let refuse = |error: ArrayMetadataV2ToV3Error| {
                    let what = match &stored.zarr_type {
                        ZarrType::Fixed(FixedType { words, .. }) | ZarrType::Other(words) => {
                            format!("{words} cannot be written as Zarr v3")
                        }
                        _ => error.to_string(),
                    };
                    Error::unsupported(what).hint("make a copy of the store without it")
                };
                let first_filter = v2.filters.iter().flatten().next().map(|filter| filter.id().to_owned());
                if first_filter.as_deref() == Some("vlen-array") {
                    return Err(Error::unsupported("ragged arrays (vlen-array) cannot be written as Zarr v3")
                        .hint("make a copy of the store without it"));
                }
                let v3 = to_v3(&v2).map_err(refuse)?;
                let mut metadata =
                    object(serde_json::to_value(v3).map_err(|error| Error::internal(error.to_string()))?);
                metadata.remove("attributes");
                if first_filter.as_deref() == Some("vlen-bytes") {
                    // Objects are text to zarrs 0.23.14 whatever their codec.
                    metadata.insert("data_type".to_owned(), json!("variable_length_bytes"));
                    metadata.insert("fill_value".to_owned(), json!(""));
                }
                spell_out(&mut metadata);
                if let Some(data_type) = types::to_v3(variable.dtype, Some(Strings::Fixed)).filter(|_| is_bytes) {
                    let fill_value = types::fill_to_json(variable.dtype, variable.padding);
                    metadata.extend([("data_type".to_owned(), data_type), ("fill_value".to_owned(), fill_value)]);
                }
                metadata.extend(dimension_names(variable, Some(stored)));
                metadata
            }
        };
        copy_chunks(self.store.as_mut(), &stored.node.dir, &key)?;
        let attributes = stored_attributes(variable, stored)?;
        let array = Array {
            name: variable.name().to_owned(),
            dtype: variable.dtype,
            grid: Vec::new(),
            shards: None,
            takes_chunks: false,
        };
        Ok(Node { key, metadata, attributes, array: Some(array) })
    }
}

/// Version 3 metadata for chunks as version 2 has them.
fn to_v3(v2: &ArrayMetadataV2) -> Result<ArrayMetadataV3, ArrayMetadataV2ToV3Error> {
    let mut v3 = array_metadata_v2_to_v3(v2)?;
    let is_variable_length = v2.filters.iter().flatten().any(|filter| filter.id().starts_with("vlen-"));
    if is_variable_length && v2.compressor.is_some() {
        // zarrs 0.23.14 leaves the compressor out behind a variable-length filter: converted as if for bytes.
        let bytes = MetadataV3::new("uint8");
        let codecs = codec_metadata_v2_to_v3(v2.order, v2.shape.len(), &bytes, None, &None, &v2.compressor)?;
        v3.codecs.extend(codecs.into_iter().skip(1));
    }
    Ok(v3)
}

/// Filters of version 2 that take any bytes, as version 3 names them, are all but these: they take elements.
const TAKE_ELEMENTS: [&str; 7] = [
    "transpose",
    "numcodecs.delta",
    "numcodecs.fixedscaleoffset",
    "numcodecs.quantize",
    "numcodecs.bitround",
    "numcodecs.astype",
    "numcodecs.packbits",
];

/// Mends what zarrs 0.23.14 makes of version 2: filters that take bytes belong behind `bytes`, and zarr-python wants a
/// configuration for each codec, complex numbers as pairs of floats, and raw bytes by its own name, `raw_bytes`.
fn spell_out(metadata: &mut Map<String, Value>) {
    fn name(codec: &Value) -> Option<&str> {
        codec.get("name").and_then(Value::as_str)
    }
    if let Some(codecs) = metadata.get_mut("codecs").and_then(Value::as_array_mut) {
        if let Some(at) = codecs.iter().position(|codec| name(codec) == Some("bytes")) {
            let takes_elements = |codec: &Value| name(codec).is_some_and(|name| TAKE_ELEMENTS.contains(&name));
            let place = codecs.iter().take(at).filter(|codec| takes_elements(codec)).count();
            let bytes = codecs.remove(at);
            codecs.insert(place, bytes);
        }
        for codec in codecs.iter_mut().filter_map(Value::as_object_mut) {
            codec.entry("configuration").or_insert_with(|| json!({}));
        }
    }
    if let Some(length) = metadata.get("data_type").and_then(Value::as_str).and_then(raw_length) {
        let data_type = json!({"name": "raw_bytes", "configuration": {"length_bytes": length}});
        metadata.insert("data_type".to_owned(), data_type);
        let fill = metadata.get("fill_value").and_then(Value::as_array);
        if let Some(bytes) = fill.and_then(|fill| fill.iter().map(byte).collect::<Option<Vec<u8>>>()) {
            metadata.insert("fill_value".to_owned(), Value::from(STANDARD.encode(bytes)));
        }
    }
    // Version 2 says null where nothing was chosen, which becomes 0 for every type.
    let is_text = metadata.get("data_type").is_some_and(|data_type| data_type["name"] == "fixed_length_utf32");
    if let Some(fill) = metadata.get_mut("fill_value").filter(|fill| is_text && !fill.is_string()) {
        *fill = json!("");
    }
    let is_complex = metadata.get("data_type").and_then(Value::as_str).is_some_and(|name| name.starts_with("complex"));
    if let Some(fill) = metadata.get_mut("fill_value").filter(|fill| is_complex && fill.is_number()) {
        *fill = json!([*fill, 0]);
    }
    let parts = metadata.get_mut("fill_value").filter(|_| is_complex).and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        if let Some(number) = part.as_f64() {
            *part = types::number(number);
        }
    }
}

/// Bytes of an element of the type that the specification calls `r24`.
fn raw_length(name: &str) -> Option<u64> {
    name.strip_prefix('r')?.parse::<u64>().ok().filter(|bits| bits % 8 == 0).map(|bits| bits / 8)
}

fn byte(value: &Value) -> Option<u8> {
    value.as_u64().and_then(|byte| u8::try_from(byte).ok())
}

/// `dimension_names` of an array. A store's own are kept as they are: names need not be unique there.
fn dimension_names(variable: &Variable, stored: Option<&ZarrArray>) -> Option<(String, Value)> {
    let names = match stored.map(|stored| (stored.node.version, stored.dimension_names())) {
        Some((Version::V3, names)) => names.cloned()?,
        Some((Version::V2, Some(names))) => names.clone(),
        // xarray wants names even where there are no axes.
        _ if variable.shape.is_empty() || variable.dimensions.iter().any(Option::is_some) => json!(variable.dimensions),
        _ => return None,
    };
    Some(("dimension_names".to_owned(), names))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn spelled(map: &Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(map.clone());
    json::spell(&mut value);
    object(value)
}

fn refuse_copy(variable: &Variable) -> Error {
    let why = variable.copied_because.as_deref().unwrap_or("its type has no counterpart that readers agree on");
    Error::unsupported(format!("cannot be written as Zarr: {why}"))
        .hint("write netCDF-4 or HDF5 instead, or make a copy of the input without it")
}

/// Path below the root, checked: names come from other formats and become names of directories.
fn node_key(path: &str) -> Result<&str> {
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

fn group_metadata() -> Map<String, Value> {
    object(json!({"zarr_format": 3, "node_type": "group"}))
}

/// Attributes of an array of another store: what JSON held, JSON holds again. Only `_FillValue` and the names
/// of dimensions follow the conventions of the version that is written.
fn stored_attributes(variable: &Variable, stored: &ZarrArray) -> Result<Map<String, Value>> {
    let mut map = stored.node.attributes.clone();
    if stored.node.version == Version::V2 {
        map.remove("_ARRAY_DIMENSIONS");
    }
    let fill: Vec<Attribute> =
        variable.attributes.iter().filter(|attribute| attribute.name == "_FillValue").cloned().collect();
    map.extend(attributes::to_json(&fill, Some(variable.dtype))?);
    Ok(map)
}

fn encoded_node(
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
        grid,
        shards: shard.map(Shards::new),
        takes_chunks: true,
    };
    Ok(Node { key, metadata, attributes, array: Some(array) })
}

fn copy_chunks(store: &mut dyn Store, dir: &Path, key: &str) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(|error| Error::read(dir, &error))? {
        let entry = entry.map_err(|error| Error::read(dir, &error))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name == "zarr.json" || name.starts_with(".z") {
            continue;
        }
        let key = format!("{key}/{name}");
        if entry.path().is_dir() {
            copy_chunks(store, &entry.path(), &key)?;
        } else {
            store.copy(&entry.path(), &key)?;
        }
    }
    Ok(())
}

/// Key of a chunk below its array: `c/1/0`, or `c` for a scalar.
fn chunk_key(array: &str, position: &[u64]) -> String {
    position.iter().fold(format!("{array}/c"), |key, index| format!("{key}/{index}"))
}

fn not_written(variable: usize) -> Error {
    Error::internal(format!("variable number {variable} is not written"))
}

impl Sink for ZarrSink {
    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        let node = self.by_variable.get(chunk.variable).copied().flatten().and_then(|node| self.nodes.get_mut(node));
        let Some(Node { key, array: Some(array), .. }) = node else { return Err(not_written(chunk.variable)) };
        let place = |error: Error| error.at(format!("chunk {:?}", chunk.position)).at_variable(&array.name);
        if chunk.filter_mask != 0 {
            return Err(place(Error::internal("Zarr has no filter mask: every codec must be applied")));
        }
        let in_grid = chunk.position.len() == array.grid.len()
            && chunk.position.iter().zip(&array.grid).all(|(position, n)| position < n);
        if !array.takes_chunks || !in_grid {
            return Err(place(Error::internal("no such chunk is to be written")));
        }
        match &mut array.shards {
            Some(shards) => {
                let file = chunk_key(key, &shards.position(chunk.position));
                shards.put(self.store.as_mut(), file, chunk.position, chunk.bytes)
            }
            None => self.store.write(&chunk_key(key, chunk.position), chunk.bytes),
        }
        .map_err(|error| error.at(format!("chunk {:?}", chunk.position)).at_variable(&array.name))
    }

    fn remove_attributes(&mut self, variable: usize, names: &[String]) -> Result<()> {
        let node = self.node_of(variable)?;
        names.iter().for_each(|name| drop(node.attributes.remove(name)));
        Ok(())
    }

    fn annotate(&mut self, variable: Option<usize>, attributes: &[Attribute]) -> Result<()> {
        match variable {
            None => self.root_attributes.extend(attributes::to_json(attributes, None)?),
            Some(index) => {
                let node = self.node_of(index)?;
                let dtype = node.array.as_ref().map(|array| array.dtype);
                node.attributes.extend(attributes::to_json(attributes, dtype)?);
            }
        }
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        let Self { mut store, nodes, root_attributes, .. } = *self;
        let target = store.place();
        let mut consolidated = Map::new();
        for node in nodes {
            if let Some(shards) = node.array.as_ref().and_then(|array| array.shards.as_ref()) {
                shards.finish(store.as_mut())?;
            }
            let mut document = node.metadata;
            document.insert("attributes".to_owned(), Value::Object(node.attributes));
            store.write(&format!("{}/zarr.json", node.key), json::pretty(&document)?.as_bytes())?;
            if node.array.is_none() {
                document.insert("consolidated_metadata".to_owned(), inline(Map::new()));
            }
            if consolidated.insert(node.key.clone(), Value::Object(document)).is_some() {
                return Err(Error::unsupported(format!("two nodes are called '{}'", node.key)).at(target));
            }
        }
        let mut root = group_metadata();
        root.insert("attributes".to_owned(), Value::Object(root_attributes));
        root.insert("consolidated_metadata".to_owned(), inline(consolidated));
        store.write("zarr.json", json::pretty(&root)?.as_bytes())?;
        store.publish()
    }
}

/// Consolidated metadata as zarr-python writes it.
fn inline(metadata: Map<String, Value>) -> Value {
    json!({"kind": "inline", "must_understand": false, "metadata": metadata})
}
