//! What this launcher tells those of components on other nodes that read the files of its program: which sessions there are,
//! and how far each is. Bytes of values are asked for by [`knarr_handover::Question`].

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::meeting::{Offers, Watch};
use knarr_capture::{Datasets, HandedOver, NodePart, Published, Reading};
use knarr_handover::PutLog;
use serde::{Deserialize, Serialize};

/// How long an answer waits for something to happen.
const WAIT: Duration = Duration::from_millis(500);
/// Bytes of a header in one answer.
const PIECE: u64 = 1 << 22;

/// What the launcher of a component that writes is asked. `file` is the name of a directory in its spool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// What there is for a component, as a [`Told`]: when it is something else than what has the number `known`, or after a
    /// moment.
    Sessions { reader: String, known: u64 },
    /// A piece of the header of a session, as its bytes.
    Header { file: String, from: u64 },
    /// Which datasets the header has, as [`Option<Datasets>`].
    Datasets { file: String },
    /// Notes how far a component is. No answer.
    Note { file: String, reader: String, is_done: bool },
}

/// What there is for a component.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Told {
    /// The program has ended.
    pub(super) has_ended: bool,
    pub(super) sessions: Vec<Session>,
}

/// A session that a component is to read, and has not read yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    /// Name of its directory in the spool.
    pub(super) file: String,
    /// Who it is for, and when it is closed all of it.
    pub(super) handed: HandedOver,
    pub(super) is_closed: bool,
    /// Bytes of the header, and when it was written.
    pub(super) header: (u64, i64),
    pub(super) published: Option<Published>,
    /// A rank that has ended before it had closed the file.
    pub(super) gone: Option<usize>,
}

impl Ask {
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))
    }

    /// The question in these bytes; `None` if they are something else.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The answer of a launcher with these spools.
    ///
    /// # Errors
    /// `NotFound` for what is not there, `Usage` for what cannot be asked; `Read`, `Write`.
    pub(super) fn answer(&self, spools: &[PathBuf], has_ended: impl Fn() -> bool) -> Result<Vec<u8>> {
        let find = |file: &str| {
            let found = spools.iter().map(|spool| spool.join(file)).find(|directory| directory.is_dir());
            let missing = || Error::new(knarr_array::error::ErrorKind::NotFound, "the session is gone");
            found.filter(|_| NodePart::is_name(file)).ok_or_else(missing)
        };
        match self {
            Self::Sessions { reader, known } => sessions(spools, reader, *known, has_ended),
            Self::Header { file, from } => {
                let path = find(file)?.join(HandedOver::PUBLISHED);
                let read = || {
                    let header = File::open(&path)?;
                    let length = header.metadata()?.len().saturating_sub(*from).min(PIECE);
                    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                    header.read_exact_at(&mut bytes, *from).map(|()| bytes)
                };
                read().map_err(|error: std::io::Error| Error::read(&path, &error))
            }
            Self::Datasets { file } => written(&Datasets::read(&find(file)?)?),
            Self::Note { file, reader, is_done } => {
                let directory = find(file)?;
                let handed = HandedOver::find(&directory)?;
                let is_reader = handed.is_some_and(|handed| handed.rule.transfer.to().contains(reader));
                if !is_reader {
                    return Err(Error::usage("no component that reads the file"));
                }
                let reading = if *is_done { Reading::Done } else { Reading::Begun };
                HandedOver::note(&directory, reader, reading).map(|()| Vec::new())
            }
        }
    }
}

fn written(what: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))
}

/// Waits for something else than what has the number `known`.
fn sessions(spools: &[PathBuf], reader: &str, known: u64, has_ended: impl Fn() -> bool) -> Result<Vec<u8>> {
    let (begin, mut watch) = (Instant::now(), Watch::new());
    loop {
        let mut told = Told { has_ended: has_ended(), sessions: Vec::new() };
        for spool in spools {
            watch.on(spool);
            told.sessions.extend(offered(spool, reader, &mut watch));
        }
        let text = written(&told)?;
        if number_of(&text) != known || begin.elapsed() > WAIT {
            return Ok(text);
        }
        watch.wait();
    }
}

/// A number by which one answer is told from another.
pub(super) fn number_of(answer: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    answer.hash(&mut hasher);
    hasher.finish()
}

/// The sessions in a spool that a component is to read and has not read.
fn offered(spool: &Path, reader: &str, watch: &mut Watch) -> Vec<Session> {
    let mut found = Vec::new();
    for entry in fs::read_dir(spool).into_iter().flatten().flatten() {
        let directory = entry.path();
        let Ok(Some(handed)) = HandedOver::find(&directory) else { continue };
        let rule = &handed.rule.transfer;
        let is_for = handed.session > 0 && rule.is_read(handed.session) && rule.to().iter().any(|name| name == reader);
        if !is_for || HandedOver::is_noted(&directory, reader, Reading::Done) {
            continue;
        }
        let offers = Offers::of(rule, &handed.target);
        watch.on(&directory);
        watch.on(offers.directory());
        // In this order: what is closed stays as it is.
        let is_closed = HandedOver::is_closed(&directory);
        let gone = (0..handed.ranks).find(|&rank| !PutLog::is_held(&directory.join(HandedOver::log(rank))));
        let is_open = !is_closed && !HandedOver::is_closed(&directory);
        let header = fs::metadata(directory.join(HandedOver::PUBLISHED));
        let (Ok(header), true, Ok(file)) = (header, offers.has(handed.session), entry.file_name().into_string()) else {
            continue;
        };
        let handed = if is_closed { HandedOver::read(&directory).ok().flatten() } else { Some(handed) };
        let Some(handed) = handed else { continue };
        found.push(Session {
            file,
            is_closed,
            header: (header.len(), header.mtime_nsec().saturating_add(header.mtime().saturating_mul(1_000_000_000))),
            published: Published::read(&directory).ok().flatten(),
            gone: gone.filter(|_| is_open),
            handed,
        });
    }
    found.sort_by(|a, b| (&a.handed.target, a.handed.session).cmp(&(&b.handed.target, b.handed.session)));
    found
}
