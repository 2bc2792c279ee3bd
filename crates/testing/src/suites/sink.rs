//! The conformance suite of sinks: what every format must do with chunks, and what every wrapper of a sink must pass on.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::memory::MemorySource;
use knarr_array::array::DType;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model, Variable};
use knarr_array::region::{Region, chunk_count, chunk_position, chunk_region, pad_chunk};
use knarr_flow::reserved::ReservedOffset;
use knarr_flow::store::{ChunkToReserve, EncodedChunk, Encoding, Sink, Source, Storage};

/// Makes a sink at a path for these variables of a model.
pub type Create<'a> = &'a dyn Fn(&Path, &Model, &[Storage]) -> Result<Box<dyn Sink>>;

/// A format, or a wrapper around one, as the suite needs it.
pub struct Format<'a> {
    /// Makes its sinks.
    pub create: Create<'a>,
    /// Opens what was published.
    pub open: &'a dyn Fn(&Path) -> Result<Box<dyn Source>>,
    /// How a chunk is stored whose bytes are its little-endian values.
    pub plain: &'a dyn Fn(DType) -> Encoding,
    /// Where outputs go: an empty directory.
    pub folder: &'a Path,
    /// Name of an output.
    pub name: &'a str,
}

/// Numbers of the variables that get chunks, and of one that gets none.
const FIELD: usize = 0;
const OTHER: usize = 1;
const BARE: usize = 2;
/// Fill value of the field.
const FILL: f32 = -9.0;
/// Shapes of the chunks.
const CHUNKS: [&[u64]; 2] = [&[2, 3], &[4]];

/// A field and another variable in chunks that do not divide them, and a variable for which no chunk ever comes.
fn source() -> MemorySource {
    let dimension = |name: &str, len| Dimension { name: name.to_owned(), len, unlimited: false };
    let axes = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect();
    let unit = Attribute { name: "units".to_owned(), value: AttributeValue::Text("K".to_owned()) };
    let field = Variable {
        dimensions: axes(&["y", "x"]),
        padding: u64::from(FILL.to_bits()),
        attributes: vec![unit],
        ..Variable::plain("/field", DType::F32, vec![5, 7])
    };
    let other = Variable { dimensions: axes(&["x"]), ..Variable::plain("/other", DType::I16, vec![7]) };
    let bare = Variable { padding: 5, ..Variable::plain("/bare", DType::U8, vec![3]) };
    let root =
        Group { path: "/".to_owned(), dimensions: vec![dimension("y", 5), dimension("x", 7)], ..Group::default() };
    MemorySource {
        model: Model { groups: vec![root], variables: vec![field, other, bare] },
        values: vec![
            (0..35u16).flat_map(|n| f32::from(n).to_le_bytes()).collect(),
            (0..7i16).flat_map(i16::to_le_bytes).collect(),
            vec![5; 3],
        ],
        damaged: None,
    }
}

