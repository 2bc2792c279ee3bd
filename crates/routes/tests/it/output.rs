//! Files that programs write by calls: any decomposition, and every error on all ranks.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "test code")]

use std::path::{Path, PathBuf};

use knarr_array::array::{ArraySpec, ArrayView, DType};
use knarr_array::comm::{Comm, Solo, Threads};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::Region;
use knarr_flow::engine::Engine;
use knarr_routes::output::{Options, Output, Value};

const STEPS: u64 = 3;
const ROWS: u64 = 30;
const COLUMNS: u64 = 22;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("knarr-output-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("spool")).unwrap();
        Self(path)
    }

    /// What is in it beside the spool, and in the spool.
    fn names(&self) -> (Vec<String>, usize) {
        let names = |path: &Path| {
            let entries = std::fs::read_dir(path).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let mut outside: Vec<String> = names(&self.0).into_iter().filter(|name| name != "spool").collect();
        outside.sort();
        (outside, names(&self.0.join("spool")).len())
    }

    fn made(&self, more: &[(&str, &str)]) -> Result<(Engine, Options)> {
        let mut options = Options::default();
        options.set("spool", self.0.join("spool").to_str().unwrap())?;
        more.iter().try_for_each(|(key, value)| options.set(key, value))?;
        Ok((Engine::new(knarr_native::codecs().unwrap()), options))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn value(step: u64, row: u64, column: u64) -> f32 {
    (step * 10_000 + row * 100 + column) as f32
}

/// The values of a region of one step.
fn values(step: u64, region: &Region) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in region.start[1]..region.end(1) {
        for column in region.start[2]..region.end(2) {
            bytes.extend_from_slice(&value(step, row, column).to_le_bytes());
        }
    }
    bytes
}

fn put<C: Comm>(output: &mut Output<C>, name: &str, dtype: DType, region: &Region, bytes: &[u8]) -> Result<()> {
    let shape: Vec<usize> = region.count.iter().map(|&n| usize::try_from(n).unwrap()).collect();
    let spec = ArraySpec::new(dtype, shape);
    output.put(name, &ArrayView::new(&spec, bytes)?, Some(region.start.clone()))
}

fn define<C: Comm>(output: &mut Output<C>) -> Result<()> {
    output.define_dimension("time", None)?;
    output.define_dimension("y", Some(ROWS))?;
    output.define_dimension("x", Some(COLUMNS))?;
    output.define_variable("T", DType::F32, &["time", "y", "x"], &[])?;
    output.set_attribute(Some("T"), "units", Value::Text("K".to_owned()))?;
    output.define_variable("level", DType::I32, &[], &[])
}

/// The parts of a rank: rows, columns, or blocks.
fn parts(way: usize, rank: u64, ranks: u64, step: u64) -> Vec<Region> {
    let share = |all: u64| (all * rank / ranks, all * (rank + 1) / ranks);
    match way {
        0 => {
            let (begin, end) = share(ROWS);
            vec![Region::new([step, begin, 0], [1, end - begin, COLUMNS])]
        }
        1 => {
            let (begin, end) = share(COLUMNS);
            vec![Region::new([step, 0, begin], [1, ROWS, end - begin])]
        }
        _ => {
            let blocks = (0..ROWS.div_ceil(7)).flat_map(|y| (0..COLUMNS.div_ceil(5)).map(move |x| (y, x)));
            let own = blocks.enumerate().filter(|(number, _)| *number as u64 % ranks == rank);
            own.map(|(_, (y, x))| {
                Region::new([step, y * 7, x * 5], [1, (ROWS - y * 7).min(7), (COLUMNS - x * 5).min(5)])
            })
            .collect()
        }
    }
}

fn write<C: Comm>(comm: C, path: &Path, way: usize, made: Result<(Engine, Options)>) -> Result<()> {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let mut output = Output::create(comm, path, made)?;
    define(&mut output)?;
    for step in 0..STEPS {
        for part in parts(way, rank, ranks, step) {
            put(&mut output, "T", DType::F32, &part, &values(step, &part))?;
        }
        output.end_step()?;
    }
    if rank == 0 {
        put(&mut output, "level", DType::I32, &Region::new([], []), &7i32.to_le_bytes())?;
    }
    let written = output.close()?.unwrap();
    assert_eq!(written.raw_bytes, STEPS * ROWS * COLUMNS * 4 + 4);
    Ok(())
}

fn check(path: &Path) {
    let (codecs, whole) = (knarr_native::codecs().unwrap(), Region::whole(&[STEPS, ROWS, COLUMNS]));
    let source = knarr_formats::open(path, &codecs).unwrap();
    let place = |path: &str| source.model().variables.iter().position(|variable| variable.path == path).unwrap();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    source.read_region(place("/T"), &whole, &mut found).unwrap();
    (0..STEPS).for_each(|step| expected.extend(values(step, &Region::new([step, 0, 0], [1, ROWS, COLUMNS]))));
    assert_eq!(found, expected);
    source.read_region(place("/level"), &Region::new([], []), &mut found).unwrap();
    assert_eq!(found, 7i32.to_le_bytes());
}

#[test]
fn any_decomposition_gives_the_same_bytes() {
    let folder = Folder::new("same");
    let mut first = None;
    let ways: [(usize, &[usize]); 7] = [
        (0, &[0]),
        (0, &[0; 4]),
        (1, &[0; 4]),
        (2, &[0]),
        (2, &[0; 3]),
        // On several nodes.
        (1, &[0, 0, 2, 2]),
        (2, &[0, 1, 2]),
    ];
    for (number, (way, nodes)) in ways.into_iter().enumerate() {
        let path = folder.0.join(format!("{number}.nc"));
        let all = Threads::run(Threads::on_nodes(nodes), |comm| write(comm, &path, way, folder.made(&[])));
        all.into_iter().for_each(|done| done.unwrap());
        check(&path);
        let bytes = std::fs::read(&path).unwrap();
        assert!(first.get_or_insert_with(|| bytes.clone()) == &bytes, "way {way} of ranks on {nodes:?}");
    }
    let store = folder.0.join("out.zarr");
    Threads::run(Threads::on_nodes(&[0, 1, 0, 1]), |comm| write(comm, &store, 1, folder.made(&[("goal", "ratio")])))
        .into_iter()
        .for_each(|done| done.unwrap());
    check(&store);
    assert_eq!(folder.names().1, 0);
}

#[test]
fn what_overlaps_counts_by_step_and_then_by_rank_and_what_is_missing_is_fill() {
    let folder = Folder::new("overlap");
    let path = folder.0.join("out.nc");
    let all = Threads::run(Threads::new(2), |comm| {
        let rank = comm.rank();
        let mut output = Output::create(comm, &path, folder.made(&[]))?;
        output.define_dimension("x", Some(6))?;
        output.define_variable("a", DType::U8, &["x"], &[])?;
        output.set_attribute(Some("a"), "_FillValue", Value::Numbers { dtype: DType::U8, bytes: vec![99] })?;
        let mut one = |start: u64, value: u8| put(&mut output, "a", DType::U8, &Region::new([start], [2]), &[value; 2]);
        // Rank 1 is there first, and of one rank the last put counts.
        one(0, 10 + u8::try_from(rank).unwrap())?;
        if rank == 1 {
            one(1, 21)?;
        }
        output.end_step()?;
        if rank == 0 {
            put(&mut output, "a", DType::U8, &Region::new([2], [1]), &[30])?;
        }
        // Nothing is a put, too.
        put(&mut output, "a", DType::U8, &Region::new([6], [0]), &[])?;
        output.commit()?;
        output.wait()?;
        assert_eq!(output.written().unwrap().raw_bytes, 6);
        output.close()
    });
    all.into_iter().for_each(|done| drop(done.unwrap()));
    let source = knarr_formats::open(&path, &knarr_native::codecs().unwrap()).unwrap();
    let mut found = Vec::new();
    source.read_region(0, &Region::whole(&[6]), &mut found).unwrap();
    assert_eq!(found, [11, 21, 30, 99, 99, 99]);
}

/// What ranks 0 to 2 get if rank 1 does something wrong.
fn errors(folder: &Folder, wrong: impl Fn(&mut Output<Threads>) -> Result<()> + Sync) -> Vec<Error> {
    let path = folder.0.join("out.nc");
    let all = Threads::run(Threads::new(3), |comm| {
        let rank = comm.rank();
        let mut output = Output::create(comm, &path, folder.made(&[]))?;
        define(&mut output)?;
        if rank == 1 {
            let _ = wrong(&mut output);
        }
        // Programs that look at no status go on.
        let _ = output.end_step();
        let _ = output.commit();
        output.close()
    });
    assert_eq!(folder.names(), (Vec::new(), 0));
    all.into_iter().map(Result::unwrap_err).collect()
}

type Wrong = fn(&mut Output<Threads>) -> Result<()>;

#[test]
fn an_error_of_one_rank_is_one_of_all_and_leaves_nothing() {
    let folder = Folder::new("errors");
    let cases: [(&str, Wrong); 6] = [
        ("there is no variable 'U'", |output| put(output, "U", DType::F32, &Region::new([0], [1]), &[0; 4])),
        ("along dimension 'y'", |output| put(output, "T", DType::F32, &Region::new([0, ROWS, 0], [1, 1, 1]), &[0; 4])),
        ("its elements are f32, not i32", |output| {
            put(output, "T", DType::I32, &Region::new([0, 0, 0], [1, 1, 1]), &[0; 4])
        }),
        ("rank 1 defines dimension 'z'", |output| output.define_dimension("z", Some(3))),
        ("it is defined already", |output| output.define_dimension("x", Some(COLUMNS))),
        ("is not understood", |output| {
            output.define_variable("V", DType::F32, &["x"], &[("max_error".to_owned(), "1".to_owned())])
        }),
    ];
    for (expected, wrong) in cases {
        for error in errors(&folder, wrong) {
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("out.nc") && error.kind() == ErrorKind::Usage, "{text}");
        }
    }
}

