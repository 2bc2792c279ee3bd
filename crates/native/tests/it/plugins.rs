//! Plugins of the `hdf5plugin` package: found, described, and through the conformance suite.

use knarr_array::array::{ArraySpec, DType};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_native::{codecs_with_plugins, plugin};
use knarr_testing::data::{Pattern, sample};
use knarr_testing::suites;

/// Client data values with which plugins take smooth values, by filter number: bzip2, blosc, lz4, bitshuffle, zstd.
const SETTINGS: &[(u32, &str)] =
    &[(307, "9"), (32001, "2/2/4/40000/5/1/5"), (32004, "1024"), (32008, "0/4/4/0/2"), (32015, "3")];

#[test]
fn all_plugins_of_the_package_are_usable() {
    let found = plugin::search_in(&[crate::common::plugin_directory()]);
    for plugin in &found {
        assert_eq!(plugin.usable, Ok(()), "{}", plugin.path.display());
        assert!(plugin.has_decoder && !plugin.description.is_empty(), "{plugin:?}");
    }
    for id in [307, 32001, 32004, 32008, 32013, 32015, 32017, 32024, 32026, 32028] {
        assert!(found.iter().any(|plugin| plugin.id == id), "{id} is not among {found:?}");
    }
}

/// The one plugin that survives the suite: on damaged chunks 307 and 32004 run forever (in HDF5 as well), and 32001
/// refuses chunks that do not shrink.
#[test]
fn the_zstd_plugin_passes_the_suite() {
    let codecs = codecs_with_plugins(&[crate::common::plugin_directory()]).unwrap();
    suites::codec::check(&codecs, "plugin-32015", &["plugin-32015:3"]);
}

#[test]
fn sz3_passes_the_suite_but_for_damage() {
    let codecs = codecs_with_plugins(&[crate::common::plugin_directory()]).unwrap();
    suites::codec::check_undamaged(&codecs, "sz3", codecs.named("sz3").unwrap().examples());
}

#[test]
fn sz3_keeps_its_bound() {
    let codecs = codecs_with_plugins(&[crate::common::plugin_directory()]).unwrap();
    let made = sample(DType::F32, &[20, 30, 40], Pattern::Smooth, 1);
    let chain = Chain::prepare(&codecs, &"sz3:abs,bound=0.01".parse().unwrap(), &made.spec).unwrap();
    let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
    chain.encode(&made.bytes, &mut scratch, &mut encoded).unwrap();
    chain.decode(&encoded, &mut scratch, &mut decoded).unwrap();
    assert!(encoded.len() * 4 < made.bytes.len(), "{} bytes", encoded.len());
    for (a, b) in made.bytes.as_chunks().0.iter().zip(decoded.as_chunks().0) {
        assert!((f32::from_le_bytes(*a) - f32::from_le_bytes(*b)).abs() <= 0.01);
    }
}

#[test]
fn plugins_work_in_many_threads() {
    let codecs = codecs_with_plugins(&[crate::common::plugin_directory()]).unwrap();
    let made = sample(DType::F32, &[100, 100], Pattern::Smooth, 1);
    for (id, values) in SETTINGS {
        let chain: ChainSpec = format!("plugin-{id}:cd={values}").parse().unwrap();
        let chain = Chain::prepare(&codecs, &chain, &made.spec).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
                    for _ in 0..20 {
                        chain.encode(&made.bytes, &mut scratch, &mut encoded).unwrap();
                        chain.decode(&encoded, &mut scratch, &mut decoded).unwrap();
                        assert!(decoded == made.bytes, "{id}");
                    }
                });
            }
        });
    }
}

#[test]
fn what_is_not_a_plugin_is_refused_with_a_reason() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-plugins");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("libtext.so"), "not a shared object").unwrap();
    std::fs::write(directory.join("README"), "not even named like one").unwrap();
    let found = plugin::search_in(&[directory]);
    assert_eq!(found.len(), 1);
    assert!(found[0].usable.as_ref().unwrap_err().contains("cannot be loaded"), "{found:?}");
}

#[test]
fn lossy_codecs_refuse_what_they_cannot_keep() {
    let codecs = codecs_with_plugins(&[crate::common::plugin_directory()]).unwrap();
    for special in [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN] {
        let mut values = vec![1.0f64; 64];
        values[17] = special;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        for text in ["sz3:abs,bound=0.01", "sz3:rel,bound=0.01", "zfp:accuracy,value=0.01", "zfp:precision,value=20"] {
            let spec = ArraySpec::new(DType::F64, [8, 8]);
            let chain = Chain::prepare(&codecs, &text.parse().unwrap(), &spec).unwrap();
            let error = chain.encode(&bytes, &mut Scratch::default(), &mut Vec::new()).unwrap_err();
            assert!(error.advice().is_some(), "{text}: {error}");
        }
    }
}
