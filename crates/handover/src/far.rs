//! The values and logs of ranks on other nodes. The aggregator of each node answers questions about what lies in its spool:
//! bytes of a log, and bytes of values. Which puts meet a region, and which of them counts, is decided where all logs are
//! known, so it does not matter on which node a rank was.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_flow::strided::ReadAt;
use knarr_link::Link;
use serde::{Deserialize, Serialize};

use crate::chunk_question::ChunkQuestion;
use crate::puts::name_of_more;

/// Bytes that are asked for at once.
const PIECE: u64 = 1 << 24;
/// Bytes of a log, at most: nothing is longer that a program could have put.
const LONGEST_LOG: u64 = 1 << 40;

/// What an aggregator is asked. `file` is the name of a directory in its spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// A piece of the log of a rank: [`Lengths`], then the bytes from `from` on.
    Log {
        /// The file.
        file: String,
        /// The rank.
        rank: usize,
        /// First byte.
        from: u64,
    },
    /// Bytes of the values of a rank.
    Values {
        /// The file.
        file: String,
        /// The rank.
        rank: usize,
        /// Those in the second file of values.
        more: bool,
        /// First byte.
        from: u64,
        /// Number of bytes.
        length: u64,
    },
    /// A chunk, encoded: what is said of it, and its bytes.
    Chunk {
        /// The file.
        file: String,
        /// The chunk.
        chunk: Box<ChunkQuestion>,
    },
    /// What became of a file, as JSON: `None` as long as nothing is known.
    Outcome {
        /// The file.
        file: String,
        /// The node that asks.
        node: String,
    },
}

impl Question {
    /// The bytes of the question.
    ///
    /// # Errors
    /// `Internal` if it has none.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))
    }

    /// The question in these bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| Error::corrupt(format!("no question: {error}")))
    }
}

/// How long the files of a rank are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    log: u64,
    values: u64,
    /// Of the second file of values, if there is one.
    more: Option<u64>,
}

/// What stands for no second file.
const NONE: u64 = u64::MAX;

impl Lengths {
    const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip([self.log, self.values, self.more.unwrap_or(NONE)]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        Self { log: number(0), values: number(8), more: Some(number(16)).filter(|&more| more != NONE) }
    }
}

/// The answer of an aggregator that has the values and the log of the rank at these paths, to questions about bytes.
///
/// # Errors
/// `NotFound`, `Read`; `Usage` for what cannot be asked.
pub fn answer(question: &Question, values: &Path, log: &Path) -> Result<Vec<u8>> {
    let open = |path: &Path| File::open(path).map_err(|error| Error::read(path, &error));
    let length = |path: &Path| path.metadata().map(|found| found.len());
    match *question {
        Question::Log { from, .. } => {
            let file = open(log)?;
            let all = file.metadata().map_err(|error| Error::read(log, &error))?.len();
            let mut bytes = vec![0; usize::try_from(all.saturating_sub(from).min(PIECE)).unwrap_or(0)];
            file.read_exact_at(&mut bytes, from).map_err(|error| Error::read(log, &error))?;
            // Values are there before their records.
            let first = length(values).map_err(|error| Error::read(values, &error))?;
            let lengths = Lengths { log: all, values: first, more: length(&name_of_more(values)).ok() };
            bytes.splice(0..0, lengths.to_bytes());
            Ok(bytes)
        }
        Question::Values { more, from, length, .. } => {
            if length > PIECE {
                return Err(Error::usage("too many bytes at once"));
            }
            let path: PathBuf = if more { name_of_more(values) } else { values.to_owned() };
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            open(&path)?.read_exact_at(&mut bytes, from).map_err(|error| Error::read(&path, &error))?;
            Ok(bytes)
        }
        Question::Chunk { .. } | Question::Outcome { .. } => Err(Error::usage("no question about bytes of a rank")),
    }
}

/// A rank on another node.
#[derive(Clone)]
pub struct Far {
    /// To the aggregator of its node.
    pub link: Arc<dyn Link>,
    /// Name of the directory in the spool there.
    pub file: String,
    /// The rank.
    pub rank: usize,
}

