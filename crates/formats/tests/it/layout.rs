//! Where values lie in files, against what h5py says and against what the sources read.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "tests report by panicking")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::common::{Folder, below, damage_heaps, open, pick, program, region, script};
use knarr_array::ErrorKind;
use knarr_array::array::{Endian, swap_bytes};
use knarr_array::region::{Region, chunk_region, each_chunk};
use knarr_checkpoint::layout::{FileLayout, StoredVariable};
use knarr_flow::store::Source;
use knarr_formats::layout::read;
use knarr_testing::data::Random;
use serde_json::Value;

/// Fixtures are made once for all tests.
fn fixtures() -> &'static Path {
    static FOLDER: OnceLock<Folder> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = Folder::new();
            script("../../hdf5/tests/make.py", &[folder.path().to_str().unwrap()]);
            script("layout/make.py", &[folder.path().to_str().unwrap()]);
            folder
        })
        .path()
}

fn files(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| wanted(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    found.sort();
    found
}

fn hdf5_files() -> Vec<PathBuf> {
    files(|name| !name.starts_with("NETCDF3") && name != "raw.bin")
}

#[test]
fn pieces_of_hdf5_files_lie_where_h5py_says() {
    let paths = hdf5_files();
    let names: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let expected: Vec<Value> = serde_json::from_str(&script("layout/expect.py", &names)).unwrap();
    let mut pieces = 0;
    for (path, expected) in paths.iter().zip(&expected) {
        let layout = read(path).unwrap();
        let is_netcdf = path.extension().unwrap() == "nc";
        assert_eq!(layout.format, if is_netcdf { "netCDF-4" } else { "HDF5" }, "{}", path.display());
        assert_eq!(layout.length, std::fs::metadata(path).unwrap().len());
        let mut found: Vec<&str> = layout.variables.iter().map(|variable| variable.path.as_str()).collect();
        found.sort_unstable();
        let mut wanted: Vec<&str> = expected.as_object().unwrap().keys().map(String::as_str).collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{}", path.display());
        for variable in &layout.variables {
            let place = format!("{} {}", path.display(), variable.path);
            let wanted = &expected[&variable.path];
            assert_eq!(variable.dtype.to_string(), wanted["dtype"].as_str().unwrap(), "{place}");
            assert_eq!(format!("{:?}", variable.endian), wanted["endian"].as_str().unwrap(), "{place}");
            assert_eq!(Value::from(variable.shape.clone()), wanted["shape"], "{place}");
            let got: Vec<Value> = variable
                .extents
                .iter()
                .map(|extent| {
                    assert_eq!(Value::from(extent.shape.to_vec()), wanted["piece"], "{place}");
                    let filters: Vec<u32> = extent.filters.iter().map(|filter| filter.id).collect();
                    serde_json::json!([extent.offset, extent.length, filters])
                })
                .collect();
            pieces += got.len();
            assert_eq!(Value::from(got), wanted["pieces"], "{place}");
        }
    }
    assert!(pieces > 6_000, "{pieces}");
}

/// Compares the bytes of all unfiltered pieces with the values that the source reads. Returns how many it compared.
fn compare_values(path: &Path) -> usize {
    // A copy: the library refuses to lock what another thread has open without a lock.
    let folder = Folder::new();
    let copy = folder.file(path.file_name().unwrap().to_str().unwrap());
    std::fs::copy(path, &copy).unwrap();
    let source = open(&copy).unwrap();
    let (layout, bytes) = (read(&copy).unwrap(), std::fs::read(&copy).unwrap());
    layout.check().unwrap();
    let mut compared = 0;
    for stored in &layout.variables {
        let place = format!("{} {}", path.display(), stored.path);
        let Some(index) = source.model().variables.iter().position(|variable| variable.path == stored.path) else {
            // It has several names, and the source shows another one.
            assert!(place.ends_with("links.h5 /middle/twin"), "{place}");
            continue;
        };
        let shape = &source.model().variables[index].shape;
        // Elements of several numbers have one more axis, and are opaque to the source.
        let inner = stored.shape.strip_prefix(shape.as_slice()).unwrap();
        let first = Region::whole(&vec![1; shape.len()]);
        let refused = source.read_region(index, &first, &mut Vec::new()).err();
        if let Some(error) = refused {
            // The library lacks some filters.
            assert_eq!(error.kind(), ErrorKind::MissingFilter, "{place}: {error}");
            continue;
        }
        for (part, extent) in pieces(&*source, index, shape, stored) {
            if extent.filters.is_empty() {
                let mut raw = bytes[extent.offset as usize..][..extent.length as usize].to_vec();
                if stored.endian == Endian::Big && inner.is_empty() {
                    swap_bytes(&mut raw, stored.dtype.size());
                }
                let size = stored.dtype.size() * inner.iter().product::<u64>() as usize;
                let picked = pick(&raw, size, &extent.shape[..shape.len()], &Region::whole(&part.count));
                assert!(picked == region(&*source, index, &part), "{place}: {part:?} differs");
                compared += 1;
            }
        }
    }
    compared
}

type Piece<'a> = (Region, &'a knarr_checkpoint::layout::Extent);

