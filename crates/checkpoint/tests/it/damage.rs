//! Damage, hostile manifests, full disks: an error or the right bytes, never other ones.

use knarr_array::ErrorKind;
use knarr_checkpoint::PackOptions;
use knarr_checkpoint::layout::FileLayout;
use knarr_checkpoint::manifest::Manifest;

use crate::common::{Dir, Files, engine, program, restore_all};

#[test]
fn every_flipped_byte_is_noticed_or_harmless() {
    let dir = Dir::new();
    let mut files = Files::default();
    let text: Vec<u8> = (0..900u32).map(|i| (i / 7).to_le_bytes()[0]).collect();
    for rank in 0..2usize {
        let bytes = &text[rank * 300..][..500];
        files.add(&dir, &format!("r{rank}"), bytes, FileLayout::opaque(500));
    }
    let set = dir.join("set");
    files.pack(&engine(1), &set, &PackOptions { group_size: 1, ..PackOptions::default() }).unwrap();
    for name in dir.names("set") {
        let path = set.join(&name);
        let good = std::fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x41;
            std::fs::write(&path, &bad).unwrap();
            let out = dir.join("out");
            match restore_all(&engine(1), &set, &out) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "byte {place}: {error}");
                    assert!(error.to_string().contains("version"), "byte {place}: {error}");
                }
                Ok(restored) => {
                    assert!(restored.damage.is_empty() || name.starts_with("group-"), "byte {place} of {name}");
                    assert_eq!(restored.files.len() + restored.damage.len(), 2, "byte {place}");
                    for (rank, path) in restored.files {
                        assert_eq!(std::fs::read(path).unwrap(), &text[rank * 300..][..500], "byte {place}");
                    }
                }
            }
            let _ = std::fs::remove_dir_all(&out);
        }
        std::fs::write(&path, &good).unwrap();
    }
    files.check(&engine(1), &set, &dir);
}

