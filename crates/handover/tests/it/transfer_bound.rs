//! Values that lose accuracy on their way from a rank on another node stay within their bounds, however they are asked for.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::Result;
use knarr_array::region::{Region, Regions};
use knarr_handover::{
    AssembledPuts, Beneath, Bounded, Bounds, Crossed, Put, PutLog, Question, RankValues, RemoteRank, Room,
    TransferBound, WireCodecTuner, answer,
};
use knarr_link::Answers;
use knarr_testing::MemoryLink;

const ROWS: u64 = 1500;
const COLUMNS: u64 = 400;
/// Rows that are read at once: one question, whose answer is long enough to be measured.
const BAND: u64 = 50;
const FILL: f32 = 1e20;
/// One variable has a bound, the other one none; of the third the values are big-endian, and nobody knows their type.
const BOUNDED: usize = 0;
const EXACT: usize = 1;
const FOREIGN: usize = 2;

fn value(row: u64, column: u64) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let place = (row * COLUMNS + column) as f32;
    match (row + 3 * column) % 97 {
        0 => FILL,
        1 => f32::from_bits(0x7F80_0001),
        2 => f32::NEG_INFINITY,
        3 => -0.0,
        _ => (place / 50_000.0).sin() * 100.0 + 200.0,
    }
}

fn bytes_of(variable: usize, value: f32) -> [u8; 4] {
    if variable == FOREIGN { value.to_be_bytes() } else { value.to_le_bytes() }
}

fn put(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let room = Room::of_process(folder, 1 << 20, folder.join("disk"));
    let mut log = PutLog::create(room, "values", "log").unwrap();
    for variable in [BOUNDED, EXACT, FOREIGN] {
        for row in 0..ROWS {
            let offset = log.reserve(COLUMNS * 4).unwrap();
            let values: Vec<u8> = (0..COLUMNS).flat_map(|column| bytes_of(variable, value(row, column))).collect();
            log.write(offset, DType::F32, &values).unwrap();
            let boxes = Regions::from(&Region::new([row, 0], [1, COLUMNS]));
            let dtype = if variable == FOREIGN { DType::Opaque(4) } else { DType::F32 };
            let variable = u32::try_from(variable).unwrap();
            log.push(&[Put { variable, dtype, boxes, stride: Vec::new(), parts: Vec::new(), order: row, offset }])
                .unwrap();
        }
    }
}

/// A node at the end of a slow link.
struct Slow {
    folder: PathBuf,
    bounds: Vec<u8>,
    told: Mutex<Crossed>,
    questions: Mutex<Vec<String>>,
}

impl Answers for Slow {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        let question = Question::from_bytes(question)?;
        if let Question::Bounds { file } = &question {
            self.questions.lock().unwrap().push(file.clone());
            return Ok(self.bounds.clone());
        }
        let (found, crossed) = answer(&question, &self.folder.join("values"), &self.folder.join("log"))?;
        if let Some(crossed) = crossed {
            let mut told = self.told.lock().unwrap();
            *told = told.and(crossed);
        }
        // 1 MB/s.
        std::thread::sleep(Duration::from_nanos(1000 * found.len() as u64));
        Ok(found)
    }
}

struct Side {
    slow: Arc<Slow>,
    bounds: Arc<Bounds>,
    remote: RemoteRank,
}

fn side(name: &str, folder: &Path, bounds: Vec<u8>) -> Side {
    let (told, questions) = (Mutex::default(), Mutex::default());
    let slow = Arc::new(Slow { folder: folder.to_owned(), bounds, told, questions });
    let link = Arc::new(MemoryLink::new(name, Arc::<Slow>::clone(&slow), Arc::default()));
    let bounds = Arc::new(Bounds::default());
    let bounded = Bounded {
        bounds: Arc::clone(&bounds),
        offers: Arc::<MemoryLink>::clone(&link),
        file: "first".to_owned(),
        tuner: WireCodecTuner::within(name),
    };
    let remote = RemoteRank {
        link,
        file: "f".to_owned(),
        rank: 0,
        tuner: Some(WireCodecTuner::of(name)),
        bounded: Some(Arc::new(bounded)),
    };
    Side { slow, bounds, remote }
}

fn within(endian: Endian, quality: &str) -> TransferBound {
    let (variable, dtype, fills) = ("T".to_owned(), DType::F32, vec![u64::from(FILL.to_bits())]);
    TransferBound { variable, dtype, endian, fills, quality: quality.to_owned() }
}

fn said(bounds: &[(usize, TransferBound)]) -> Vec<u8> {
    serde_json::to_vec(bounds).unwrap()
}

fn read(gathered: &AssembledPuts, variable: usize, region: &Region, stride: [u64; 2]) -> (Vec<u8>, Vec<u8>) {
    let Region { start, count } = region;
    let expected: Vec<u8> = (0..count[0])
        .flat_map(|i| (0..count[1]).map(move |j| (i, j)))
        .flat_map(|(i, j)| bytes_of(variable, value(start[0] + i * stride[0], start[1] + j * stride[1])))
        .collect();
    let mut found = Vec::new();
    for first in (0..count[0]).step_by(usize::try_from(BAND).unwrap()) {
        let rows = BAND.min(count[0] - first);
        let band = Region::new([start[0] + first * stride[0], start[1]], [rows, count[1]]);
        let mut out = vec![0; usize::try_from(rows * count[1]).unwrap() * 4];
        gathered.read_strided(variable, &band, &stride, Beneath::Nothing(4), &mut out).unwrap();
        found.extend(out);
    }
    (expected, found)
}