/// Pieces with the regions they hold: those of the grid, in row-major order, that were written.
fn pieces<'a>(source: &dyn Source, index: usize, shape: &[u64], stored: &'a StoredVariable) -> Vec<Piece<'a>> {
    let mut regions = Vec::new();
    let grid = &stored.extents[0].shape[..shape.len()];
    each_chunk(&Region::whole(shape), grid, |position| {
        regions.push(chunk_region(shape, grid, position));
        Ok::<(), ()>(())
    })
    .unwrap();
    if regions.len() > stored.extents.len() {
        regions.retain(|region| source.is_written(index, region));
    }
    assert_eq!(regions.len(), stored.extents.len(), "{}", stored.path);
    regions.into_iter().zip(&stored.extents).collect()
}

#[test]
fn unfiltered_pieces_are_the_values() {
    // The chunks of one file are no encoded values.
    let readable = hdf5_files().into_iter().filter(|path| !path.ends_with("masks.h5"));
    let compared: usize = readable.map(|path| compare_values(&path)).sum();
    assert!(compared > 2_000, "{compared}");
}

#[test]
fn pieces_of_classic_files_are_the_values() {
    for path in files(|name| name.starts_with("NETCDF3")) {
        let (layout, source) = (read(&path).unwrap(), open(&path).unwrap());
        assert_eq!(layout.format, source.format());
        assert_eq!(layout.variables.len(), source.model().variables.len(), "{}", path.display());
        assert!(compare_values(&path) >= layout.variables.len());
        // The rest are header and padding.
        let values: u64 = layout.variables.iter().flat_map(|variable| &variable.extents).map(|e| e.length).sum();
        assert_eq!(values, source.model().variables.iter().map(|v| v.raw_bytes()).sum::<u64>());
    }
}

#[test]
fn a_record_variable_that_is_alone_lies_in_one_piece() {
    for path in files(|name| name.starts_with("NETCDF3") && name.contains("_one_")) {
        let layout = read(&path).unwrap();
        let only = layout.variables.iter().find(|variable| variable.path == "/only").unwrap();
        assert_eq!(only.extents.len(), 1, "{}", path.display());
        assert_eq!(*only.extents[0].shape, [6, 3]);
    }
}

const CDL: &str = "netcdf made {
dimensions: time = UNLIMITED ; x = 5 ; y = 3 ;
variables: float a(time, y, x) ; short b(time, x) ; double c(y, x) ; byte d(time) ;
data:
 a = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30 ;
 b = 1,2,3,4,5, 6,7,8,9,10 ;
 c = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 ;
 d = 1,2 ;
}
";

#[test]
fn files_of_pnetcdf_are_understood() {
    let folder = Folder::new();
    let cdl = folder.file("made.cdl");
    std::fs::write(&cdl, CDL).unwrap();
    for version in ["1", "2", "5"] {
        let path = folder.file(&format!("made{version}.nc"));
        let arguments = ["-v", version, "-o", path.to_str().unwrap(), cdl.to_str().unwrap()];
        let Some((succeeded, printed)) = program("ncmpigen", &arguments) else {
            return;
        };
        assert!(succeeded, "{printed}");
        assert_eq!(read(&path).unwrap().format, format!("netCDF-3 (CDF-{version})"));
        assert_eq!(compare_values(&path), 2 + 2 + 1 + 2);
    }
}

