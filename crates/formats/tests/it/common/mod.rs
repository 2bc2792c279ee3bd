//! What the tests of formats share: Python for fixtures and comparisons, a folder that cleans up, regions.
#![allow(unreachable_pub, reason = "routes has them, too")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "test arrays are small")]

use knarr_array::array::{Endian, swap_bytes};
use knarr_array::region::Region;
use knarr_flow::store::Source;
use knarr_testing::data::Random;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed when the test ends.
pub struct Folder(PathBuf);

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Folder {
    pub fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("knarr-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of the files in it, to see that no debris stays.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the first object of every global heap of an HDF5 file free space without length.
pub fn damage_heaps(bytes: &mut [u8]) {
    let heaps: Vec<usize> = (0..bytes.len() - 40).filter(|&at| bytes[at..].starts_with(b"GCOL")).collect();
    assert!(!heaps.is_empty());
    for heap in heaps {
        // Number 0 means free space; its length follows.
        bytes[heap + 16..heap + 40].fill(0);
    }
}

/// The interpreter with h5py, hdf5plugin and netCDF4: `KNARR_PYTHON`, or the one of the repository's `.venv`.
fn python() -> PathBuf {
    let python = std::env::var_os("KNARR_PYTHON")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "{} is missing: set KNARR_PYTHON or run 'make setup'", python.display());
    python
}

/// Runs a script of `tests/` and returns what it printed, and whether it succeeded.
pub fn try_script(name: &str, arguments: &[&str]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let output = Command::new(python()).arg(script).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Runs a script of `tests/`, which must succeed.
pub fn script(name: &str, arguments: &[&str]) -> String {
    let (succeeded, text) = try_script(name, arguments);
    assert!(succeeded, "{name} {arguments:?}:\n{text}");
    text
}

/// Runs a program if it is installed; `None` if it is not, which is told, and an error where `CI` is set.
pub fn program(name: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let Ok(output) = Command::new(name).args(arguments).output() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI takes no skips: {name} is not installed; run 'make setup' as root"
        );
        eprintln!("skipped: {name} is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text))
}

/// Runs `tests/writers.py` and returns what it prints on standard output.
pub fn writers(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/writers.py");
    let output = Command::new(python()).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "writers.py {arguments:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whole number below `n`; 0 if `n` is 0.
pub fn below(random: &mut Random, n: u64) -> u64 {
    random.bits() % n.max(1)
}

/// Opens a file of any format.
pub fn open(path: &Path) -> knarr_array::Result<Box<dyn Source>> {
    knarr_formats::open(path, &knarr_codec::codec::CodecList::pure())
}

/// A region, as little-endian bytes.
pub fn region(source: &dyn Source, variable: usize, region: &Region) -> Vec<u8> {
    let mut bytes = vec![0xAA; 3];
    source.read_region(variable, region, &mut bytes).unwrap();
    let info = &source.model().variables[variable];
    if info.endian == Endian::Big {
        swap_bytes(&mut bytes, info.dtype.size());
    }
    bytes
}

/// Picks a region out of a whole array.
pub fn pick(whole: &[u8], size: usize, shape: &[u64], region: &Region) -> Vec<u8> {
    let Region { start, count } = region;
    let total: u64 = count.iter().product();
    let mut picked = Vec::new();
    for mut index in 0..total {
        let mut offset = 0;
        let mut stride = 1;
        for axis in (0..shape.len()).rev() {
            offset += (start[axis] + index % count[axis]) * stride;
            index /= count[axis];
            stride *= shape[axis];
        }
        let at = offset as usize * size;
        picked.extend_from_slice(&whole[at..at + size]);
    }
    picked
}

/// Compares every variable listed in `expected.json` with what the source gives: whole, and in random regions.
/// Returns the number of variables compared.
pub fn compare(directory: &Path) -> usize {
    let expected: Value = serde_json::from_slice(&std::fs::read(directory.join("expected.json")).unwrap()).unwrap();
    let mut compared = 0;
    let mut random = Random::new(42);
    for file in expected.as_array().unwrap() {
        let path = file["file"].as_str().unwrap();
        let source = open(Path::new(path)).unwrap();
        assert_eq!(source.format(), file["format"], "{path}");
        for wanted in file["variables"].as_array().unwrap() {
            let name = wanted["path"].as_str().unwrap();
            let place = format!("{path} {name}");
            let index = source.model().variables.iter().position(|variable| variable.path == name);
            let index = index.unwrap_or_else(|| panic!("{place} is missing"));
            let variable = &source.model().variables[index];
            let shape: Vec<u64> = serde_json::from_value(wanted["shape"].clone()).unwrap();
            assert_eq!(variable.shape, shape, "{place}");
            assert_eq!(variable.dtype.to_string(), wanted["dtype"].as_str().unwrap(), "{place}");
            if let Some(dimensions) = wanted["dimensions"].as_array() {
                let names: Vec<_> = variable.dimensions.iter().map(|name| name.clone().unwrap()).collect();
                assert_eq!(Value::from(names), Value::from(dimensions.clone()), "{place}");
                let unlimited: Vec<bool> = variable.max_shape.iter().map(Option::is_none).collect();
                assert_eq!(Value::from(unlimited), wanted["unlimited"], "{place}");
            }
            for (name, value) in wanted["attributes"].as_object().into_iter().flatten() {
                let knarr_array::model::AttributeValue::Text(text) = variable.attribute(name).unwrap() else {
                    panic!("{place} {name}")
                };
                assert_eq!(Value::from(text.trim_end_matches('\0')), *value, "{place} {name}");
            }
            let whole = std::fs::read(directory.join(wanted["bin"].as_str().unwrap())).unwrap();
            assert!(region(&*source, index, &Region::whole(&shape)) == whole, "{place}: values differ");
            for _ in 0..8 {
                let start: Vec<u64> = shape.iter().map(|&n| below(&mut random, n)).collect();
                let count: Vec<u64> =
                    shape.iter().zip(&start).map(|(&n, &at)| below(&mut random, n - at + 1)).collect();
                let part = Region { start, count };
                let picked = pick(&whole, variable.dtype.size(), &shape, &part);
                let got = region(&*source, index, &part);
                assert!(got == picked, "{place}: {part:?} differs");
            }
            compared += 1;
        }
    }
    compared
}
