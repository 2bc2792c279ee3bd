//! What bad files and bad places get: errors that name place, reason and hint; no debris, no crash.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "tests report by panicking")]

use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::{Folder, damage_heaps, script};
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, ErrorKind};
use knarr_array::filter::Hdf5Filter;
use knarr_array::region::Region;
use knarr_codec::chain::Chain;
use knarr_flow::output::Replaces;
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use knarr_hdf5::{Hdf5Sink, Hdf5Source, SinkOptions};
use knarr_testing::data::Random;

const TIME_LIMIT: Duration = Duration::from_mins(3);

fn through_library(_: &[Hdf5Filter], _: &ArraySpec) -> Option<Chain> {
    None
}

fn open(path: &Path) -> Result<Hdf5Source, Error> {
    Hdf5Source::open(path, Box::new(through_library))
}

/// An output with all of `source` but the values of `storages`.
fn copy(path: &Path, source: &Hdf5Source, storages: &[Storage], options: SinkOptions) -> Result<Hdf5Sink, Error> {
    let mut sink = Hdf5Sink::create(path, source.model(), storages, options)?;
    sink.copy_from(source)?;
    Ok(sink)
}

fn refused(path: &Path) -> Error {
    open(path).err().unwrap()
}

fn fixtures() -> &'static Path {
    static FOLDER: OnceLock<Folder> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = Folder::new();
            script("make.py", &[folder.path().to_str().unwrap()]);
            folder
        })
        .path()
}

#[test]
fn files_that_cannot_be_opened_say_why() {
    let folder = Folder::new();
    let missing = refused(&folder.file("missing.nc"));
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().contains("missing.nc"), "{missing}");

    assert_eq!(refused(folder.path()).kind(), ErrorKind::Read);

    let cases: [(&str, &[u8], &str); 3] = [
        ("empty.nc", b"", "empty"),
        ("text.nc", b"hello, this is no data", "not an HDF5"),
        ("old.nc", b"CDF\x01\0\0", "classic netCDF"),
    ];
    for (name, bytes, words) in cases {
        let path = folder.file(name);
        std::fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(words) && error.to_string().contains(name), "{error}");
    }

    let whole = std::fs::read(fixtures().join("model.nc")).unwrap();
    for length in [8, 100, 5000, whole.len() / 2, whole.len() - 1] {
        let path = folder.file("cut.nc");
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.advice().is_some(), "{error}");
    }
}

/// HDF5 2.x does not come back from a heap whose free space has no length; it enters one for fill values of strings.
#[test]
fn damaged_heaps_are_refused() {
    let folder = Folder::new();
    let path = folder.file("heap.nc");
    let mut bytes = std::fs::read(fixtures().join("model.nc")).unwrap();
    damage_heaps(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(open(&path).err()));
    let error = receiver.recv_timeout(TIME_LIMIT).unwrap().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let text = error.to_string();
    assert!(text.contains("heap.nc") && text.contains("the global heap is damaged: what lies at byte "), "{text}");
}

/// Reads everything; anything but a crash is right.
fn read_all(path: &Path) -> usize {
    let Ok(source) = open(path) else { return 0 };
    let mut out = Vec::new();
    let mut errors = 0;
    for (index, variable) in source.model().variables.iter().enumerate() {
        if variable.raw_bytes() > 1 << 26 {
            continue;
        }
        errors += usize::from(source.read_region(index, &Region::whole(&variable.shape), &mut out).is_err());
    }
    errors
}

#[test]
fn damaged_files_never_crash() {
    let folder = Folder::new();
    let mut random = Random::new(5);
    for name in ["model.nc", "plugins.h5", "paged.h5"] {
        let whole = std::fs::read(fixtures().join(name)).unwrap();
        let path = folder.file(name);
        for _ in 0..60 {
            let mut damaged = whole.clone();
            for _ in 0..4 {
                let at = random.below(damaged.len().min(60_000));
                damaged[at] = u8::try_from(random.below(256)).unwrap();
            }
            std::fs::write(&path, &damaged).unwrap();
            read_all(&path);
        }
    }
}

#[test]
fn chunks_beyond_the_end_are_named() {
    let folder = Folder::new();
    let path = folder.file("far.h5");
    script("far.py", &[path.to_str().unwrap()]);
    let source = open(&path).unwrap();
    let error = source.read_region(0, &Region::new([0], [64]), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("far.h5: variable 'x'"), "{error}");
    assert!(error.to_string().contains("beyond the end of the file"), "{error}");
}

