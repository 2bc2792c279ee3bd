//! What Knarr's codecs are called in the metadata of Zarr v2 and v3: the inverse of [`Codec::zarr`], in one table.
//!
//! Settings that only the encoder needs (levels, block sizes) are not looked at: streams state what decoding takes.

use crate::zarr::metadata::scaled::Scale;
use crate::zarr::metadata::types::{self, ZarrType};
use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_codec::chain::StepSpec;
use knarr_codec::codec::OptionValue;
use serde_json::{Map, Value};

/// How one codec of Zarr is undone.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::zarr) enum Undo {
    /// By a step of a chain.
    Step(StepSpec),
    /// By a step whose encoded elements were then cut to a narrower type.
    Narrowed(StepSpec, DType),
    /// By computing values from elements of this type.
    Scaled(Scale, DType),
    /// It only changed values when it was written (rounding).
    Nothing,
}

/// A codec of Zarr.
struct Row {
    /// `id` in version 2, where there is one.
    v2: &'static str,
    /// Names in version 3; the first is what is written.
    v3: &'static [&'static str],
    /// From its configuration and the array it stands for; `None` for settings that are not understood.
    undo: fn(&Map<String, Value>, &ArraySpec) -> Option<Undo>,
}

const TABLE: &[Row] = &[
    Row { v2: "zstd", v3: &["zstd", "numcodecs.zstd"], undo: |_, _| step("zstd") },
    Row { v2: "gzip", v3: &["gzip", "numcodecs.gzip"], undo: |_, _| step("gzip") },
    Row { v2: "zlib", v3: &["numcodecs.zlib", "zlib"], undo: |_, _| step("deflate") },
    Row { v2: "bz2", v3: &["numcodecs.bz2", "bz2"], undo: |_, _| step("bzip2") },
    Row { v2: "lz4", v3: &["numcodecs.lz4"], undo: |_, _| step("lz4-sized") },
    Row { v2: "blosc", v3: &["blosc", "numcodecs.blosc"], undo: |_, _| step("blosc") },
    Row { v2: "lzma", v3: &["numcodecs.lzma"], undo: lzma },
    Row { v2: "shuffle", v3: &["numcodecs.shuffle"], undo: shuffle },
    Row { v2: "fletcher32", v3: &["numcodecs.fletcher32", "fletcher32"], undo: |_, _| step("fletcher32") },
    Row { v2: "delta", v3: &["numcodecs.delta"], undo: delta },
    Row { v2: "fixedscaleoffset", v3: &["numcodecs.fixedscaleoffset", "fixedscaleoffset"], undo: fixed_scale_offset },
    Row { v2: "bitround", v3: &["numcodecs.bitround", "bitround"], undo: |_, _| Some(Undo::Nothing) },
    Row { v2: "quantize", v3: &["numcodecs.quantize"], undo: quantize },
    Row { v2: "pcodec", v3: &["numcodecs.pcodec", "pcodec"], undo: |_, _| step("pcodec") },
    Row { v2: "zfpy", v3: &["numcodecs.zfpy", "zfpy"], undo: |_, _| step("zfpy") },
    Row { v2: "", v3: &["knarr.grid"], undo: |_, _| step("grid") },
];

/// How the codec `name` of version 3 is undone; `None` if Knarr does not know it or its settings.
pub(in crate::zarr) fn undo_v3(name: &str, configuration: &Map<String, Value>, array: &ArraySpec) -> Option<Undo> {
    let row = TABLE.iter().find(|row| row.v3.contains(&name))?;
    (row.undo)(configuration, array)
}

/// How a filter or compressor of version 2 is undone; `None` if Knarr does not know it or its settings.
pub(in crate::zarr) fn undo_v2(codec: &Map<String, Value>, array: &ArraySpec) -> Option<Undo> {
    let id = codec.get("id")?.as_str().filter(|id| !id.is_empty())?;
    let row = TABLE.iter().find(|row| row.v2 == id)?;
    (row.undo)(codec, array)
}

#[expect(clippy::unnecessary_wraps, reason = "what the table holds")]
fn step(name: &str) -> Option<Undo> {
    Some(Undo::Step(StepSpec::new(name)))
}

fn lzma(configuration: &Map<String, Value>, _array: &ArraySpec) -> Option<Undo> {
    /// `lzma.FORMAT_XZ` of Python, and numcodecs' default. The others do not say what they hold.
    const XZ: u64 = 1;
    match configuration.get("format") {
        None => step("xz"),
        Some(format) if format.as_u64() == Some(XZ) => step("xz"),
        Some(_) => None,
    }
}

fn shuffle(configuration: &Map<String, Value>, _array: &ArraySpec) -> Option<Undo> {
    /// numcodecs' default.
    const SIZE: i64 = 4;
    let size = match configuration.get("elementsize") {
        None => SIZE,
        Some(size) => size.as_i64()?,
    };
    Some(Undo::Step(StepSpec::with_level("shuffle", size)))
}

