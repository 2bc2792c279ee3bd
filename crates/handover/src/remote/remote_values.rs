//! The values and logs of ranks on other nodes. The aggregator of each node answers questions (`answering`) for bytes of them.
//! Which puts intersect a region, and which of them counts, is decided where all logs are known.

use std::sync::Arc;
use std::time::Instant;

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::quality::Observed;
use knarr_flow::remote_encoder::PendingChunk;
use knarr_link::Link;
use serde::{Deserialize, Serialize};

use crate::encode::chunk_question::ChunkQuestion;
use crate::remote::bounds::Bounded;
use crate::remote::packed::{unpack, unpack_within};
use crate::remote::transfer_bound::{Crossed, TransferBound};
use crate::remote::wire_codec::{Way, WireCodecTuner};

/// Bytes of a log that are asked for at once.
pub(crate) const LONGEST_PIECE: u64 = 1 << 24;
/// Bytes of values that are asked for at once.
pub(crate) const LONGEST_VALUES: u64 = 1 << 20;
/// Runs in a question: each takes up to 85 bytes of it.
pub(crate) const MOST_RUNS: usize = 700;
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
        /// Which, one run behind the other.
        runs: Vec<Runs>,
        /// Of which type they are, if they may come compressed.
        packed: Option<DType>,
        /// If their variable has a bound: that, and whether these values may lose something within it.
        within: Option<(TransferBound, bool)>,
    },
    /// The bounds that hold for values on their way, as numbers of variables with a [`TransferBound`] each, in JSON.
    Bounds {
        /// The file.
        file: String,
    },
    /// A chunk, encoded: what is said of it, and its bytes unless they are kept.
    Chunk {
        /// The file.
        file: String,
        /// The chunk.
        chunk: Box<ChunkQuestion>,
        /// Its bytes may be kept, for `Write`.
        may_keep: bool,
    },
    /// Bytes of a file that is whole in a tier, from `from` on: its length and its CRC-32C, then as many bytes as are sent at once.
    Image {
        /// The file.
        file: String,
        /// First byte.
        from: u64,
    },
    /// Writes chunks that are kept into the output, which is under way. They are kept no more, whatever comes of it. An empty
    /// answer.
    Write {
        /// The file.
        file: String,
        /// Path of the output, which need not be text.
        path: Vec<u8>,
        /// Which chunks, and the bytes of the output at which they belong.
        chunks: Vec<(PendingChunk, u64)>,
    },
    /// Makes durable what was written of the file's output. An empty answer.
    Sync {
        /// The file.
        file: String,
    },
    /// A number for a write into a file that the node makes, larger than all before: eight bytes.
    Number {
        /// The file.
        file: String,
    },
    /// What became of a file, as JSON: `None` as long as nothing is known.
    Outcome {
        /// The file.
        file: String,
        /// The node that asks.
        node: String,
        /// The number of its part of the file, if it has removed that since it has heard that it is of no use any more.
        freed: Option<usize>,
    },
    /// The program has ended on the node whose spool has this token: its ranks write no file any more. An empty answer.
    Ended {
        /// The token.
        token: String,
    },
}

/// Runs of bytes in a file. They are alike, and equally far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64, u64)", into = "(u64, u64, u64, u64)")]
pub struct Runs {
    /// First byte of the first one.
    pub from: u64,
    /// Bytes of each.
    pub length: u64,
    /// How many.
    pub count: u64,
    /// How far the next one is.
    pub step: u64,
}

impl From<(u64, u64, u64, u64)> for Runs {
    fn from((from, length, count, step): (u64, u64, u64, u64)) -> Self {
        Self { from, length, count, step }
    }
}

impl From<Runs> for (u64, u64, u64, u64) {
    fn from(Runs { from, length, count, step }: Runs) -> Self {
        (from, length, count, step)
    }
}

impl Runs {
    /// True if the bytes of `next` follow: both are single runs.
    pub(crate) fn adjoins(&self, next: &Self) -> bool {
        self.count == 1 && next.count == 1 && self.from + self.length == next.from
    }

    /// Bytes of all; `None` for runs that make no sense.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let makes_sense = self.length > 0 && (self.count == 1 || self.step >= self.length);
        let last = self.step.checked_mul(self.count.checked_sub(1)?)?;
        self.from.checked_add(last)?.checked_add(self.length)?;
        self.length.checked_mul(self.count).filter(|_| makes_sense)
    }
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

/// A number for a write into `file`, from the node that makes it: larger than all that were given before.
///
/// # Errors
/// Those of the link and of the other side; `Corrupt` for an answer that makes no sense.
pub fn next_number(link: &dyn Link, file: &str) -> Result<u64> {
    let answer = link.ask(&Question::Number { file: file.to_owned() }.to_bytes()?)?;
    let bytes = <[u8; 8]>::try_from(answer.as_slice());
    bytes
        .map(u64::from_le_bytes)
        .map_err(|_| Error::corrupt("an answer that makes no sense").at(link.node().to_owned()))
}

