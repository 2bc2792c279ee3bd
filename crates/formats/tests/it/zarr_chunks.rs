//! Chunks and shards that Knarr decodes itself, written by hand: what is right is read, what is wrong is said.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::{Folder, region};
use knarr_array::ErrorKind;
use knarr_array::array::{ArraySpec, DType};
use knarr_array::region::Region;
use knarr_codec::chain::{Chain, ChainSpec, Scratch as Buffers};
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;
use knarr_formats::zarr::ZarrSource;
use serde_json::{Value, json};
use std::path::Path;

/// Metadata of a lone array of `i32`.
fn metadata(shape: &Value, chunk: &Value, codecs: &Value) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 7,
        "codecs": codecs,
        "attributes": {},
    })
}

fn write(dir: &Path, metadata: &Value, files: &[(&str, &[u8])]) {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("zarr.json"), metadata.to_string()).unwrap();
    for (name, bytes) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn open(dir: &Path) -> ZarrSource {
    ZarrSource::open(dir, &CodecList::pure()).unwrap()
}

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn encoded(chain: &str, values: &[i32]) -> (Value, Vec<u8>) {
    let chain = Chain::prepare(
        &CodecList::pure(),
        &chain.parse::<ChainSpec>().unwrap(),
        &ArraySpec::new(DType::I32, [values.len()]),
    )
    .unwrap();
    let mut out = Vec::new();
    chain.encode(&ints(values), &mut Buffers::default(), &mut out).unwrap();
    (Value::from(chain.zarr_codecs().unwrap()), out)
}

#[test]
fn a_chunk_is_read_decoded_and_as_it_is_stored() {
    let scratch = Folder::new();
    let store = scratch.path().join("a.zarr");
    let values: Vec<i32> = (0..100).map(|n| n * n).collect();
    for chain in ["grid", "pcodec", "delta", "delta | shuffle | fletcher32", "raw"] {
        let (codecs, bytes) = encoded(chain, &values);
        write(&store, &metadata(&json!([250]), &json!([100]), &codecs), &[("c/1", &bytes)]);
        let source = open(&store);
        let mut out = vec![1];
        assert!(source.stored_chunk(0, &[1], &mut out).unwrap());
        assert_eq!(out, bytes, "{chain}");
        assert!(!source.stored_chunk(0, &[2], &mut out).unwrap());
        assert!(source.stored_chunk(0, &[3], &mut out).is_err());
        assert!(source.stored_chunk(0, &[0, 0], &mut out).is_err());
        assert!(!source.is_written(0, &Region::new([0], [100])) && source.is_written(0, &Region::new([199], [20])));
        let whole = region(&source, 0, &Region::new([0], [250]));
        let expected: Vec<i32> = [vec![7; 100], values.clone(), vec![7; 50]].concat();
        assert_eq!(whole, ints(&expected), "{chain}");
        assert_eq!(region(&source, 0, &Region::new([100], [100])), ints(&values), "{chain}");
        assert_eq!(region(&source, 0, &Region::new([98], [5])), ints(&expected[98..103]), "{chain}");
    }
}

fn index(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        entries.iter().flat_map(|(at, len)| [at.to_le_bytes(), len.to_le_bytes()].concat()).collect();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn sharded(chunk: &Value, codecs: &Value, location: &str) -> Value {
    json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk,
        "codecs": codecs,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "index_location": location,
    }}])
}

const ABSENT: (u64, u64) = (u64::MAX, u64::MAX);

