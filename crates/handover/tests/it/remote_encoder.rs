//! A node encodes chunks of values that it has.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::region::{Region, Regions, chunk_region, pad_chunk};
use knarr_codec::codec::CodecList;
use knarr_flow::output::temporary_name;
use knarr_flow::pipeline::{Buffers, Container, Recipe};
use knarr_flow::remote_encoder::{ChunkToEncode, RemoteEncoder};
use knarr_flow::reserved::ReservedOffset;
use knarr_handover::{
    AssembledPuts, Encoding, PendingChunks, Put, PutLog, Question, RankValues, RemoteRank, Room, answer,
};
use knarr_link::{Answers, Link};

const ROWS: u64 = 64;
const COLUMNS: u64 = 96;
/// Columns of a rank: those of the first are here, those of the other three on another node.
const WIDTH: u64 = 24;

/// What becomes of an answer.
type Change = fn(Vec<u8>) -> Result<Vec<u8>>;

/// The aggregator of the other node: its answers, or others.
struct Aggregator {
    folder: PathBuf,
    asked: Mutex<Vec<Vec<u8>>>,
    /// Bytes of answers.
    sent: AtomicU64,
    /// Changes answers about chunks.
    change: Change,
    kept: PendingChunks,
    /// Whether it writes what it says that it has written.
    writes: bool,
}

impl Aggregator {
    fn new(folder: &Path, change: Change) -> Arc<Self> {
        Arc::new(Self::who_writes(folder, change, true))
    }

    fn who_writes(folder: &Path, change: Change, writes: bool) -> Self {
        let (asked, sent, kept) = (Mutex::default(), AtomicU64::new(0), PendingChunks::new(1 << 16));
        Self { folder: folder.to_owned(), asked, sent, change, kept, writes }
    }

    fn answered(&self, question: &[u8]) -> Result<Vec<u8>> {
        let values = |rank: usize| self.folder.join(format!("values.{rank}"));
        match Question::from_bytes(question)? {
            Question::Chunk { file, chunk, may_keep } => {
                self.asked.lock().unwrap().push(question.to_vec());
                let keep = may_keep.then_some((&self.kept, file.as_str()));
                let answer = Encoding::default().answer(&CodecList::pure(), &chunk, values, keep)?;
                (self.change)(answer)
            }
            Question::Write { file, path, chunks } => {
                if self.writes {
                    self.kept.write(&file, &path, &chunks)?;
                }
                (self.change)(Vec::new())
            }
            Question::Sync { file } => self.kept.sync(&file).map(|()| Vec::new()),
            question @ (Question::Log { rank, .. } | Question::Values { rank, .. }) => {
                answer(&question, &values(rank), &self.folder.join(format!("log.{rank}"))).map(|(bytes, _)| bytes)
            }
            Question::Image { .. }
            | Question::Number { .. }
            | Question::Outcome { .. }
            | Question::Ended { .. }
            | Question::Bounds { .. } => Err(Error::usage("nobody asks")),
        }
    }
}

impl Answers for Aggregator {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        self.answered(question)
    }
}

/// To the aggregator, counting.
struct Counting(Arc<Aggregator>);

