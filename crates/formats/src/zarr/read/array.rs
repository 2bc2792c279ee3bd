//! One array of a store: its description, and its elements. Chunks are decoded by Knarr's codecs; by the `zarrs` crate
//! where Knarr has no codec for one that was used.

use crate::fills;
use crate::zarr::chunk::chunks::{Chunks, Objects, Wanted, as_plain};
use crate::zarr::chunk::decode::NATIVE;
use crate::zarr::chunk::recode::Recode;
use crate::zarr::metadata::fixed;
use crate::zarr::metadata::hierarchy::chunk_bytes;
use crate::zarr::metadata::stored::{Node, Version};
use crate::zarr::metadata::types::{self, ZarrType};
use crate::zarr::read::keys::Keys;
use crate::zarr::{metadata::attributes, metadata::json, metadata::scaled};
use knarr_array::array::Endian;
use knarr_array::model::{Attribute, AttributeValue, ElementType, StorageLayout, Variable};
use knarr_array::region::{Region, in_chunk};
use knarr_array::{Error, ErrorKind, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::cache::ChunkCache;
use knarr_flow::read_store::ReadStore;
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use zarrs::array::{
    Array, ArrayBytes, ArrayCreateError, ArrayError, ArrayMetadata, ArrayShardedExt, ArraySubset, CodecError,
    CodecOptions,
};
use zarrs::plugin::PluginCreateError;

/// An array that can be read, or the reason why it cannot.
pub(in crate::zarr) struct ZarrArray {
    pub(in crate::zarr) node: Node,
    pub(in crate::zarr) zarr_type: ZarrType,
    store: Arc<Keys>,
    opened: Result<Array<Keys>>,
    /// What Knarr decodes itself.
    chunks: Option<Chunks>,
    element_type: Option<ElementType>,
}

/// The attribute in which version 2 has names of dimensions.
const DIMENSIONS_V2: &str = "_ARRAY_DIMENSIONS";
/// Most bytes that a chunk may decode to.
const LARGEST_CHUNK: u64 = 1 << 40;

impl ZarrArray {
    /// Reads the description of an array; `key` is its path within `store`.
    pub(in crate::zarr) fn open(
        store: &Arc<Keys>,
        key: &str,
        node: Node,
        codecs: &CodecList,
    ) -> Result<(Self, Variable)> {
        let zarr_type = type_of(&node);
        let mut variable = describe(&node, &zarr_type)?;
        let chunks = match (&zarr_type, &variable.layout) {
            (ZarrType::Number(dtype), StorageLayout::Chunked(chunk)) => Chunks::of(codecs, &node, *dtype, chunk),
            (ZarrType::Bool | ZarrType::Bytes(_), StorageLayout::Chunked(chunk)) => {
                Chunks::of(codecs, &node, variable.dtype, chunk)
            }
            (ZarrType::Fixed(fixed), StorageLayout::Chunked(chunk)) => {
                Chunks::of(codecs, &node, variable.dtype, chunk).map(|chunks| chunks.in_parts(fixed.part()))
            }
            _ => None,
        };
        let fill = node.metadata.get("fill_value");
        variable.padding = match &zarr_type {
            ZarrType::Bytes(_) => fixed::bytes_fill(fill).unwrap_or(0),
            ZarrType::Fixed(fixed) => fixed.fill(fill).unwrap_or(0),
            _ => 0,
        };
        variable.copied_because = match &zarr_type {
            ZarrType::Bytes(1) if chunks.is_some() => None,
            zarr_type => zarr_type.words(),
        };
        let opened = match &chunks {
            Some(_) => create(store, key, node.version, &as_plain(&node, variable.dtype)),
            None => create(store, key, node.version, &node.metadata),
        };
        if let Ok(array) = &opened {
            if let Some(chunks) = &chunks {
                variable.layout = StorageLayout::Chunked(chunks.shape.clone());
            } else if let Some(inner) = array.subchunk_shape() {
                variable.layout = StorageLayout::Chunked(inner.iter().map(|n| n.get()).collect());
            }
            let fill = array.fill_value().as_ne_bytes();
            if matches!(zarr_type, ZarrType::Number(_) | ZarrType::Bool) && fill.len() == variable.dtype.size() {
                let fold = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
                variable.padding = match NATIVE {
                    Endian::Little => fill.iter().rev().fold(0, fold),
                    Endian::Big => fill.iter().fold(0, fold),
                };
            }
        }
        let stated = node.metadata.get("fill_value").is_some_and(|fill| !fill.is_null());
        if node.version == Version::V2 && stated && matches!(zarr_type, ZarrType::Number(_)) {
            // In Zarr v2 the fill value is what xarray calls `_FillValue`; in v3 that is an attribute of its own.
            variable.attributes.retain(|attribute| attribute.name != "_FillValue");
            let value = attributes::scalar(variable.dtype, variable.padding);
            variable.attributes.push(Attribute { name: "_FillValue".to_owned(), value });
        }
        let own = Some(variable.padding).filter(|&padding| padding != 0);
        variable.fills = fills::collect(variable.dtype, &variable.attributes, own);
        let element_type = match &zarr_type {
            ZarrType::Fixed(fixed) => Some(ElementType::Other(fixed.name())),
            _ => None,
        };
        Ok((Self { node, zarr_type, store: Arc::clone(store), opened, chunks, element_type }, variable))
    }

    /// Names of its dimensions as they are stored, if there is one, or null, for each axis.
    pub(in crate::zarr) fn dimension_names(&self) -> Option<&Value> {
        let rank = self.node.metadata.get("shape")?.as_array()?.len();
        let is_name = |name: &Value| name.is_string() || name.is_null();
        stored_names(&self.node)
            .filter(|names| names.as_array().is_some_and(|names| names.len() == rank && names.iter().all(is_name)))
    }

    /// Names of its axes.
    pub(in crate::zarr) fn axis_names(&self) -> Vec<Option<String>> {
        names_of(&self.node, extents(self.node.metadata.get("shape")).map_or(0, |shape| shape.len()))
    }

    pub(in crate::zarr) fn array(&self) -> Result<&Array<Keys>> {
        self.opened.as_ref().map_err(Clone::clone)
    }

    /// What its elements are, where only Zarr has such.
    pub(in crate::zarr) fn element_type(&self) -> Option<&ElementType> {
        self.element_type.as_ref()
    }

    /// True if elements can be read and written anew.
    pub(in crate::zarr) fn is_decoded(&self) -> bool {
        let is_served = match &self.zarr_type {
            ZarrType::Number(_) | ZarrType::Bool => true,
            ZarrType::Bytes(1) => self.chunks.is_some(),
            ZarrType::Bytes(_) | ZarrType::Text | ZarrType::Fixed(_) | ZarrType::Other(_) => false,
        };
        self.opened.is_ok() && is_served
    }

    /// Processor time that Knarr's own codecs have spent on its chunks, in seconds.
    pub(in crate::zarr) fn decode_seconds(&self) -> f64 {
        self.chunks.as_ref().map_or(0.0, Chunks::decode_seconds)
    }

    /// Bytes of its chunks, if the store can tell.
    pub(in crate::zarr) fn stored_bytes(&self) -> Option<u64> {
        chunk_bytes(self.store(), &self.node.folder)
    }

    /// How its chunks are written anew; `variable` is its description.
    pub(in crate::zarr) fn recode(&self, variable: &Variable, codecs: &CodecList) -> Option<Recode> {
        let is_served = self.opened.is_ok() && matches!(self.zarr_type, ZarrType::Number(_) | ZarrType::Bool);
        let chunks = self.chunks.as_ref().filter(|_| is_served)?;
        Recode::of(&self.node, variable, chunks, codecs)
    }

    /// The store that it lies in.
    pub(in crate::zarr) fn store(&self) -> &dyn ReadStore {
        self.store.0.as_ref()
    }

    /// The chunks that Knarr decodes itself, and what finds their objects.
    fn own(&self) -> Option<(&Chunks, impl Fn(&[u64]) -> String)> {
        let (Some(chunks), Ok(array)) = (&self.chunks, &self.opened) else { return None };
        Some((chunks, |position: &[u64]| array.chunk_key(position).to_string()))
    }

    /// Replaces the contents of `out` by the stored bytes of the chunk at `position`; false if it was never written.
    pub(in crate::zarr) fn stored_chunk(&self, position: &[u64], out: &mut Vec<u8>) -> Result<bool> {
        self.array()?;
        match self.own() {
            Some((chunks, key_of)) => chunks.stored(Objects { store: self.store(), key_of: &key_of }, position, out),
            None => Err(Error::unsupported("its chunks are not decoded by Knarr's own codecs")),
        }
    }

    /// Decodes a region that lies within the shape.
    pub(in crate::zarr) fn read(&self, cache: &ChunkCache, wanted: &Wanted<'_>, out: &mut Vec<u8>) -> Result<()> {
        if let Some((chunks, key_of)) = self.own() {
            return chunks.read(Objects { store: self.store(), key_of: &key_of }, cache, wanted, out);
        }
        if let Some(what) = self.zarr_type.words() {
            return Err(Error::unsupported(format!("{what} are copied, not decoded"))
                .hint("write Zarr instead, or make a copy of the store without it"));
        }
        let array = self.array()?;
        let subset = subset(wanted.region);
        // One thread per call: callers bring their own.
        let options = CodecOptions::default().with_concurrent_target(1);
        let retrieve = || match single_chunk(array, &subset)? {
            Some(chunk) => array.retrieve_chunk_opt::<ArrayBytes<'static>>(&chunk, &options),
            None => array.retrieve_array_subset_opt::<ArrayBytes<'static>>(&subset, &options),
        };
        // Decoders of other people read hostile bytes here. Should one panic, that chunk is damaged, not the process.
        let bytes = catch_unwind(AssertUnwindSafe(retrieve))
            .map_err(|_| Error::corrupt("a decoder gave up on these bytes"))
            .and_then(|read| read.map_err(|error| read_error(&error)))
            .and_then(|bytes| bytes.into_fixed().map_err(|error| Error::internal(error.to_string())))
            .map_err(|error| name_chunk(array, &subset, error))?;
        let expected = self.zarr_type.dtype().size() as u64 * wanted.region.count.iter().product::<u64>();
        if bytes.len() as u64 != expected {
            return Err(Error::corrupt(format!("{} bytes decoded, {expected} expected", bytes.len())));
        }
        *out = bytes.into_owned();
        Ok(())
    }

    /// The strings of a region that lies within the shape.
    pub(in crate::zarr) fn read_strings(&self, region: &Region) -> Result<Vec<String>> {
        if self.zarr_type != ZarrType::Text {
            return Err(Error::unsupported("it holds no strings of variable length"));
        }
        let (array, subset) = (self.array()?, subset(region));
        let options = CodecOptions::default().with_concurrent_target(1);
        let retrieve = || array.retrieve_array_subset_opt::<Vec<String>>(&subset, &options);
        catch_unwind(AssertUnwindSafe(retrieve))
            .map_err(|_| Error::corrupt("a decoder gave up on these bytes"))
            .and_then(|read| read.map_err(|error| read_error(&error)))
            .map_err(|error| name_chunk(array, &subset, error))
    }

    /// True if an object exists for any chunk that the region touches.
    pub(in crate::zarr) fn is_written(&self, region: &Region) -> bool {
        let Ok(array) = self.array() else { return true };
        if region.is_empty() {
            return false;
        }
        if let Some((chunks, key_of)) = self.own() {
            return chunks.is_written(Objects { store: self.store(), key_of: &key_of }, region);
        }
        let subset = subset(region);
        let Ok(Some(chunks)) = array.chunks_in_array_subset(&subset) else { return true };
        // What cannot be looked for is said by reading.
        chunks.indices().into_iter().any(|chunk| self.store().has(array.chunk_key(&chunk).as_str()).unwrap_or(true))
    }
}

fn subset(region: &Region) -> ArraySubset {
    let ranges = region.start.iter().zip(&region.count).map(|(&start, &count)| start..start.saturating_add(count));
    ArraySubset::new_with_ranges(&ranges.collect::<Vec<_>>())
}

fn type_of(node: &Node) -> ZarrType {
    let found = match node.version {
        Version::V3 => types::from_v3(node.metadata.get("data_type").unwrap_or(&Value::Null)),
        Version::V2 => types::from_v2(node.metadata.get("dtype").unwrap_or(&Value::Null)),
    };
    let first_filter = node.metadata.get("filters").and_then(|filters| filters.pointer("/0/id"));
    match found {
        // Version 2 keeps strings as Python objects; the filter says what they are.
        ZarrType::Other(words) if words == types::OBJECTS && first_filter.is_some_and(|id| id == "vlen-utf8") => {
            ZarrType::Text
        }
        // Zarr pads with a fill value that the model of Knarr has no place for.
        ZarrType::Bytes(length) if fixed::bytes_fill(node.metadata.get("fill_value")).is_none() => {
            ZarrType::Other(format!("strings of {length} bytes with a long fill value"))
        }
        ZarrType::Fixed(fixed) if fixed.fill(node.metadata.get("fill_value")).is_none() => ZarrType::Other(fixed.words),
        found => found,
    }
}

/// The chunk (or whole shard) that is exactly this region, if there is one.
fn single_chunk(array: &Array<Keys>, subset: &ArraySubset) -> Result<Option<Vec<u64>>, ArrayError> {
    let Some(chunks) = array.chunks_in_array_subset(subset)? else { return Ok(None) };
    if chunks.num_elements() != 1 {
        return Ok(None);
    }
    let index = chunks.start().to_vec();
    Ok((array.chunk_subset(&index)? == *subset).then_some(index))
}

fn create(store: &Arc<Keys>, key: &str, version: Version, metadata: &Map<String, Value>) -> Result<Array<Keys>> {
    let mut document = Value::Object(metadata.clone());
    if scaled::is_in(&document) {
        return Err(Error::new(
            ErrorKind::MissingFilter,
            "codec fixedscaleoffset is not supported with these settings",
        )
        .hint("recompress the array with a codec that Knarr reads, for example zstd"));
    }
    json::spell(&mut document);
    let invalid = |why: String| Error::corrupt(format!("array metadata: {why}"));
    let metadata = match version {
        Version::V3 => serde_json::from_value(document).map(ArrayMetadata::V3),
        Version::V2 => serde_json::from_value(document).map(ArrayMetadata::V2),
    }
    .map_err(|error| invalid(error.to_string()))?;
    let create = || Array::new_with_metadata(Arc::clone(store), key, metadata);
    catch_unwind(AssertUnwindSafe(create)).map_err(|_| invalid("it makes no sense".to_owned()))?.map_err(|error| {
        let missing = match &error {
            ArrayCreateError::CodecsCreateError(PluginCreateError::Unsupported(_)) => true,
            // A string is all that `zarrs` gives here.
            ArrayCreateError::UnsupportedZarrV2Array(why) => {
                why.starts_with("unsupported codec") || (why.starts_with("codec ") && why.ends_with("is not supported"))
            }
            _ => false,
        };
        match (missing, &error) {
            (true, _) => Error::new(ErrorKind::MissingFilter, error.to_string())
                .hint("recompress the array with a codec that Knarr reads, for example zstd"),
            (_, ArrayCreateError::DataTypeCreateError(_)) => Error::unsupported(error.to_string()),
            _ => invalid(error.to_string()),
        }
    })
}

/// Names the first chunk of a region that `zarrs` cannot decode as the place of `error`.
fn name_chunk(array: &Array<Keys>, subset: &ArraySubset, error: Error) -> Error {
    let Ok(Some(chunks)) = array.chunks_in_array_subset(subset) else { return error };
    let is_damaged = |chunk: &[u64]| {
        let retrieve = || array.retrieve_chunk::<ArrayBytes<'static>>(chunk).is_err();
        catch_unwind(AssertUnwindSafe(retrieve)).unwrap_or(true)
    };
    let Some(chunk) = chunks.indices().into_iter().find(|chunk| is_damaged(chunk)) else { return error };
    match array.chunk_origin(&chunk) {
        Ok(start) => in_chunk(error.at(format!("key '{}'", array.chunk_key(&chunk))), &chunk, &start),
        Err(_) => error,
    }
}

fn read_error(error: &ArrayError) -> Error {
    let kind = match error {
        ArrayError::StorageError(_) => ErrorKind::Read,
        ArrayError::CodecError(CodecError::UnsupportedDataTypeCodec(_) | CodecError::UnsupportedDataType(..)) => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Corrupt,
    };
    Error::new(kind, error.to_string())
}

fn describe(node: &Node, zarr_type: &ZarrType) -> Result<Variable> {
    let wrong = |what: &str| Error::corrupt(format!("array metadata: {what}"));
    let shape = extents(node.metadata.get("shape")).ok_or_else(|| wrong("'shape' is no list of lengths"))?;
    let dtype = zarr_type.dtype();
    let bytes = |extents: &[u64], limit: u64| {
        extents
            .iter()
            .try_fold(dtype.size() as u64, |bytes, &n| bytes.checked_mul(n))
            .filter(|&bytes| bytes <= limit)
            .ok_or_else(|| Error::corrupt(format!("array metadata: {extents:?} elements are too many")))
    };
    bytes(&shape, i64::MAX as u64)?;
    let chunk = match node.version {
        Version::V2 => extents(node.metadata.get("chunks")),
        Version::V3 => {
            extents(node.metadata.get("chunk_grid").and_then(|grid| grid.pointer("/configuration/chunk_shape")))
        }
    };
    if let Some(chunk) = &chunk {
        if chunk.len() != shape.len() || chunk.contains(&0) {
            return Err(wrong(&format!("chunks of shape {chunk:?} do not fit an array of shape {shape:?}")));
        }
        bytes(chunk, LARGEST_CHUNK)?;
    }
    let mut map = node.attributes.clone();
    if node.version == Version::V2 {
        map.remove(DIMENSIONS_V2);
    }
    let mut attributes = attributes::from_json(&map, Some(dtype));
    if *zarr_type == ZarrType::Bool && !map.contains_key("dtype") {
        // How xarray marks truth values in netCDF.
        attributes.push(Attribute { name: "dtype".to_owned(), value: AttributeValue::Text("bool".to_owned()) });
    }
    Ok(Variable {
        path: node.path.clone(),
        dtype,
        endian: if dtype.size() > 1 { NATIVE } else { Endian::Little },
        max_shape: shape.iter().map(|&n| Some(n)).collect(),
        dimensions: names_of(node, shape.len()),
        attributes,
        fills: Vec::new(),
        padding: 0,
        layout: chunk.map_or(StorageLayout::Elsewhere, StorageLayout::Chunked),
        filters: Vec::new(),
        chain: chain(node),
        stored_bytes: None,
        block: None,
        copied_because: None,
        shape,
    })
}

/// Names of the axes of an array of this rank.
fn names_of(node: &Node, rank: usize) -> Vec<Option<String>> {
    let mut names: Vec<Option<String>> = match stored_names(node) {
        Some(Value::Array(names)) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    names.resize(rank, None);
    names
}

fn stored_names(node: &Node) -> Option<&Value> {
    match node.version {
        Version::V3 => node.metadata.get("dimension_names"),
        Version::V2 => node.attributes.get(DIMENSIONS_V2),
    }
}

fn extents(value: Option<&Value>) -> Option<Vec<u64>> {
    value?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Codec names and their main setting, as in `shuffle | zstd:3`; `raw` for none.
fn chain(node: &Node) -> String {
    let list = |name: &str| node.metadata.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let steps: Vec<String> = match node.version {
        Version::V3 => list("codecs").iter().filter_map(step_v3).collect(),
        Version::V2 => {
            let order = node.metadata.get("order").and_then(Value::as_str).filter(|order| *order == "F");
            let compressor = node.metadata.get("compressor").filter(|compressor| !compressor.is_null()).cloned();
            let codecs = list("filters").into_iter().chain(compressor);
            order
                .map(|_| "transpose".to_owned())
                .into_iter()
                .chain(codecs.filter_map(|codec| step_v2(&codec)))
                .collect()
        }
    };
    if steps.is_empty() { "raw".to_owned() } else { steps.join(" | ") }
}

fn step_v3(codec: &Value) -> Option<String> {
    let name = codec.as_str().or_else(|| codec.get("name").and_then(Value::as_str))?;
    let empty = Map::new();
    let configuration = codec.get("configuration").and_then(Value::as_object).unwrap_or(&empty);
    match name {
        // Plain little-endian bytes are what everything else starts from.
        "bytes" if configuration.get("endian").is_none_or(|endian| endian == "little") => None,
        "bytes" => Some("bytes:big".to_owned()),
        "sharding_indexed" => {
            let inner = configuration.get("codecs").and_then(Value::as_array);
            let steps: Vec<String> = inner.into_iter().flatten().filter_map(step_v3).collect();
            Some(format!("sharding({})", if steps.is_empty() { "raw".to_owned() } else { steps.join(" | ") }))
        }
        _ => Some(step(name, configuration)),
    }
}

fn step_v2(codec: &Value) -> Option<String> {
    Some(step(codec.get("id")?.as_str()?, codec.as_object()?))
}

fn step(name: &str, configuration: &Map<String, Value>) -> String {
    let settings: Vec<String> = ["cname", "level", "clevel", "elementsize", "keepbits"]
        .iter()
        .filter_map(|key| configuration.get(*key))
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    if settings.is_empty() { name.to_owned() } else { format!("{name}:{}", settings.join(",")) }
}