impl Far {
    /// The bytes of its log, and its files of values.
    ///
    /// # Errors
    /// Those of the link and of the other side; `Corrupt` for an answer that makes no sense.
    pub(crate) fn read(&self) -> Result<(Vec<u8>, FarValues, Option<FarValues>)> {
        let mut log = Vec::new();
        let lengths = loop {
            let question = Question::Log { file: self.file.clone(), rank: self.rank, from: log.len() as u64 };
            let answer = self.link.ask(&question.to_bytes()?)?;
            let (lengths, bytes) = answer.split_first_chunk().ok_or_else(|| self.senseless())?;
            let lengths = Lengths::from_bytes(lengths);
            log.extend_from_slice(bytes);
            // It may have grown meanwhile: what has come is enough.
            match lengths.log.saturating_sub(log.len() as u64) {
                0 => break lengths,
                _ if bytes.is_empty() || lengths.log > LONGEST_LOG => return Err(self.senseless()),
                _ => {}
            }
        };
        let values = |more: bool, length: u64| FarValues { far: self.clone(), more, length };
        Ok((log, values(false, lengths.values), lengths.more.map(|length| values(true, length))))
    }

    /// What errors call it.
    pub(crate) fn place(&self) -> String {
        format!("rank {} on node '{}'", self.rank, self.link.node())
    }

    fn senseless(&self) -> Error {
        Error::corrupt("an answer that makes no sense").at(self.place())
    }
}

/// A file of values of a rank on another node.
pub(crate) struct FarValues {
    far: Far,
    more: bool,
    pub(crate) length: u64,
}

