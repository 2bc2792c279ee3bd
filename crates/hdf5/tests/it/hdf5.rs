//! HDF5 and netCDF-4: reading against h5py, copies against h5py and the tools of HDF5 1.10 and netCDF.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "tests report by panicking")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::common::{Folder, program, script};
use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::Result;
use knarr_array::filter::Hdf5Filter;
use knarr_array::model::{Attribute, AttributeValue, StorageLayout, Variable};
use knarr_array::region::{Region, chunk_region};
use knarr_codec::chain::Chain;
use knarr_codec::codec::{Codec, CodecList, Kind, Options, Stage, Step};
use knarr_flow::store::{EncodedChunk, Encoding, Sink, Source, Storage};
use knarr_hdf5::{AsMade, Hdf5Sink, Hdf5Source, SinkOptions, StoredAs};
use knarr_testing::suites;

/// Every filtered chunk goes through the library.
fn through_library(_: &[Hdf5Filter], _: &ArraySpec) -> Option<Chain> {
    None
}

fn open(path: &Path) -> Hdf5Source {
    Hdf5Source::open(path, Box::new(through_library)).unwrap()
}

/// Fixtures are made once for all tests.
fn fixtures() -> &'static Path {
    static FIXTURES: OnceLock<PathBuf> = OnceLock::new();
    FIXTURES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hdf5-fixtures");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        script("make.py", &[folder.to_str().unwrap()]);
        folder
    })
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An output with all of `source` but the values of `storages`.
fn copy(output: &Path, source: &Hdf5Source, storages: &[Storage]) -> knarr_array::Result<Hdf5Sink> {
    let mut sink = Hdf5Sink::create(output, source.model(), storages, SinkOptions::default())?;
    sink.copy_from(source)?;
    Ok(sink)
}

/// Writes variable `index` of `source` in unfiltered form, chunk by chunk.
fn put_all(source: &Hdf5Source, sink: &mut Hdf5Sink, storage: &Storage) {
    let variable = &source.model().variables[storage.variable];
    let grid: Vec<u64> = variable.shape.iter().zip(&storage.chunk).map(|(n, c)| n.div_ceil(*c)).collect();
    let mut position = vec![0u64; grid.len()];
    loop {
        put_one(source, sink, storage, variable, &position);
        let mut axis = grid.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            position[axis] += 1;
            if position[axis] < grid[axis] {
                break;
            }
            position[axis] = 0;
        }
    }
}

fn put_one(source: &Hdf5Source, sink: &mut Hdf5Sink, storage: &Storage, variable: &Variable, position: &[u64]) {
    let part = chunk_region(&variable.shape, &storage.chunk, position);
    if !source.is_written(storage.variable, &part) {
        return;
    }
    let mut region = Vec::new();
    source.read_region(storage.variable, &part, &mut region).unwrap();
    // Unfiltered chunks are whole: what lies beyond the edge does not matter.
    let size = variable.dtype.size();
    let mut chunk = vec![0u8; storage.chunk.iter().product::<u64>() as usize * size];
    let count = &part.count;
    let row = *count.last().unwrap() as usize * size;
    let full = *storage.chunk.last().unwrap() as usize * size;
    for (n, bytes) in region.chunks_exact(row).enumerate() {
        let (mut rest, mut at, mut stride) = (n as u64, 0u64, 1u64);
        for axis in (0..count.len() - 1).rev() {
            at += rest % count[axis] * stride;
            rest /= count[axis];
            stride *= storage.chunk[axis];
        }
        chunk[at as usize * full..][..row].copy_from_slice(bytes);
    }
    let filters = match &storage.encoding {
        Encoding::Hdf5(filters) => filters.len(),
        Encoding::Zarr(_) => 0,
    };
    let filter_mask = (1u32 << filters) - 1;
    sink.put(EncodedChunk { variable: storage.variable, position, bytes: &chunk, filter_mask }).unwrap();
}

/// Copies `input` with new chunks and `filters` (left out of every chunk) for all variables that allow it.
fn rewrite(input: &Path, output: &Path, filters: &[Hdf5Filter]) {
    let source = open(input);
    let storages: Vec<Storage> = source
        .model()
        .variables
        .iter()
        .enumerate()
        .filter(|(_, variable)| variable.copied_because.is_none())
        .map(|(index, variable)| Storage {
            variable: index,
            chunk: variable.shape.iter().map(|n| (n / 2).clamp(1, 13)).collect(),
            encoding: Encoding::Hdf5(filters.to_vec()),
        })
        .collect();
    assert!(!storages.is_empty());
    let mut sink = copy(output, &source, &storages).unwrap();
    for storage in &storages {
        put_all(&source, &mut sink, storage);
    }
    Box::new(sink).commit().unwrap();
}

