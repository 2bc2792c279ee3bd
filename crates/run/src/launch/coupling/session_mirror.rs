//! The mirror of a component that writes, for programs of this node: its status, and its sessions as directories with the header
//! and the progress of the writer. For launchers of this node these are the directories in their spools. For others they are in
//! the spool of this run, without values: programs ask for those.
//!
//! Each launcher of the component lists the sessions that its node begins. A session says what lies on other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Gone, Presence, PublishedSessions, sessions_of_images};
use knarr_capture::{Datasets, HandedOver, NodePart, Reading, SpoolPlace};
use knarr_link::Link;

use crate::launch::coupling::partners::PartnerLauncher;
use crate::launch::coupling::session_server::{Ask, MadeFile, Note, Session, SessionList};
use crate::launch::coupling::status_report::{Key, StatusReport};

/// Bytes of a header, at most: as many as writers publish.
const LONGEST_HEADER: u64 = 1 << 28;

/// The image of a component that writes, for one that reads.
pub(in crate::launch) struct SessionMirror {
    /// The component, and the directory in which it is met.
    key: Key,
    reader: String,
    own: SpoolPlace,
    status: StatusReport,
    /// Its launchers, by their numbers.
    launchers: BTreeMap<u64, Known>,
    shown: BTreeMap<Of, MirroredSession>,
    /// Files that were made in place of sessions.
    files: BTreeMap<Of, MadeFile>,
    /// Sessions that this component has read, as the other side was told: what it says may be older.
    read: BTreeSet<Of>,
    made: u64,
}

/// A session: the launcher that tells of it, and the name of its directory there.
type Of = (u64, String);

/// What is known of a launcher.
#[derive(Default)]
struct Known {
    has_ended: bool,
    /// Why it is not reached.
    lost: Option<String>,
}

/// A session in the image.
struct MirroredSession {
    directory: PathBuf,
    session: Session,
    /// It is the writer's own directory.
    is_near: bool,
    /// What the other side was told.
    sent: BTreeSet<u64>,
}

/// What the other side is to be told.
pub(in crate::launch) struct News {
    of: Of,
    note: Note,
}

impl News {
    /// The launcher that is to be told.
    pub(in crate::launch) fn launcher(&self) -> u64 {
        self.of.0
    }
}

impl SessionMirror {
    /// Programs of the component `reader` are told of it, with so much [patience](StatusReport::new).
    pub(in crate::launch) fn new(own: &SpoolPlace, key: &Key, reader: &str, patience: Duration) -> Self {
        Self {
            key: key.clone(),
            reader: reader.to_owned(),
            own: own.clone(),
            status: StatusReport::new(own, key, patience),
            launchers: BTreeMap::new(),
            shown: BTreeMap::new(),
            files: BTreeMap::new(),
            read: BTreeSet::new(),
            made: 0,
        }
    }

