//! Arrays of another store that are copied chunk by chunk, for what Knarr does not encode.

use crate::zarr::metadata::fixed::FixedType;
use crate::zarr::metadata::json;
use crate::zarr::metadata::stored::{Version, below};
use crate::zarr::metadata::types::{self, ZarrType};
use crate::zarr::read::array::ZarrArray;
use crate::zarr::write::node::{Array, Node, dimension_names, node_key, object, stored_attributes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use knarr_array::model::Variable;
use knarr_array::{Error, ErrorKind, Result};
use knarr_flow::output::Store;
use knarr_flow::read_store::{Part, ReadStore};
use knarr_flow::store::Strings;
use serde_json::{Map, Value, json};
use zarrs::array::{ArrayMetadataV2, ArrayMetadataV3};
use zarrs::convert::{ArrayMetadataV2ToV3Error, array_metadata_v2_to_v3, codec_metadata_v2_to_v3};
use zarrs::metadata::v3::MetadataV3;

/// Copies the chunks of a Zarr array as they are.
pub(in crate::zarr) fn copied_node(store: &mut dyn Store, variable: &Variable, stored: &ZarrArray) -> Result<Node> {
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
            let mut metadata = object(serde_json::to_value(v3).map_err(|error| Error::internal(error.to_string()))?);
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
    copy_chunks(store, stored.store(), &stored.node.folder, &key)?;
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

fn spelled(map: &Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(map.clone());
    json::spell(&mut value);
    object(value)
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

fn copy_chunks(store: &mut dyn Store, from: &dyn ReadStore, folder: &str, key: &str) -> Result<()> {
    let entries = from.list(folder)?.ok_or_else(|| {
        Error::unsupported("its chunks are copied as they are, and nobody can list them at this address")
            .hint("copy the store here first")
    })?;
    for entry in entries {
        if entry.name == "zarr.json" || entry.name.starts_with(".z") {
            continue;
        }
        let (found, key) = (below(folder, &entry.name), format!("{key}/{}", entry.name));
        match from.file(&found) {
            _ if entry.is_folder => copy_chunks(store, from, &found, &key)?,
            Some(path) => store.copy(&path, &key)?,
            None => {
                let mut bytes = Vec::new();
                let held = from.get(&found, Part::Whole { most: u64::MAX }, &mut bytes)?;
                held.ok_or_else(|| Error::new(ErrorKind::Read, "it was removed meanwhile").at(found))?;
                store.write(&key, &bytes)?;
            }
        }
    }
    Ok(())
}