impl ReadAt for FarValues {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let other = |error: Error| io::Error::other(error.to_string());
        let mut at = offset;
        for piece in out.chunks_mut(usize::try_from(PIECE).unwrap_or(usize::MAX)) {
            let (file, rank, more) = (self.far.file.clone(), self.far.rank, self.more);
            let question = Question::Values { file, rank, more, from: at, length: piece.len() as u64 };
            let answer = question.to_bytes().and_then(|question| self.far.link.ask(&question)).map_err(other)?;
            if answer.len() != piece.len() {
                return Err(other(self.far.senseless()));
            }
            piece.copy_from_slice(&answer);
            at = at.saturating_add(answer.len() as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gathered::Gathered;
    use crate::held::Held;
    use crate::memory::write_calls;
    use crate::moves::Beneath;
    use crate::put::Put;
    use crate::puts::{PutLog, Room};
    use knarr_array::array::DType;
    use knarr_array::region::{Region, Regions};
    use knarr_link::{Answers, MemoryLink};
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// An aggregator with one directory.
    struct Aggregator(PathBuf);

    impl Answers for Aggregator {
        fn answer(&self, question: &[u8], _: &mut dyn FnMut() -> Result<()>) -> Result<Vec<u8>> {
            let question = Question::from_bytes(question)?;
            let rank = match &question {
                Question::Log { rank, .. } | Question::Values { rank, .. } => *rank,
                Question::Chunk { .. } | Question::Outcome { .. } => 0,
            };
            answer(&question, &self.0.join(format!("values.{rank}")), &self.0.join(format!("log.{rank}")))
        }
    }

    /// Three ranks put over each other, in memory and behind it.
    fn put_all(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        for rank in 0..3u64 {
            let more = folder.join(format!("disk.{rank}"));
            let room = Room { directory: folder.to_owned(), free: folder.join("free"), most: 700, more };
            let mut log = PutLog::create(room, &format!("values.{rank}"), &format!("log.{rank}"), write_calls).unwrap();
            for order in 0..6u64 {
                let region = Region::new([(order * 5 + rank * 3) % 8, (order * 7 + rank) % 9], [4, 6]);
                let stride = if order % 2 == 0 { Vec::new() } else { vec![2, 1] };
                let offset = log.reserve(4 * 6 * 4).unwrap();
                let value = u32::try_from(1 + rank * 10 + order).unwrap().to_le_bytes();
                log.write(offset, &value.repeat(24)).unwrap();
                let boxes = Regions::from(&region);
                log.push(&[Put { variable: 0, dtype: DType::U32, boxes, stride, order, offset }]).unwrap();
            }
        }
    }

    #[test]
    fn what_is_far_reads_as_what_is_here() {
        let folder = std::env::temp_dir().join(format!("knarr-far-{}", std::process::id()));
        put_all(&folder);
        let gone = Arc::new(AtomicBool::new(false));
        let link: Arc<dyn Link> =
            Arc::new(MemoryLink::new("b", Arc::new(Aggregator(folder.clone())), Arc::clone(&gone)));
        let here = |rank: usize| Held::Here {
            values: folder.join(format!("values.{rank}")),
            log: folder.join(format!("log.{rank}")),
        };
        let there = |rank: usize| Held::There(Far { link: Arc::clone(&link), file: "f".to_owned(), rank });
        for last in [0, 3, u64::MAX] {
            let near = Gathered::of(last, (0..3).map(here)).unwrap();
            // The second rank is on another node: whose put counts does not depend on that.
            let far = Gathered::of(last, [here(0), there(1), there(2)]).unwrap();
            for start in [[0, 0], [2, 3], [7, 1]] {
                for count in [[1, 1], [3, 9], [9, 4]] {
                    let region = Region::new(start, count);
                    let (mut expected, mut found) = (Vec::new(), vec![1; 3]);
                    near.read(0, &region, &[9; 4], &mut expected).unwrap();
                    far.read(0, &region, &[9; 4], &mut found).unwrap();
                    assert_eq!(found, expected, "{region:?} until {last}");
                    found.fill(0);
                    let count = Region::new(start, count.map(|n| n.div_ceil(2)));
                    let bytes = usize::try_from(count.volume().unwrap()).unwrap() * 4;
                    let (mut a, mut b) = (vec![0; bytes], vec![1; bytes]);
                    near.read_strided(0, &count, &[2, 2], Beneath::Fill(&[9; 4]), &mut a).unwrap();
                    far.read_strided(0, &count, &[2, 2], Beneath::Fill(&[9; 4]), &mut b).unwrap();
                    assert_eq!(a, b, "{count:?} until {last}");
                }
            }
            let mut out = Vec::new();
            gone.store(true, Ordering::Relaxed);
            let error = far.read(0, &Region::new([0, 0], [16, 16]), &[0; 4], &mut out).unwrap_err();
            assert!(error.to_string().contains("node 'b' is gone"), "{error}");
            gone.store(false, Ordering::Relaxed);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn hostile_questions_and_answers_are_errors() {
        let folder = std::env::temp_dir().join(format!("knarr-far-hostile-{}", std::process::id()));
        put_all(&folder);
        let (values, log) = (folder.join("values.0"), folder.join("log.0"));
        let file = "f".to_owned();
        for question in [
            Question::Values { file: file.clone(), rank: 0, more: false, from: 0, length: u64::MAX },
            Question::Values { file: file.clone(), rank: 0, more: false, from: u64::MAX, length: 10 },
            Question::Values { file: file.clone(), rank: 0, more: false, from: 1 << 40, length: 10 },
            Question::Outcome { file: file.clone(), node: String::new() },
        ] {
            assert!(answer(&question, &values, &log).is_err(), "{question:?}");
        }
        let nothing = answer(&Question::Log { file, rank: 0, from: u64::MAX }, &values, &log).unwrap();
        assert_eq!(nothing.len(), Lengths::BYTES);
        assert!(Question::from_bytes(b"{\"Log\":{}}").is_err() && Question::from_bytes(&[0xFF; 9]).is_err());

        /// Answers everything with the same bytes.
        struct Same(Vec<u8>);
        impl Answers for Same {
            fn answer(&self, _: &[u8], _: &mut dyn FnMut() -> Result<()>) -> Result<Vec<u8>> {
                Ok(self.0.clone())
            }
        }
        for bytes in [vec![], vec![0; 23], vec![0; 24], vec![0xFF; 24], vec![7; 100]] {
            let link = MemoryLink::new("b", Arc::new(Same(bytes.clone())), Arc::default());
            let far = Far { link: Arc::new(link), file: "f".to_owned(), rank: 0 };
            assert!(Gathered::of(u64::MAX, [Held::There(far)]).is_err(), "{bytes:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
