//! The manifest of a checkpoint set, behind its checksums: bytes as they are, or changes to a good manifest.
#![no_main]

mod codecs;

use std::sync::LazyLock;

use codecs::codecs;
use knarr_array::array::{DType, Endian};
use knarr_array::filter::Hdf5Filter;
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};
use knarr_checkpoint::manifest::Manifest;
use knarr_checkpoint::{Input, PackOptions, pack};
use knarr_flow::engine::{Engine, Silent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((0..128, changes)) = data.split_first() {
        let mut changed = GOOD.clone();
        for change in changes.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
            changed[place] = change[2];
        }
        check(&changed);
    } else {
        check(data);
    }
});

fn check(bytes: &[u8]) {
    let Ok(manifest) = Manifest::read_body(bytes) else { return };
    let written = manifest.body().expect("what was read can be written");
    assert!(Manifest::read_body(&written).expect("what was written can be read") == manifest);
}

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("knarr-fuzz-manifest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let inputs: Vec<Input> = (0..3u8)
        .map(|rank| {
            let path = folder.join(rank.to_string());
            std::fs::write(&path, vec![rank / 2; 6000]).expect("a file");
            Input { path, name: vec![b'r', b'0' + rank], number: u64::from(rank) }
        })
        .collect();
    let extent = |offset| Extent { offset, length: 2048, shape: [256].into(), filters: [].into() };
    let variable = |path: &str, extents: Vec<Extent>| StoredVariable {
        path: path.to_owned(),
        dtype: DType::F64,
        endian: Endian::Little,
        shape: vec![256 * extents.len() as u64],
        extents,
    };
    // A chunk that is there as its values: equal bytes are shuffled into equal ones.
    let shuffle = Hdf5Filter { id: 2, optional: false, cd_values: vec![8] };
    let chunk = Extent { offset: 5100, length: 800, shape: [100].into(), filters: [shuffle].into() };
    let variables =
        vec![variable("/a", vec![extent(100), extent(3000)]), variable("/b", vec![]), variable("/c", vec![chunk])];
    let find =
        |_: &std::path::Path| Ok(FileLayout { format: "test".to_owned(), length: 6000, variables: variables.clone() });
    let set = folder.join("set");
    let options = PackOptions { group_size: 2, ..PackOptions::default() };
    let packed = pack(&Engine::new(codecs().clone()), &inputs, &set, &options, &find, &Silent).expect("a set");
    std::fs::remove_dir_all(folder).expect("the folder");
    packed.manifest.body().expect("a manifest")
});
