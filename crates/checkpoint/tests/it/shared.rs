//! What sets share: whether it pays, and that a second copy of it serves.

use knarr_checkpoint::layout::FileLayout;
use knarr_checkpoint::{PackOptions, Set, verify};
use knarr_flow::engine::Silent;
use knarr_testing::data::Random;

use crate::common::{Dir, Files, engine, quick};

/// A file of which the first part stays what it is.
fn file(dir: &Dir, fixed: &[u8], step: u64, moving: usize) -> Files {
    let mut random = Random::new(1000 + step);
    let mut bytes = fixed.to_vec();
    bytes.extend((0..moving).map(|_| u8::try_from(random.below(256)).unwrap()));
    let mut files = Files::default();
    files.add(dir, "r0", &bytes, FileLayout::opaque(bytes.len() as u64));
    files
}

fn fixed(length: usize) -> Vec<u8> {
    let mut random = Random::new(7);
    (0..length).map(|_| u8::try_from(random.below(256)).unwrap()).collect()
}

#[test]
fn a_second_copy_serves_where_one_is_damaged() {
    let (dir, engine) = (Dir::new(), engine(2));
    let files = file(&dir, &fixed(400_000), 0, 10_000);
    files.pack(&engine, &dir.join("one"), &quick()).unwrap();
    let base = |name: &str| PackOptions { base: Some(dir.join(name)), copies: 2, ..quick() };
    let two = files.pack(&engine, &dir.join("two"), &base("one")).unwrap();
    assert!(two.copied_bytes > 400_000);
    let three = files.pack(&engine, &dir.join("three"), &base("two")).unwrap();
    assert_eq!(three.copied_bytes, 0, "both are linked");
    let names = dir.names("three");
    let copy = names.iter().find(|name| name.ends_with("-copy.knarr")).unwrap();
    let first = copy.replace("-copy", "");
    for damaged in [&first, copy] {
        let path = dir.join("three").join(damaged);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        // In place: all links to it are damaged.
        std::fs::write(&path, &bytes).unwrap();
        for set in ["two", "three"] {
            files.check(&engine, &dir.join(set), &dir);
            let found = verify(&engine, &Set::open(&dir.join(set), &engine.codecs).unwrap(), &Silent).unwrap();
            assert!(found.damage.is_empty() && !found.spared.is_empty(), "{damaged} of {set}");
            assert!(found.spared.iter().all(|error| error.to_string().contains(damaged.as_str())));
        }
        let alone = verify(&engine, &Set::open(&dir.join("one"), &engine.codecs).unwrap(), &Silent).unwrap();
        assert_eq!(alone.damage.is_empty(), damaged != &first);
        // A new set takes neither of them as it is.
        files.pack(&engine, &dir.join("four"), &base("three")).unwrap();
        let four = verify(&engine, &Set::open(&dir.join("four"), &engine.codecs).unwrap(), &Silent).unwrap();
        assert!(four.damage.is_empty() && four.spared.is_empty());
        std::fs::remove_dir_all(dir.join("four")).unwrap();
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn files_are_linked_if_that_takes_less_room_than_what_is_kept() {
    let (dir, engine) = (Dir::new(), engine(2));
    let fixed = fixed(400_000);
    file(&dir, &fixed, 0, 1_600_000).pack(&engine, &dir.join("one"), &quick()).unwrap();
    let next = file(&dir, &fixed, 1, 1_600_000);
    // A fifth of the file is used: five sets and more gain by it.
    for (number, (keep, links)) in
        [(None, true), (Some(1), false), (Some(3), false), (Some(10), true)].into_iter().enumerate()
    {
        let options = PackOptions { base: Some(dir.join("one")), keep, ..quick() };
        let packed = next.pack(&engine, &dir.join(&format!("two-{number}")), &options).unwrap();
        assert_eq!(packed.reused_bytes > 0, links, "{keep:?}");
        assert_eq!(packed.apart_bytes > 0, !links, "{keep:?}");
        next.check(&engine, &dir.join(&format!("two-{number}")), &dir);
    }
}
