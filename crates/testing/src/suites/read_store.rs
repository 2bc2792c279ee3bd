//! The conformance suite of stores that are read.

use std::collections::{BTreeMap, BTreeSet};

use knarr_flow::read_store::{Part, ReadStore};

/// Checks that `store` holds these objects and no others.
pub fn check(store: &dyn ReadStore, objects: &BTreeMap<String, Vec<u8>>) {
    assert!(!store.place().is_empty());
    let get = |key: &str, part: Part| {
        let mut out = b"what was there before".to_vec();
        let held = store.get(key, part, &mut out).unwrap_or_else(|error| panic!("{error}"));
        held.map(|held| (held, out))
    };
    for (key, bytes) in objects {
        let held = bytes.len() as u64;
        let is =
            |part: Part, expected: &[u8]| assert_eq!(get(key, part), Some((held, expected.to_vec())), "{key} {part:?}");
        is(Part::Whole { most: held }, bytes);
        is(Part::At { offset: 0, length: held }, bytes);
        is(Part::Last { length: held }, bytes);
        if let Some(most) = held.checked_sub(1) {
            is(Part::Whole { most }, b"");
            is(Part::At { offset: 1, length: most }, &bytes[1..]);
            is(Part::Last { length: 1 }, &bytes[bytes.len() - 1..]);
        }
        is(Part::At { offset: 0, length: held + 1 }, b"");
        is(Part::At { offset: held + 5, length: 1 }, b"");
        is(Part::Last { length: held + 1 }, b"");
        assert_eq!(store.has(key).ok(), Some(true), "{key}");
    }
    for absent in ["none", "a/none", "zarr.json/below"] {
        assert_eq!(get(absent, Part::Whole { most: 10 }), None, "{absent}");
        assert_eq!(store.has(absent).ok(), Some(false), "{absent}");
    }
    let folders: BTreeSet<String> = objects.keys().flat_map(|key| folders_of(key)).collect();
    for folder in &folders {
        assert_eq!(store.has(folder).ok(), Some(false), "{folder} is no object");
        let Some(found) = store.list(folder).unwrap_or_else(|error| panic!("{error}")) else { continue };
        let listed: Vec<(String, bool, u64)> =
            found.iter().map(|entry| (entry.name.clone(), entry.is_folder, entry.length)).collect();
        let mut expected = BTreeSet::new();
        for (key, bytes) in objects {
            let below = if folder.is_empty() { Some(key.as_str()) } else { key.strip_prefix(&format!("{folder}/")) };
            match below.map(|below| below.split_once('/').ok_or(below)) {
                Some(Ok((name, _))) => expected.insert((name.to_owned(), true, 0)),
                Some(Err(name)) => expected.insert((name.to_owned(), false, bytes.len() as u64)),
                None => continue,
            };
        }
        assert_eq!(listed, expected.into_iter().collect::<Vec<_>>(), "folder '{folder}'");
    }
}

/// `""`, `a` and `a/b` of `a/b/c`.
fn folders_of(key: &str) -> Vec<String> {
    let inner = key.match_indices('/').map(|(at, _)| key[..at].to_owned());
    std::iter::once(String::new()).chain(inner).collect()
}
