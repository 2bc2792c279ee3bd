//! CSV and raw: the conformance suite of sources, every type and odd shapes there and back, and bad input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::path::Path;

use crate::common::Folder;
use knarr_array::ErrorKind;
use knarr_array::array::{DType, Endian, swap_bytes};
use knarr_array::model::Variable;
use knarr_array::region::Region;
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::generate::{FieldSpec, Generated};
use knarr_flow::output::Replaces;
use knarr_flow::settings::Settings;
use knarr_flow::store::Source;
use knarr_formats::csv::CsvSource;
use knarr_formats::raw::{RawLayout, RawSource};
use knarr_formats::select;
use knarr_routes::compress::{RepackOptions, repack_source};
use knarr_testing::data::{Pattern, Random, SHAPES, sample};
use knarr_testing::memory::{MemorySource, NamedArray};
use knarr_testing::suites;

fn engine(jobs: usize) -> Engine {
    Engine { jobs, ..Engine::new(CodecList::pure()) }
}

fn write(source: MemorySource, output: &Path) -> knarr_array::Result<()> {
    let options = RepackOptions { replaces: Replaces::Anything, ..RepackOptions::default() };
    repack_source(&engine(2), Box::new(source), output, &Settings::default(), &options, &Silent).map(|_| ())
}

fn open_csv(path: &Path) -> knarr_array::Result<CsvSource> {
    CsvSource::open(path, 1 << 20)
}

/// The table of a text.
fn table(text: &[u8]) -> knarr_array::Result<CsvSource> {
    let folder = Folder::new();
    let path = folder.file("t.csv");
    std::fs::write(&path, text).unwrap();
    open_csv(&path)
}

fn variable(source: &dyn Source, index: usize) -> (&Variable, Vec<u8>) {
    let variable = &source.model().variables[index];
    (variable, crate::common::region(source, index, &Region::whole(&variable.shape)))
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

fn integers(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

#[test]
fn raw_files_hold_every_type_and_shape_in_both_orders() {
    let folder = Folder::new();
    for dtype in DType::NUMBERS {
        for shape in SHAPES {
            let extents: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
            let bytes = sample(dtype, shape, Pattern::Special, 3).bytes;
            let path = folder.file("a.bin");
            write(MemorySource::new(vec![("a", dtype, extents.clone(), vec![], bytes.clone())]), &path).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes, "{dtype} {shape:?}");
            let mut stored = vec![1, 2, 3, 4, 5];
            let mut swapped = bytes.clone();
            swap_bytes(&mut swapped, dtype.size());
            stored.extend(swapped);
            std::fs::write(&path, stored).unwrap();
            let layout = RawLayout { shape: extents, dtype, order: Endian::Big, offset: 5, name: None };
            let source = RawSource::open(&path, &path, &layout).unwrap();
            assert_eq!(suites::source::check(&source), 1);
            assert!(variable(&source, 0).1 == bytes, "{dtype} {shape:?}");
        }
    }
}

#[test]
fn raw_files_of_another_size_are_refused_with_both_sizes() {
    let folder = Folder::new();
    let path = folder.file("a.bin");
    std::fs::write(&path, [0; 97]).unwrap();
    let refused = |layout: &str, words: &[&str]| {
        let error = RawSource::open(&path, &path, &layout.parse().unwrap()).unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    refused("shape=3x8,type=f32", &["a.bin", "means 96 bytes", "has 97", "24 elements of f32 and 1 bytes over"]);
    refused("shape=3x8,type=f32,offset=2", &["means 96 bytes", "95 from byte 2 on"]);
    refused("shape=3x8,type=f32,offset=200", &["the file has 0"]);
    refused("shape=18446744073709551615x2,type=f32", &["larger than any file"]);
    refused("shape=0x18446744073709551615x2,type=f32", &["larger than any file"]);
    let text = write(
        MemorySource::new(vec![
            ("a", DType::F32, vec![2], vec![], vec![0; 8]),
            ("b", DType::F32, vec![2], vec![], vec![0; 8]),
        ]),
        &folder.file("b.bin"),
    );
    let text = text.unwrap_err().to_string();
    assert!(text.contains("one variable, not 2") && text.contains("--variable: a, b"), "{text}");
    assert_eq!(folder.names(), ["a.bin"], "nothing is left behind");
}

#[test]
fn one_of_several_variables_can_be_chosen() {
    let folder = Folder::new();
    let source = || {
        let field =
            |text: &str| FieldSpec { shape: Some(vec![3]), dtype: Some(DType::U8), ..FieldSpec::parse(text).unwrap() };
        Box::new(Generated::new(&[field("a=constant:1"), field("b=constant:7")]).unwrap())
    };
    let chosen = select(source(), &["b".to_owned()]).unwrap();
    assert_eq!(suites::source::check(&*chosen), 1);
    let path = folder.file("b.raw");
    repack_source(&engine(1), chosen, &path, &Settings::default(), &RepackOptions::default(), &Silent).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [7, 7, 7]);
    let text = select(source(), &["c".to_owned()]).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("'c'") && text.contains("a, b"), "{text}");
    let settings = |text: &str| Settings { chain: Some(text.parse().unwrap()), ..Settings::default() };
    let one = select(source(), &["b".to_owned()]).unwrap();
    let options = RepackOptions { replaces: Replaces::Anything, ..RepackOptions::default() };
    let error = repack_source(&engine(1), one, &path, &settings("shuffle"), &options, &Silent).unwrap_err();
    assert!(error.to_string().contains("--chain"), "{error}");
}

