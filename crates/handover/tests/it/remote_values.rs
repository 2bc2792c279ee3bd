//! What crosses the network when a rank on another node is read.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use knarr_array::array::DType;
use knarr_array::error::Result;
use knarr_array::region::{Region, Regions};
use knarr_handover::{
    AssembledPuts, Beneath, Part, Put, PutLog, Question, RankValues, RemoteRank, Room, WireCodecTuner, answer,
};
use knarr_link::Answers;
use knarr_testing::MemoryLink;

const ROWS: u64 = 3000;
const COLUMNS: u64 = 400;

fn value(row: u64, column: u64) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let place = (row * COLUMNS + column) as f32;
    (place / 5000.0).sin() * 100.0
}

/// One rank puts an array of numbers.
fn put(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let room = Room::of_process(folder, 1 << 20, folder.join("disk"));
    let mut log = PutLog::create(room, "values", "log").unwrap();
    for row in 0..ROWS {
        let offset = log.reserve(COLUMNS * 4).unwrap();
        let values: Vec<u8> = (0..COLUMNS).flat_map(|column| value(row, column).to_le_bytes()).collect();
        log.write(offset, DType::F32, &values).unwrap();
        let boxes = Regions::from(&Region::new([row, 0], [1, COLUMNS]));
        log.push(&[Put {
            variable: 0,
            dtype: DType::F32,
            boxes,
            stride: Vec::new(),
            parts: Vec::new(),
            order: row,
            offset,
        }])
        .unwrap();
    }
}

/// Its aggregator counts what it sends of values.
struct Counting {
    folder: PathBuf,
    bytes: AtomicU64,
    questions: AtomicU64,
}

impl Answers for Counting {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        let question = Question::from_bytes(question)?;
        let (found, _) = answer(&question, &self.folder.join("values"), &self.folder.join("log"))?;
        if matches!(question, Question::Values { .. }) {
            self.bytes.fetch_add(found.len() as u64, Ordering::Relaxed);
            self.questions.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found)
    }
}

#[test]
fn what_is_wanted_crosses_the_network_and_nothing_else() {
    let folder = std::env::temp_dir().join(format!("knarr-far-counted-{}", std::process::id()));
    put(&folder);
    let counting =
        Arc::new(Counting { folder: folder.clone(), bytes: AtomicU64::new(0), questions: AtomicU64::new(0) });
    let open = |tuner: Option<Arc<WireCodecTuner>>| {
        let answers = Arc::<Counting>::clone(&counting);
        let link = Arc::new(MemoryLink::new("far", answers, Arc::default()));
        AssembledPuts::of(
            u64::MAX,
            [RankValues::There(RemoteRank { link, file: "f".to_owned(), rank: 0, tuner, bounded: None })],
        )
        .unwrap()
    };
    let plain = open(None);
    for (start, count, stride) in [
        ([0, 0], [ROWS, COLUMNS], [1, 1]),
        ([0, 7], [ROWS, 1], [1, 1]),
        ([5, 3], [ROWS / 8, 20], [7, 11]),
        ([2999, 399], [1, 1], [1, 1]),
    ] {
        counting.bytes.store(0, Ordering::Relaxed);
        counting.questions.store(0, Ordering::Relaxed);
        let region = Region::new(start, count);
        let mut found = vec![0; usize::try_from(count[0] * count[1] * 4).unwrap()];
        plain.read_strided(0, &region, &stride, Beneath::Nothing(4), &mut found).unwrap();
        let expected: Vec<u8> = (0..count[0])
            .flat_map(|i| (0..count[1]).map(move |j| (i, j)))
            .flat_map(|(i, j)| value(start[0] + i * stride[0], start[1] + j * stride[1]).to_le_bytes())
            .collect();
        assert_eq!(found, expected, "{region:?} {stride:?}");
        let (bytes, questions) = (&counting.bytes, &counting.questions);
        let (bytes, questions) = (bytes.load(Ordering::Relaxed), questions.load(Ordering::Relaxed));
        assert_eq!(bytes, found.len() as u64 + questions, "each answer has a byte more");
        // A question has many runs: a column is not a question for each row.
        assert!(questions <= 2 + found.len() as u64 / (1 << 20) + ROWS / 500 + count[0] / 500, "{questions}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Members of a compound, put one after the other over all elements, and one of them over some.
#[test]
fn parts_of_elements_come_to_their_places() {
    const COUNT: u64 = 5000;
    let folder = std::env::temp_dir().join(format!("knarr-far-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let room = Room::of_process(&folder, 1 << 20, folder.join("disk"));
    let mut log = PutLog::create(room, "values", "log").unwrap();
    let mut expected = vec![9u8; 8 * usize::try_from(COUNT).unwrap()];
    let part = |at, len| Part { at, len };
    for (order, (parts, region)) in [
        (vec![part(0, 2), part(6, 2)], Region::new([0], [COUNT])),
        (vec![part(3, 2)], Region::new([0], [COUNT])),
        (vec![part(6, 1)], Region::new([100], [3000])),
    ]
    .into_iter()
    .enumerate()
    {
        let order = u8::try_from(order).unwrap();
        let (start, count) = (region.start[0], region.count[0]);
        let (boxes, stride) = (Regions::from(&region), Vec::new());
        let mut put =
            Put { variable: 0, dtype: DType::Opaque(8), boxes, stride, parts, order: order.into(), offset: 0 };
        put.offset = log.reserve(put.byte_len()).unwrap();
        let values: Vec<u8> = (0..put.byte_len()).map(|n| u8::try_from(n % 83).unwrap() * 3 + order).collect();
        log.write(put.offset, put.lies_as(), &values).unwrap();
        let mut values = values.into_iter();
        for element in start..start + count {
            for byte in put.parts.iter().flat_map(|part| part.at..part.at + part.len) {
                expected[usize::try_from(element * 8 + u64::from(byte)).unwrap()] = values.next().unwrap();
            }
        }
        log.push(&[put]).unwrap();
    }
    let answers = Arc::new(Counting { folder: folder.clone(), bytes: AtomicU64::new(0), questions: AtomicU64::new(0) });
    let link = Arc::new(MemoryLink::new("far", answers, Arc::default()));
    let remote = RemoteRank { link, file: "f".to_owned(), rank: 0, tuner: None, bounded: None };
    let gathered = AssembledPuts::of(u64::MAX, [RankValues::There(remote)]).unwrap();
    for (start, count, stride) in [(0, COUNT, 1), (99, 700, 3), (4999, 1, 1)] {
        let mut out = vec![0; 8 * usize::try_from(count).unwrap()];
        let wanted = Region::new([start], [count]);
        gathered.read_strided(0, &wanted, &[stride], Beneath::Fill(&[9; 8]), &mut out).unwrap();
        let picked: Vec<u8> = expected
            .chunks_exact(8)
            .skip(usize::try_from(start).unwrap())
            .step_by(usize::try_from(stride).unwrap())
            .take(usize::try_from(count).unwrap())
            .flatten()
            .copied()
            .collect();
        assert!(out == picked, "{start} {count} {stride}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
