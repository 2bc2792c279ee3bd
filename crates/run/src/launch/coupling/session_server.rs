//! Answers launchers of components on other nodes that read files of this program: which sessions there are, and how far each is.
//! Bytes of values are asked for by [`knarr_handover::Question`].

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Made, Watch};
use knarr_capture::{ALIVE, Datasets, HandedOver, NodePart, Published, Reading, settled};
use knarr_handover::PutLog;
use knarr_link::{Link, number_of};
use serde::{Deserialize, Serialize};

use crate::launch::coupling::partners::{has_ended, lives};

/// How long an answer waits for something to happen.
const WAIT: Duration = Duration::from_millis(500);
/// Bytes of a header in one answer.
const PIECE: u64 = 1 << 22;

/// What the launcher of a component that writes is asked. `file` is the name of a directory in its spool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::launch) enum Ask {
    /// What there is for a component, as a [`SessionList`]: when it is something else than what has the number `known`, or after a
    /// moment.
    Sessions { reader: String, known: u64 },
    /// A piece of the header of a session, as its bytes.
    Header { file: String, from: u64 },
    /// Which datasets the header has, as [`Option<Datasets>`].
    Datasets { file: String },
    /// Notes how far a component is. No answer.
    Note { file: String, reader: String, note: Note },
}

/// How far a component is with a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::launch) enum Note {
    /// It has opened it.
    Begun,
    /// It has called `dtf_transfer` so often.
    Transferred(u64),
    /// It wants a file of it.
    WantsFile,
    /// It could not read all that it asked for, and why.
    Failed(String),
    /// It has closed it.
    Done,
}

/// What there is for a component.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(in crate::launch) struct SessionList {
    /// The program has ended.
    pub(in crate::launch) has_ended: bool,
    pub(in crate::launch) sessions: Vec<Session>,
    /// Sessions of which files were made in place of what the component was to read.
    pub(in crate::launch) files: Vec<MadeFile>,
}

/// A file that was made of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::launch) struct MadeFile {
    /// Name of a directory in the spool, for notes.
    pub(in crate::launch) file: String,
    /// The file, as the program knows it.
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch) target: PathBuf,
    pub(in crate::launch) made: Made,
}

/// A session that a component is to read, and has not read yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::launch) struct Session {
    /// Name of its directory in the spool.
    pub(in crate::launch) file: String,
    /// Who it is for, and when it is closed all of it.
    pub(in crate::launch) handed: HandedOver,
    pub(in crate::launch) is_closed: bool,
    /// By which this header is told from others: its bytes, when it was written, and its number in the file system.
    pub(in crate::launch) header: (u64, i64, u64),
    pub(in crate::launch) published: Option<Published>,
    /// A rank that has ended before it had closed the file.
    pub(in crate::launch) gone: Option<usize>,
}

impl Ask {
    /// The question of the launcher whose spool has this token: who asks is there.
    pub(in crate::launch) fn to_bytes(&self, asker: &str) -> Result<Vec<u8>> {
        serde_json::to_vec(&(asker, self)).map_err(|error| Error::internal(error.to_string()))
    }

    /// The question in these bytes, and who asks; `None` if they are something else.
    pub(in crate::launch) fn from_bytes(bytes: &[u8]) -> Option<(String, Self)> {
        serde_json::from_slice(bytes).ok()
    }

    /// The answer of a launcher with these spools to the one with the token `asker`.
    ///
    /// # Errors
    /// `NotFound` for what is not there, `Usage` for what cannot be asked; `Read`, `Write`.
    pub(in crate::launch) fn answer(&self, asker: &str, spools: &[PathBuf]) -> Result<Vec<u8>> {
        let gone = || Error::new(ErrorKind::NotFound, "the session is gone");
        let find = |file: &str| {
            let is_there = |path: &PathBuf| settled(|| fs::metadata(path)).is_ok_and(|found| found.is_dir());
            let found = spools.iter().map(|spool| spool.join(file)).find(is_there);
            found.filter(|_| NodePart::is_name(file)).ok_or_else(gone)
        };
        match self {
            Self::Sessions { reader, known } => sessions(spools, reader, *known),
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
            Self::Note { file, reader, note } => {
                let directory = find(file)?;
                let handed = HandedOver::find(&directory)?.or(HandedOver::file_of(&directory));
                let is_reader = handed.is_some_and(|handed| handed.rule.transfer().to().contains(reader));
                if !is_reader {
                    return Err(Error::usage("no component that reads the file"));
                }
                let noted = match note {
                    Note::Begun => HandedOver::note_begun(&directory, reader, asker),
                    Note::Transferred(count) => HandedOver::note_transferred(&directory, reader, *count),
                    Note::WantsFile => HandedOver::want_file(&directory, reader),
                    Note::Failed(why) => HandedOver::note_failed(&directory, reader, why),
                    Note::Done => HandedOver::note(&directory, reader, Reading::Done),
                };
                noted.map(|()| Vec::new())
            }
        }
    }
}