/// Numbers of every type are written as texts that lead back to the same bits, but for NaN, of which there is one.
#[test]
fn tables_keep_every_number() {
    let folder = Folder::new();
    let mut random = Random::new(9);
    for dtype in DType::NUMBERS {
        let rows = 3000;
        let mut bytes: Vec<u8> = (0..rows * dtype.size()).map(|_| random.bits().to_le_bytes()[3]).collect();
        bytes.extend(sample(dtype, &[40], Pattern::Decimal, 1).bytes);
        bytes.extend(sample(dtype, &[40], Pattern::Special, 1).bytes);
        let len = (bytes.len() / dtype.size()) as u64;
        let path = folder.file("t.tsv");
        write(MemorySource::new(vec![("a", dtype, vec![len], vec![], bytes.clone())]), &path).unwrap();
        let source = open_csv(&path).unwrap();
        let (info, found) = variable(&source, 0);
        assert_eq!((info.name(), info.shape.as_slice(), info.is_empty()), ("a", &[len][..], false));
        match dtype {
            DType::F64 => {
                for (a, b) in doubles(&bytes).iter().zip(doubles(&found)) {
                    assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{a:?} {b:?}");
                }
            }
            #[expect(clippy::cast_possible_truncation, reason = "back to the type that was written")]
            DType::F32 => {
                for (a, b) in bytes.as_chunks::<4>().0.iter().zip(doubles(&found)) {
                    let a = f32::from_le_bytes(*a);
                    assert!(a.to_bits() == (b as f32).to_bits() || (a.is_nan() && b.is_nan()), "{a:?} {b:?}");
                }
            }
            DType::F16 => assert_eq!(info.dtype, DType::F64),
            DType::U64 => assert_eq!((info.dtype, found), (DType::U64, bytes)),
            _ => {
                assert_eq!(info.dtype, DType::I64, "{dtype}");
                let cut: Vec<u8> =
                    found.as_chunks::<8>().0.iter().flat_map(|value| value[..dtype.size()].to_vec()).collect();
                assert!(cut == bytes, "{dtype}");
            }
        }
    }
}

#[test]
fn columns_and_matrices_and_missing_values() {
    let source = table(b"\xEF\xBB\xBF# station 7\ntime, T [K],\"a, b/c\"\n1,271.5,3\n2,,\n\n3,NaN,-4\n").unwrap();
    assert_eq!(suites::source::check(&source), 3);
    let (time, values) = variable(&source, 0);
    assert_eq!((time.name(), time.dtype, integers(&values)), ("time", DType::I64, vec![1, 2, 3]));
    assert_eq!(time.dimensions, [Some("row".to_owned())]);
    let (kelvin, values) = variable(&source, 1);
    let values = doubles(&values);
    assert_eq!((kelvin.name(), kelvin.dtype, values[0]), ("T [K]", DType::F64, 271.5));
    assert!(values[1].is_nan() && values[2].is_nan() && kelvin.fills.is_empty());
    let (third, values) = variable(&source, 2);
    let fill = -9_223_372_036_854_775_806;
    assert_eq!((third.name(), integers(&values)), ("a, b_c", vec![3, fill, -4]));
    assert_eq!(third.fills, [fill.cast_unsigned()]);
    assert!(third.attribute("_FillValue").is_some());

    for text in ["1;2;3\n4;5;6\n", "1 2  3\n 4\t5 6\n", "1\t2\t3\r\n4\t5\t6\r\n", "# 1,2\n1,2,3\n4,5,6"] {
        let source = table(text.as_bytes()).unwrap();
        assert_eq!(suites::source::check(&source), 1);
        let (matrix, values) = variable(&source, 0);
        assert_eq!(
            (matrix.name(), matrix.shape.as_slice(), integers(&values)),
            ("data", &[2, 3][..], vec![1, 2, 3, 4, 5, 6])
        );
    }
    let values = variable(&table(b"a\tb\n1\t\n\t\n\t2\n\n").unwrap(), 1).1;
    assert_eq!(integers(&values), [fill, fill, 2], "tabs separate missing values");
    assert_eq!(variable(&table(b"5\n6\n").unwrap(), 0).0.shape, [2]);
    assert_eq!(variable(&table(b"1,2.5\n3,4\n").unwrap(), 0).0.dtype, DType::F64);
    assert_eq!(variable(&table(b"a,b\n").unwrap(), 1).0.shape, [0]);
}

