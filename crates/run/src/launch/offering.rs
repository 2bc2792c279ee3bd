//! What this launcher tells those of components on other nodes that read the files of its program: which sessions there are,
//! and how far each is. Bytes of values are asked for by [`knarr_handover::Question`].

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
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
    /// The question of the launcher whose spool has this token: who asks is there.
    pub(super) fn to_bytes(&self, asker: &str) -> Result<Vec<u8>> {
        serde_json::to_vec(&(asker, self)).map_err(|error| Error::internal(error.to_string()))
    }

    /// The question in these bytes, and who asks; `None` if they are something else.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<(String, Self)> {
        serde_json::from_slice(bytes).ok()
    }

    /// The answer of a launcher with these spools.
    ///
    /// # Errors
    /// `NotFound` for what is not there, `Usage` for what cannot be asked; `Read`, `Write`.
    pub(super) fn answer(&self, spools: &[PathBuf], has_ended: impl Fn() -> bool) -> Result<Vec<u8>> {
        let gone = || Error::new(ErrorKind::NotFound, "the session is gone");
        let find = |file: &str| {
            let found = spools.iter().map(|spool| spool.join(file)).find(|directory| directory.is_dir());
            found.filter(|_| NodePart::is_name(file)).ok_or_else(gone)
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
                read().map_err(|error: std::io::Error| match error.kind() {
                    std::io::ErrorKind::NotFound => gone(),
                    _ => Error::read(&path, &error),
                })
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
        // Those of other nodes end with these if MPI can help it, and the launchers of their nodes are heard, too.
        let ranks = handed.own_part().map_or_else(|| (0..handed.ranks).collect(), |part| part.ranks.clone());
        let gone = ranks.into_iter().find(|&rank| !PutLog::is_held(&directory.join(HandedOver::log(rank))));
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

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_capture::config::Config;

    const RULE: &str = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"a\"\nto = [\"b\"]\n";

    /// A spool with an open session of a file, that is offered.
    fn spool(name: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("knarr-offering-{}-{name}", std::process::id()));
        let directory = folder.join("spool").join("1-0");
        fs::create_dir_all(&directory).unwrap();
        let mut rule = Config::parse(RULE).unwrap().file.remove(0);
        rule.transfer.rendezvous = Some(folder.join("meet"));
        let handed = HandedOver { session: 1, ..HandedOver::new(PathBuf::from("/data/x.nc"), rule, 1) };
        handed.begin(&directory).unwrap();
        fs::write(directory.join(HandedOver::PUBLISHED), b"header").unwrap();
        Offers::of(&handed.rule.transfer, &handed.target).offer(1, &directory).unwrap();
        (folder, directory)
    }

    fn told(folder: &Path, reader: &str) -> Told {
        let ask = Ask::Sessions { reader: reader.to_owned(), known: 0 };
        serde_json::from_slice(&ask.answer(&[folder.join("spool")], || false).unwrap()).unwrap()
    }

    #[test]
    fn a_component_hears_of_what_it_is_to_read_until_it_has_read_it() {
        let (folder, directory) = spool("heard");
        let found = told(&folder, "b");
        assert_eq!(found.sessions.len(), 1);
        let session = &found.sessions[0];
        assert_eq!((session.file.as_str(), session.is_closed, session.header.0), ("1-0", false, 6));
        // Nobody holds the log of the only rank.
        assert_eq!((session.gone, found.has_ended), (Some(0), false));
        assert!(told(&folder, "c").sessions.is_empty());
        session.handed.save(&directory).unwrap();
        let found = told(&folder, "b");
        assert!(found.sessions[0].is_closed && found.sessions[0].gone.is_none());
        let note = Ask::Note { file: "1-0".to_owned(), reader: "b".to_owned(), is_done: true };
        let spools = [folder.join("spool")];
        note.answer(&spools, || false).unwrap();
        assert!(HandedOver::is_noted(&directory, "b", Reading::Done) && told(&folder, "b").sessions.is_empty());
        // An answer that is known comes after a moment only.
        let text = written(&told(&folder, "b")).unwrap();
        let (ask, begin) = (Ask::Sessions { reader: "b".to_owned(), known: number_of(&text) }, Instant::now());
        assert_eq!(ask.answer(&spools, || false).unwrap(), text);
        assert!(begin.elapsed() >= WAIT);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn hostile_questions_are_errors_and_leave_nothing() {
        let (folder, directory) = spool("hostile");
        let files = || fs::read_dir(&directory).unwrap().count();
        let before = files();
        let spools = [folder.join("spool")];
        let file = |name: &str| name.to_owned();
        for name in ["../spool/1-0", "", ".", "..", "1-0/", "/etc", "2-0"] {
            for ask in [
                Ask::Header { file: file(name), from: 0 },
                Ask::Datasets { file: file(name) },
                Ask::Note { file: file(name), reader: file("b"), is_done: true },
            ] {
                assert_eq!(ask.answer(&spools, || false).unwrap_err().kind(), ErrorKind::NotFound, "{ask:?}");
            }
        }
        for reader in ["", "c", "../b", "b/../b"] {
            let ask = Ask::Note { file: file("1-0"), reader: file(reader), is_done: true };
            assert_eq!(ask.answer(&spools, || false).unwrap_err().kind(), ErrorKind::Usage, "{reader}");
        }
        let behind = Ask::Header { file: file("1-0"), from: u64::MAX }.answer(&spools, || false);
        assert!(behind.is_ok_and(|bytes| bytes.is_empty()));
        assert_eq!(files(), before);
        for bytes in [b"{}".as_slice(), b"\xFF", b"{\"Header\":{\"file\":1}}", b"{\"Sessions\":{}}", b"[]"] {
            assert_eq!(Ask::from_bytes(bytes), None);
        }
        let (ask, asker) = (Ask::Datasets { file: file("1-0") }, "token");
        assert_eq!(Ask::from_bytes(&ask.to_bytes(asker).unwrap()), Some((asker.to_owned(), ask)));
        fs::remove_dir_all(folder).unwrap();
    }
}
