//! Chunks of Knarr read by h5py + hdf5plugin and zarr-python, and chunks of theirs read by Knarr.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports by panicking")]

mod cases;
use cases::{Case, cases};
use knarr_array::array::ArraySpec;
use knarr_array::filter::Hdf5Filter;
use knarr_codec::chain::{Chain, ChainSpec, Scratch, StepSpec};
use knarr_codec::codec::{CodecList, Stage};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

fn run_python(stage: &str, folder: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/peers.py");
    let output =
        Command::new(crate::common::python()).arg(script).arg(stage).arg(folder).output().expect("Python starts");
    assert!(output.status.success(), "peers.py {stage} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Encodes every case and lists them for Python.
fn write_ours(codecs: &CodecList, cases: &[Case], folder: &Path) {
    let mut listed = Vec::new();
    for case in cases {
        let chain = case.prepare(codecs);
        let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
        chain.encode(&case.bytes, &mut scratch, &mut encoded).unwrap_or_else(|error| panic!("{}: {error}", case.id));
        chain.decode(&encoded, &mut scratch, &mut decoded).unwrap_or_else(|error| panic!("{}: {error}", case.id));
        for (suffix, bytes) in [("raw", &case.bytes), ("enc", &encoded), ("dec", &decoded)] {
            fs::write(folder.join(format!("{}.{suffix}", case.id)), bytes).unwrap();
        }
        let pipeline = chain.hdf5_pipeline().filter(|_| case.in_hdf5);
        listed.push(json!({
            "id": case.id,
            "shape": case.spec.shape,
            "numpy": case.numpy(),
            "hdf5": pipeline,
            "zarr": chain.zarr_codecs().filter(|_| case.in_zarr),
            "peer": case.peer,
        }));
    }
    fs::write(folder.join("cases.json"), Value::from(listed).to_string()).unwrap();
}

/// The chain that decodes what the filters of an HDF5 file wrote.
fn chain_from_hdf5(codecs: &CodecList, filters: &[Hdf5Filter], spec: &ArraySpec) -> Chain {
    let stage = Stage { spec: spec.clone(), is_array: true };
    let steps = filters.iter().map(|filter| {
        let (codec, options) = codecs
            .for_hdf5(filter.id)
            .find_map(|codec| Some((codec, codec.from_hdf5(filter, &stage)?)))
            .unwrap_or_else(|| panic!("nothing understands {filter:?}"));
        StepSpec { name: codec.name().to_owned(), bare: None, options }
    });
    Chain::prepare(codecs, &ChainSpec(steps.collect()), spec).unwrap()
}

/// Decodes what the peers wrote and compares it with what they decode.
fn read_theirs(codecs: &CodecList, cases: &[Case], folder: &Path) -> Vec<String> {
    let results: Value = serde_json::from_slice(&fs::read(folder.join("results.json")).unwrap()).unwrap();
    let mut complaints = Vec::new();
    for case in cases {
        let id = &case.id;
        let result = &results[id];
        complaints.extend(result["complaints"].as_array().into_iter().flatten().map(|text| format!("{id}: {text}")));
        let ours = case.prepare(codecs);
        if let Some(written) = result["cd_values"].as_array() {
            let mut filters = ours.hdf5_pipeline().unwrap();
            for (filter, written) in filters.iter_mut().zip(written) {
                let theirs: Vec<u32> = serde_json::from_value(written.clone()).unwrap();
                if theirs != filter.cd_values && case.same_cd_values {
                    complaints.push(format!("{id}: cd_values {:?}, the plugin writes {theirs:?}", filter.cd_values));
                }
                filter.cd_values = theirs;
            }
            let chain = chain_from_hdf5(codecs, &filters, &case.spec);
            complaints.extend(compare(&chain, folder, id, "h5"));
        }
        if folder.join(format!("{id}.zchunk")).exists() {
            complaints.extend(compare(&ours, folder, id, "z"));
        }
    }
    complaints
}

fn compare(chain: &Chain, folder: &Path, id: &str, peer: &str) -> Option<String> {
    let chunk = fs::read(folder.join(format!("{id}.{peer}chunk"))).unwrap();
    let values = fs::read(folder.join(format!("{id}.{peer}values"))).unwrap();
    let mut decoded = Vec::new();
    match chain.decode(&chunk, &mut Scratch::default(), &mut decoded) {
        Ok(()) if decoded == values => None,
        Ok(()) => Some(format!("{id}: Knarr reads other values from the {peer} chunk of the peer")),
        Err(error) => Some(format!("{id}: {error} in the {peer} chunk of the peer")),
    }
}

#[test]
fn peers_read_our_chunks_and_we_read_theirs() {
    let codecs = knarr_native::codecs_with_plugins(&[crate::common::plugin_directory()]).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    let cases = cases();
    write_ours(&codecs, &cases, &folder);
    run_python("write", &folder);
    run_python("read", &folder);
    let complaints = read_theirs(&codecs, &cases, &folder);
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