impl Format<'_> {
    fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    fn storages(&self, source: &MemorySource) -> Vec<Storage> {
        let encoding = |variable: usize| (self.plain)(source.model.variables[variable].dtype);
        let chunks = CHUNKS.iter().enumerate();
        chunks
            .map(|(variable, chunk)| Storage { variable, chunk: chunk.to_vec(), encoding: encoding(variable) })
            .collect()
    }

    fn begun(&self, source: &MemorySource) -> Box<dyn Sink> {
        let made = (self.create)(&self.path(), &source.model, &self.storages(source));
        let mut sink = made.unwrap_or_else(|error| panic!("{error}"));
        sink.begin().unwrap_or_else(|error| panic!("{error}"));
        sink
    }

    /// Nothing of an output, or of work on one, is in the folder.
    fn is_clean(&self) -> bool {
        std::fs::read_dir(self.folder).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn read(&self, variable: usize) -> Vec<u8> {
        let found = (self.open)(&self.path()).unwrap_or_else(|error| panic!("{error}"));
        let name = source().model.variables[variable].name().to_owned();
        let at = found.model().variables.iter().position(|variable| variable.name() == name);
        let at = at.unwrap_or_else(|| panic!("{name} is missing"));
        let shape = &found.model().variables[at].shape;
        let mut values = Vec::new();
        found.read_region(at, &Region::whole(shape), &mut values).unwrap_or_else(|error| panic!("{error}"));
        values
    }

    fn remove(&self) {
        let path = self.path();
        let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Writes chunk number `index` of the field.
fn put(sink: &mut dyn Sink, source: &MemorySource, index: u64) -> Result<()> {
    put_of(FIELD, sink, source, index)
}

fn put_of(variable: usize, sink: &mut dyn Sink, source: &MemorySource, index: u64) -> Result<()> {
    let (position, bytes) = chunk_of(variable, source, index)?;
    sink.put(EncodedChunk { variable, position: &position, bytes: &bytes, filter_mask: 0 })
}

/// Gives the chunk a place, and returns that and its bytes, which are not written.
fn reserve_of(sink: &mut dyn Sink, source: &MemorySource, index: u64) -> Result<(ReservedOffset, Vec<u8>)> {
    let (position, bytes) = chunk_of(FIELD, source, index)?;
    let length = bytes.len() as u64;
    let chunk = ChunkToReserve { variable: FIELD, position: &position, length, filter_mask: 0 };
    sink.reserve(chunk).map(|reserved| (reserved, bytes))
}

/// Position and bytes of a chunk.
fn chunk_of(variable: usize, source: &MemorySource, index: u64) -> Result<(Vec<u64>, Vec<u8>)> {
    let (info, chunk) = (&source.model.variables[variable], CHUNKS[variable]);
    let position = chunk_position(&info.shape, chunk, index);
    let region = chunk_region(&info.shape, chunk, &position);
    let (mut values, mut padded) = (Vec::new(), Vec::new());
    source.read_region(variable, &region, &mut values)?;
    pad_chunk(&values, &region.count, chunk, &info.padding_bytes(), &mut padded);
    Ok((position, padded))
}

fn chunks() -> u64 {
    chunk_count(&[5, 7], &[2, 3])
}

/// Runs every check.
pub fn check(format: &Format<'_>) {
    assert!(format.is_clean(), "the folder must be empty");
    whole_outputs_appear_at_once(format);
    what_never_came_is_unwritten(format);
    dropped_leaves_nothing(format);
    attributes_come_after_values(format);
    what_cannot_be_put_is_an_error(format);
    chunks_that_others_write_lie_where_they_would(format);
    assert!(format.is_clean());
}

/// Chunks in any order, from any thread; nothing has the name before all is there.
fn whole_outputs_appear_at_once(format: &Format<'_>) {
    let source = source();
    let mut sink = format.begun(&source);
    for index in (0..chunks()).rev() {
        let sink = &mut sink;
        let source = &source;
        std::thread::scope(|scope| {
            let put = scope.spawn(move || put(sink.as_mut(), source, index));
            put.join().unwrap_or_else(|_| panic!("panicked")).unwrap_or_else(|error| panic!("{error}"));
        });
        assert!(!format.path().exists(), "it has its name before it is whole");
    }
    [1, 0]
        .into_iter()
        .try_for_each(|index| put_of(OTHER, sink.as_mut(), &source, index))
        .unwrap_or_else(|error| panic!("{error}"));
    let closed = sink.close().unwrap_or_else(|error| panic!("{error}"));
    assert!(!format.path().exists());
    let bytes = sink.commit().unwrap_or_else(|error| panic!("{error}"));
    assert!(bytes > 0 && closed.is_none_or(|closed| closed == bytes), "{closed:?}, {bytes}");
    for variable in [FIELD, OTHER, BARE] {
        assert_eq!(format.read(variable), source.values[variable]);
    }
    // It is there now, and nobody said that it may be replaced.
    let again = (format.create)(&format.path(), &source.model, &format.storages(&source));
    let again = again.and_then(|mut sink| sink.begin());
    assert_eq!(again.err().map(|error| error.kind()), Some(ErrorKind::Exists));
    assert_eq!(format.read(FIELD), source.values[FIELD]);
    format.remove();
    assert!(format.is_clean());
}

fn what_never_came_is_unwritten(format: &Format<'_>) {
    let source = source();
    let mut sink = format.begun(&source);
    put(sink.as_mut(), &source, 4).unwrap_or_else(|error| panic!("{error}"));
    sink.commit().unwrap_or_else(|error| panic!("{error}"));
    let Region { start, count } = chunk_region(&[5, 7], &[2, 3], &chunk_position(&[5, 7], &[2, 3], 4));
    let is_in = |at: usize, axis: usize| (start[axis]..start[axis] + count[axis]).contains(&(at as u64));
    for (at, value) in format.read(FIELD).chunks_exact(4).enumerate() {
        let expected = if is_in(at / 7, 0) && is_in(at % 7, 1) {
            &source.values[FIELD][4 * at..4 * at + 4]
        } else {
            &FILL.to_le_bytes()[..]
        };
        assert_eq!(value, expected, "element {at}");
    }
    format.remove();
}

fn dropped_leaves_nothing(format: &Format<'_>) {
    let source = source();
    let mut sink = format.begun(&source);
    put(sink.as_mut(), &source, 0).unwrap_or_else(|error| panic!("{error}"));
    drop(sink);
    assert!(format.is_clean(), "a sink that was dropped leaves something");
    let mut sink = format.begun(&source);
    sink.close().unwrap_or_else(|error| panic!("{error}"));
    drop(sink);
    assert!(format.is_clean(), "a sink that was dropped after close leaves something");
}

fn attributes_come_after_values(format: &Format<'_>) {
    let source = source();
    let text =
        |name: &str, text: &str| Attribute { name: name.to_owned(), value: AttributeValue::Text(text.to_owned()) };
    let mut sink = format.begun(&source);
    (0..chunks()).try_for_each(|index| put(sink.as_mut(), &source, index)).unwrap_or_else(|error| panic!("{error}"));
    let mut change = || -> Result<()> {
        sink.annotate(Some(FIELD), &[text("note", "first")])?;
        sink.annotate(Some(FIELD), &[text("note", "second")])?;
        sink.remove_attributes(FIELD, &["units".to_owned(), "absent".to_owned()])?;
        sink.annotate(None, &[text("history", "made")])
    };
    change().unwrap_or_else(|error| panic!("{error}"));
    sink.commit().unwrap_or_else(|error| panic!("{error}"));
    let found = (format.open)(&format.path()).unwrap_or_else(|error| panic!("{error}"));
    let field = found.model().variables.iter().find(|variable| variable.name() == "field");
    let of = |name: &str| field.and_then(|field| field.attribute(name)).and_then(AttributeValue::text);
    assert_eq!((of("note"), of("units")), (Some("second"), None));
    let root = &found.model().groups[0].attributes;
    assert!(root.iter().any(|attribute| attribute.name == "history" && attribute.value.text() == Some("made")));
    drop(found);
    assert_eq!(format.read(FIELD), source.values[FIELD]);
    format.remove();
}

fn what_cannot_be_put_is_an_error(format: &Format<'_>) {
    let source = source();
    let mut sink = format.begun(&source);
    let bytes = [0; 24];
    for (variable, position) in
        [(99, vec![0, 0]), (FIELD, vec![3, 0]), (FIELD, vec![0, 0, 0]), (FIELD, vec![u64::MAX; 2])]
    {
        let chunk = EncodedChunk { variable, position: &position, bytes: &bytes, filter_mask: 0 };
        assert!(sink.put(chunk).is_err(), "variable {variable}, chunk {position:?}");
    }
    assert!(sink.annotate(Some(99), &[]).is_err() || sink.remove_attributes(99, &["x".to_owned()]).is_err());
    // After an error it can still be given up.
    drop(sink);
    assert!(format.is_clean());
}

/// The same bytes as if all chunks were put, whether others write before or after those that are put next.
fn chunks_that_others_write_lie_where_they_would(format: &Format<'_>) {
    let source = source();
    let write = |supports_external_writes: bool| -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut sink = format.begun(&source);
        if supports_external_writes && !sink.supports_external_writes() {
            assert!(reserve_of(sink.as_mut(), &source, 0).is_err(), "places that nobody can write");
            return Ok(Vec::new());
        }
        let mut late = Vec::new();
        for index in 0..chunks() {
            if supports_external_writes && index % 3 > 0 {
                let (place, bytes) = reserve_of(sink.as_mut(), &source, index)?;
                let file =
                    OpenOptions::new().write(true).open(&place.path).map_err(|e| Error::write(&place.path, &e))?;
                let length = file.metadata().map_err(|e| Error::write(&place.path, &e))?.len();
                assert!(place.offset + bytes.len() as u64 <= length, "others leave the length as it is");
                late.push((file, place, bytes));
            } else {
                put(sink.as_mut(), &source, index)?;
            }
            if index % 2 == 0 {
                write_all(&mut late)?;
            }
        }
        write_all(&mut late)?;
        sink.close()?;
        sink.commit()?;
        assert_eq!(format.read(FIELD), source.values[FIELD]);
        let files = files_of(&format.path()).map_err(|e| Error::read(&format.path(), &e))?;
        format.remove();
        Ok(files)
    };
    let [put, reserved] = [false, true]
        .map(|supports_external_writes| write(supports_external_writes).unwrap_or_else(|error| panic!("{error}")));
    assert!(reserved.is_empty() || reserved == put, "other bytes than those of a sink that writes all");
    assert!(format.is_clean());
}

fn write_all(late: &mut Vec<(File, ReservedOffset, Vec<u8>)>) -> Result<()> {
    let written = |(file, place, bytes): (File, ReservedOffset, Vec<u8>)| {
        file.write_all_at(&bytes, place.offset).map_err(|error| Error::write(&place.path, &error))
    };
    late.drain(..).try_for_each(written)
}

/// Paths and bytes of a file, or of all files in a directory.
fn files_of(path: &Path) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    if path.is_file() {
        return Ok(vec![(path.to_owned(), std::fs::read(path)?)]);
    }
    let mut entries: Vec<PathBuf> = std::fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let files: Vec<_> = entries.iter().map(|entry| files_of(entry)).collect::<std::io::Result<_>>()?;
    Ok(files.concat())
}