    /// Tells programs what is known of the component. To be tried again, seldom, after an error.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn notify(&mut self) -> Result<()> {
        let lost = self.launchers.values().find_map(|known| known.lost.clone());
        let presence = if self.launchers.is_empty() || lost.is_some() {
            Presence::Absent
        } else if self.launchers.values().all(|known| known.has_ended) {
            Presence::Ended
        } else {
            Presence::Running
        };
        self.status.set(presence, lost);
        self.status.notify()
    }

    /// Whether a launcher was killed.
    pub(in crate::launch) fn set_killed(&mut self, was_killed: bool) {
        self.status.set_killed(was_killed);
    }

    /// There is a launcher that cannot be asked yet. That it has come is a sign of life.
    pub(in crate::launch) fn await_way(&mut self, launcher: u64, why: &str) {
        if !self.launchers.contains_key(&launcher) {
            self.status.heard();
        }
        self.launchers.entry(launcher).or_default().lost = Some(why.to_owned());
    }

    /// There is a launcher, which is to be heard.
    pub(in crate::launch) fn expect(&mut self, launcher: u64) {
        self.launchers.insert(launcher, Known::default());
    }

    /// A launcher has gone, or is that of another run: what it has told of is there no more.
    pub(in crate::launch) fn forget(&mut self, launcher: u64) {
        self.launchers.remove(&launcher);
        self.read.retain(|(of, _)| *of != launcher);
        self.files.retain(|(of, _), _| *of != launcher);
        self.drop_where(|(of, _)| *of == launcher);
    }

    fn drop_where(&mut self, is_gone: impl Fn(&Of) -> bool) {
        let gone: Vec<Of> = self.shown.keys().filter(|of| is_gone(of)).cloned().collect();
        let gone: Vec<MirroredSession> = gone.iter().filter_map(|of| self.shown.remove(of)).collect();
        gone.iter().for_each(|shown| self.take_back(shown));
    }

    /// A launcher cannot be reached.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn lost(&mut self, launcher: u64, why: &str) -> Result<()> {
        self.launchers.entry(launcher).or_default().lost = Some(why.to_owned());
        self.notify()
    }

    /// True if a launcher cannot be reached.
    pub(in crate::launch) fn is_lost(&self, launcher: u64) -> bool {
        self.launchers.get(&launcher).is_some_and(|known| known.lost.is_some())
    }

    /// The sessions of which more is to be brought from other nodes to show what a launcher has told, with what is shown now.
    pub(in crate::launch) fn wants(&self, launcher: u64, list: &SessionList) -> Vec<Session> {
        let is_new = |session: &&Session| {
            let of = (launcher, session.file.clone());
            let shown = self.shown.get(&of).map(|shown| &shown.session);
            !self.read.contains(&of) && shown.is_none_or(|shown| shown.header != session.header)
        };
        list.sessions.iter().filter(is_new).cloned().collect()
    }

    /// Shows what a launcher has told, with the headers of sessions of other nodes that are new.
    ///
    /// # Errors
    /// `Write`; `Corrupt` for what makes no sense.
    pub(in crate::launch) fn update(
        &mut self,
        (launcher, other): (u64, &PartnerLauncher),
        list: SessionList,
        mut headers: BTreeMap<String, Header>,
    ) -> Result<()> {
        let known = Known { has_ended: list.has_ended, lost: None };
        let is_listed = |(of, file): &Of| *of != launcher || list.sessions.iter().any(|session| session.file == *file);
        self.read.retain(is_listed);
        self.drop_where(|of| !is_listed(of));
        for session in list.sessions {
            let header = headers.remove(&session.file);
            self.show(launcher, other, session, header)?;
        }
        self.files.retain(|(of, _), _| *of != launcher);
        for file in list.files {
            let sessions = self.sessions(&file.target)?;
            if sessions.made()?.as_ref() != Some(&file.made) {
                sessions.note_made(&file.made)?;
            }
            self.files.insert((launcher, file.file.clone()), file);
        }
        // Programs that hear of an end have seen what was there before.
        self.launchers.insert(launcher, known);
        self.notify()
    }

    /// Where programs see the sessions of a file.
    fn sessions(&self, target: &Path) -> Result<PublishedSessions> {
        if !target.is_absolute() {
            return Err(Error::corrupt("a session of a file without a place").at(target.display().to_string()));
        }
        Ok(PublishedSessions::shown(&self.own.directory, &self.key.0, &self.key.1, target))
    }

    fn take_back(&self, shown: &MirroredSession) {
        let HandedOver { target, session, .. } = &shown.session.handed;
        if let Ok(sessions) = self.sessions(target) {
            sessions.withdraw(*session);
        }
        if !shown.is_near {
            HandedOver::discard(&shown.directory);
        }
    }

    fn show(&mut self, launcher: u64, other: &PartnerLauncher, session: Session, header: Option<Header>) -> Result<()> {
        let of = (launcher, session.file.clone());
        let known = self.shown.get(&of);
        if self.read.contains(&of) || known.is_some_and(|known| known.session == session) {
            return Ok(());
        }
        let (target, rule) = (&session.handed.target, session.handed.rule.transfer());
        if rule.from() != self.key.1 || !rule.to().contains(&self.reader) || !NodePart::is_name(&session.file) {
            return Err(Error::corrupt("a session that is not for this component").at(target.display().to_string()));
        }
        let sent = known.map(|known| known.sent.clone()).unwrap_or_default();
        let directory = match known {
            _ if other.is_near => other.launcher.spool.join(&session.file),
            Some(known) => known.directory.clone(),
            None => {
                self.made += 1;
                sessions_of_images(&self.own.directory).join(format!("{}-{}", self.key.1, self.made))
            }
        };
        if !other.is_near {
            // Without its header it has gone meanwhile, which the next answer tells.
            let before = known.map(|known| &known.session);
            if before.is_none_or(|before| before.header != session.header) && header.is_none() {
                return Ok(());
            }
            let brought = bring(other, (&session, before), header, &directory, &self.key.1);
            if before.is_none() && brought.is_err() {
                HandedOver::discard(&directory);
            }
            brought?;
        }
        self.sessions(&session.handed.target)?.publish(session.handed.session, &directory)?;
        self.shown.insert(of, MirroredSession { directory, session, is_near: other.is_near, sent });
        Ok(())
    }

    /// What the other side does not know yet of how far programs here are.
    pub(in crate::launch) fn news(&self) -> Vec<News> {
        let mut news = Vec::new();
        for (of, shown) in &self.shown {
            let (directory, reader) = (&shown.directory, self.reader.as_str());
            let mut add = |note: Note| {
                if !shown.sent.contains(&number(&note)) {
                    news.push(News { of: of.clone(), note });
                }
            };
            // Programs note it where the writer's launcher looks itself.
            if !shown.is_near {
                if HandedOver::is_noted(directory, reader, Reading::Begun) {
                    add(Note::Begun);
                }
                match HandedOver::transferred(directory, reader) {
                    0 => {}
                    count => add(Note::Transferred(count)),
                }
                if HandedOver::wants_file(directory, reader) {
                    add(Note::WantsFile);
                }
                HandedOver::failure(directory, reader).map(Note::Failed).into_iter().for_each(&mut add);
            }
            if HandedOver::is_noted(directory, reader, Reading::Done) {
                add(Note::Done);
            }
        }
        for (of, file) in &self.files {
            if self.sessions(&file.target).is_ok_and(|sessions| sessions.taken().as_ref() == Some(&file.made)) {
                news.push(News { of: of.clone(), note: Note::Done });
            }
        }
        news
    }

    /// The question that tells of it.
    pub(in crate::launch) fn ask(&self, News { of, note }: &News) -> Ask {
        Ask::Note { file: of.1.clone(), reader: self.reader.clone(), note: note.clone() }
    }

    /// The other side knows it.
    pub(in crate::launch) fn mark_sent(&mut self, News { of, note }: &News) {
        self.files.remove(of);
        if *note == Note::Done {
            if let Some(shown) = self.shown.remove(of) {
                self.read.insert(of.clone());
                self.take_back(&shown);
            }
        } else if let Some(shown) = self.shown.get_mut(of) {
            shown.sent.insert(number(note));
        }
    }
}

