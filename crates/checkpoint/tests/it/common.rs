//! Files with known layouts, in a directory of their own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use knarr_array::array::{DType, Endian};
use knarr_array::comm::Solo;
use knarr_array::error::Result;
use knarr_checkpoint::layout::{Extent, FileLayout, StoredVariable};
use knarr_checkpoint::measured;
use knarr_checkpoint::{
    Grouping, Input, Member, PackOptions, Packed, Restored, Set, Together, Tree, deal, pack, restore,
};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Silent};
use knarr_testing::data::Random;

/// A directory that is removed at the end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("knarr-checkpoint-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of everything in a directory below, but for what sets took.
    pub(crate) fn names(&self, below: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(below)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != measured::NAME);
        names.sort();
        names
    }
}

/// Names and bytes of all files of a set.
pub(crate) fn bytes(dir: &Dir, set: &str) -> Vec<(String, Vec<u8>)> {
    dir.names(set).into_iter().map(|name| (name.clone(), std::fs::read(dir.join(set).join(name)).unwrap())).collect()
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Ranks' files and where their variables lie.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) inputs: Vec<Input>,
    pub(crate) layouts: HashMap<PathBuf, FileLayout>,
}

impl Files {
    /// Writes a file and remembers its layout.
    pub(crate) fn add(&mut self, dir: &Dir, name: &str, bytes: &[u8], layout: FileLayout) {
        let path = dir.join("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        layout.check().unwrap();
        self.layouts.insert(path.clone(), layout);
        let number = self.inputs.len() as u64;
        self.inputs.push(Input { path, name: name.as_bytes().to_vec(), number });
    }

    pub(crate) fn pack(&self, engine: &Engine, target: &Path, options: &PackOptions) -> Result<Packed> {
        pack(engine, &self.inputs, target, options, &|path| Ok(self.layouts[path].clone()), &Silent)
    }

    /// As [`Files::pack`], with links and directories.
    pub(crate) fn pack_with(&self, engine: &Engine, target: &Path, options: &PackOptions, tree: Tree) -> Result<()> {
        let groups = deal(&Solo, &self.members(), Grouping::RankOrder, options.group_size)?;
        let mut together = Together::begin(engine, &Solo, target, options)?;
        together.set_tree(tree);
        let part = together.pack_groups(&groups, &|path| Ok(self.layouts[path].clone()), &Silent);
        together.finish(&Solo, part).map(drop)
    }

    /// The file of each rank.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.inputs.iter().cloned().enumerate().map(|(rank, input)| Member { rank, input }).collect()
    }

    /// Restores the set and compares every file.
    pub(crate) fn check(&self, engine: &Engine, set: &Path, dir: &Dir) {
        let out = dir.join("out");
        let restored = restore_all(engine, set, &out).unwrap();
        assert!(restored.damage.is_empty(), "{:?}", restored.damage);
        assert_eq!(restored.files.len(), self.inputs.len());
        for input in &self.inputs {
            let name = str::from_utf8(&input.name).unwrap();
            assert!(std::fs::read(out.join(name)).unwrap() == std::fs::read(&input.path).unwrap(), "{name}");
        }
        std::fs::remove_dir_all(out).unwrap();
    }
}

pub(crate) fn restore_all(engine: &Engine, set: &Path, target: &Path) -> Result<Restored> {
    let set = Set::open(set, &engine.codecs)?;
    let ranks: Vec<usize> = (0..set.manifest().ranks.len()).collect();
    restore(engine, &set, &ranks, target, false, &Silent)
}

pub(crate) fn engine(jobs: usize) -> Engine {
    Engine { jobs, ..Engine::new(CodecList::pure()) }
}

/// Options with a goal that is quickly served.
pub(crate) fn quick() -> PackOptions {
    PackOptions { goal: "speed".parse().unwrap(), ..PackOptions::default() }
}

/// Values of a type: smooth, constant or noise.
fn values(random: &mut Random, dtype: DType, endian: Endian, count: usize) -> Vec<u8> {
    let kind = random.below(4);
    let start = random.unit() * 100.0;
    let mut bytes = Vec::new();
    for i in 0..count {
        #[expect(clippy::cast_precision_loss, reason = "test data")]
        let x = match kind {
            0 => start,
            1 => start + (i as f64 * 0.01).sin(),
            2 => (i % 7) as f64,
            _ => random.unit(),
        };
        #[expect(clippy::cast_possible_truncation, reason = "test data")]
        let mut element = match dtype {
            DType::F64 => x.to_le_bytes().to_vec(),
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::I32 => ((x * 1000.0) as i32).to_le_bytes().to_vec(),
            DType::U16 => ((x * 10.0) as u16).to_le_bytes().to_vec(),
            _ => (0..dtype.size()).map(|_| x as u8).collect(),
        };
        if endian == Endian::Big {
            element.reverse();
        }
        bytes.extend(element);
    }
    bytes
}

/// A file with variables of random types, shapes and pieces, of about `most` elements at most; `names` are what they may
/// be called.
pub(crate) fn random_file(random: &mut Random, names: &[&str], most: usize) -> (Vec<u8>, FileLayout) {
    let types = [DType::F64, DType::F32, DType::I32, DType::U16, DType::U8, DType::Opaque(3)];
    let mut bytes: Vec<u8> = (0..random.below(200)).map(|i| u8::try_from(i % 13).unwrap()).collect();
    let mut variables = Vec::new();
    for name in names {
        if random.below(8) == 0 {
            continue;
        }
        let dtype = types[random.below(types.len())];
        let endian = if random.below(3) == 0 { Endian::Big } else { Endian::Little };
        let shape: Vec<u64> = match random.below(5) {
            0 => vec![],
            1 => vec![1 + random.below(10) as u64],
            2 => vec![1 + random.below(40) as u64, 1 + random.below(50) as u64],
            3 => vec![2, 3, 1 + random.below(most / 12) as u64],
            _ => vec![1 + random.below(most) as u64],
        };
        let mut extents = Vec::new();
        for _ in 0..1 + random.below(3) {
            let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
            let values = values(random, dtype, endian, count);
            extents.push(Extent {
                offset: bytes.len() as u64,
                length: values.len() as u64,
                shape: shape.as_slice().into(),
                filters: std::sync::Arc::default(),
            });
            bytes.extend(values);
            bytes.extend((0..random.below(60)).map(|i| u8::try_from(i % 5).unwrap()));
        }
        variables.push(StoredVariable { path: format!("/{name}"), dtype, endian, shape, extents });
    }
    let length = bytes.len() as u64;
    (bytes, FileLayout { format: "test".to_owned(), length, variables })
}

/// So many ranks of one program: the same variables, other values.
pub(crate) fn program(dir: &Dir, ranks: usize, seed: u64) -> Files {
    let mut files = Files::default();
    for rank in 0..ranks {
        // One seed for the structure makes the ranks alike, one for the values keeps them apart.
        let names = ["rho", "p", "time", "Grid1/u", "Grid2/u", "Grid12/u", "ids", "big"];
        let mut random = Random::new(seed + (rank as u64) / 3);
        let (bytes, layout) = random_file(&mut random, &names, 40_000);
        files.add(dir, &format!("restart_{rank}.h5"), &bytes, layout);
    }
    files
}
