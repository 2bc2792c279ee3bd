//! What the puts of all ranks into one file are, without their values. Programs that write a file again and again put the same
//! elements each time: what was found out about one file holds for the next one with equal logs.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use knarr_array::error::Result;
use knarr_array::region::Regions;

use crate::gather::moves::Answer;
use crate::gather::variable_puts::VariablePuts;
use crate::log::put::{Head, Put};
use crate::log::records::{BEGIN, records};

/// Moves that are remembered, at most: of 56 bytes each.
const MOST_MOVES: usize = 3 << 20;

/// The logs of all ranks, and what they say.
#[derive(Debug, Default)]
pub struct Pattern {
    /// Puts of later collective calls are not there.
    last: u64,
    /// There were such puts.
    has_later: bool,
    logs: Vec<Log>,
    /// By the numbers of variables.
    variables: BTreeMap<usize, Variable>,
    /// How regions were read.
    moves: Mutex<Remembered>,
}

/// The log of a rank.
#[derive(Debug)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    /// Bytes of values in the first file; those behind lie in the second one.
    pub(crate) first: u64,
    /// Bytes that the two files have to have.
    pub(crate) ends: [u64; 2],
    /// Bytes of all complete records.
    pub(crate) recorded: u64,
}

/// The puts into one variable.
#[derive(Debug, Default)]
struct Variable {
    records: Vec<Record>,
    puts: OnceLock<Result<VariablePuts>>,
}

/// A record of a log.
#[derive(Debug, Clone)]
struct Record {
    /// Later ones count: by collective call, then rank, then the order of the rank.
    order: (u64, usize, usize),
    /// Its payload in the log of the rank.
    payload: Range<usize>,
}

/// What was read: elements of a variable.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) variable: usize,
    pub(crate) regions: Regions,
    pub(crate) stride: Vec<u64>,
    /// Bytes of an element.
    pub(crate) size: usize,
}

#[derive(Debug, Default)]
struct Remembered {
    answers: HashMap<Question, Arc<Answer>>,
    moves: usize,
}

impl Pattern {
    /// From the logs of the ranks, without puts of later collective calls than number `last`. It is `before` if that has the
    /// same logs.
    ///
    /// # Errors
    /// `Corrupt` for a log that makes no sense.
    pub(crate) fn of(last: u64, logs: Vec<Vec<u8>>, before: Option<Arc<Self>>) -> Result<Arc<Self>> {
        let is_same = |before: &Arc<Self>| before.last == last && before.logs.iter().map(|log| &log.bytes).eq(&logs);
        if let Some(before) = before.filter(is_same) {
            return Ok(before);
        }
        let mut pattern = Self { last, ..Self::default() };
        for (rank, bytes) in logs.into_iter().enumerate() {
            let (first, records) = records(&bytes)?;
            let recorded = records.last().map_or(0, |last| last.end - BEGIN) as u64;
            let mut ends = [0, 0];
            for (at, payload) in records.into_iter().enumerate() {
                let head = Head::parse(bytes.get(payload.clone()).unwrap_or_default())?;
                if head.order > last {
                    pattern.has_later = true;
                    continue;
                }
                let (file, begin) = match head.offset.checked_sub(first) {
                    Some(behind) => (1, behind),
                    None => (0, head.offset),
                };
                if head.bytes > 0 {
                    ends[file] = ends[file].max(begin.saturating_add(head.bytes));
                }
                let variable = pattern.variables.entry(head.variable as usize).or_default();
                variable.records.push(Record { order: (head.order, rank, at), payload });
            }
            pattern.logs.push(Log { bytes, first, ends, recorded });
        }
        Ok(Arc::new(pattern))
    }

    /// True if the logs had puts of later collective calls, which are not there.
    pub(crate) fn has_later(&self) -> bool {
        self.has_later
    }

    pub(crate) fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// The put of a record, and its rank.
    fn put(&self, record: &Record) -> Result<(usize, Put)> {
        let rank = record.order.1;
        let payload = self.logs.get(rank).and_then(|log| log.bytes.get(record.payload.clone()));
        Put::parse(payload.unwrap_or_default()).map(|put| (rank, put))
    }

    /// Calls `check` with the number of each variable and each put into it that has elements.
    ///
    /// # Errors
    /// Those of `check`; `Corrupt` for a put that makes no sense.
    pub(crate) fn check(&self, mut check: impl FnMut(usize, &Put) -> Result<()>) -> Result<()> {
        for (&number, variable) in &self.variables {
            for record in &variable.records {
                let (_, put) = self.put(record)?;
                if put.byte_len() > 0 {
                    check(number, &put)?;
                }
            }
        }
        Ok(())
    }

    /// The puts into a variable; `None` if there are none.
    ///
    /// # Errors
    /// `Corrupt` for a put that makes no sense.
    pub(crate) fn puts_of(&self, variable: usize) -> Result<Option<&VariablePuts>> {
        let Some(variable) = self.variables.get(&variable) else { return Ok(None) };
        let puts = variable.puts.get_or_init(|| {
            let mut records: Vec<&Record> = variable.records.iter().collect();
            records.sort_unstable_by_key(|record| record.order);
            VariablePuts::new(records.into_iter().map(|record| self.put(record)))
        });
        puts.as_ref().map(Some).map_err(Clone::clone)
    }

    /// How the same elements were read before.
    pub(crate) fn answer(&self, question: &Question) -> Option<Arc<Answer>> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner).answers.get(question).cloned()
    }

    /// Remembers how elements were read, if there is room.
    pub(crate) fn remember(&self, question: Question, answer: Answer) {
        let mut remembered = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = answer.moves.len() + question.regions.len();
        if remembered.moves + cost <= MOST_MOVES {
            remembered.moves += cost;
            remembered.answers.insert(question, Arc::new(answer));
        }
    }
}