const FILES: [&str; 7] = ["model.nc", "old.h5", "untracked.h5", "new.h5", "plugins.h5", "paged.h5", "virtual.h5"];

#[test]
fn datasets_are_stored_again_as_they_were() {
    let folder = Folder::new();
    let (mut chunked, mut contiguous, mut kept) = (0, 0, 0);
    // What only plugins read cannot be packed here.
    for name in FILES.into_iter().filter(|name| *name != "plugins.h5") {
        let (input, packed, output) =
            (fixtures().join(name), folder.file(&format!("packed-{name}")), folder.file(name));
        rewrite(&input, &packed, &[Hdf5Filter { id: 1, optional: false, cd_values: vec![1] }]);
        let before = open(&input);
        let encoded = before.model().variables.iter().filter(|variable| variable.copied_because.is_none());
        let as_made: AsMade = encoded.map(|variable| (variable.path.clone(), StoredAs::of(variable))).collect();
        let codecs = CodecList::pure();
        let resolver = move |filters: &[Hdf5Filter], input: &ArraySpec| Chain::from_hdf5(&codecs, filters, input);
        let source = Hdf5Source::open(&packed, Box::new(resolver)).unwrap();
        let options = SinkOptions { as_made: as_made.clone(), ..SinkOptions::default() };
        let mut sink = Hdf5Sink::create(&output, source.model(), &[], options).unwrap();
        sink.copy_from(&source).unwrap();
        Box::new(sink).commit().unwrap();
        script("compare.py", &[text(&input), text(&output), "--storage-may-differ"]);
        for variable in &open(&output).model().variables {
            let (Some(wanted), found) = (as_made.get(&variable.path), StoredAs::of(variable)) else { continue };
            // Filters that nobody here writes are those that it was packed with.
            let is_kept = !wanted.filters.is_empty() && *wanted != found;
            assert!(is_kept || *wanted == found, "{name}{}: {found:?}", variable.path);
            chunked += usize::from(!is_kept && found.chunk.is_some());
            contiguous += usize::from(found.chunk.is_none());
            kept += usize::from(is_kept);
        }
    }
    assert!(chunked > 0 && contiguous > 0 && kept > 0, "{chunked} {contiguous} {kept}");
}

#[test]
fn copies_with_the_same_storage_are_equal() {
    let folder = Folder::new();
    for name in FILES {
        let (input, output) = (fixtures().join(name), folder.file(name));
        let source = open(&input);
        let sink = copy(&output, &source, &[]).unwrap();
        let size = Box::new(sink).commit().unwrap();
        assert_eq!(size, std::fs::metadata(&output).unwrap().len());
        script("compare.py", &[text(&input), text(&output)]);
    }
}

#[test]
fn copies_with_new_storage_hold_the_same_data() {
    let folder = Folder::new();
    let shuffle = Hdf5Filter { id: 2, optional: true, cd_values: vec![4] };
    let zstd = Hdf5Filter { id: 32015, optional: false, cd_values: vec![3] };
    for (n, filters) in [vec![], vec![shuffle, zstd]].iter().enumerate() {
        for name in ["model.nc", "old.h5", "untracked.h5", "new.h5"] {
            let (input, output) = (fixtures().join(name), folder.file(&format!("{n}-{name}")));
            rewrite(&input, &output, filters);
            script("compare.py", &[text(&input), text(&output), "--storage-may-differ"]);
        }
    }
    assert!(folder.names().iter().all(|name| !name.contains("tmp")), "{:?}", folder.names());
}

#[test]
fn regions_are_those_of_h5py() {
    let folder = Folder::new();
    for name in ["model.nc", "old.h5", "new.h5"] {
        let input = fixtures().join(name);
        let values = folder.file(&format!("{name}-values"));
        script("values.py", &[text(&input), text(&values)]);
        let source = open(&input);
        let mut checked = 0;
        for (index, variable) in source.model().variables.iter().enumerate() {
            let Ok(expected) = std::fs::read(values.join(variable.name().replace('/', "."))) else { continue };
            if variable.layout == StorageLayout::Null {
                continue;
            }
            check_regions(&source, index, variable, &expected);
            checked += 1;
        }
        assert!(checked > 8, "{name}: only {checked} variables");
        assert!(suites::source::check(&source) >= checked, "{name}");
    }
}