/// Tells one note from another.
fn number(note: &Note) -> u64 {
    match note {
        Note::Begun => 0,
        Note::Failed(_) => 1,
        Note::Done => 2,
        Note::WantsFile => 3,
        Note::Transferred(count) => 3 + count,
    }
}

/// Brings a session of another node to where its writer is with it.
fn bring(
    other: &PartnerLauncher,
    (session, before): (&Session, Option<&Session>),
    header: Option<Header>,
    directory: &Path,
    from: &str,
) -> Result<()> {
    let address = other.address.clone().ok_or_else(|| Error::internal("a launcher without an address"))?;
    fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
    if let Some(header) = header {
        header.save(directory)?;
    }
    if let Some(published) =
        session.published.as_ref().filter(|_| before.is_none_or(|before| before.published != session.published))
    {
        published.save(directory)?;
    }
    match session.gone {
        Some(rank) => Gone::note(
            directory,
            &format!("rank {rank} of component '{from}' has ended before it had closed the file"),
        )?,
        None => Gone::clear(directory),
    }
    let ranks = (0..session.handed.ranks).collect();
    let elsewhere =
        NodePart { peer: address.peer, spool: address.spool, token: address.token, file: session.file.clone(), ranks };
    let handed = session.handed.clone().elsewhere(elsewhere);
    if session.is_closed { handed.save(directory) } else { handed.begin(directory) }
}

/// The header of a session of another node, and which datasets it has.
pub(in crate::launch) struct Header {
    bytes: Vec<u8>,
    datasets: Option<Datasets>,
}

