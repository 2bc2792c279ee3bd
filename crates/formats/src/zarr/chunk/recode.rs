//! How chunks of an existing array are encoded again: with the chain and the objects that its metadata describe.

use crate::zarr::chunk::chunks::Chunks;
use crate::zarr::chunk::shard::{IndexForm, assembled};
use crate::zarr::metadata::codecs::{Undo, undo_v3};
use crate::zarr::metadata::stored::{Node, Version};
use knarr_array::array::ArraySpec;
use knarr_array::model::Variable;
use knarr_codec::chain::{Chain, ChainSpec, StepSpec};
use knarr_codec::codec::{CodecList, OptionValue};
use serde_json::{Map, Value};

/// Chunks of one array, as they have to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Recode {
    /// Shape of a chunk.
    pub chunk: Vec<u64>,
    /// Chunks per object along each axis: 1 where chunks have objects of their own.
    pub per_object: Vec<u64>,
    /// The lossless chain whose form in Zarr is the array's codecs, with all their settings.
    pub chain: ChainSpec,
    /// How the index of a shard lies in it, if objects are shards.
    index: Option<IndexForm>,
}

impl Recode {
    /// `None` if no chain of Knarr's has exactly these codecs.
    pub(in crate::zarr) fn of(node: &Node, variable: &Variable, chunks: &Chunks, codecs: &CodecList) -> Option<Self> {
        let transformed = node.metadata.get("storage_transformers").and_then(Value::as_array);
        if node.version != Version::V3 || transformed.is_some_and(|transformers| !transformers.is_empty()) {
            return None;
        }
        let stored = node.metadata.get("codecs")?;
        let (per_object, index, stored) = match chunks.sharing() {
            Some((extents, form)) => (extents.to_vec(), Some(form), stored.pointer("/0/configuration/codecs")?),
            None => (vec![1; chunks.shape.len()], None, stored),
        };
        let chain = chain_of(codecs, stored.as_array()?, &variable.chunk_spec(&chunks.shape))?;
        Some(Self { chunk: chunks.shape.clone(), per_object, chain, index })
    }

    /// Elements that one object holds, along each axis.
    pub fn object_shape(&self) -> Vec<u64> {
        self.chunk.iter().zip(&self.per_object).map(|(chunk, n)| chunk.saturating_mul(*n)).collect()
    }

    /// The bytes of an object with these encoded chunks, row-major within it; `None` for one that was never written.
    pub fn object(&self, mut chunks: Vec<Option<Vec<u8>>>) -> Vec<u8> {
        match self.index {
            Some(form) => assembled(&chunks, form),
            None => chunks.pop().flatten().unwrap_or_default(),
        }
    }
}

/// Settings of codecs that only matter for encoding, and the options that they are.
const SETTINGS: [(&str, &str); 5] = [
    ("level", "level"),
    ("clevel", "level"),
    ("preset", "level"),
    ("acceleration", "acceleration"),
    ("cname", "cname"),
];

/// The level that zstd takes where it is told 0, as zarr-python tells it by default (`ZSTD_CLEVEL_DEFAULT`).
const ZSTD_DEFAULT: i64 = 3;

/// The codec with its level as a number that says it.
fn spelled(codec: &Value) -> Value {
    let mut codec = codec.clone();
    let is_zstd = codec.get("name").and_then(Value::as_str) == Some("zstd");
    if let Some(level) = codec.pointer_mut("/configuration/level").filter(|level| is_zstd && level.as_i64() == Some(0))
    {
        *level = Value::from(ZSTD_DEFAULT);
    }
    codec
}

/// The chain that writes exactly these codecs.
fn chain_of(list: &CodecList, codecs: &[Value], spec: &ArraySpec) -> Option<ChainSpec> {
    let codecs: Vec<Value> = codecs.iter().map(spelled).collect();
    let mut chain = ChainSpec::raw();
    for codec in &codecs {
        let name = codec.get("name")?.as_str()?;
        let empty = Map::new();
        let configuration = codec.get("configuration").and_then(Value::as_object).unwrap_or(&empty);
        if name == "bytes" {
            continue;
        }
        let Undo::Step(step) = undo_v3(name, configuration, spec)? else { return None };
        chain.0.push(with_settings(list, step, configuration)?);
    }
    let prepared = Chain::prepare(list, &chain, spec).ok()?;
    (prepared.zarr_codecs() == Some(codecs)).then_some(chain)
}

/// The step as the configuration wants it to encode.
fn with_settings(list: &CodecList, mut step: StepSpec, configuration: &Map<String, Value>) -> Option<StepSpec> {
    let known = list.named(&step.name).ok()?.options();
    let mut set = |name: &str, value: OptionValue| {
        if known.iter().any(|option| option.name == name) {
            step.options = std::mem::take(&mut step.options).with(name, value);
        }
    };
    for (setting, option) in SETTINGS {
        match configuration.get(setting) {
            Some(Value::Number(number)) => set(option, OptionValue::Int(number.as_i64()?)),
            Some(Value::String(word)) => set(option, OptionValue::Word(word.clone())),
            _ => {}
        }
    }
    // Blosc's own.
    match configuration.get("shuffle").and_then(Value::as_str) {
        Some("shuffle") => set("shuffle", OptionValue::Word("byte".to_owned())),
        Some("bitshuffle") => set("shuffle", OptionValue::Word("bit".to_owned())),
        Some("noshuffle") => set("shuffle", OptionValue::Word("no".to_owned())),
        _ => {}
    }
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use serde_json::json;

    #[test]
    fn chains_of_knarr_are_found_again_and_others_are_not_taken_for_them() {
        let codecs = CodecList::pure();
        let spec = ArraySpec::new(DType::I32, [4, 4]);
        for text in ["raw", "grid", "shuffle:4", "delta | shuffle:4", "pcodec:5", "fletcher32"] {
            let chain: ChainSpec = text.parse().unwrap();
            let written = Chain::prepare(&codecs, &chain, &spec).unwrap().zarr_codecs().unwrap();
            let found = chain_of(&codecs, &written, &spec).unwrap_or_else(|| panic!("{text}"));
            let again = Chain::prepare(&codecs, &found, &spec).unwrap().zarr_codecs().unwrap();
            assert_eq!(again, written, "{text}");
        }
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
        let rounding = json!({"name": "numcodecs.bitround", "configuration": {"keepbits": 3}});
        for others in [
            json!([big]),
            json!([little, "crc32c"]),
            json!([little, {"name": "crc32c"}]),
            json!([rounding, little]),
            json!([{"name": "transpose", "configuration": {"order": [1, 0]}}, little]),
        ] {
            assert_eq!(chain_of(&codecs, others.as_array().unwrap(), &spec), None, "{others}");
        }
    }
}