#[test]
fn shards_are_read_and_damaged_ones_are_named() {
    let scratch = Folder::new();
    let store = scratch.path().join("a.zarr");
    let values: Vec<i32> = (0..10).collect();
    let (codecs, bytes) = encoded("delta | fletcher32", &values);
    let length = bytes.len() as u64;
    let plain = metadata(&json!([45]), &json!([20]), &sharded(&json!([10]), &codecs, "end"));
    let shard = [bytes.clone(), index(&[ABSENT, (0, length)])].concat();
    write(&store, &plain, &[("c/1", &shard)]);
    let source = open(&store);
    let expected: Vec<i32> = [vec![7; 30], values.clone(), vec![7; 5]].concat();
    assert_eq!(region(&source, 0, &Region::new([0], [45])), ints(&expected));
    assert!(source.is_written(0, &Region::new([30], [1])) && !source.is_written(0, &Region::new([20], [10])));
    let mut out = Vec::new();
    assert!(source.stored_chunk(0, &[3], &mut out).unwrap() && !source.stored_chunk(0, &[2], &mut out).unwrap());
    assert!(source.stored_chunk(0, &[3], &mut out).unwrap());
    assert_eq!(out, bytes);

    let at_start = metadata(&json!([45]), &json!([20]), &sharded(&json!([10]), &codecs, "start"));
    write(&store, &at_start, &[("c/1", &[index(&[ABSENT, (36, length)]), bytes.clone()].concat())]);
    assert_eq!(region(&open(&store), 0, &Region::new([0], [45])), ints(&expected));

    let wrong: [(Vec<u8>, &str); 6] = [
        ([bytes.clone(), index(&[ABSENT, (1, length + 99)])].concat(), "the shard has"),
        ([bytes.clone(), index(&[ABSENT, (u64::MAX, length)])].concat(), "the shard has"),
        ([bytes.clone(), index(&[ABSENT, (0, 1 << 50)])].concat(), "are stored for a chunk of 40"),
        ([bytes.clone(), index(&[ABSENT, (0, length - 1)])].concat(), "fletcher32"),
        ([bytes.clone(), vec![0; 36]].concat(), "checksum of the index"),
        (vec![1; 35], "too few for the index"),
    ];
    for (shard, why) in wrong {
        write(&store, &plain, &[("c/1", &shard)]);
        let error = open(&store).read_region(0, &Region::new([30], [10]), &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        for part in ["a.zarr", "variable 'a'", "chunk (3) from element (30): key 'c/1': ", why] {
            assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
        }
        assert!(error.advice().is_some(), "no hint in: {error}");
    }
}

#[test]
fn a_damaged_chunk_is_named_by_position_element_key_and_codec() {
    let scratch = Folder::new();
    let store = scratch.path().join("a.zarr");
    let values: Vec<i32> = (0..100).map(|n| n * n).collect();
    for (chain, why) in [("delta | fletcher32", "decoding with 'fletcher32'"), ("grid", "decoding with 'grid'")] {
        let (codecs, mut bytes) = encoded(chain, &values);
        bytes.truncate(bytes.len() / 2);
        write(&store, &metadata(&json!([250]), &json!([100]), &codecs), &[("c/1", &bytes)]);
        // The whole chunk, part of it, and a region that begins in a chunk that is sound.
        for (start, count) in [(100, 100), (120, 3), (50, 100)] {
            let error = open(&store).read_region(0, &Region::new([start], [count]), &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let text = error.to_string();
            let place = "variable 'a': chunk (1) from element (100): key 'c/1': ";
            assert!(text.contains(place) && text.contains(why), "{text}");
            assert!(error.advice().is_some_and(|advice| advice.contains("from a copy")), "{text}");
        }
    }
    // What the other decoder reads is named alike.
    let inner = sharded(&json!([2]), &json!([{"name": "bytes", "configuration": {"endian": "little"}}]), "end");
    let nested = sharded(&json!([10]), &inner, "end");
    write(&store, &metadata(&json!([40]), &json!([20]), &nested), &[("c/1", &[0; 64])]);
    let error = open(&store).read_region(0, &Region::new([0], [40]), &mut Vec::new()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("chunk (1) from element (20): key 'c/1': "), "{text}");
    assert_eq!(error.advice(), Some("the store is damaged: restore it from a copy"), "{text}");
}

#[test]
fn metadata_that_makes_no_sense_is_said() {
    let scratch = Folder::new();
    let store = scratch.path().join("a.zarr");
    let bytes = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    let shards = |chunk: Value| sharded(&chunk, &bytes, "end");
    let huge = 1u64 << 45;
    let cases = [
        (json!([huge, huge]), json!([1, 1]), bytes.clone()),
        (json!([10]), json!([-1]), bytes.clone()),
        (json!([10]), json!([0]), bytes.clone()),
        (json!([10]), json!([1, 1]), bytes.clone()),
        (json!([10]), json!([u64::MAX]), bytes.clone()),
        (json!([-10]), json!([1]), bytes.clone()),
        (json!("ten"), json!([1]), bytes.clone()),
        (json!([10]), json!([10]), json!([])),
        (json!([10]), json!([10]), json!("bytes")),
        (json!([10]), json!([10]), Value::Null),
        (json!([10]), json!([10]), shards(json!([3]))),
        (json!([10]), json!([10]), shards(json!([0]))),
        (json!([10]), json!([10]), shards(json!([-5]))),
        (json!([10]), json!([10]), shards(json!([5, 5]))),
        (json!([10]), json!([10]), json!([{"name": "sharding_indexed"}])),
        (json!([10]), json!([10]), json!([{"name": "nonsense.codec"}, bytes[0]])),
        (json!([huge]), json!([huge / 64]), shards(json!([1]))),
        // Shards in shards are read by another decoder, which has to withstand them too.
        (json!([10]), json!([10]), sharded(&json!([5]), &shards(json!([2])), "end")),
        (json!([10]), json!([10]), sharded(&json!([5]), &shards(json!([u64::MAX])), "start")),
    ];
    for (shape, chunk, codecs) in cases {
        let document = metadata(&shape, &chunk, &codecs);
        write(&store, &document, &[("c/0", &[0; 64])]);
        let error = match ZarrSource::open(&store, &CodecList::pure()) {
            Err(error) => error,
            Ok(source) => source.read_region(0, &Region::new([0], [1]), &mut Vec::new()).unwrap_err(),
        };
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::MissingFilter), "{document}: {error}");
        for part in ["a.zarr", "variable 'a'"] {
            assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
        }
        assert!(error.advice().is_some(), "no hint in: {error}\n{document}");
    }
}