fn check_regions(source: &Hdf5Source, index: usize, variable: &Variable, expected: &[u8]) {
    let name = variable.name();
    let mut out = vec![1, 2, 3];
    source.read_region(index, &Region::whole(&variable.shape), &mut out).unwrap();
    assert!(out == expected, "{name}: whole variable");
}

#[test]
fn tools_of_older_releases_read_the_copies() {
    let folder = Folder::new();
    for name in ["model.nc", "old.h5", "new.h5"] {
        let (input, output) = (fixtures().join(name), folder.file(name));
        rewrite(&input, &output, &[]);
        // The input of the newest format is beyond old tools, the output is not.
        if name != "new.h5"
            && let Some((succeeded, printed)) = program("h5diff", &[text(&input), text(&output)])
        {
            assert!(succeeded, "h5diff {name}: {printed}");
        }
        if let Some((succeeded, printed)) = program("h5dump", &["-H", text(&output)]) {
            assert!(succeeded, "h5dump {name}: {printed}");
        }
        if name.ends_with("nc")
            && let (Some(a), Some(b)) = (program("ncdump", &[text(&input)]), program("ncdump", &[text(&output)]))
        {
            assert!(b.0, "ncdump: {}", b.1);
            assert_eq!(a.1, b.1);
        }
    }
}

/// The shuffle filter as a codec, to see that workers decode chunks themselves.
struct Shuffle;

struct ShuffleStep(usize);

impl Step for ShuffleStep {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let elements = input.len() / self.0;
        out.extend((0..input.len()).map(|n| input[n % elements * self.0 + n / elements]));
        Ok(())
    }

    fn decode(&self, input: &[u8], _: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let elements = input.len() / self.0;
        out.extend((0..input.len()).map(|n| input[n % self.0 * elements + n / self.0]));
        Ok(())
    }
}

impl Codec for Shuffle {
    fn name(&self) -> &'static str {
        "shuffle"
    }

    fn wire_id(&self) -> u16 {
        1
    }

    fn kind(&self) -> Kind {
        Kind::Compressor
    }

    fn summary(&self) -> &'static str {
        "bytes of equal significance together"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["shuffle"]
    }

    fn prepare(&self, _: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        Ok(Box::new(ShuffleStep(input.spec.dtype.size())))
    }

    fn hdf5_ids(&self) -> &'static [u32] {
        &[2]
    }

    fn from_hdf5(&self, _: &Hdf5Filter, _: &Stage) -> Option<Options> {
        Some(Options::default())
    }
}

#[test]
fn workers_decode_chunks_themselves() {
    let mut codecs = CodecList::default();
    codecs.push(Arc::new(Shuffle)).unwrap();
    let used = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&used);
    let resolver = move |filters: &[Hdf5Filter], input: &ArraySpec| {
        let chain = Chain::from_hdf5(&codecs, filters, input);
        count.fetch_add(usize::from(chain.is_some()), Ordering::Relaxed);
        chain
    };
    let folder = Folder::new();
    for name in ["old.h5", "new.h5"] {
        let (input, values) = (fixtures().join(name), folder.file(name));
        script("values.py", &[text(&input), text(&values)]);
        let source = Hdf5Source::open(&input, Box::new(resolver.clone())).unwrap();
        source.limit_cache(3000);
        suites::source::check(&source);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for wanted in ["shuffled", "masked", "raw", "x", "checked", "thin"] {
                        let index = source.model().variables.iter().position(|found| found.name() == wanted).unwrap();
                        let expected = std::fs::read(values.join(wanted)).unwrap();
                        check_regions(&source, index, &source.model().variables[index], &expected);
                    }
                });
            }
        });
    }
    assert_eq!(used.load(Ordering::Relaxed), 2, "the shuffled variable of each file has a chain, and only that");
}