#[test]
fn damage_names_rank_and_variable_and_spares_the_rest() {
    let dir = Dir::new();
    let files = program(&dir, 6, 9);
    let set = dir.join("set");
    files.pack(&engine(2), &set, &PackOptions { group_size: 3, ..PackOptions::default() }).unwrap();
    let store = dir.names("set").into_iter().find(|name| name.starts_with("group-00001")).unwrap();
    let mut bytes = std::fs::read(set.join(&store)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(set.join(&store), bytes).unwrap();
    let restored = restore_all(&engine(2), &set, &dir.join("out")).unwrap();
    assert!(!restored.damage.is_empty());
    for damage in &restored.damage {
        assert!(damage.rank >= 3);
        assert_eq!(damage.name, format!("restart_{}.h5", damage.rank));
        assert!(!damage.variables.is_empty() && damage.error.to_string().contains(&store), "{damage:?}");
    }
    assert_eq!(restored.files.len(), 6 - restored.damage.len());
    assert_eq!(dir.names("out").len(), restored.files.len(), "no debris");
    // A store that is gone takes its group with it, and nothing else.
    std::fs::remove_file(set.join(&store)).unwrap();
    let restored = restore_all(&engine(2), &set, &dir.join("out2")).unwrap();
    assert_eq!((restored.files.len(), restored.damage.len()), (3, 3));
    for damage in &restored.damage {
        assert!(damage.error.to_string().contains(": the set lacks this file"), "{damage:?}");
    }
}

#[test]
fn existing_files_stay_unless_they_may_be_replaced() {
    let dir = Dir::new();
    let files = program(&dir, 2, 1);
    let set = dir.join("set");
    files.pack(&engine(1), &set, &PackOptions::default()).unwrap();
    let error = files.pack(&engine(1), &set, &PackOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    files.pack(&engine(1), &set, &PackOptions { force: true, ..PackOptions::default() }).unwrap();
    std::fs::create_dir_all(dir.join("out")).unwrap();
    std::fs::write(dir.join("out").join("restart_0.h5"), b"mine").unwrap();
    assert_eq!(restore_all(&engine(1), &set, &dir.join("out")).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(std::fs::read(dir.join("out").join("restart_0.h5")).unwrap(), b"mine");
    // What is no set is not replaced, whatever is asked for.
    let error = files.pack(&engine(1), &dir.join("out"), &PackOptions { force: true, ..PackOptions::default() });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(dir.names(""), ["in", "out", "set"]);
}

#[test]
fn files_that_change_meanwhile_are_named() {
    let dir = Dir::new();
    let files = program(&dir, 3, 2);
    let changing = files.inputs[1].path.clone();
    let find = |path: &std::path::Path| {
        let layout = files.layouts[path].clone();
        if path == files.inputs[2].path {
            // The program is still writing the file of another rank.
            let bytes = std::fs::read(&changing).unwrap();
            std::fs::write(&changing, &bytes[1..]).unwrap();
        }
        Ok(layout)
    };
    let done = knarr_checkpoint::pack(
        &engine(1),
        &files.inputs,
        &dir.join("set"),
        &PackOptions::default(),
        &find,
        &knarr_flow::engine::Silent,
    );
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Differs);
    assert!(error.to_string().contains("restart_1.h5"), "{error}");
    assert_eq!(dir.names(""), ["in"], "no debris");
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_a_restore_out_of_its_directory() {
    let dir = Dir::new();
    let mut files = Files::default();
    files.add(&dir, "sub/r0", b"hello", FileLayout::opaque(5));
    let set = dir.join("set");
    files.pack(&engine(1), &set, &PackOptions::default()).unwrap();
    std::fs::create_dir_all(dir.join("out")).unwrap();
    std::fs::create_dir_all(dir.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(dir.join("elsewhere"), dir.join("out").join("sub")).unwrap();
    assert_eq!(restore_all(&engine(1), &set, &dir.join("out")).unwrap_err().kind(), ErrorKind::Write);
    assert!(dir.names("elsewhere").is_empty());
}

#[test]
fn names_that_lead_elsewhere_are_not_packed() {
    let dir = Dir::new();
    for name in ["../x", "/etc/x", "a/../../x"] {
        let mut files = Files::default();
        files.add(&dir, "r0", b"hello", FileLayout::opaque(5));
        files.inputs[0].name = name.as_bytes().to_vec();
        let error = files.pack(&engine(1), &dir.join("set"), &PackOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}

#[test]
fn forged_manifests_are_refused() {
    let dir = Dir::new();
    let mut files = Files::default();
    for rank in 0..3 {
        files.add(&dir, &format!("r{rank}"), &[rank; 5000], FileLayout::opaque(5000));
    }
    let good = files.pack(&engine(1), &dir.join("set"), &PackOptions::default()).unwrap().manifest;
    assert!(Manifest::read_body(&Manifest::body(&good).unwrap()).unwrap() == good);
    for name in ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "r1", "a\0b"] {
        let mut forged = good.clone();
        forged.ranks[0].name = name.as_bytes().to_vec();
        assert_eq!(
            Manifest::read_body(&Manifest::body(&forged).unwrap()).unwrap_err().kind(),
            ErrorKind::Corrupt,
            "{name}"
        );
    }
    for name in ["../set/group", "sub/group", "/etc/passwd", ".."] {
        let mut forged = good.clone();
        forged.stores[0].name = name.to_owned();
        assert_eq!(
            Manifest::read_body(&Manifest::body(&forged).unwrap()).unwrap_err().kind(),
            ErrorKind::Corrupt,
            "{name}"
        );
    }
    let mut forged = good.clone();
    forged.stores[0].length = 30;
    assert!(Manifest::read_body(&Manifest::body(&forged).unwrap()).is_err(), "a frame outside of its store");
    let mut forged = good.clone();
    forged.ranks.push(good.ranks[0].clone());
    forged.ranks[3].name = b"another".to_vec();
    assert!(Manifest::read_body(&Manifest::body(&forged).unwrap()).is_err(), "a file whose pieces are stored nowhere");
    // Every cut, and every byte changed, gives an error or another manifest, never a panic.
    let whole = Manifest::body(&good).unwrap();
    for place in 0..whole.len() {
        assert!(Manifest::read_body(&whole[..place]).is_err(), "cut at {place}");
        for change in [1, 0x40, 0x80, 0xFF] {
            let mut changed = whole.clone();
            changed[place] ^= change;
            let _ = Manifest::read_body(&changed);
        }
    }
}