/// A launcher of this node, whose spool is asked in its place.
pub(in crate::launch) struct Near {
    node: String,
    spool: PathBuf,
}

impl Near {
    pub(in crate::launch) fn new(node: &str, spool: &Path) -> Self {
        Self { node: node.to_owned(), spool: spool.to_owned() }
    }
}

impl Link for Near {
    fn node(&self) -> &str {
        &self.node
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>> {
        if !lives(&self.spool) {
            return Err(Error::new(ErrorKind::Read, "its 'knarr run' was killed"));
        }
        let (asker, ask) = Ask::from_bytes(question).ok_or_else(|| Error::internal("no question"))?;
        ask.answer(&asker, std::slice::from_ref(&self.spool))
    }
}

fn written(what: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))
}

/// Waits for something else than what has the number `known`.
fn sessions(spools: &[PathBuf], reader: &str, known: u64) -> Result<Vec<u8>> {
    let (begin, mut watch) = (Instant::now(), Watch::new());
    loop {
        let mut list = SessionList { has_ended: spools.iter().any(|spool| has_ended(spool)), ..SessionList::default() };
        for spool in spools {
            watch.on(spool);
            let (sessions, files) = offered(spool, reader, &mut watch)?;
            list.sessions.extend(sessions);
            list.files.extend(files);
        }
        let text = written(&list)?;
        if number_of(&text) != known || begin.elapsed() > WAIT {
            return Ok(text);
        }
        watch.wait();
    }
}

/// The sessions in a spool that a component is to read and has not read, and those of which files were made for it. What nobody
/// can look at has not gone.
///
/// # Errors
/// `Read`.
fn offered(spool: &Path, reader: &str, watch: &mut Watch) -> Result<(Vec<Session>, Vec<MadeFile>)> {
    let (mut sessions, mut files) = (Vec::new(), Vec::new());
    for directory in HandedOver::directories(spool)? {
        let Some(file) = directory.file_name().and_then(|name| name.to_str()).map(ToOwned::to_owned) else { continue };
        // What is no file has a word for its name.
        if !file.starts_with(|first: char| first.is_ascii_digit())
            || HandedOver::is_noted(&directory, reader, Reading::Done)
        {
            continue;
        }
        if let Some(handed) = HandedOver::file_of(&directory) {
            if let (true, Ok(token)) =
                (handed.rule.transfer().to().iter().any(|name| name == reader), fs::read_to_string(spool.join(ALIVE)))
            {
                let is_wanted = HandedOver::wants_file(&directory, reader);
                let made = Made { token, session: handed.session, is_wanted };
                files.push(MadeFile { file, target: handed.target, made });
            }
            continue;
        }
        sessions.extend(session(&directory, reader, file, watch)?);
    }
    sessions.sort_by(|a, b| (&a.handed.target, a.handed.session).cmp(&(&b.handed.target, b.handed.session)));
    files.sort_by(|a, b| (&a.target, a.made.session).cmp(&(&b.target, b.made.session)));
    Ok((sessions, files))
}

/// The session in a directory, if a component is to read it.
///
/// # Errors
/// `Read`.
fn session(directory: &Path, reader: &str, file: String, watch: &mut Watch) -> Result<Option<Session>> {
    let mut found = readable(HandedOver::find(directory))?;
    // One that is begun at this moment has its record next.
    if found.is_none() {
        watch.on(directory);
        found = readable(HandedOver::find(directory))?;
    }
    let Some(handed) = found else { return Ok(None) };
    let rule = handed.rule.transfer();
    let is_for = handed.session > 0 && rule.is_read(handed.session) && rule.to().iter().any(|name| name == reader);
    if !is_for {
        return Ok(None);
    }
    watch.on(directory);
    // In this order: what is closed stays as it is.
    let is_closed = HandedOver::is_closed(directory);
    // Those of other nodes end with these if MPI can help it, and the launchers of their nodes are heard, too.
    let ranks = handed.own_part().map_or_else(|| (0..handed.ranks).collect(), |part| part.ranks.clone());
    let gone = ranks.into_iter().find(|&rank| !PutLog::is_held(&directory.join(HandedOver::log(rank))));
    let is_open = !is_closed && !HandedOver::is_closed(directory);
    let published = directory.join(HandedOver::PUBLISHED);
    let header = match settled(|| fs::metadata(&published)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| Error::read(&published, &error))?,
    };
    let handed = if is_closed { readable(HandedOver::read(directory))? } else { Some(handed) };
    let Some(handed) = handed else { return Ok(None) };
    let written = header.mtime_nsec().saturating_add(header.mtime().saturating_mul(1_000_000_000));
    Ok(Some(Session {
        file,
        is_closed,
        header: (header.len(), written, header.ino()),
        published: readable(Published::read(directory))?,
        gone: gone.filter(|_| is_open),
        handed,
    }))
}

