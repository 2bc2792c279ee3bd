//! The image of a component that writes, as programs of this node see it: what is known of it, and its sessions as directories in
//! which they find the header and how far the writer is. Of launchers of this node those are the directories in their spools; of
//! others they are in this run's spool, and values stay where they are: programs ask for what they get of them.
//!
//! Each launcher of the component tells of the sessions that its node begins. What lies on the nodes of others is known of a
//! session.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Gone, Offers, Presence, sessions_of_images};
use knarr_capture::{Datasets, HandedOver, NodePart, Reading, SpoolPlace};
use knarr_link::Link;

use crate::launch::coupling::offering::{Ask, MadeFile, Note, Session, Told};
use crate::launch::coupling::partners::Other;
use crate::launch::coupling::telling::{Key, Telling};

/// Bytes of a header, at most: as many as writers publish.
const LONGEST_HEADER: u64 = 1 << 28;

/// The image of a component that writes, for one that reads.
pub(in crate::launch) struct Image {
    /// The component, and the directory in which it is met.
    key: Key,
    reader: String,
    own: SpoolPlace,
    telling: Telling,
    /// Its launchers, by their numbers.
    launchers: BTreeMap<u64, Known>,
    shown: BTreeMap<Of, Shown>,
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
struct Shown {
    directory: PathBuf,
    session: Session,
    /// It is the writer's own directory.
    is_near: bool,
    /// What the other side was told.
    told: BTreeSet<u64>,
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

impl Image {
    /// Programs of the component `reader` are told of it, with so much [patience](Telling::new).
    pub(in crate::launch) fn new(own: &SpoolPlace, key: &Key, reader: &str, patience: Duration) -> Self {
        Self {
            key: key.clone(),
            reader: reader.to_owned(),
            own: own.clone(),
            telling: Telling::new(own, key, patience),
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
    pub(in crate::launch) fn tell(&mut self) -> Result<()> {
        let lost = self.launchers.values().find_map(|known| known.lost.clone());
        let presence = if self.launchers.is_empty() || lost.is_some() {
            Presence::Absent
        } else if self.launchers.values().all(|known| known.has_ended) {
            Presence::Ended
        } else {
            Presence::Running
        };
        self.telling.set(presence, lost);
        self.telling.tell()
    }

    /// Whether a launcher was killed.
    pub(in crate::launch) fn set_killed(&mut self, was_killed: bool) {
        self.telling.set_killed(was_killed);
    }

    /// There is a launcher that cannot be asked yet. That it has come is a sign of life.
    pub(in crate::launch) fn await_way(&mut self, launcher: u64, why: &str) {
        if !self.launchers.contains_key(&launcher) {
            self.telling.heard();
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
        let gone: Vec<Shown> = gone.iter().filter_map(|of| self.shown.remove(of)).collect();
        gone.iter().for_each(|shown| self.take_back(shown));
    }

    /// A launcher cannot be reached.
    ///
    /// # Errors
    /// `Write`.
    pub(in crate::launch) fn lost(&mut self, launcher: u64, why: &str) -> Result<()> {
        self.launchers.entry(launcher).or_default().lost = Some(why.to_owned());
        self.tell()
    }

    /// True if a launcher cannot be reached.
    pub(in crate::launch) fn is_lost(&self, launcher: u64) -> bool {
        self.launchers.get(&launcher).is_some_and(|known| known.lost.is_some())
    }

    /// The sessions of which more is to be brought from other nodes to show what a launcher has told, with what is shown now.
    pub(in crate::launch) fn wants(&self, launcher: u64, told: &Told) -> Vec<Session> {
        let is_new = |session: &&Session| {
            let of = (launcher, session.file.clone());
            let shown = self.shown.get(&of).map(|shown| &shown.session);
            !self.read.contains(&of) && shown.is_none_or(|shown| shown.header != session.header)
        };
        told.sessions.iter().filter(is_new).cloned().collect()
    }

    /// Shows what a launcher has told, with the headers of sessions of other nodes that are new.
    ///
    /// # Errors
    /// `Write`; `Corrupt` for what makes no sense.
    pub(in crate::launch) fn update(
        &mut self,
        (launcher, other): (u64, &Other),
        told: Told,
        mut headers: BTreeMap<String, Header>,
    ) -> Result<()> {
        let known = Known { has_ended: told.has_ended, lost: None };
        let is_told = |(of, file): &Of| *of != launcher || told.sessions.iter().any(|told| told.file == *file);
        self.read.retain(is_told);
        self.drop_where(|of| !is_told(of));
        for session in told.sessions {
            let header = headers.remove(&session.file);
            self.show(launcher, other, session, header)?;
        }
        self.files.retain(|(of, _), _| *of != launcher);
        for file in told.files {
            let offers = self.offers(&file.target)?;
            if offers.made()?.as_ref() != Some(&file.made) {
                offers.note_made(&file.made)?;
            }
            self.files.insert((launcher, file.file.clone()), file);
        }
        // Programs that hear of an end have seen what was there before.
        self.launchers.insert(launcher, known);
        self.tell()
    }

    /// Where programs see the sessions of a file.
    fn offers(&self, target: &Path) -> Result<Offers> {
        if !target.is_absolute() {
            return Err(Error::corrupt("a session of a file without a place").at(target.display().to_string()));
        }
        Ok(Offers::shown(&self.own.directory, &self.key.0, &self.key.1, target))
    }

    fn take_back(&self, shown: &Shown) {
        let HandedOver { target, session, .. } = &shown.session.handed;
        if let Ok(offers) = self.offers(target) {
            offers.withdraw(*session);
        }
        if !shown.is_near {
            HandedOver::discard(&shown.directory);
        }
    }

    fn show(&mut self, launcher: u64, other: &Other, session: Session, header: Option<Header>) -> Result<()> {
        let of = (launcher, session.file.clone());
        let known = self.shown.get(&of);
        if self.read.contains(&of) || known.is_some_and(|known| known.session == session) {
            return Ok(());
        }
        let (target, rule) = (&session.handed.target, &session.handed.rule.transfer);
        if rule.from() != self.key.1 || !rule.to().contains(&self.reader) || !NodePart::is_name(&session.file) {
            return Err(Error::corrupt("a session that is not for this component").at(target.display().to_string()));
        }
        let told = known.map(|known| known.told.clone()).unwrap_or_default();
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
        self.offers(&session.handed.target)?.offer(session.handed.session, &directory)?;
        self.shown.insert(of, Shown { directory, session, is_near: other.is_near, told });
        Ok(())
    }

    /// What the other side does not know yet of how far programs here are.
    pub(in crate::launch) fn news(&self) -> Vec<News> {
        let mut news = Vec::new();
        for (of, shown) in &self.shown {
            let (directory, reader) = (&shown.directory, self.reader.as_str());
            let mut add = |note: Note| {
                if !shown.told.contains(&number(&note)) {
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
            if self.offers(&file.target).is_ok_and(|offers| offers.taken().as_ref() == Some(&file.made)) {
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
    pub(in crate::launch) fn told(&mut self, News { of, note }: &News) {
        self.files.remove(of);
        if *note == Note::Done {
            if let Some(shown) = self.shown.remove(of) {
                self.read.insert(of.clone());
                self.take_back(&shown);
            }
        } else if let Some(shown) = self.shown.get_mut(of) {
            shown.told.insert(number(note));
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
    other: &Other,
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
    use knarr_capture::meeting::{Address, Launcher, Made, Met};
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

    fn other(node: &str) -> Other {
        let peer = Peer { node: node.to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let (spool, token) = (PathBuf::from("/dev/shm/none").join(node), format!("token of {node}"));
        let address = Some(Address { peer, spool: spool.clone(), token: token.clone() });
        let launcher = Launcher { node: node.to_owned(), spool, token, ..Launcher::default() };
        Other { launcher, is_near: false, address }
    }

    fn part(other: &Other, file: &str, ranks: &[usize]) -> NodePart {
        let Address { peer, spool, token } = other.address.clone().unwrap();
        NodePart { peer, spool, token, file: file.to_owned(), ranks: ranks.to_vec() }
    }

    /// What a launcher tells: sessions of these numbers.
    fn told(numbers: &[u64]) -> Told {
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
        Told { sessions: numbers.iter().map(session).collect(), ..Told::default() }
    }

    fn headers(image: &Image, launcher: u64, link: &dyn Link, told: &Told) -> BTreeMap<String, Header> {
        let ask = |session: Session| Some((session.file.clone(), Header::ask(link, "own", &session).unwrap()?));
        image.wants(launcher, told).into_iter().filter_map(ask).collect()
    }

    fn image(folder: &Path) -> (Image, Key) {
        let own = SpoolPlace {
            directory: folder.to_owned(),
            most: 1,
            disk: folder.to_owned(),
            node: "r".to_owned(),
            token: "own".to_owned(),
            peer: None,
        };
        let key = (PathBuf::from("/meet"), "w".to_owned());
        (Image::new(&own, &key, "r", Duration::MAX), key)
    }

    #[test]
    fn programs_see_what_launchers_of_other_nodes_tell() {
        let folder = std::env::temp_dir().join(format!("knarr-image-{}", std::process::id()));
        let (mut image, (rendezvous, from)) = image(&folder);
        let (a, b) = (other("a"), other("b"));
        let met = || Met::read(&folder, &rendezvous, &from).unwrap();
        let update = |image: &mut Image, launcher: u64, other: &Other, link: &dyn Link, told: Told| {
            let headers = headers(image, launcher, link, &told);
            image.update((launcher, other), told, headers).unwrap();
        };
        (1..=2).for_each(|launcher| image.expect(launcher));
        image.tell().unwrap();
        assert_eq!(met().presence, Presence::Running, "it is to be heard");
        let mut apart = told(&[1]);
        let parts = vec![part(&a, "1-1", &[0]), part(&b, "7-7", &[1])];
        apart.sessions[0].handed.parts = parts.clone();
        update(&mut image, 1, &a, &Answering, apart.clone());
        update(&mut image, 2, &b, &Answering, told(&[2]));
        // One has gone before its header has come.
        let mut more = apart.clone();
        more.sessions.extend(told(&[3]).sessions);
        update(&mut image, 1, &a, &Discarding, more);
        let offers = Offers::shown(&folder, &rendezvous, &from, Path::new("/data/x.nc"));
        let [(1, one), (2, two)] = &offers.all()[..] else { panic!("{:?}", offers.all()) };
        let handed = HandedOver::find(one).unwrap().unwrap();
        assert_eq!((handed.part, &handed.parts), (2, &parts));
        assert_eq!(handed.origin(one).unwrap(), ("token of a".to_owned(), "1-1".to_owned()));
        assert_eq!(HandedOver::find(two).unwrap().unwrap().parts, [part(&b, "1-2", &[0, 1])]);

        // A network that is cut may come back: sessions stay, and programs know why nothing comes.
        image.lost(2, "silent").unwrap();
        assert_eq!((met().presence, met().why.as_deref(), met().was_seen), (Presence::Absent, Some("silent"), true));
        assert_eq!(offers.all().len(), 2);
        update(&mut image, 2, &b, &Answering, told(&[2]));
        assert_eq!((met().presence, met().why), (Presence::Running, None));

        // Definitions have changed, values are to be seen, and a rank has ended.
        let mut news = apart.clone();
        let newest = Point { order: 1, records: 1, stays: false };
        news.sessions[0].published = Some(Published { newest, transfers: Vec::new() });
        (news.sessions[0].header, news.sessions[0].gone) = ((6, 2, 2), Some(1));
        assert_eq!(image.wants(1, &news).len(), 1);
        update(&mut image, 1, &a, &Answering, news.clone());
        assert!(image.wants(1, &news).is_empty());
        assert_eq!(Published::read(one).unwrap().unwrap().newest, newest);
        assert!(Gone::why(one).unwrap().contains("rank 1 of component 'w' has ended"));

        // Each launcher has its sessions, and the program has ended when it has on all nodes.
        update(&mut image, 2, &b, &Answering, Told { has_ended: true, ..Told::default() });
        assert_eq!((offers.all().len(), met().presence), (1, Presence::Running));
        update(&mut image, 1, &a, &Answering, Told { has_ended: true, ..news });
        assert_eq!(met().presence, Presence::Ended);
        image.forget(1);
        image.tell().unwrap();
        assert!(offers.all().is_empty() && !one.exists());
        assert_eq!(met().presence, Presence::Ended);
        image.forget(2);
        image.tell().unwrap();
        assert_eq!((met().presence, met().was_seen), (Presence::Absent, true));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_other_side_hears_once_how_far_programs_are() {
        let folder = std::env::temp_dir().join(format!("knarr-image-news-{}", std::process::id()));
        let (mut image, (rendezvous, from)) = image(&folder);
        let a = other("a");
        image.expect(1);
        let mut all = told(&[1]);
        let made = Made { token: "token of a".to_owned(), session: 7, is_wanted: false };
        let target = PathBuf::from("/data/y.nc");
        all.files.push(MadeFile { file: "1-7".to_owned(), target: target.clone(), made: made.clone() });
        let files = all.files.clone();
        let headers = headers(&image, 1, &Answering, &all);
        image.update((1, &a), all, headers).unwrap();
        let offers = Offers::shown(&folder, &rendezvous, &from, Path::new("/data/x.nc"));
        let session = offers.all()[0].1.clone();
        let notes = |image: &mut Image| -> Vec<Note> {
            let news = image.news();
            news.iter().for_each(|news| image.told(news));
            news.into_iter().map(|news| news.note).collect()
        };
        assert_eq!(notes(&mut image), []);
        HandedOver::note_begun(&session, "r", "own").unwrap();
        assert_eq!(notes(&mut image), [Note::Begun]);
        for count in 1..=2 {
            HandedOver::note_transferred(&session, "r", count).unwrap();
            assert_eq!(notes(&mut image), [Note::Transferred(count)]);
        }
        assert_eq!(notes(&mut image), []);
        HandedOver::note_failed(&session, "r", "cut").unwrap();
        HandedOver::want_file(&session, "r").unwrap();
        HandedOver::note(&session, "r", Reading::Done).unwrap();
        assert_eq!(notes(&mut image), [Note::WantsFile, Note::Failed("cut".to_owned()), Note::Done]);
        assert!(offers.all().is_empty() && !session.exists());
        // What is told of a session that was read is older than that.
        let again = Told { files, ..told(&[1]) };
        assert!(image.wants(1, &again).is_empty());
        image.update((1, &a), again, BTreeMap::new()).unwrap();
        assert!(offers.all().is_empty());
        // A file that was made of a session.
        let of = Offers::shown(&folder, &rendezvous, &from, &target);
        assert_eq!(of.made().unwrap(), Some(made.clone()));
        of.take_made(&made).unwrap();
        let news = image.news();
        assert_eq!((news.len(), news[0].launcher(), &news[0].note), (1, 1, &Note::Done));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn sessions_of_this_node_are_seen_where_they_are() {
        let folder = std::env::temp_dir().join(format!("knarr-image-near-{}", std::process::id()));
        let (mut image, (rendezvous, from)) = image(&folder.join("own"));
        let spool = folder.join("other");
        fs::create_dir_all(spool.join("1-1")).unwrap();
        let launcher = Launcher { spool: spool.clone(), ..Launcher::default() };
        let near = Other { launcher, is_near: true, address: None };
        image.expect(1);
        image.update((1, &near), told(&[1]), BTreeMap::new()).unwrap();
        let offers = Offers::shown(&folder.join("own"), &rendezvous, &from, Path::new("/data/x.nc"));
        assert_eq!(offers.all(), [(1, spool.join("1-1"))]);
        HandedOver::note_begun(&spool.join("1-1"), "r", "own").unwrap();
        assert!(image.news().is_empty(), "its launcher sees that");
        image.update((1, &near), Told::default(), BTreeMap::new()).unwrap();
        assert!(offers.all().is_empty() && spool.join("1-1").exists());
        // What is hostile leads to nowhere else.
        for file in ["..", "a/b", ""] {
            let mut told = told(&[1]);
            told.sessions[0].file = file.to_owned();
            assert!(image.update((1, &near), told, BTreeMap::new()).is_err(), "{file}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