/// How long the files of a rank are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) log: u64,
    pub(crate) values: u64,
    /// Of the second file of values, if there is one.
    pub(crate) more: Option<u64>,
}

/// What stands for no second file.
const NONE: u64 = u64::MAX;

impl Lengths {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
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

/// A rank on another node.
#[derive(Clone)]
pub struct RemoteRank {
    /// To the aggregator of its node.
    pub link: Arc<dyn Link>,
    /// Name of the directory in the spool there.
    pub file: String,
    /// The rank.
    pub rank: usize,
    /// If values may come compressed: whether that is faster.
    pub tuner: Option<Arc<WireCodecTuner>>,
    /// If they may lose something within bounds: which.
    pub bounded: Option<Arc<Bounded>>,
}

/// What values belong to that are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Of {
    /// Number of the variable.
    pub(crate) variable: usize,
    /// Their type, if it is known.
    pub(crate) dtype: Option<DType>,
}

impl RemoteRank {
    /// The bytes of its log, and its files of values.
    ///
    /// # Errors
    /// Those of the link and of the other side; `Corrupt` for an answer that makes no sense.
    pub(crate) fn read(&self) -> Result<(Vec<u8>, RemoteValues, Option<RemoteValues>)> {
        let (mut log, mut lengths) = (Vec::new(), None);
        let lengths = loop {
            let question = Question::Log { file: self.file.clone(), rank: self.rank, from: log.len() as u64 };
            let answer = self.link.ask(&question.to_bytes()?)?;
            let (told, bytes) = answer.split_first_chunk().ok_or_else(|| self.senseless())?;
            let told = Lengths::from_bytes(told);
            if log.len() as u64 + bytes.len() as u64 > told.log {
                return Err(self.senseless());
            }
            // It may grow meanwhile. Its beginning, which came first, says nothing of what came later: that is left out.
            let lengths = *lengths.get_or_insert(told);
            let left = lengths.log.saturating_sub(log.len() as u64);
            let wanted = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            log.extend_from_slice(bytes.split_at(wanted).0);
            match lengths.log.saturating_sub(log.len() as u64) {
                0 => break lengths,
                _ if bytes.is_empty() || lengths.log > LONGEST_LOG => return Err(self.senseless()),
                _ => {}
            }
        };
        let values = |more: bool, length: u64| RemoteValues { remote: self.clone(), more, length };
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
pub(crate) struct RemoteValues {
    remote: RemoteRank,
    more: bool,
    pub(crate) length: u64,
}

impl RemoteValues {
    /// The bytes of all runs, `bytes` of them, one behind the other.
    ///
    /// # Errors
    /// Those of the link and of the other side; `Corrupt` for an answer that makes no sense.
    pub(crate) fn ask(&self, runs: &[Runs], bytes: u64, of: Option<Of>) -> Result<Vec<u8>> {
        let RemoteRank { link, file, rank, tuner, bounded } = &self.remote;
        let dtype = of.and_then(|of| of.dtype);
        let bounded = bounded.as_ref().zip(of);
        let within = bounded.map(|(bounded, of)| bounds_of(bounded, of.variable)).transpose()?.flatten();
        let within = within.filter(|within| dtype.is_some_and(|dtype| dtype.size() == within.dtype.size()));
        let bounded = bounded.filter(|_| within.is_some());
        let tuner = bounded.as_ref().map(|(bounded, _)| &bounded.tuner).or(tuner.as_ref());
        let way = tuner.filter(|_| dtype.is_some()).map_or(Way::Plain, |tuner| tuner.way());
        let (file, rank, more, begin) = (file.clone(), *rank, self.more, Instant::now());
        let (runs, packed) = (runs.to_vec(), dtype.filter(|_| way != Way::Plain));
        let asked = within.as_deref().map(|within| (within.clone(), way == Way::Bounded));
        let answer = link.ask(&Question::Values { file, rank, more, runs, packed, within: asked }.to_bytes()?)?;
        let (sent, bytes) = (answer.len() as u64, usize::try_from(bytes).unwrap_or(usize::MAX));
        let found = match way {
            Way::Bounded => unpack_within(answer, bytes),
            Way::Plain | Way::Packed => unpack(answer, bytes).map(|values| (values, Observed::default())),
        };
        let (found, worst) = found.map_err(|error| error.at(self.remote.place()))?;
        if let Some(tuner) = tuner {
            tuner.took(way, &found, (dtype, within.as_deref()), begin.elapsed());
        }
        if let Some((bounded, of)) = bounded {
            bounded.bounds.came(of.variable, Crossed { raw: found.len() as u64, sent, worst });
        }
        Ok(found)
    }
}

/// What may become of the values of a variable; `None` if it has no bound.
fn bounds_of(bounded: &Bounded, variable: usize) -> Result<Option<Arc<TransferBound>>> {
    let Bounded { bounds, offers, file, .. } = bounded;
    let ask = || offers.ask(&Question::Bounds { file: file.clone() }.to_bytes()?);
    bounds.of(variable, ask).map_err(|error| error.at(format!("node '{}'", offers.node())))
}
