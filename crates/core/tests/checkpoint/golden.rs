//! Sets that released versions wrote: every later version restores them.
//!
//! `KNARR_WRITE_GOLDEN=1 cargo test -p knarr-core --features testing --test checkpoint golden` writes the set of this
//! version once; what is there is never rewritten.

use std::path::{Path, PathBuf};

use knarr_core::checkpoint::{PackOptions, Scheme, Similarity};
use knarr_core::testing::data::Random;

use crate::common::{Dir, Files, engine, quick, random_file};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoint-v1").join(name)
}

/// Lanes in blocks, content that repeats, more than one group.
#[test]
fn sets_of_version_1_are_restored() {
    let dir = Dir::new();
    let mut files = Files::default();
    for rank in 0..4 {
        let mut random = Random::new(21 + rank / 3);
        let (bytes, layout) = random_file(&mut random, &["Grid1/u", "Grid2/u", "time", "p"], 1000);
        files.add(&dir, &format!("restart_{rank}.h5"), &bytes, layout);
    }
    let similarity = Similarity::new(&["Grid[0-9]+/(.*)".to_owned()], 100).unwrap();
    let first = PackOptions { scheme: Scheme::AwareBlock, block_size: 16, group_size: 3, similarity, ..quick() };
    let second = PackOptions { base: Some(golden("first")), group_size: 2, ..quick() };
    for (name, options) in [("first", first), ("second", second)] {
        if std::env::var_os("KNARR_WRITE_GOLDEN").is_some() && !golden(name).exists() {
            std::fs::create_dir_all(golden("")).unwrap();
            files.pack(&engine(1), &golden(name), &options).unwrap();
        }
        files.check(&engine(2), &golden(name), &dir);
    }
}