#[test]
fn every_value_is_within_the_bound_and_the_worst_error_is_told() {
    let folder = std::env::temp_dir().join(format!("knarr-within-{}", std::process::id()));
    put(&folder);
    for (quality, replays) in
        [("max_rel_error=0.001", false), ("max_abs_error=0.25", true), ("significant_digits=3", true)]
    {
        let bounds = said(&[(BOUNDED, within(Endian::Little, quality)), (FOREIGN, within(Endian::Big, quality))]);
        let side = side(&format!("far-{quality}"), &folder, bounds);
        let held = || [RankValues::There(side.remote.clone())];
        let gathered = match replays {
            true => AssembledPuts::replaying(u64::MAX, held(), None).unwrap(),
            false => AssembledPuts::of(u64::MAX, held()).unwrap(),
        };
        let (mut changed, mut bytes) = (0, 0);
        let mut worst = [0.0f64; 2];
        for (start, count, stride) in [
            ([0, 0], [ROWS, COLUMNS], [1, 1]),
            ([0, 0], [ROWS, COLUMNS], [1, 1]),
            ([7, 3], [ROWS / 2, 390], [1, 1]),
            ([5, 1], [400, 199], [3, 2]),
            ([5, 1], [400, 199], [3, 2]),
            ([0, 350], [ROWS, 1], [1, 1]),
        ] {
            let region = Region::new(start, count);
            for (variable, endian) in [(BOUNDED, Endian::Little), (FOREIGN, Endian::Big)] {
                let (expected, found) = read(&gathered, variable, &region, stride);
                let within = within(endian, quality);
                let spec = ArraySpec {
                    endian,
                    fills: within.fills.clone(),
                    ..ArraySpec::new(DType::F32, [expected.len() / 4])
                };
                let bound = quality.parse::<knarr_array::quality::Quality>().unwrap().bound(None).unwrap();
                let seen = bound.check(&spec, &expected, &found).unwrap();
                changed += seen.changed;
                bytes += expected.len() as u64;
                worst = [worst[0].max(seen.max_abs), worst[1].max(seen.max_rel)];
            }
        }
        let (expected, found) = read(&gathered, EXACT, &Region::new([0, 0], [200, 300]), [2, 1]);
        assert_eq!(expected, found, "nothing is said of this variable");
        let told = *side.slow.told.lock().unwrap();
        assert_eq!((told.worst.max_abs, told.worst.max_rel), (worst[0], worst[1]), "{quality}");
        assert_eq!((told.worst.changed, told.raw), (changed, bytes), "{quality}");
        assert!(changed > 0 && told.sent < told.raw / 2, "{quality}: {told:?}");
        // Who reads has it in the same words, and has asked once.
        let crossed = side.bounds.take_crossed();
        let all = crossed.iter().fold(Crossed::default(), |all, (_, crossed)| all.and(*crossed));
        assert_eq!((all.raw, all.sent, all.worst.changed), (told.raw, told.sent, changed));
        assert_eq!((all.worst.max_abs, all.worst.max_rel), (worst[0], worst[1]));
        assert!(crossed.len() == 2 && side.bounds.take_crossed().is_empty());
        assert_eq!(*side.slow.questions.lock().unwrap(), ["first"]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn bounds_that_make_no_sense_change_nothing() {
    let folder = std::env::temp_dir().join(format!("knarr-within-odd-{}", std::process::id()));
    put(&folder);
    let region = Region::new([0, 0], [400, COLUMNS]);
    let long = TransferBound { variable: "T".repeat(5000), ..within(Endian::Little, "max_abs_error=0.1") };
    let double = TransferBound { dtype: DType::F64, ..within(Endian::Little, "max_abs_error=0.1") };
    for (number, one) in [
        long,
        double,
        within(Endian::Little, "max_abs_error=-1"),
        within(Endian::Little, "much"),
        within(Endian::Little, "lossless"),
    ]
    .into_iter()
    .enumerate()
    {
        let side = side(&format!("odd-{number}"), &folder, said(&[(BOUNDED, one)]));
        let gathered = AssembledPuts::of(u64::MAX, [RankValues::There(side.remote.clone())]).unwrap();
        let (expected, found) = read(&gathered, BOUNDED, &region, [1, 1]);
        assert_eq!(expected, found, "{number}");
    }
    for nonsense in [&b"{}"[..], b"", b"[[1]]", b"\xFF", b"[[0,{\"variable\":3}]]"] {
        let side = side("nonsense", &folder, nonsense.to_vec());
        let gathered = AssembledPuts::of(u64::MAX, [RankValues::There(side.remote.clone())]).unwrap();
        let error = gathered.read(BOUNDED, &region, &[0; 4], &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("node 'nonsense'"), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