/// Differences; `astype` is the type that they are stored in.
fn delta(configuration: &Map<String, Value>, array: &ArraySpec) -> Option<Undo> {
    let of = numpy_type(configuration.get("dtype")?, array.endian)?;
    let stored = match configuration.get("astype") {
        None | Some(Value::Null) => of,
        Some(astype) => numpy_type(astype, array.endian)?,
    };
    if of != array.dtype || !of.is_number() {
        return None;
    }
    // numcodecs takes differences of floats as floats.
    let step = if of.is_float() {
        StepSpec::with_bare("delta", OptionValue::Word("rounded".to_owned()))
    } else {
        StepSpec::new("delta")
    };
    match stored {
        _ if stored == of => Some(Undo::Step(step)),
        _ if stored.is_integer() && of.is_integer() && stored.is_signed() == of.is_signed() => {
            Some(Undo::Narrowed(step, stored))
        }
        _ => None,
    }
}

/// Scaled values; `astype` is the type that they are stored in.
fn fixed_scale_offset(configuration: &Map<String, Value>, array: &ArraySpec) -> Option<Undo> {
    let setting = |key: &str| configuration.get(key)?.as_f64();
    let stored = match configuration.get("astype") {
        None | Some(Value::Null) => array.dtype,
        Some(astype) => numpy_type(astype, array.endian)?,
    };
    if numpy_type(configuration.get("dtype")?, array.endian)? != array.dtype {
        return None;
    }
    Some(Undo::Scaled(Scale { offset: setting("offset")?, scale: setting("scale")? }, stored))
}

/// Rounding that may also change the type, which is not understood.
fn quantize(configuration: &Map<String, Value>, array: &ArraySpec) -> Option<Undo> {
    let kept = |key: &str| match configuration.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => numpy_type(value, array.endian) == Some(array.dtype),
    };
    (kept("dtype") && kept("astype")).then_some(Undo::Nothing)
}

/// The number type that NumPy spells so, if its bytes are in this order.
fn numpy_type(value: &Value, endian: Endian) -> Option<DType> {
    let text = value.as_str()?;
    let dtype = match types::from_v2(value) {
        ZarrType::Number(dtype) => dtype,
        _ => return None,
    };
    let big = match text.as_bytes().first()? {
        b'>' => true,
        b'<' => false,
        _ => return (dtype.size() == 1).then_some(dtype),
    };
    (dtype.size() == 1 || big == (endian == Endian::Big)).then_some(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_codec::chain::{Chain, ChainSpec};
    use knarr_codec::codec::CodecList;
    use serde_json::json;

    #[test]
    fn what_codecs_write_of_themselves_is_understood() {
        let codecs = CodecList::pure();
        let mut understood = 0;
        for codec in codecs.iter() {
            for dtype in [DType::I16, DType::U32, DType::F32, DType::F64] {
                let array = ArraySpec::new(dtype, [4, 4]);
                let spec = ChainSpec(vec![StepSpec::new(codec.name())]);
                let Ok(chain) = Chain::prepare(&codecs, &spec, &array) else { continue };
                for metadata in chain.zarr_codecs().unwrap_or_default() {
                    let name = metadata["name"].as_str().unwrap();
                    if name == "bytes" {
                        continue;
                    }
                    let empty = Map::new();
                    let configuration = metadata.get("configuration").and_then(Value::as_object).unwrap_or(&empty);
                    match undo_v3(name, configuration, &array) {
                        Some(Undo::Step(step)) => assert_eq!(step.name, codec.name()),
                        other => panic!("{metadata}: {other:?}"),
                    }
                    understood += 1;
                }
            }
        }
        assert!(understood >= 4 * 3, "{understood}");
    }

    #[test]
    fn settings_that_change_the_meaning_are_looked_at() {
        let undo = |codec: Value, dtype| undo_v2(codec.as_object().unwrap(), &ArraySpec::new(dtype, [4]));
        let delta = |dtype: &str, astype: &str| json!({"id": "delta", "dtype": dtype, "astype": astype});
        assert_eq!(undo(delta("<i4", "<i4"), DType::I32), step("delta"));
        assert_eq!(undo(delta("<i4", "|i1"), DType::I32), Some(Undo::Narrowed(StepSpec::new("delta"), DType::I8)));
        for (dtype, astype) in [("<i4", "<f4"), (">i4", ">i4"), ("<i2", "<i2"), ("<i4", "<u2"), ("nonsense", "")] {
            assert_eq!(undo(delta(dtype, astype), DType::I32), None, "{dtype} {astype}");
        }
        assert_eq!(undo(json!({"id": "lzma", "format": 3}), DType::I32), None);
        assert_eq!(undo(json!({"id": "lzma", "format": 1}), DType::I32), step("xz"));
        assert_eq!(undo(json!({"id": "", "format": 1}), DType::I32), None);
        assert_eq!(undo(json!({"id": "shuffle", "elementsize": "x"}), DType::I32), None);
    }
}