#[test]
fn what_cannot_be_begun_is_an_error_on_all_ranks() {
    let folder = Folder::new("begin");
    let path = folder.0.join("out.nc");
    let begin = |nodes: &[usize], path: &Path, wrong: Result<(Engine, Options)>| {
        let all = Threads::run(Threads::on_nodes(nodes), |comm| {
            let made = if comm.rank() == 1 {
                wrong.as_ref().map(|(a, b)| (a.clone(), b.clone())).map_err(Clone::clone)
            } else {
                folder.made(&[])
            };
            Output::create(comm, path, made).map(drop)
        });
        let all: Vec<String> = all.into_iter().map(|done| done.unwrap_err().to_string()).collect();
        assert!(all.iter().all(|text| *text == all[0]), "{all:?}");
        all[0].clone()
    };
    assert!(begin(&[0, 1], &path, folder.made(&[("jobs", "0")])).contains("jobs=0"));
    assert!(begin(&[0, 0], &folder.0.join("out.csv"), folder.made(&[])).contains("csv"));
    let nowhere = folder.0.join("nowhere/out.nc");
    assert!(begin(&[0, 0], &nowhere, folder.made(&[])).contains("nowhere"));
    std::fs::write(&path, b"old").unwrap();
    assert!(begin(&[0, 0], &path, folder.made(&[])).contains("exists"));
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let all = Threads::run(Threads::new(2), |comm| write(comm, &path, 0, folder.made(&[("replace", "yes")])));
    all.into_iter().for_each(|done| done.unwrap());
    check(&path);
    assert_eq!(folder.names(), (vec!["out.nc".to_owned()], 0));
}

#[test]
fn nothing_is_left_of_what_is_dropped_and_nothing_can_be_added_to_what_is_committed() {
    let folder = Folder::new("dropped");
    let path = folder.0.join("out.nc");
    let mut output = Output::create(Solo, &path, folder.made(&[])).unwrap();
    define(&mut output).unwrap();
    put(&mut output, "level", DType::I32, &Region::new([], []), &[0; 4]).unwrap();
    drop(output);
    assert_eq!(folder.names(), (Vec::new(), 0));
    let mut output = Output::create(Solo, &path, folder.made(&[])).unwrap();
    define(&mut output).unwrap();
    assert!(output.test().unwrap_err().to_string().contains("not committed"));
    output.commit().unwrap();
    let error = put(&mut output, "level", DType::I32, &Region::new([], []), &[0; 4]).unwrap_err();
    assert!(error.to_string().contains("committed"), "{error}");
    assert!(output.end_step().is_err() && output.commit().is_err());
    while !output.test().unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(output.close().unwrap().unwrap().raw_bytes, 4);
    assert_eq!(folder.names(), (vec!["out.nc".to_owned()], 0));
}
