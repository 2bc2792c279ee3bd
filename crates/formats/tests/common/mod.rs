//! What the tests against other people's libraries share.
#![allow(dead_code, unreachable_pub, clippy::cast_possible_truncation, reason = "each test binary uses its own part")]

use knarr_core::array::{Endian, swap_bytes};
use knarr_core::store::Source;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is removed with its contents.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("knarr-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `tests/writers.py` and returns what it prints.
pub fn python(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("KNARR_PYTHON").map_or_else(|| root.join("../../.venv/bin/python"), PathBuf::from);
    assert!(
        python.exists(),
        "{} is missing: run bench/setup.sh, or set KNARR_PYTHON to a Python with bench/requirements.txt",
        python.display()
    );
    let output = Command::new(&python).arg(root.join("tests/writers.py")).args(arguments).output().unwrap();
    assert!(output.status.success(), "writers.py {arguments:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Small deterministic generator (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// Opens a file of any format.
pub fn open(path: &Path) -> knarr_core::Result<Box<dyn Source>> {
    knarr_formats::open(path, &knarr_core::codec::CodecList::pure())
}

/// A region, as little-endian bytes.
pub fn region(source: &dyn Source, variable: usize, start: &[u64], count: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0xAA; 3];
    source.read_region(variable, start, count, &mut bytes).unwrap();
    let info = &source.model().variables[variable];
    if info.endian == Endian::Big {
        swap_bytes(&mut bytes, info.dtype.size());
    }
    bytes
}

/// Picks a region out of a whole array.
pub fn pick(whole: &[u8], size: usize, shape: &[u64], start: &[u64], count: &[u64]) -> Vec<u8> {
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
    let mut random = Random(42);
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
                let knarr_core::model::AttributeValue::Text(text) = variable.attribute(name).unwrap() else {
                    panic!("{place} {name}")
                };
                assert_eq!(Value::from(text.trim_end_matches('\0')), *value, "{place} {name}");
            }
            let whole = std::fs::read(directory.join(wanted["bin"].as_str().unwrap())).unwrap();
            assert!(region(&*source, index, &vec![0; shape.len()], &shape) == whole, "{place}: values differ");
            for _ in 0..8 {
                let start: Vec<u64> = shape.iter().map(|&n| random.below(n)).collect();
                let count: Vec<u64> = shape.iter().zip(&start).map(|(&n, &at)| random.below(n - at + 1)).collect();
                let picked = pick(&whole, variable.dtype.size(), &shape, &start, &count);
                let got = region(&*source, index, &start, &count);
                assert!(got == picked, "{place}: {start:?} + {count:?} differs");
            }
            compared += 1;
        }
    }
    compared
}