impl Link for Counting {
    fn node(&self) -> &str {
        "b"
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>> {
        let answer = self.0.answered(question)?;
        self.0.sent.fetch_add(answer.len() as u64, Ordering::Relaxed);
        Ok(answer)
    }
}

/// Four ranks put their columns: smooth values, row by row and twice, the second time every other row. The last three rows of
/// the third rank are never put, and some rows of the fourth lie in its second file.
fn put_all(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for rank in 0..4u64 {
        let more = folder.join(format!("disk.{rank}"));
        let most = if rank == 3 { 4096 + 4000 } else { u64::MAX };
        let room = Room::of_process(folder, most, more);
        let mut log = PutLog::create(room, &format!("values.{rank}"), &format!("log.{rank}")).unwrap();
        for (order, step) in [(0, 1), (1, 2)] {
            let rows = if rank == 2 { ROWS - 3 } else { ROWS }.div_ceil(step);
            for first in (0..rows).step_by(8) {
                let count = [8.min(rows - first), WIDTH];
                let region = Region::new([first * step, rank * WIDTH], count);
                let values: Vec<u8> = (0..count[0] * count[1])
                    .flat_map(|n| {
                        let (row, column) = ((first + n / WIDTH) * step, rank * WIDTH + n % WIDTH);
                        let value = u32::try_from(1000 * (1 + order) + row * 3 + column / 5).unwrap();
                        value.to_le_bytes()
                    })
                    .collect();
                let offset = log.reserve(values.len() as u64).unwrap();
                log.write(offset, DType::F32, &values).unwrap();
                let stride = if step == 1 { Vec::new() } else { vec![step, 1] };
                let boxes = Regions::from(&region);
                log.push(&[Put { variable: 0, dtype: DType::U32, boxes, stride, parts: Vec::new(), order, offset }])
                    .unwrap();
            }
        }
    }
}

fn here(folder: &Path, rank: usize) -> RankValues {
    RankValues::Here { values: folder.join(format!("values.{rank}")), log: folder.join(format!("log.{rank}")) }
}

fn apart(folder: &Path, aggregator: &Arc<Aggregator>) -> AssembledPuts {
    let link: Arc<dyn Link> = Arc::new(Counting(Arc::clone(aggregator)));
    let there = |rank| {
        RankValues::There(RemoteRank {
            link: Arc::clone(&link),
            file: "f".to_owned(),
            rank,
            tuner: None,
            bounded: None,
        })
    };
    let ranks = (0..4).map(|rank| if rank == 0 { here(folder, rank) } else { there(rank) });
    AssembledPuts::of(u64::MAX, ranks).unwrap()
}

fn recipe(chunk: &[u64], chain: &str) -> Recipe {
    let shape: Vec<usize> = chunk.iter().map(|&n| usize::try_from(n).unwrap()).collect();
    let (chain, spec) = (chain.parse().unwrap(), ArraySpec::new(DType::U32, shape));
    Recipe { chain, fallback: None, spec, bound: None, verify: true, container: Container::Frame }
}

const PADDING: [u8; 4] = [9, 0, 0, 0];

/// A folder for a test, which is empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("knarr-elsewhere-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    put_all(&folder);
    folder
}