#[test]
fn bad_tables_are_refused_with_line_and_column() {
    let refused = |text: &[u8], words: &[&str]| {
        let error = table(text).map(|_| ()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}: not all of {words:?}");
    };
    refused(b"a,b\n1,2\n# x\n3\n", &["t.csv", "line 4", "1 values, where the first row has 2"]);
    refused(b"1 2\n3 4\n\n5 6 7\n", &["line 4", "3 values"]);
    refused(b"a,b\n1,2\n3,x4\n", &["line 3, column 2 ('b')", "'x4' is not a number"]);
    refused(b"a;b\n1;2,5\n", &["line 2, column 2 ('b')", "decimals with a point"]);
    refused(b"a,a\n1,2\n", &["line 1, column 2", "name of column 1"]);
    refused(b"", &["no rows"]);
    refused(b"# nothing\n", &["no rows"]);
    refused(b"a\n18446744073709551616\n", &["line 2, column 1", "64 bits", "decimal point"]);
    refused(b"a\n-1\n18446744073709551615\n", &["column 1 ('a')", "2^63"]);
    refused(b"a,b\n1,\xFF\n", &["line 2", "UTF-8"]);
    let large: String = (0..200_000).map(|i| format!("{i},1\n")).collect();
    refused(large.as_bytes(), &["4 MiB of memory", "--max-mem"]);
    let kind = table(&large.into_bytes()).map(|_| ()).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Usage);
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let folder = Folder::new();
    let refused = |arrays: Vec<NamedArray<'_>>, words: &[&str]| {
        let error = write(MemorySource::new(arrays), &folder.file("t.csv")).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}: not all of {words:?}");
        assert!(folder.names().is_empty(), "nothing is left behind");
    };
    let bytes = |name, shape: &[u64]| (name, DType::U8, shape.to_vec(), vec![], vec![7; 24]);
    refused(vec![bytes("a", &[2, 3, 4])], &["variable 'a'", "3 dimensions make no table", ".bin"]);
    refused(vec![bytes("a", &[2, 3, 4]), bytes("b", &[24])], &["make no table", "--variable: b (24)"]);
    refused(vec![bytes("a", &[24]), bytes("b", &[23])], &["make no table", "a (24), b (23)"]);
    refused(vec![bytes("1", &[24]), bytes("2", &[24])], &["all names are numbers"]);
    refused(vec![("s", DType::Opaque(3), vec![8], vec![], vec![7; 24])], &["variable 's'", "not strings"]);
    refused(vec![], &["make no table"]);
}

/// Random rows, separators and ends: every cell comes back.
#[test]
fn random_tables_come_back() {
    let mut random = Random::new(4);
    for _ in 0..200 {
        let (rows, columns) = (1 + random.below(40), 1 + random.below(7));
        let separator = [",", ";", "\t", " ", ", "][random.below(5)];
        let end = ["\n", "\r\n"][random.below(2)];
        let values: Vec<i64> = (0..rows * columns).map(|_| random.bits().cast_signed() >> random.below(64)).collect();
        let mut text = String::new();
        for row in values.chunks(columns) {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            text.push_str(&cells.join(separator));
            text.push_str(end);
        }
        let source = table(text.as_bytes()).unwrap();
        assert_eq!(integers(&variable(&source, 0).1), values, "{text:?}");
    }
}

/// Bytes that look like tables, and some that do not: an error or a source that keeps its word, never a panic.
#[test]
fn hostile_bytes_are_read_or_refused() {
    const PIECES: [&[u8]; 22] = [
        b"0",
        b"1",
        b"-7",
        b"2.5",
        b"1e9",
        b"nan",
        b"inf",
        b",",
        b",",
        b";",
        b"\t",
        b" ",
        b"\n",
        b"\n",
        b"\r\n",
        b"\"",
        b"#",
        b"a",
        b"\xFF",
        b"\xEF\xBB\xBF",
        b"18446744073709551615",
        b"\0",
    ];
    let mut random = Random::new(8);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..5000 {
        let text: Vec<u8> = (0..random.below(30)).flat_map(|_| PIECES[random.below(PIECES.len())].to_vec()).collect();
        match table(&text) {
            Ok(source) => {
                assert!(suites::source::check(&source) > 0);
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("t.csv"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(read > 100 && refused > 1000, "{read} read, {refused} refused");
}