#[test]
fn a_missing_filter_is_named_with_its_cure() {
    let source = open(&fixtures().join("plugins.h5")).unwrap();
    let index = source.model().variables.iter().position(|found| found.name() == "zstd").unwrap();
    let error = source.read_region(index, &Region::new([0, 0], [60, 70]), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingFilter, "{error}");
    for word in ["variable 'zstd'", "filter 32015 (zstd)", "hdf5plugin", "HDF5_PLUGIN_PATH"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    // Strings behind a filter cannot be copied chunk by chunk.
    let folder = Folder::new();
    let source = open(&fixtures().join("plugin-strings.h5")).unwrap();
    let error = copy(&folder.file("out.h5"), &source, &[], SinkOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MissingFilter, "{error}");
    assert!(error.to_string().contains("variable 'words'"), "{error}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn outputs_are_all_or_nothing() {
    let folder = Folder::new();
    let source = open(&fixtures().join("model.nc")).unwrap();
    let create = |path: &Path, force| {
        copy(path, &source, &[], SinkOptions { replaces: Replaces::from(force), ..SinkOptions::default() })
    };

    let error = create(&folder.file("no/such/folder.nc"), false).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Write, "{error}");
    assert!(error.to_string().contains("no/such/folder.nc"), "{error}");

    // Dropped without commit: nothing stays, and nothing was there.
    let output = folder.file("out.nc");
    let sink = create(&output, false).unwrap();
    assert!(!output.exists());
    assert_eq!(folder.names().len(), 1);
    drop(sink);
    assert!(folder.names().is_empty(), "{:?}", folder.names());

    std::fs::write(&output, "precious").unwrap();
    let error = create(&output, false).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.advice().is_some());
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");

    let sink = create(&output, true).unwrap();
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    Box::new(sink).commit().unwrap();
    assert!(open(&output).is_ok());
    assert_eq!(folder.names(), ["out.nc"]);

    // An output that appears while we write is not overwritten.
    let other = folder.file("other.nc");
    let sink = create(&other, false).unwrap();
    std::fs::File::create(&other).unwrap().write_all(b"theirs").unwrap();
    let error = Box::new(sink).commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
    assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
    assert_eq!(folder.names(), ["other.nc", "out.nc"]);
}

#[test]
fn wrong_storage_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let source = open(&fixtures().join("model.nc")).unwrap();
    let index = source.model().variables.iter().position(|found| found.name() == "plain").unwrap();
    for chunk in [vec![33], vec![0, 3], vec![34, 57]] {
        let storage = Storage { variable: index, chunk, encoding: Encoding::Hdf5(Vec::new()) };
        let error = copy(&folder.file("a.nc"), &source, &[storage], SinkOptions::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(error.advice().is_some(), "{error}");
    }
    assert!(folder.names().is_empty());
}

/// Runs in a process of its own: the limit on file sizes holds for all threads.
#[test]
fn a_full_disk_is_a_write_error() {
    if std::env::var_os("KNARR_TEST_FULL_DISK").is_none() {
        let program = std::env::current_exe().unwrap();
        let command = format!(
            "ulimit -f 64; trap '' XFSZ; exec {} --exact hdf5_failures::a_full_disk_is_a_write_error --nocapture",
            program.display()
        );
        let folder = Folder::new();
        std::fs::copy(fixtures().join("old.h5"), folder.file("in.h5")).unwrap();
        let output = std::process::Command::new("sh")
            .args(["-c", &command])
            .env("KNARR_TEST_FULL_DISK", folder.path())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.contains("1 passed"), "{:?} {printed}", output.status);
        assert_eq!(folder.names(), ["in.h5"]);
        return;
    }
    let folder = std::path::PathBuf::from(std::env::var_os("KNARR_TEST_FULL_DISK").unwrap());
    let source = open(&folder.join("in.h5")).unwrap();
    let index = source.model().variables.iter().position(|found| found.name() == "thin").unwrap();
    let shape = source.model().variables[index].shape.clone();
    let storage = Storage { variable: index, chunk: vec![1, shape[1], shape[2]], encoding: Encoding::Hdf5(Vec::new()) };
    let bytes = vec![1; usize::try_from(shape[1] * shape[2] * 8).unwrap()];
    let outcome = (|| {
        let storages: Vec<Storage> = source
            .model()
            .variables
            .iter()
            .enumerate()
            .filter(|(other, variable)| *other != index && variable.copied_because.is_none())
            .map(|(other, variable)| Storage {
                variable: other,
                chunk: vec![1; variable.shape.len()],
                ..storage.clone()
            })
            .chain([storage.clone()])
            .collect();
        let mut sink = copy(&folder.join("out.h5"), &source, &storages, SinkOptions::default())?;
        for n in 0..shape[0] {
            sink.put(EncodedChunk { variable: index, position: &[n, 0, 0], bytes: &bytes, filter_mask: 0 })?;
        }
        Box::new(sink).commit()
    })();
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Write, "{error}");
    assert!(error.to_string().contains("out.h5") && error.advice().is_some(), "{error}");
}