/// What a record says; nothing if it is damaged.
fn readable<T>(read: Result<Option<T>>) -> Result<Option<T>> {
    read.or_else(|error| if error.kind() == ErrorKind::Corrupt { Ok(None) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_config::Config;

    const RULE: &str = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"a\"\nto = [\"b\"]\n";

    /// A spool with an open session of a file, that is offered.
    fn spool(name: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("knarr-offering-{}-{name}", std::process::id()));
        let directory = folder.join("spool").join("1-0");
        fs::create_dir_all(&directory).unwrap();
        let mut rule = Config::parse(RULE).unwrap().file.remove(0);
        rule.transfer_mut().unwrap().rendezvous = Some(folder.join("meet"));
        let handed = HandedOver { session: 1, ..HandedOver::new(PathBuf::from("/data/x.nc"), rule, 1) };
        handed.begin(&directory).unwrap();
        fs::write(directory.join(HandedOver::PUBLISHED), b"header").unwrap();
        fs::write(folder.join("spool").join(ALIVE), b"token").unwrap();
        (folder, directory)
    }

    fn list(folder: &Path, reader: &str) -> SessionList {
        let ask = Ask::Sessions { reader: reader.to_owned(), known: 0 };
        serde_json::from_slice(&ask.answer("asker", &[folder.join("spool")]).unwrap()).unwrap()
    }

    #[test]
    fn a_component_hears_of_what_it_is_to_read_until_it_has_read_it() {
        let (folder, directory) = spool("heard");
        let found = list(&folder, "b");
        assert_eq!(found.sessions.len(), 1);
        let session = &found.sessions[0];
        assert_eq!((session.file.as_str(), session.is_closed, session.header.0), ("1-0", false, 6));
        // Nobody holds the log of the only rank.
        assert_eq!((session.gone, found.has_ended), (Some(0), false));
        assert!(list(&folder, "c").sessions.is_empty());
        session.handed.save(&directory).unwrap();
        let found = list(&folder, "b");
        assert!(found.sessions[0].is_closed && found.sessions[0].gone.is_none());
        let spools = [folder.join("spool")];
        let note = |note: Note| Ask::Note { file: "1-0".to_owned(), reader: "b".to_owned(), note };
        let failed = Note::Failed("cut".to_owned());
        for note in [Note::Begun, Note::Transferred(3), failed, Note::WantsFile, Note::Done].map(note) {
            note.answer("asker", &spools).unwrap();
        }
        assert_eq!(HandedOver::begun_by(&directory, "b"), Some("asker".to_owned()));
        assert_eq!(HandedOver::failure(&directory, "b"), Some("cut".to_owned()));
        assert!(HandedOver::wants_file(&directory, "b") && !HandedOver::wants_file(&directory, "c"));
        assert_eq!((HandedOver::transferred(&directory, "b"), HandedOver::transferred(&directory, "c")), (3, 0));
        assert!(HandedOver::is_noted(&directory, "b", Reading::Done) && list(&folder, "b").sessions.is_empty());
        // An answer that is known comes after a moment only.
        let text = written(&list(&folder, "b")).unwrap();
        let (ask, begin) = (Ask::Sessions { reader: "b".to_owned(), known: number_of(&text) }, Instant::now());
        assert_eq!(ask.answer("asker", &spools).unwrap(), text);
        assert!(begin.elapsed() >= WAIT);
        // A file was made of the session: who was to read it hears of that.
        fs::remove_dir_all(&directory).unwrap();
        session.handed.note_file(&directory, &["b".to_owned()], &[]).unwrap();
        let found = list(&folder, "b");
        let made = Made { token: "token".to_owned(), session: 1, is_wanted: false };
        assert_eq!((found.sessions.len(), found.files.len(), &found.files[0].made), (0, 1, &made));
        assert!(list(&folder, "c").files.is_empty() && !found.has_ended);
        session.handed.note_file(&directory, &["b".to_owned()], &["b".to_owned()]).unwrap();
        assert!(list(&folder, "b").files[0].made.is_wanted);
        note(Note::Done).answer("asker", &spools).unwrap();
        fs::write(folder.join("spool").join(knarr_capture::ENDED), b"").unwrap();
        assert!(list(&folder, "b").files.is_empty() && list(&folder, "b").has_ended);
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
                Ask::Note { file: file(name), reader: file("b"), note: Note::Done },
            ] {
                assert_eq!(ask.answer("asker", &spools).unwrap_err().kind(), ErrorKind::NotFound, "{ask:?}");
            }
        }
        for reader in ["", "c", "../b", "b/../b"] {
            let ask = Ask::Note { file: file("1-0"), reader: file(reader), note: Note::Done };
            assert_eq!(ask.answer("asker", &spools).unwrap_err().kind(), ErrorKind::Usage, "{reader}");
        }
        let behind = Ask::Header { file: file("1-0"), from: u64::MAX }.answer("asker", &spools);
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
