//! Chunks that are encoded while a program has its file open.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::array::{ArraySpec, DType};
use knarr_array::region::{Region, Regions, chunk_region};
use knarr_codec::codec::CodecList;
use knarr_flow::ahead::Ahead;
use knarr_flow::pipeline::{Container, Recipe};
use knarr_flow::remote_encoder::{ChunkToEncode, Proven};
use knarr_handover::{AheadChunks, AssembledPuts, Put, PutLog, Room};
use knarr_tier::{Account, Directory, Reach, Space, Tier};

const ROWS: u64 = 64;
const COLUMNS: u64 = 48;
const WIDTH: u64 = 24;
const CHUNK: [u64; 2] = [10, 20];
const PADDING: [u8; 4] = [9, 0, 0, 0];

/// Two ranks with half of the columns each.
struct Program {
    folder: PathBuf,
    logs: Vec<PutLog>,
}

/// A disk on which chunks are kept.
fn disk(folder: &Path) -> Arc<dyn Tier> {
    Arc::new(Directory::new(folder, Account::of(Space::UNLIMITED), Reach::AllNodes))
}

impl Program {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("knarr-ahead-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let log = |rank: u64| {
            // Values of the second one go to a disk soon.
            let (most, more) = (if rank == 1 { 4096 + 2000 } else { u64::MAX }, folder.join(format!("disk.{rank}")));
            let room = Room::of_process(&folder, most, more);
            PutLog::create(room, &format!("values.{rank}"), &format!("log.{rank}")).unwrap()
        };
        let logs = (0..2).map(log).collect();
        Self { folder, logs }
    }

    fn put(&mut self, rank: usize, rows: [u64; 2], order: u64) {
        let region = Region::new([rows[0], rank as u64 * WIDTH], [rows[1], WIDTH]);
        let value = |n: u64| u32::try_from(1000 * order + rows[0] * 7 + n / 5).unwrap().to_le_bytes();
        let values: Vec<u8> = (0..rows[1] * WIDTH).flat_map(value).collect();
        let offset = self.logs[rank].reserve(values.len() as u64).unwrap();
        self.logs[rank].write(offset, DType::U32, &values).unwrap();
        let (boxes, stride) = (Regions::from(&region), Vec::new());
        self.logs[rank]
            .push(&[Put { variable: 0, dtype: DType::U32, boxes, stride, parts: Vec::new(), order, offset }])
            .unwrap();
    }

    fn gathered(&self, ahead: Option<AheadChunks>) -> AssembledPuts {
        let of = |rank| (self.folder.join(format!("values.{rank}")), self.folder.join(format!("log.{rank}")));
        AssembledPuts::open((0..2).map(of)).unwrap().with_ahead(ahead)
    }

    fn keep(&self) -> AssembledPuts {
        self.gathered(Some(
            AheadChunks::keep(&self.folder, disk(&self.folder), &self.folder.join("disk/chunks")).unwrap(),
        ))
    }

    fn encode(&self, recipe: &Recipe) {
        let gathered = self.keep();
        for region in regions() {
            let chunk = ChunkToEncode { variable: 0, region: &region, padding: &PADDING, recipe };
            gathered.encode(&CodecList::pure(), &chunk).unwrap();
        }
    }

    /// What is found of each chunk by whoever makes the file.
    fn found(&self, recipe: &Recipe) -> Vec<Option<(Proven, Vec<u8>)>> {
        let gathered = self.gathered(AheadChunks::open(&self.folder));
        let find = |region: &Region| {
            let chunk = ChunkToEncode { variable: 0, region, padding: &PADDING, recipe };
            let mut out = vec![1; 3];
            gathered.find(&chunk, &mut out).unwrap().map(|proven| (proven, out))
        };
        regions().iter().map(find).collect()
    }

    /// Those that are found, after it was checked that they are what would be encoded now.
    fn right(&self, recipe: &Recipe) -> Vec<bool> {
        let other = Self { folder: self.folder.join("afresh"), logs: Vec::new() };
        fs::create_dir_all(&other.folder).unwrap();
        let afresh = AheadChunks::keep(&other.folder, disk(&other.folder), &other.folder.join("chunks")).unwrap();
        let gathered = self.gathered(Some(afresh));
        let compare = |(found, region): (Option<(Proven, Vec<u8>)>, Region)| {
            let chunk = ChunkToEncode { variable: 0, region: &region, padding: &PADDING, recipe };
            gathered.encode(&CodecList::pure(), &chunk).unwrap();
            let mut out = Vec::new();
            let now = gathered.find(&chunk, &mut out).unwrap();
            let Some((proven, bytes)) = found else { return false };
            let now = now.unwrap();
            assert_eq!(
                (proven.values, proven.outcome.filter_mask),
                (now.values, now.outcome.filter_mask),
                "{region:?}"
            );
            assert!(bytes == out, "{region:?}");
            true
        };
        let right = self.found(recipe).into_iter().zip(regions()).map(compare).collect();
        fs::remove_dir_all(&other.folder).unwrap();
        right
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn regions() -> Vec<Region> {
    let positions =
        (0..ROWS.div_ceil(CHUNK[0])).flat_map(|row| (0..COLUMNS.div_ceil(CHUNK[1])).map(move |at| [row, at]));
    positions.map(|position| chunk_region(&[ROWS, COLUMNS], &CHUNK, &position)).collect()
}

fn recipe(chain: &str) -> Recipe {
    let shape: Vec<usize> = CHUNK.iter().map(|&n| usize::try_from(n).unwrap()).collect();
    let (chain, spec) = (chain.parse().unwrap(), ArraySpec::new(DType::U32, shape));
    Recipe { chain, fallback: None, spec, bound: None, verify: true, container: Container::Frame }
}

/// Chunks with rows below `end`, of three a row.
fn above(end: u64) -> Vec<bool> {
    regions().iter().map(|region| region.end(0) <= end).collect()
}

#[test]
fn whole_chunks_are_found_as_long_as_nothing_is_put_into_them() {
    let (mut program, recipe) = (Program::new("found"), recipe("shuffle | snappy"));
    program.put(0, [0, 40], 1);
    program.put(1, [0, 25], 1);
    assert!(AheadChunks::open(&program.folder).is_none());
    program.encode(&recipe);
    // The right half of row 20 on is missing in some chunks, and one that has all of its values on the left is whole.
    let right = program.right(&recipe);
    let left: Vec<bool> = regions().iter().map(|region| region.end(1) <= WIDTH && region.end(0) <= 40).collect();
    let whole: Vec<bool> = above(25).iter().zip(&left).map(|(above, left)| *above || *left).collect();
    assert_eq!(right, whole);
    // More of the file, in several rounds.
    program.put(1, [25, 39], 1);
    program.put(0, [40, 24], 1);
    program.encode(&recipe);
    program.encode(&recipe);
    assert_eq!(program.right(&recipe), vec![true; regions().len()]);
    let list = fs::metadata(program.folder.join("ahead.list")).unwrap().len();
    assert_eq!(list, 52 * regions().len() as u64, "nothing is encoded twice");
    // Rows 10 to 19 are put anew.
    program.put(0, [12, 3], 2);
    let (touched, chunks) = (program.right(&recipe), regions());
    for (region, found) in chunks.iter().zip(touched) {
        assert_eq!(found, region.start[0] != 10 || region.start[1] >= WIDTH, "{region:?}");
    }
}

#[test]
fn another_chain_is_another_chunk() {
    let mut program = Program::new("chain");
    program.put(0, [0, ROWS], 1);
    program.put(1, [0, ROWS], 1);
    program.encode(&recipe("shuffle | snappy"));
    assert_eq!(program.right(&recipe("snappy")), vec![false; regions().len()]);
    program.encode(&recipe("snappy"));
    for chain in ["snappy", "shuffle | snappy"] {
        assert_eq!(program.right(&recipe(chain)), vec![true; regions().len()]);
    }
}

fn damage(path: &Path, place: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[place] ^= 8;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_damaged_was_not_encoded() {
    let (mut program, recipe) = (Program::new("damaged"), recipe("snappy"));
    program.put(0, [0, ROWS], 1);
    program.put(1, [0, ROWS], 1);
    program.encode(&recipe);
    let (list, chunks) = (program.folder.join("ahead.list"), program.folder.join("disk/chunks"));
    let whole = fs::read(&list).unwrap();
    for place in 0..52 {
        damage(&list, 52 + place);
        assert_eq!(program.right(&recipe).iter().filter(|found| !**found).count(), 1, "byte {place}");
        fs::write(&list, &whole).unwrap();
    }
    damage(&chunks, 20);
    assert_eq!(program.right(&recipe).iter().filter(|found| !**found).count(), 1);
    // A writer that was killed, and one that goes on behind it.
    fs::write(&list, &whole[..whole.len() - 60]).unwrap();
    assert_eq!(program.right(&recipe).iter().filter(|found| !**found).count(), 3);
    damage(&chunks, 20);
    program.encode(&recipe);
    assert_eq!(program.right(&recipe), vec![true; regions().len()]);
}