#[test]
fn what_is_not_understood_has_no_variables_and_damage_is_an_error() {
    let folder = Folder::new();
    let hdf5 = std::fs::read(fixtures().join("random_1.h5")).unwrap();
    let classic = std::fs::read(fixtures().join("NETCDF3_CLASSIC.nc")).unwrap();
    let cases: [(&str, &[u8], Option<ErrorKind>); 6] = [
        ("empty", b"", None),
        ("text.h5", b"no data at all", None),
        ("cut.h5", &hdf5[..hdf5.len() / 2], Some(ErrorKind::Corrupt)),
        ("magic.h5", b"\x89HDF\r\n\x1a\nand nothing else", Some(ErrorKind::Corrupt)),
        ("cut.nc", &classic[..40], Some(ErrorKind::Corrupt)),
        ("magic.nc", b"CDF\x05", Some(ErrorKind::Corrupt)),
    ];
    for (name, bytes, damage) in cases {
        let path = folder.file(name);
        std::fs::write(&path, bytes).unwrap();
        match (read(&path), damage) {
            (Ok(layout), None) => assert_eq!(layout, FileLayout::opaque(bytes.len() as u64), "{name}"),
            (Err(error), Some(kind)) => {
                assert_eq!(error.kind(), kind, "{name}");
                assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
            }
            (found, damage) => panic!("{name}: {found:?}, expected {damage:?}"),
        }
    }
    assert_eq!(read(&folder.file("missing")).unwrap_err().kind(), ErrorKind::NotFound);
    let error = read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("it is a directory"), "{error}");
}

/// A classic file that ends early still has the values that it holds.
#[test]
fn cut_classic_files_keep_what_they_hold() {
    let folder = Folder::new();
    let path = fixtures().join("NETCDF3_64BIT_DATA.nc");
    let (bytes, whole) = (std::fs::read(&path).unwrap(), read(&path).unwrap());
    for length in (bytes.len() / 2..bytes.len()).step_by(41) {
        let cut = folder.file("cut.nc");
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let layout = read(&cut).unwrap();
        for variable in &whole.variables {
            let inside = variable.extents.iter().filter(|e| e.offset + e.length <= length as u64);
            let expected: Vec<_> = inside.collect();
            let found = layout.variables.iter().find(|found| found.path == variable.path);
            let found: Vec<_> = found.iter().flat_map(|found| &found.extents).collect();
            assert_eq!(found, expected, "{} in {length} bytes", variable.path);
        }
    }
}

/// Damage never gives a layout that does not hold, nor an error.
#[test]
fn damaged_files_give_layouts_that_hold_or_say_so() {
    let folder = Folder::new();
    let mut random = Random::new(5);
    for name in ["random_1.h5", "random_3.h5", "links.h5", "masks.h5", "new.h5", "NETCDF3_64BIT_OFFSET.nc"] {
        let whole = std::fs::read(fixtures().join(name)).unwrap();
        let path = folder.file(name);
        for _ in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..=below(&mut random, 6) {
                let at = below(&mut random, bytes.len().min(20_000) as u64) as usize;
                bytes[at] = if below(&mut random, 2) == 0 { random.bits() as u8 } else { bytes[at] ^ 1 };
            }
            std::fs::write(&path, &bytes).unwrap();
            match read(&path) {
                Ok(layout) => {
                    layout.check().unwrap();
                    assert_eq!(layout.length, bytes.len() as u64);
                }
                // Such files are carried as bytes; these would not be.
                Err(error) => assert!(!matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Read), "{error}"),
            }
        }
    }
}

/// HDF5 2.x does not come back from a heap whose free space has no length, where it looks up fill values of strings.
#[test]
fn damaged_heaps_are_not_entered() {
    let folder = Folder::new();
    let mut bytes = std::fs::read(fixtures().join("model.nc")).unwrap();
    damage_heaps(&mut bytes);
    let path = folder.file("heap.nc");
    std::fs::write(&path, &bytes).unwrap();
    let whole = read(&fixtures().join("model.nc")).unwrap();
    assert_eq!(read(&path).unwrap(), whole);
}

#[test]
fn files_that_a_program_has_open_are_read_and_left_alone() {
    let folder = Folder::new();
    let path = folder.file("open.h5");
    std::fs::copy(fixtures().join("random_1.h5"), &path).unwrap();
    let before = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    // HDF5's lock of a writer.
    let writer = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    writer.lock().unwrap();
    assert_eq!(read(&path).unwrap(), read(&fixtures().join("random_1.h5")).unwrap());
    let after = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    assert!(before == after);
}