impl Header {
    /// Asks the launcher of the session for it, as the one whose spool has the token `own`. `None` if the session is gone.
    ///
    /// # Errors
    /// Those of the link; `Corrupt` for what makes no sense.
    pub(in crate::launch) fn ask(link: &dyn Link, own: &str, session: &Session) -> Result<Option<Self>> {
        match Self::read(link, own, session) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            header => header.map(Some),
        }
    }

    fn read(link: &dyn Link, own: &str, session: &Session) -> Result<Self> {
        let length = session.header.0;
        if length > LONGEST_HEADER {
            return Err(Error::corrupt("a header that is longer than headers are"));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let from = bytes.len() as u64;
            let piece = link.ask(&Ask::Header { file: session.file.clone(), from }.to_bytes(own)?)?;
            if piece.is_empty() || from + piece.len() as u64 > length {
                return Err(Error::new(ErrorKind::NotFound, "the header has changed while it was read"));
            }
            bytes.extend_from_slice(&piece);
        }
        let answer = link.ask(&Ask::Datasets { file: session.file.clone() }.to_bytes(own)?)?;
        let datasets = serde_json::from_slice(&answer)
            .map_err(|error| Error::corrupt(format!("an answer makes no sense: {error}")))?;
        Ok(Self { bytes, datasets })
    }

    fn save(&self, directory: &Path) -> Result<()> {
        if let Some(datasets) = &self.datasets {
            datasets.save(directory)?;
        }
        let (beside, published) = (directory.join("header.new"), directory.join(HandedOver::PUBLISHED));
        let header = directory.join(HandedOver::HEADER);
        let place = || {
            fs::write(&beside, &self.bytes)?;
            fs::rename(&beside, &published)?;
            // What makes a file of a session looks for this name.
            let _ = fs::remove_file(&header);
            fs::hard_link(&published, &header)
        };
        place().map_err(|error| Error::write(&published, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_capture::meeting::{Address, ComponentStatus, Launcher, Made};
    use knarr_capture::{Point, Published};
    use knarr_config::Config;
    use knarr_link::{Peer, Secret};

    /// A launcher whose sessions have one header, and one whose session has gone.
    struct Answering;
    struct Discarding;

    impl Link for Discarding {
        fn node(&self) -> &str {
            "a"
        }

        fn ask(&self, _: &[u8]) -> Result<Vec<u8>> {
            Err(Error::new(ErrorKind::NotFound, "the session is gone"))
        }
    }

    impl Link for Answering {
        fn node(&self) -> &str {
            "a"
        }

        fn ask(&self, question: &[u8]) -> Result<Vec<u8>> {
            Ok(if matches!(Ask::from_bytes(question), Some((_, Ask::Header { .. }))) {
                b"header"
            } else {
                b"null".as_slice()
            }
            .to_vec())
        }
    }

    fn other(node: &str) -> PartnerLauncher {
        let peer = Peer { node: node.to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let (spool, token) = (PathBuf::from("/dev/shm/none").join(node), format!("token of {node}"));
        let address = Some(Address { peer, spool: spool.clone(), token: token.clone() });
        let launcher = Launcher { node: node.to_owned(), spool, token, ..Launcher::default() };
        PartnerLauncher { launcher, is_near: false, address }
    }

    fn part(other: &PartnerLauncher, file: &str, ranks: &[usize]) -> NodePart {
        let Address { peer, spool, token } = other.address.clone().unwrap();
        NodePart { peer, spool, token, file: file.to_owned(), ranks: ranks.to_vec() }
    }

    /// What a launcher tells: sessions of these numbers.
    fn list(numbers: &[u64]) -> SessionList {
        let text = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"w\"\nto = [\"r\"]\n";
        let rule = Config::parse(text).unwrap().file.remove(0);
        let session = |number: &u64| Session {
            file: format!("1-{number}"),
            handed: HandedOver { session: *number, ..HandedOver::new(PathBuf::from("/data/x.nc"), rule.clone(), 2) },
            is_closed: false,
            header: (6, 1, 1),
            published: None,
            gone: None,
        };
        SessionList { sessions: numbers.iter().map(session).collect(), ..SessionList::default() }
    }

    fn headers(mirror: &SessionMirror, launcher: u64, link: &dyn Link, list: &SessionList) -> BTreeMap<String, Header> {
        let ask = |session: Session| Some((session.file.clone(), Header::ask(link, "own", &session).unwrap()?));
        mirror.wants(launcher, list).into_iter().filter_map(ask).collect()
    }

    fn mirror(folder: &Path) -> (SessionMirror, Key) {
        let own = SpoolPlace {
            directory: folder.to_owned(),
            places: Vec::new(),
            most: 1,
            disk: folder.to_owned(),
            node: "r".to_owned(),
            token: "own".to_owned(),
            peer: None,
        };
        let key = (PathBuf::from("/meet"), "w".to_owned());
        (SessionMirror::new(&own, &key, "r", Duration::MAX), key)
    }

    #[test]
    fn programs_see_what_launchers_of_other_nodes_tell() {
        let folder = std::env::temp_dir().join(format!("knarr-image-{}", std::process::id()));
        let (mut mirror, (rendezvous, from)) = mirror(&folder);
        let (a, b) = (other("a"), other("b"));
        let met = || ComponentStatus::read(&folder, &rendezvous, &from).unwrap();
        let update =
            |mirror: &mut SessionMirror, launcher: u64, other: &PartnerLauncher, link: &dyn Link, list: SessionList| {
                let headers = headers(mirror, launcher, link, &list);
                mirror.update((launcher, other), list, headers).unwrap();
            };
        (1..=2).for_each(|launcher| mirror.expect(launcher));
        mirror.notify().unwrap();
        assert_eq!(met().presence, Presence::Running, "it is to be heard");
        let mut apart = list(&[1]);
        let parts = vec![part(&a, "1-1", &[0]), part(&b, "7-7", &[1])];
        apart.sessions[0].handed.parts = parts.clone();
        update(&mut mirror, 1, &a, &Answering, apart.clone());
        update(&mut mirror, 2, &b, &Answering, list(&[2]));
        // One has gone before its header has come.
        let mut more = apart.clone();
        more.sessions.extend(list(&[3]).sessions);
        update(&mut mirror, 1, &a, &Discarding, more);
        let sessions = PublishedSessions::shown(&folder, &rendezvous, &from, Path::new("/data/x.nc"));
        let [(1, one), (2, two)] = &sessions.all()[..] else { panic!("{:?}", sessions.all()) };
        let handed = HandedOver::find(one).unwrap().unwrap();
        assert_eq!((handed.part, &handed.parts), (2, &parts));
        assert_eq!(handed.origin(one).unwrap(), ("token of a".to_owned(), "1-1".to_owned()));
        assert_eq!(HandedOver::find(two).unwrap().unwrap().parts, [part(&b, "1-2", &[0, 1])]);

        // A network that is cut may come back: sessions stay, and programs know why nothing comes.
        mirror.lost(2, "silent").unwrap();
        assert_eq!((met().presence, met().why.as_deref(), met().was_seen), (Presence::Absent, Some("silent"), true));
        assert_eq!(sessions.all().len(), 2);
        update(&mut mirror, 2, &b, &Answering, list(&[2]));
        assert_eq!((met().presence, met().why), (Presence::Running, None));

        // Definitions have changed, values are to be seen, and a rank has ended.
        let mut news = apart.clone();
        let newest = Point { order: 1, records: 1, stays: false };
        news.sessions[0].published = Some(Published { newest, transfers: Vec::new() });
        (news.sessions[0].header, news.sessions[0].gone) = ((6, 2, 2), Some(1));
        assert_eq!(mirror.wants(1, &news).len(), 1);
        update(&mut mirror, 1, &a, &Answering, news.clone());
        assert!(mirror.wants(1, &news).is_empty());
        assert_eq!(Published::read(one).unwrap().unwrap().newest, newest);
        assert!(Gone::why(one).unwrap().contains("rank 1 of component 'w' has ended"));

        // Each launcher has its sessions, and the program has ended when it has on all nodes.
        update(&mut mirror, 2, &b, &Answering, SessionList { has_ended: true, ..SessionList::default() });
        assert_eq!((sessions.all().len(), met().presence), (1, Presence::Running));
        update(&mut mirror, 1, &a, &Answering, SessionList { has_ended: true, ..news });
        assert_eq!(met().presence, Presence::Ended);
        mirror.forget(1);
        mirror.notify().unwrap();
        assert!(sessions.all().is_empty() && !one.exists());
        assert_eq!(met().presence, Presence::Ended);
        mirror.forget(2);
        mirror.notify().unwrap();
        assert_eq!((met().presence, met().was_seen), (Presence::Absent, true));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_other_side_hears_once_how_far_programs_are() {
        let folder = std::env::temp_dir().join(format!("knarr-image-news-{}", std::process::id()));
        let (mut mirror, (rendezvous, from)) = mirror(&folder);
        let a = other("a");
        mirror.expect(1);
        let mut all = list(&[1]);
        let made = Made { token: "token of a".to_owned(), session: 7, is_wanted: false };
        let target = PathBuf::from("/data/y.nc");
        all.files.push(MadeFile { file: "1-7".to_owned(), target: target.clone(), made: made.clone() });
        let files = all.files.clone();
        let headers = headers(&mirror, 1, &Answering, &all);
        mirror.update((1, &a), all, headers).unwrap();
        let sessions = PublishedSessions::shown(&folder, &rendezvous, &from, Path::new("/data/x.nc"));
        let session = sessions.all()[0].1.clone();
        let notes = |mirror: &mut SessionMirror| -> Vec<Note> {
            let news = mirror.news();
            news.iter().for_each(|news| mirror.mark_sent(news));
            news.into_iter().map(|news| news.note).collect()
        };
        assert_eq!(notes(&mut mirror), []);
        HandedOver::note_begun(&session, "r", "own").unwrap();
        assert_eq!(notes(&mut mirror), [Note::Begun]);
        for count in 1..=2 {
            HandedOver::note_transferred(&session, "r", count).unwrap();
            assert_eq!(notes(&mut mirror), [Note::Transferred(count)]);
        }
        assert_eq!(notes(&mut mirror), []);
        HandedOver::note_failed(&session, "r", "cut").unwrap();
        HandedOver::want_file(&session, "r").unwrap();
        HandedOver::note(&session, "r", Reading::Done).unwrap();
        assert_eq!(notes(&mut mirror), [Note::WantsFile, Note::Failed("cut".to_owned()), Note::Done]);
        assert!(sessions.all().is_empty() && !session.exists());
        // What is told of a session that was read is older than that.
        let again = SessionList { files, ..list(&[1]) };
        assert!(mirror.wants(1, &again).is_empty());
        mirror.update((1, &a), again, BTreeMap::new()).unwrap();
        assert!(sessions.all().is_empty());
        // A file that was made of a session.
        let of = PublishedSessions::shown(&folder, &rendezvous, &from, &target);
        assert_eq!(of.made().unwrap(), Some(made.clone()));
        of.take_made(&made).unwrap();
        let news = mirror.news();
        assert_eq!((news.len(), news[0].launcher(), &news[0].note), (1, 1, &Note::Done));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn sessions_of_this_node_are_seen_where_they_are() {
        let folder = std::env::temp_dir().join(format!("knarr-image-near-{}", std::process::id()));
        let (mut mirror, (rendezvous, from)) = mirror(&folder.join("own"));
        let spool = folder.join("other");
        fs::create_dir_all(spool.join("1-1")).unwrap();
        let launcher = Launcher { spool: spool.clone(), ..Launcher::default() };
        let near = PartnerLauncher { launcher, is_near: true, address: None };
        mirror.expect(1);
        mirror.update((1, &near), list(&[1]), BTreeMap::new()).unwrap();
        let sessions = PublishedSessions::shown(&folder.join("own"), &rendezvous, &from, Path::new("/data/x.nc"));
        assert_eq!(sessions.all(), [(1, spool.join("1-1"))]);
        HandedOver::note_begun(&spool.join("1-1"), "r", "own").unwrap();
        assert!(mirror.news().is_empty(), "its launcher sees that");
        mirror.update((1, &near), SessionList::default(), BTreeMap::new()).unwrap();
        assert!(sessions.all().is_empty() && spool.join("1-1").exists());
        // What is hostile leads to nowhere else.
        for file in ["..", "a/b", ""] {
            let mut list = list(&[1]);
            list.sessions[0].file = file.to_owned();
            assert!(mirror.update((1, &near), list, BTreeMap::new()).is_err(), "{file}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
