//! Other nodes encode and write chunks of values that they have: the bytes are the same, and wrong answers are refused.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use knarr_array::array::DType;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::model::{Attribute, Model};
use knarr_array::region::{Region, pad_chunk};
use knarr_choose::form::FormatLimits;
use knarr_choose::plan::Plan;
use knarr_codec::codec::{CodecList, ReaderLevel};
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::pipeline::{Buffers, Execution, execute, plan};
use knarr_flow::remote_encoder::{ChunkToEncode, PendingChunk, Proven, RemoteEncoder};
use knarr_flow::reserved::ReservedOffset;
use knarr_flow::settings::{ChunkRule, Settings};
use knarr_flow::store::{ChunkToReserve, EncodedChunk, Sink, Source};
use knarr_testing::data::{Pattern, sample};
use knarr_testing::memory::{Arrived, MemorySink, MemorySource};

/// What the other nodes do.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Encode,
    /// The second node does not.
    Decline,
    /// A value is another one than its node says.
    Change,
    /// The checksum is another one.
    Lie,
    Lengthen,
    Mask,
    /// Nothing is said of the bound of a lossy chain, or something of that of a lossless one.
    Forget,
    /// What may be kept is, and is written where it belongs.
    Keep,
    /// Only some of it.
    KeepSome,
    /// None of it is written.
    Nowhere,
    /// It does not become durable.
    Unsynced,
}

/// Values in columns of 16 along the last axis: every third column is here, the others are on two nodes.
struct TwoNodes {
    values: MemorySource,
    manner: Manner,
    /// Chunks of other nodes that were read as values.
    fetched: AtomicU64,
    /// Encoded chunks, by their numbers.
    kept: Mutex<Vec<Vec<u8>>>,
    synced: AtomicU64,
}

impl TwoNodes {
    fn new(manner: Manner) -> Self {
        let sample = sample(DType::F32, &[9, 50, 100], Pattern::Smooth, 5);
        let values = MemorySource::new(vec![("v", DType::F32, vec![9, 50, 100], sample.spec.fills, sample.bytes)]);
        Self { values, manner, fetched: AtomicU64::new(0), kept: Mutex::default(), synced: AtomicU64::new(0) }
    }

    fn owner(region: &Region) -> Option<usize> {
        let (first, last) = (region.start[2] / 16, (region.end(2) - 1) / 16);
        if first == last { usize::try_from(first % 3).unwrap().checked_sub(1) } else { None }
    }
}

impl Source for TwoNodes {
    fn model(&self) -> &Model {
        self.values.model()
    }

    fn path(&self) -> &Path {
        self.values.path()
    }

    fn format(&self) -> &str {
        self.values.format()
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        self.fetched.fetch_add(u64::from(Self::owner(region).is_some()), Ordering::Relaxed);
        self.values.read_region(variable, region, out)
    }

    fn is_written(&self, _: usize, _: &Region) -> bool {
        true
    }

