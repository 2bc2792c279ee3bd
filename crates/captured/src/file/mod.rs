//! One file that a program writes or reads, and whose values are handed over, whichever library has it. The hooks of a library
//! hold it beside what only that library knows of a file.
//!
//! Reading order: [`begin`], [`end`], [`parent`] (directories that are renamed meanwhile), [`files`] (those of a process).

pub(crate) mod begin;
pub(crate) mod end;
pub(crate) mod files;
mod parent;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use knarr_array::error::Error;
use knarr_config::FileRule;
use knarr_handover::{PutLog, RankValues};

use crate::ranks::Ranks;
use crate::sessions::ReadSession;
use crate::wanted::Wanted;

/// Where the values of a file are.
pub enum Values {
    /// In the spool of this run: the program writes the file.
    Own(Box<PutLog>),
    /// In that of another one: the program reads the file.
    ReadSession(Box<ReadSession>),
    /// In a file that the library reads and writes itself, or in another captured file of this process.
    Elsewhere,
}

/// A captured file. Its calls are made by one thread at a time.
pub struct CapturedFile {
    /// The name that the program gave it.
    pub named: Vec<u8>,
    /// Where that leads: the file, in the eyes of the program.
    pub target: PathBuf,
    /// What is to become of it.
    pub rule: FileRule,
    /// In the spool.
    pub directory: PathBuf,
    /// Number of the session if the file is transferred, else 0.
    pub session: u64,
    /// Its ranks.
    pub ranks: Ranks,
    /// Where values go, or come from.
    pub values: Values,
    /// The first error of handing over.
    failed: Option<Error>,
    /// How long the program was in its calls.
    blocked: Duration,
}

impl CapturedFile {
    /// A file that the program has called `named`, and what is in a `directory` of the spool of it, as session of that number.
    pub fn new(
        wanted: &Wanted,
        named: &[u8],
        (directory, session): (PathBuf, u64),
        ranks: Ranks,
        values: Values,
    ) -> Self {
        let (named, target, rule) = (named.to_vec(), wanted.target.clone(), wanted.rule.clone());
        Self { named, target, rule, directory, session, ranks, values, failed: None, blocked: Duration::ZERO }
    }

    /// A session that another component writes.
    pub fn incoming(wanted: &Wanted, named: &[u8], ranks: Ranks, incoming: ReadSession) -> Self {
        let place = (incoming.directory().to_owned(), incoming.session());
        Self::new(wanted, named, place, ranks, Values::ReadSession(Box::new(incoming)))
    }

    /// Where this program's puts go; `None` if it only reads.
    pub fn log(&mut self) -> Option<&mut PutLog> {
        match &mut self.values {
            Values::Own(log) => Some(log),
            Values::ReadSession(_) | Values::Elsewhere => None,
        }
    }

    /// True if this program's puts go into the spool.
    pub fn is_own(&self) -> bool {
        matches!(self.values, Values::Own(_))
    }

    /// True if the program reads what another component has put.
    pub fn is_incoming(&self) -> bool {
        matches!(self.values, Values::ReadSession(_))
    }

    /// The header, if the ranks share one.
    pub fn header(&self) -> PathBuf {
        self.ranks.header(&self.directory)
    }

    /// Where the values of each rank are, if the program writes the file.
    pub fn rank_values(&self) -> Vec<RankValues> {
        self.ranks.rank_values(&self.directory)
    }

    /// Notes an error of handing over, which no later call makes good. True if it is the first one, which counts.
    pub fn fail(&mut self, error: Error) -> bool {
        let is_first = self.failed.is_none();
        self.failed.get_or_insert(error);
        is_first
    }

    /// The first error of handing over.
    pub fn failed(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// The program was in a call since `begin`.
    pub fn blocked_since(&mut self, begin: Instant) {
        self.blocked += begin.elapsed();
    }
}
