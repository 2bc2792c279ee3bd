//! Files that were handed over, as sources: any regions that ranks put make the file that the program's own library writes.
#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use std::fs::File;
use std::path::{Path, PathBuf};

use knarr_array::array::DType;
use knarr_array::model::{Dimension, Group, Variable};
use knarr_array::region::{Region, Regions};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::store::Source;
use knarr_formats::Clocks;
use knarr_formats::classic::{self, ClassicSource, Version};
use knarr_formats::handed_over::HandedOverSource;
use knarr_handover::{AssembledPuts, Put, PutLog, Room};
use knarr_testing::data::Random;
use knarr_testing::memory::MemorySource;
use knarr_testing::suites;
use knarr_testing::suites::source::part;

const RANKS: usize = 3;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("knarr-handed-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

/// A file of two dimensions and a record dimension, with random values.
fn made(random: &mut Random) -> MemorySource {
    let dimension = |name: &str, len, unlimited| Dimension { name: name.to_owned(), len, unlimited };
    let dimensions = vec![dimension("t", 4, true), dimension("y", 6, false), dimension("x", 9, false)];
    let mut source = MemorySource::new(Vec::new());
    let kinds: [(&str, DType, &[usize]); 4] = [
        ("T", DType::F32, &[0, 1, 2]),
        ("n", DType::I64, &[1, 2]),
        ("time", DType::F64, &[0]),
        ("name", DType::Opaque(1), &[2]),
    ];
    for (name, dtype, axes) in kinds {
        let shape: Vec<u64> = axes.iter().map(|&axis| dimensions[axis].len).collect();
        let bytes = usize::try_from(shape.iter().product::<u64>()).unwrap() * dtype.size();
        source.values.push((0..bytes).map(|_| u8::try_from(random.below(256)).unwrap()).collect());
        source.model.variables.push(Variable {
            dimensions: axes.iter().map(|&axis| Some(dimensions[axis].name.clone())).collect(),
            max_shape: axes.iter().map(|&axis| (axis != 0).then_some(dimensions[axis].len)).collect(),
            ..Variable::plain(format!("/{name}"), dtype, shape)
        });
    }
    source.model.groups = vec![Group { path: "/".to_owned(), dimensions, ..Group::default() }];
    source
}

/// Puts all values of the source, in random boxes, by random ranks. Boxes that come again hold the same values.
fn hand_over(source: &MemorySource, folder: &Path, random: &mut Random) {
    let room = |rank: usize| Room::of_process(folder, 4096 + 700, folder.join(format!("disk.{rank}")));
    let mut logs: Vec<PutLog> = (0..RANKS)
        .map(|rank| PutLog::create(room(rank), &format!("values.{rank}"), &format!("log.{rank}")).unwrap())
        .collect();
    for (index, variable) in source.model.variables.iter().enumerate() {
        let rows = variable.shape[0];
        let mut regions: Vec<Region> = (0..rows)
            .map(|row| {
                let mut region = Region::whole(&variable.shape);
                (region.start[0], region.count[0]) = (row, 1);
                region
            })
            .collect();
        for _ in 0..10 {
            let start: Vec<u64> =
                variable.shape.iter().map(|&n| random.below(usize::try_from(n).unwrap()) as u64).collect();
            let count: Vec<u64> = variable
                .shape
                .iter()
                .zip(&start)
                .map(|(n, start)| 1 + random.below(usize::try_from(n - start).unwrap()) as u64)
                .collect();
            regions.push(Region::new(start, count));
        }
        for (order, region) in regions.into_iter().enumerate() {
            let log = &mut logs[random.below(RANKS)];
            let size = variable.dtype.size();
            let values = part(&source.values[index], &variable.shape, &region, size);
            let offset = log.reserve(values.len() as u64).unwrap();
            log.write(offset, DType::F32, &values).unwrap();
            let variable = u32::try_from(index).unwrap();
            let dtype = source.model.variables[index].dtype;
            let boxes = Regions::from(&region);
            log.push(&[Put {
                variable,
                dtype,
                boxes,
                stride: Vec::new(),
                parts: Vec::new(),
                order: order as u64,
                offset,
            }])
            .unwrap();
        }
    }
}

fn files(folder: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> + use<'_> {
    (0..RANKS).map(|rank| (folder.join(format!("values.{rank}")), folder.join(format!("log.{rank}"))))
}

#[test]
fn what_ranks_put_is_what_a_file_would_hold() {
    let engine = Engine { jobs: 1, ..Engine::new(CodecList::pure()) };
    for seed in 0..12 {
        let folder = folder(&seed.to_string());
        let mut random = Random::new(seed + 1);
        let source = made(&mut random);
        let plain = folder.0.join("plain.nc");
        let file = File::create(&plain).unwrap();
        classic::write(&engine, &source, (&file, &plain), Version::Cdf5, &Clocks::default(), &Silent).unwrap();
        hand_over(&source, &folder.0, &mut random);
        let expected = ClassicSource::open(&plain).unwrap();
        // The header of a whole file serves as one without values. Nobody needs to know how many records there are.
        for records in [Some(4), None] {
            let handed = HandedOverSource::open(
                &plain,
                AssembledPuts::open(files(&folder.0)).unwrap(),
                records,
                Path::new("out.nc"),
            )
            .unwrap();
            // A file does not say in which blocks it was put.
            let of_file = |one: &Variable| Variable { block: None, ..one.clone() };
            let found: Vec<Variable> = handed.model().variables.iter().map(of_file).collect();
            assert_eq!(found, expected.model().variables);
            assert!(handed.model().variables.iter().any(|variable| variable.block.is_some()));
            assert_eq!(suites::source::check(&handed), 4);
            for (index, variable) in handed.model().variables.iter().enumerate() {
                let mut values = Vec::new();
                handed.read_region(index, &Region::whole(&variable.shape), &mut values).unwrap();
                assert_eq!(values, source.values[index], "{}", variable.path);
            }
        }
    }
}

#[test]
fn puts_that_the_header_does_not_allow_are_refused() {
    let engine = Engine { jobs: 1, ..Engine::new(CodecList::pure()) };
    let put = |variable, dtype, start: [u64; 2]| Put {
        variable,
        dtype,
        boxes: Regions::from(&Region::new(start, [1, 1])),
        stride: Vec::new(),
        parts: Vec::new(),
        order: 0,
        offset: 0,
    };
    for (number, (bad, why)) in [
        (put(9, DType::I64, [0, 0]), "no variable"),
        (put(1, DType::F64, [0, 0]), "no variable"),
        (put(1, DType::I64, [6, 0]), "outside"),
        (put(2, DType::F64, [0, 0]), "axes"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = folder(&format!("bad-{number}"));
        let source = made(&mut Random::new(1));
        let header = folder.0.join("plain.nc");
        let file = File::create(&header).unwrap();
        classic::write(&engine, &source, (&file, &header), Version::Cdf5, &Clocks::default(), &Silent).unwrap();
        hand_over(&source, &folder.0, &mut Random::new(2));
        for link in ["values.1.more", "log.1.more"] {
            std::fs::remove_file(folder.0.join(link)).unwrap();
        }
        let room = Room::of_process(&folder.0, 4096 + 100, folder.0.join("disk"));
        let mut log = PutLog::create(room, "values.1", "log.1").unwrap();
        log.reserve(8).unwrap();
        log.write(0, DType::F64, &[0; 8]).unwrap();
        log.push(&[bad]).unwrap();
        let error = HandedOverSource::open(
            &header,
            AssembledPuts::open(files(&folder.0)).unwrap(),
            Some(4),
            Path::new("out.nc"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("out.nc"), "{why}: {error}");
        assert_eq!(error.kind(), knarr_array::ErrorKind::Corrupt, "{why}: {error}");
    }
}