    fn remote_encoder(&self) -> Option<&dyn RemoteEncoder> {
        Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl RemoteEncoder for TwoNodes {
    fn nodes(&self) -> usize {
        2
    }

    fn node_of(&self, _: usize, region: &Region) -> Option<usize> {
        Self::owner(region)
    }

    fn encode(
        &self,
        node: usize,
        chunk: &ChunkToEncode<'_>,
        may_keep: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Proven>> {
        let ChunkToEncode { variable, region, padding, recipe } = *chunk;
        assert_eq!(Self::owner(region), Some(node));
        if self.manner == Manner::Decline && node == 1 {
            return Ok(None);
        }
        let (mut part, mut raw, mut buffers) = (Vec::new(), Vec::new(), Buffers::default());
        self.values.read_region(variable, region, &mut part)?;
        if self.manner == Manner::Change {
            part[1] ^= 1;
        }
        let shape: Vec<u64> = recipe.spec.shape.iter().map(|&n| n as u64).collect();
        pad_chunk(&part, &region.count, &shape, padding, &mut raw);
        let encoder = recipe.encoder(&CodecList::pure())?;
        let mut outcome = encoder.encode(&raw, &mut buffers, out)?;
        let mut values = crc32c::crc32c(encoder.read_back(&raw, &outcome, &buffers));
        match self.manner {
            Manner::Encode | Manner::Decline => {}
            Manner::Keep | Manner::KeepSome | Manner::Nowhere | Manner::Unsynced if may_keep => {
                let mut kept = self.kept.lock().unwrap();
                kept.push(std::mem::take(out));
                let (number, bytes) = (kept.len() as u64 - 1, kept.last().unwrap());
                let chunk = PendingChunk { number, length: bytes.len() as u64, checksum: crc32c::crc32c(bytes) };
                return Ok(Some(Proven { outcome, values, kept: Some(chunk) }));
            }
            Manner::Keep | Manner::KeepSome | Manner::Nowhere | Manner::Unsynced => {}
            Manner::Change => values = 7,
            Manner::Lie => values ^= 1,
            Manner::Lengthen => out.resize(raw.len() + 1, 0),
            Manner::Mask => outcome.filter_mask = 0x4000,
            Manner::Forget => outcome.observed = outcome.observed.xor(Some(Default::default())),
        }
        Ok(Some(Proven { outcome, values, kept: None }))
    }

    fn write(&self, _: usize, chunks: &[(PendingChunk, ReservedOffset)]) -> bool {
        let kept = self.kept.lock().unwrap();
        for (chunk, ReservedOffset { path, offset }) in chunks {
            if self.manner == Manner::KeepSome && chunk.number > 1 {
                return false;
            }
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let bytes = &kept[usize::try_from(chunk.number).unwrap()];
            assert!(offset + chunk.length <= file.metadata().unwrap().len(), "the output is long enough");
            if self.manner != Manner::Nowhere {
                file.write_all_at(bytes, *offset).unwrap();
            }
        }
        self.manner != Manner::Nowhere
    }

    fn sync(&self, _: usize) -> Result<()> {
        self.synced.fetch_add(1, Ordering::Relaxed);
        if self.manner == Manner::Unsynced { Err(Error::new(ErrorKind::Write, "a full disk")) } else { Ok(()) }
    }
}

/// A file with one chunk behind the other.
struct FileSink {
    path: PathBuf,
    end: u64,
    supports_external_writes: bool,
}

impl FileSink {
    fn new(name: &str, supports_external_writes: bool) -> Self {
        let path = std::env::temp_dir().join(format!("knarr-reserved-{name}-{}", std::process::id()));
        std::fs::write(&path, []).unwrap();
        Self { path, end: 0, supports_external_writes }
    }

    fn file(&self) -> File {
        OpenOptions::new().write(true).open(&self.path).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes = std::fs::read(&self.path).unwrap();
        std::fs::remove_file(&self.path).unwrap();
        bytes
    }
}

impl Sink for FileSink {
    fn put(&mut self, chunk: EncodedChunk<'_>) -> Result<()> {
        self.file().write_all_at(chunk.bytes, self.end).unwrap();
        self.end += chunk.bytes.len() as u64;
        Ok(())
    }

    fn supports_external_writes(&self) -> bool {
        self.supports_external_writes
    }

    fn reserve(&mut self, chunk: ChunkToReserve<'_>) -> Result<ReservedOffset> {
        let offset = self.end;
        self.end += chunk.length;
        self.file().set_len(self.end).unwrap();
        Ok(ReservedOffset { path: self.path.clone(), offset })
    }

    fn remove_attributes(&mut self, _: usize, _: &[String]) -> Result<()> {
        Ok(())
    }

    fn annotate(&mut self, _: Option<usize>, _: &[Attribute]) -> Result<()> {
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        Ok(self.end)
    }
}

fn settings(quality: &str, chain: &str) -> Settings {
    Settings {
        chain: (!chain.is_empty()).then(|| chain.parse().unwrap()),
        quality: quality.parse().unwrap(),
        chunks: "4x50x16".parse::<ChunkRule>().unwrap(),
        ..Settings::default()
    }
}

fn write(source: &dyn Source, settings: &Settings, jobs: usize) -> Result<(Plan, Vec<Arrived>, Execution)> {
    let mut sink = MemorySink::default();
    let (plan, execution) = write_into(&mut sink, source, settings, (jobs, 1 << 30))?;
    Ok((plan, sink.chunks(), execution))
}

fn write_into(
    sink: &mut dyn Sink,
    source: &dyn Source,
    settings: &Settings,
    (jobs, max_mem): (usize, u64),
) -> Result<(Plan, Execution)> {
    const TARGET: FormatLimits = FormatLimits::hdf5(ReaderLevel::Knarr);
    let engine = Engine { jobs, max_mem, ..Engine::new(CodecList::pure()) };
    let plan = plan(&engine, source, settings, TARGET, &Silent)?;
    let execution = execute(&engine, source, &plan, TARGET, true, sink, &Silent)?;
    Ok((plan, execution))
}

/// Chains with and without a form of their own in HDF5, lossless and lossy, and one that stores.
const CASES: [(&str, &str); 4] =
    [("lossless", "shuffle | snappy"), ("lossless", ""), ("max_abs_error=0.01", ""), ("lossless", "raw")];

#[test]
fn the_bytes_are_the_same_wherever_chunks_are_encoded() {
    for (quality, chain) in CASES {
        let settings = settings(quality, chain);
        let (_, expected, alone) = write(&TwoNodes::new(Manner::Encode).values, &settings, 2).unwrap();
        for manner in [Manner::Encode, Manner::Decline] {
            for jobs in [1, 3] {
                let source = TwoNodes::new(manner);
                let (_, chunks, execution) = write(&source, &settings, jobs).unwrap();
                assert!(chunks == expected, "{quality} {chain} {manner:?}");
                let (report, before) = (execution.variables[&0], alone.variables[&0]);
                // 3 rows of 7 columns, of which 2 are at each of the other nodes.
                let remote_encoder = if manner == Manner::Encode { 12 } else { 6 };
                assert_eq!((report.chunks, report.elsewhere_chunks), (21, remote_encoder), "{quality} {chain}");
                assert_eq!(report.observed, before.observed);
                assert_eq!(report.encoded_bytes, before.encoded_bytes);
                assert_eq!(report.stored_chunks, before.stored_chunks);
            }
        }
    }
}

/// Memory for about 25 chunks of 640 bytes in the window.
const LITTLE: u64 = 1 << 16;

#[test]
fn places_write_what_they_keep_where_it_belongs() {
    for (quality, chain) in CASES {
        // A window of some chunks, so that most are asked for when the output can be reserved.
        let settings = Settings { chunks: "1x10x16".parse().unwrap(), ..settings(quality, chain) };
        let mut expected = FileSink::new("expected", false);
        write_into(&mut expected, &TwoNodes::new(Manner::Keep), &settings, (1, LITTLE)).unwrap();
        let expected = expected.bytes();
        for manner in [Manner::Keep, Manner::KeepSome, Manner::Nowhere, Manner::Decline] {
            for jobs in [1, 3] {
                let (source, mut sink) = (TwoNodes::new(manner), FileSink::new("placed", true));
                let (_, execution) = write_into(&mut sink, &source, &settings, (jobs, LITTLE)).unwrap();
                assert!(sink.bytes() == expected, "{quality} {chain} {manner:?}");
                let report = execution.variables[&0];
                assert_eq!(report.encoded_bytes, expected.len() as u64);
                let kept = source.kept.lock().unwrap().len() as u64;
                assert_eq!(kept > 0, manner != Manner::Decline, "{report:?}");
                // The first of each node and one of sixteen are decoded here.
                assert!(kept <= report.elsewhere_chunks.saturating_sub(2), "{kept} of {report:?}");
                assert!(report.placed_chunks <= kept);
                match manner {
                    Manner::Keep => assert_eq!(report.placed_chunks, kept),
                    Manner::Nowhere => assert_eq!(report.placed_chunks, 0, "they were made again"),
                    _ => {}
                }
                let synced = source.synced.into_inner();
                match manner {
                    Manner::Keep => assert!((1..=2).contains(&synced), "once for each node that has written"),
                    // What comes before the first that is not written may have been written by itself.
                    Manner::KeepSome => assert!(synced <= 2),
                    _ => assert_eq!(synced, 0),
                }
            }
        }
        let mut sink = FileSink::new("unsynced", true);
        let error = write_into(&mut sink, &TwoNodes::new(Manner::Unsynced), &settings, (2, LITTLE)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Write, "{error}");
        sink.bytes();
    }
}

#[test]
fn values_of_other_places_are_not_read() {
    // What is stored as it is, is not looked at to choose a chain either.
    let source = TwoNodes::new(Manner::Encode);
    write(&source, &settings("lossless", "shuffle | snappy"), 2).unwrap();
    let chosen = source.fetched.swap(0, Ordering::Relaxed);
    let source = TwoNodes::new(Manner::Decline);
    write(&source, &settings("lossless", "shuffle | snappy"), 2).unwrap();
    assert_eq!(source.fetched.into_inner(), chosen + 6);
}

#[test]
fn what_cannot_be_is_refused() {
    for (quality, chain) in CASES {
        for manner in [Manner::Change, Manner::Lie, Manner::Lengthen, Manner::Mask, Manner::Forget] {
            let error: Error = write(&TwoNodes::new(manner), &settings(quality, chain), 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{quality} {chain} {manner:?}: {error}");
            assert!(error.to_string().contains("chunk ("), "{error}");
        }
    }
}