#[test]
fn chunks_come_encoded_as_they_would_be_here_and_their_values_do_not() {
    let folder = folder("same");
    let near = AssembledPuts::of(u64::MAX, (0..4).map(|rank| here(&folder, rank))).unwrap();
    assert_eq!(near.nodes(), 0);
    // Chunks that ranks have alone, some that lie across two of them, and some that reach beyond the variable.
    for chunk in [[16, 24], [20, 12], [64, 48], [7, 10]] {
        let aggregator = Aggregator::new(&folder, Ok);
        let remote = apart(&folder, &aggregator);
        let logs = aggregator.sent.swap(0, Ordering::Relaxed);
        let (recipe, mut buffers) = (recipe(&chunk, "shuffle | snappy"), Buffers::default());
        let encoder = recipe.encoder(&CodecList::pure()).unwrap();
        let (mut raw_bytes, mut encoded) = (0, 0);
        for row in 0..ROWS.div_ceil(chunk[0]) {
            for column in 0..COLUMNS.div_ceil(chunk[1]) {
                let region = chunk_region(&[ROWS, COLUMNS], &chunk, &[row, column]);
                let node = remote.node_of(0, &region);
                // It is on the other node unless it has some of the first rank's columns.
                let is_written = near.is_written(0, &region);
                assert_eq!(node, (region.start[1] >= WIDTH && is_written).then_some(0), "{region:?}");
                let Some(node) = node else { continue };
                let (mut part, mut raw, mut expected) = (Vec::new(), Vec::new(), Vec::new());
                near.read(0, &region, &PADDING, &mut part).unwrap();
                pad_chunk(&part, &region.count, &chunk, &PADDING, &mut raw);
                let outcome = encoder.encode(&raw, &mut buffers, &mut expected).unwrap();
                let asked = ChunkToEncode { variable: 0, region: &region, padding: &PADDING, recipe: &recipe };
                let mut out = vec![1; 5];
                let proven = remote.encode(node, &asked, false, &mut out).unwrap().unwrap();
                assert!(out == expected, "{region:?}");
                assert_eq!(proven.values, crc32c::crc32c(&raw));
                assert_eq!(proven.outcome.filter_mask, outcome.filter_mask);
                raw_bytes += part.len() as u64;
                encoded += out.len() as u64;
            }
        }
        let sent = aggregator.sent.load(Ordering::Relaxed);
        let told = 400 * aggregator.asked.lock().unwrap().len() as u64;
        assert!(logs > 0 && raw_bytes > 8000 && encoded < raw_bytes / 2, "{encoded} of {raw_bytes}");
        assert!(sent <= encoded + told, "{sent} bytes for {encoded}: values came along");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Asks for one chunk.
fn ask(remote: &AssembledPuts, chunk: [u64; 2], chain: &str) -> bool {
    let (region, recipe) = (Region::new([0, WIDTH], chunk), recipe(&chunk, chain));
    let asked = ChunkToEncode { variable: 0, region: &region, padding: &PADDING, recipe: &recipe };
    let mut out = Vec::new();
    remote.encode(0, &asked, false, &mut out).unwrap().is_some()
}

#[test]
fn a_node_that_does_not_encode_is_not_asked_again_and_its_values_are_read() {
    let folder = folder("declines");
    let changes: [Change; 5] = [
        |_| Err(Error::unsupported("another version")),
        |_| Ok(Vec::new()),
        |answer| Ok(answer[..3].to_vec()),
        |mut answer| {
            answer[2] = 0x7F;
            Ok(answer)
        },
        |mut answer| {
            answer[5] = b'?';
            Ok(answer)
        },
    ];
    for change in changes {
        let aggregator = Aggregator::new(&folder, change);
        let remote = apart(&folder, &aggregator);
        assert!(!ask(&remote, [8, 8], "snappy") && !ask(&remote, [8, 8], "snappy"));
        assert_eq!(aggregator.asked.lock().unwrap().len(), 1);
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        let near = AssembledPuts::of(u64::MAX, (0..4).map(|rank| here(&folder, rank))).unwrap();
        remote.read(0, &Region::new([0, 0], [ROWS, COLUMNS]), &PADDING, &mut found).unwrap();
        near.read(0, &Region::new([0, 0], [ROWS, COLUMNS]), &PADDING, &mut expected).unwrap();
        assert!(found == expected);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_node_writes_what_it_keeps_and_sends_no_bytes() {
    let folder = folder("keeps");
    let output = folder.join(temporary_name(OsStr::new("out.nc")));
    // A link that breaks before the answer comes leaves the chunk written, and who asks is told nothing of it.
    let lost: Change = |answer| if answer.is_empty() { Err(Error::corrupt("broken")) } else { Ok(answer) };
    let cases: [(Change, bool, bool); 3] = [(Ok, true, true), (lost, true, false), (Ok, false, false)];
    for (change, writes, arrives) in cases {
        fs::write(&output, vec![0; 1 << 14]).unwrap();
        let aggregator = Arc::new(Aggregator::who_writes(&folder, change, writes));
        let remote = apart(&folder, &aggregator);
        let (region, recipe) = (Region::new([0, WIDTH], [16, 24]), recipe(&[16, 24], "shuffle | snappy"));
        let asked = ChunkToEncode { variable: 0, region: &region, padding: &PADDING, recipe: &recipe };
        let (mut bytes, mut none) = (Vec::new(), vec![1]);
        let sent = remote.encode(0, &asked, false, &mut bytes).unwrap().unwrap();
        let told = remote.encode(0, &asked, true, &mut none).unwrap().unwrap();
        let kept = told.kept.unwrap();
        assert!(none.is_empty() && sent.kept.is_none() && sent.values == told.values);
        assert_eq!((kept.length, kept.checksum), (bytes.len() as u64, crc32c::crc32c(&bytes)));
        // Before it has shown that it writes, it is not asked to keep many.
        let trials =
            (0..20).filter(|_| remote.encode(0, &asked, true, &mut none).unwrap().unwrap().kept.is_some()).count();
        assert_eq!(trials, 7);
        let reserved = ReservedOffset { path: output.clone(), offset: 77 };
        assert_eq!(remote.write(0, &[(kept, reserved)]), arrives);
        assert_eq!(fs::read(&output).unwrap()[77..][..bytes.len()] == bytes, writes);
        assert_eq!(remote.sync(0).is_ok(), writes);
        // One that does not write sends from then on.
        let then = remote.encode(0, &asked, true, &mut none).unwrap().unwrap();
        assert_eq!((then.kept.is_some(), none.is_empty()), (arrives, arrives));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The first question with a part of it replaced.
fn replaced(question: &[u8], pointer: &str, with: &serde_json::Value) -> Vec<u8> {
    let mut question: serde_json::Value = serde_json::from_slice(question).unwrap();
    *question.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = with.clone();
    serde_json::to_vec(&question).unwrap()
}

#[test]
fn hostile_questions_are_errors() {
    let folder = folder("hostile");
    let aggregator = Aggregator::new(&folder, Ok);
    assert!(ask(&apart(&folder, &aggregator), [16, 24], "shuffle | snappy"));
    let question = aggregator.asked.lock().unwrap().pop().unwrap();
    assert!(aggregator.answered(&question).is_ok());
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let huge = u64::MAX;
    for (pointer, with) in [
        ("/program", json("\"0.0.0\"")),
        ("/count/0", json("0")),
        ("/count/0", json("17")),
        ("/count", json("[16]")),
        ("/count", json(&format!("[{huge}, 24]"))),
        ("/padding", json("[1]")),
        ("/padding", json("[]")),
        ("/recipe/spec/shape", json("[1000000, 1000000]")),
        ("/recipe/spec/shape", json(&format!("[{huge}, {huge}]"))),
        ("/recipe/spec/shape", json("[0, 24]")),
        ("/recipe/chain", json("\"nothing:9\"")),
        ("/recipe/container", json("\"Filter\"")),
        ("/ranks", json("[]")),
        ("/ranks", json("[77]")),
        // File, from, to, length, runs, steps.
        ("/moves/0/0", json("5")),
        ("/moves/0/0", json(&format!("{huge}"))),
        ("/moves/0/1", json(&format!("{huge}"))),
        ("/moves/0/2", json("1000000")),
        ("/moves/0/3", json("1000000")),
        ("/moves/0/3", json("0")),
        ("/moves/0/4", json("0")),
        ("/moves/0/4", json(&format!("{huge}"))),
        ("/moves/0", json(&format!("[0, 0, 0, 4, {huge}, 0, 0]"))),
        ("/moves/0", json(&format!("[0, 0, 0, 4, 2, {huge}, 4]"))),
        ("/moves/0", json(&format!("[0, 0, 0, 4, 2, 4, {huge}]"))),
    ] {
        let hostile = replaced(&question, &format!("/Chunk/chunk{pointer}"), &with);
        let error = aggregator.answered(&hostile).expect_err(&format!("{pointer} {with}"));
        assert_ne!(error.kind(), ErrorKind::Internal, "{pointer} {with}: {error}");
    }
    fs::remove_dir_all(folder).unwrap();
}