#[test]
fn the_model_is_that_of_netcdf() {
    let source = open(&fixtures().join("model.nc"));
    assert_eq!(source.format(), "netCDF-4");
    let model = source.model();
    let names: Vec<&str> = model.variables.iter().map(Variable::name).collect();
    assert_eq!(
        names,
        [
            "time",
            "lat",
            "lon",
            "T",
            "q",
            "plain",
            "unwritten",
            "name",
            "label",
            "crs",
            "pairs",
            "cloud",
            "ragged",
            "forecast/wind"
        ]
    );
    let sizes: Vec<(&str, u64, bool)> = model.groups[0]
        .dimensions
        .iter()
        .map(|dimension| (dimension.name.as_str(), dimension.len, dimension.unlimited))
        .collect();
    assert_eq!(
        sizes,
        [("time", 10, true), ("lat", 33, false), ("lon", 57, false), ("strlen", 8, false), ("unused", 4, false)]
    );
    let t = &model.variables[3];
    assert_eq!(t.chain, "shuffle | deflate:5");
    assert_eq!(t.dimensions, ["time", "lat", "lon"].map(|name| Some(name.to_owned())));
    assert_eq!(t.max_shape, [None, Some(33), Some(57)]);
    assert_eq!(t.layout, StorageLayout::Chunked(vec![3, 16, 20]));
    let patterns = [1e20f32, -999.0].map(|value| u64::from(value.to_bits()));
    assert_eq!(t.fills, patterns);
    assert_eq!(t.padding, patterns[0]);
    assert_eq!(t.attribute("long_name"), Some(&AttributeValue::Text("temperature".into())));
    assert_eq!(model.variables[4].endian, Endian::Big);
    assert_eq!(model.variables[4].chain, "fletcher32 | shuffle | deflate:4");
    assert_eq!(model.groups[1].path, "/forecast");
    assert_eq!(model.variables[13].dimensions, ["time", "level", "lat"].map(|name| Some(name.to_owned())));
    let reasons: Vec<&str> =
        model.variables.iter().filter(|variable| variable.copied_because.is_some()).map(Variable::name).collect();
    assert_eq!(reasons, ["label", "crs", "ragged"]);
    assert_eq!(
        model.groups[0].attributes.iter().map(|attribute| attribute.name.as_str()).collect::<Vec<_>>(),
        ["title", "history", "numbers", "words", "empty"]
    );
    assert!(!source.is_written(6, &Region::new([0, 0], [33, 57])));
    assert!(source.is_written(3, &Region::new([9, 0, 0], [1, 1, 1])));
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let folder = Folder::new();
    for name in ["model.nc", "old.h5", "new.h5"] {
        let (first, second) = (folder.file("first"), folder.file("second"));
        rewrite(&fixtures().join(name), &first, &[]);
        std::thread::sleep(std::time::Duration::from_millis(1100));
        rewrite(&fixtures().join(name), &second, &[]);
        assert!(std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap(), "{name}");
        std::fs::remove_file(&first).unwrap();
        std::fs::remove_file(&second).unwrap();
    }
}

#[test]
fn attributes_are_added_and_replaced() {
    let folder = Folder::new();
    let source = open(&fixtures().join("model.nc"));
    let index = source.model().variables.iter().position(|found| found.name() == "plain").unwrap();
    let text = |name: &str, value: &str| Attribute { name: name.into(), value: AttributeValue::Text(value.into()) };
    let storage = Storage { variable: index, chunk: vec![33, 57], encoding: Encoding::Hdf5(Vec::new()) };
    let output = folder.file("out.nc");
    let mut sink = copy(&output, &source, &[storage]).unwrap();
    sink.annotate(Some(index), &[text("quantization", "none")]).unwrap();
    sink.annotate(None, &[text("history", "made by a test; repacked"), text("more", "é")]).unwrap();
    let bytes = 0.5f64.to_le_bytes().to_vec();
    let error = AttributeValue::Numbers { dtype: DType::F64, bytes, scalar: true };
    sink.annotate(Some(index), &[text("quantization", "bitround"), Attribute { name: "bound".into(), value: error }])
        .unwrap();
    assert!(sink.annotate(Some(0), &[text("a", "b")]).is_err());
    Box::new(sink).commit().unwrap();
    let copy = open(&output);
    let names =
        |attributes: &[Attribute]| -> Vec<String> { attributes.iter().map(|found| found.name.clone()).collect() };
    assert_eq!(names(&copy.model().groups[0].attributes), ["title", "numbers", "words", "empty", "history", "more"]);
    let plain = &copy.model().variables[index];
    assert_eq!(names(&plain.attributes), ["quantization", "bound"]);
    assert_eq!(plain.attribute("quantization"), Some(&AttributeValue::Text("bitround".into())));
    assert_eq!(copy.format(), "netCDF-4");
}
