//! The image of a component on other nodes: its sessions as directories in this run's spool, in which programs find the
//! header and how far the writer is. Values stay where they are; programs ask for what they get of them.
//!
//! Each launcher of the component tells of the sessions that its node begins. What lies on the nodes of others is known of a
//! session, so it is lost with any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Address, Component, Gone, Launcher, Offers, gone_of, image_of, sessions_of_images};
use knarr_capture::{Datasets, HandedOver, NodePart, Reading, SpoolPlace};
use knarr_link::Link;

use super::offering::{Ask, Session, Told};

/// Bytes of a header, at most: as many as writers publish.
const LONGEST_HEADER: u64 = 1 << 28;

/// The image of a component that writes, for one that reads.
pub(super) struct Image {
    /// Image of the rendezvous.
    met: PathBuf,
    sessions: PathBuf,
    from: String,
    reader: String,
    /// The token of this run's spool.
    own: String,
    /// `None` as long as one of its launchers was not heard, or cannot be reached.
    component: Option<Component>,
    /// Its launchers, by their numbers.
    launchers: BTreeMap<u64, Known>,
    shown: BTreeMap<Key, Shown>,
    /// Those that this component has read, as the other side was told: what it says may be older.
    read: BTreeSet<Key>,
    made: u64,
}

/// A session: the launcher that tells of it, and the name of its directory there.
type Key = (u64, String);

/// What is known of a launcher.
#[derive(Default)]
struct Known {
    is_heard: bool,
    has_ended: bool,
    /// Its address, and why it is not reached.
    lost: Option<(Address, String)>,
}

/// A session in the image.
struct Shown {
    directory: PathBuf,
    session: Session,
    /// What the other side was told.
    begun: bool,
}

/// What the other side is to be told.
pub(super) struct Note {
    key: Key,
    is_done: bool,
}

impl Note {
    /// The launcher that is to be told.
    pub(super) fn launcher(&self) -> u64 {
        self.key.0
    }
}

impl Image {
    pub(super) fn new(spool: &SpoolPlace, rendezvous: &Path, from: &str, reader: &str) -> Self {
        Self {
            met: image_of(&spool.directory, rendezvous),
            sessions: sessions_of_images(&spool.directory),
            from: from.to_owned(),
            reader: reader.to_owned(),
            own: spool.token.clone(),
            component: None,
            launchers: BTreeMap::new(),
            shown: BTreeMap::new(),
            read: BTreeSet::new(),
            made: 0,
        }
    }

    /// There is a launcher, which is to be heard.
    pub(super) fn expect(&mut self, launcher: u64) {
        self.launchers.insert(launcher, Known::default());
    }

    /// A launcher has gone, or is that of another run: what it has told of is there no more.
    pub(super) fn forget(&mut self, launcher: u64) {
        self.launchers.remove(&launcher);
        self.read.retain(|(of, _)| *of != launcher);
        self.drop_where(|(of, _)| *of == launcher);
        if self.launchers.is_empty() {
            self.component = None;
            let _ = fs::remove_dir_all(self.met.join(gone_of(&self.from)));
        }
    }

    fn drop_where(&mut self, is_gone: impl Fn(&Key) -> bool) {
        let gone: Vec<Key> = self.shown.keys().filter(|key| is_gone(key)).cloned().collect();
        let gone: Vec<Shown> = gone.iter().filter_map(|key| self.shown.remove(key)).collect();
        gone.iter().for_each(|shown| self.take_back(shown));
    }

    /// All launchers of the component are reached, for the first time or again.
    ///
    /// # Errors
    /// As for [`Component::enter`]; `Write`.
    fn enter(&mut self) -> Result<()> {
        let who = Launcher { run: "image".to_owned(), node: String::new() };
        self.component = Some(Component::enter(&self.met, &self.from, &who)?);
        let _ = fs::remove_dir_all(self.met.join(gone_of(&self.from)));
        for Shown { directory, session, .. } in self.shown.values() {
            if session.gone.is_none() {
                Gone::clear(directory);
            }
            Offers::met(&self.met, &self.from, &session.handed.target).offer(session.handed.session, directory)?;
        }
        Ok(())
    }

    /// A launcher cannot be reached.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn lost(&mut self, launcher: u64, address: &Address, why: &str) -> Result<()> {
        self.launchers.entry(launcher).or_default().lost = Some((address.clone(), why.to_owned()));
        let gone = self.met.join(gone_of(&self.from));
        fs::create_dir_all(&gone).map_err(|error| Error::write(&gone, &error))?;
        Gone::note(&gone, why)?;
        for ((of, _), shown) in self.shown.iter().filter(|(_, shown)| !shown.session.is_closed) {
            if *of == launcher || has_part(&shown.session, address) {
                Gone::note(&shown.directory, why)?;
            }
        }
        self.component = None;
        Ok(())
    }

    /// Shows what a launcher has told.
    ///
    /// # Errors
    /// Those of the link; `Write`; `Corrupt` for what makes no sense.
    pub(super) fn update(&mut self, launcher: u64, link: &dyn Link, address: &Address, told: Told) -> Result<()> {
        let known = Known { is_heard: true, has_ended: told.has_ended, lost: None };
        self.launchers.insert(launcher, known);
        if self.component.is_none() && self.launchers.values().all(|known| known.is_heard && known.lost.is_none()) {
            self.enter()?;
        }
        let is_told = |(of, file): &Key| *of != launcher || told.sessions.iter().any(|told| told.file == *file);
        self.read.retain(is_told);
        self.drop_where(|key| !is_told(key));
        for session in told.sessions {
            self.show(launcher, link, address, session)?;
        }
        if let Some(component) =
            self.component.as_ref().filter(|_| self.launchers.values().all(|known| known.has_ended))
        {
            component.ended()?;
        }
        Ok(())
    }

    fn take_back(&self, shown: &Shown) {
        let HandedOver { target, session, .. } = &shown.session.handed;
        Offers::met(&self.met, &self.from, target).withdraw(*session);
        HandedOver::discard(&shown.directory);
    }

    fn show(&mut self, launcher: u64, link: &dyn Link, address: &Address, session: Session) -> Result<()> {
        let key = (launcher, session.file.clone());
        if self.read.contains(&key) {
            return Ok(());
        }
        let known = self.shown.get(&key);
        if known.is_some_and(|known| known.session == session) {
            return Ok(());
        }
        let begun = known.is_some_and(|known| known.begun);
        let (directory, is_new) = match known {
            Some(known) => (known.directory.clone(), false),
            None => (self.sessions.join(format!("{}-{}", self.from, self.made)), true),
        };
        fs::create_dir_all(&directory).map_err(|error| Error::write(&directory, &error))?;
        let before = known.map(|known| &known.session);
        let brought = self.bring(link, address, (&session, before), &directory);
        if is_new && brought.is_err() {
            HandedOver::discard(&directory);
        }
        // It has gone meanwhile, which the next answer tells.
        if brought.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(());
        }
        brought?;
        self.made += u64::from(is_new);
        self.shown.insert(key, Shown { directory, session, begun });
        Ok(())
    }

    /// Brings a session to where its writer is with it.
    fn bring(
        &self,
        link: &dyn Link,
        address: &Address,
        (session, known): (&Session, Option<&Session>),
        directory: &Path,
    ) -> Result<()> {
        let (target, rule) = (&session.handed.target, &session.handed.rule.transfer);
        if rule.from() != self.from || !rule.to().contains(&self.reader) || !target.is_absolute() {
            return Err(Error::corrupt("a session that is not for this component").at(target.display().to_string()));
        }
        if known.is_none_or(|known| known.header != session.header) {
            bring_header((link, &self.own), session, directory)?;
        }
        if let Some(published) =
            session.published.filter(|_| known.is_none_or(|known| known.published != session.published))
        {
            published.save(directory)?;
        }
        match self.gone(session) {
            Some(why) => Gone::note(directory, &why)?,
            None => Gone::clear(directory),
        }
        let ranks = (0..session.handed.ranks).collect();
        let Address { peer, spool, token } = address.clone();
        let elsewhere = NodePart { peer, spool, token, file: session.file.clone(), ranks };
        let handed = session.handed.clone().elsewhere(elsewhere);
        if session.is_closed {
            handed.save(directory)?
        } else {
            handed.begin(directory)?
        }
        Offers::met(&self.met, &self.from, target).offer(session.handed.session, directory)
    }

    /// Why nothing more comes of a session, if that is known.
    fn gone(&self, session: &Session) -> Option<String> {
        let lost = self.launchers.values().filter_map(|known| known.lost.as_ref());
        let mut lost = lost.filter(|(address, _)| !session.is_closed && has_part(session, address));
        let lost = lost.next().map(|(_, why)| why.clone());
        let ended = |rank| format!("rank {rank} of component '{}' has ended before it had closed the file", self.from);
        lost.or_else(|| session.gone.map(ended))
    }

    /// What the other side does not know yet of how far programs here are.
    pub(super) fn news(&self) -> Vec<Note> {
        let mut news = Vec::new();
        for (key, shown) in &self.shown {
            let is_noted = |reading| HandedOver::is_noted(&shown.directory, &self.reader, reading);
            if is_noted(Reading::Done) {
                news.push(Note { key: key.clone(), is_done: true });
            } else if !shown.begun && is_noted(Reading::Begun) {
                news.push(Note { key: key.clone(), is_done: false });
            }
        }
        news
    }

    /// The question that tells of it.
    pub(super) fn ask(&self, Note { key, is_done }: &Note) -> Ask {
        Ask::Note { file: key.1.clone(), reader: self.reader.clone(), is_done: *is_done }
    }

    /// The other side knows it.
    pub(super) fn told(&mut self, Note { key, is_done }: &Note) {
        if *is_done {
            if let Some(shown) = self.shown.remove(key) {
                self.read.insert(key.clone());
                self.take_back(&shown);
            }
        } else if let Some(shown) = self.shown.get_mut(key) {
            shown.begun = true;
        }
    }
}

/// True if a part of the session is in the spool with this address.
fn has_part(session: &Session, address: &Address) -> bool {
    session.handed.parts.iter().any(|part| part.token == address.token)
}

/// Brings the header of a session, and which datasets it has.
fn bring_header((link, own): (&dyn Link, &str), session: &Session, directory: &Path) -> Result<()> {
    let length = session.header.0;
    if length > LONGEST_HEADER {
        return Err(Error::corrupt("a header that is longer than headers are"));
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let from = bytes.len() as u64;
        let piece = link.ask(&Ask::Header { file: session.file.clone(), from }.to_bytes(own)?)?;
        if piece.is_empty() || from + piece.len() as u64 > length {
            return Err(Error::new(ErrorKind::Read, "the header has changed while it was read"));
        }
        bytes.extend_from_slice(&piece);
    }
    let answer = link.ask(&Ask::Datasets { file: session.file.clone() }.to_bytes(own)?)?;
    let datasets: Option<Datasets> = serde_json::from_slice(&answer)
        .map_err(|error| Error::corrupt(format!("an answer makes no sense: {error}")))?;
    if let Some(datasets) = datasets {
        datasets.save(directory)?;
    }
    let (beside, published) = (directory.join("header.new"), directory.join(HandedOver::PUBLISHED));
    let header = directory.join(HandedOver::HEADER);
    let place = || {
        fs::write(&beside, &bytes)?;
        fs::rename(&beside, &published)?;
        // What makes a file of a session looks for this name.
        let _ = fs::remove_file(&header);
        fs::hard_link(&published, &header)
    };
    place().map_err(|error| Error::write(&published, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_capture::config::Config;
    use knarr_capture::meeting::Presence;
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

    fn address(node: &str) -> Address {
        let peer = Peer { node: node.to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        Address { peer, spool: PathBuf::from("/dev/shm/none").join(node), token: format!("token of {node}") }
    }

    fn part(address: &Address, file: &str, rank: usize) -> NodePart {
        let Address { peer, spool, token } = address.clone();
        NodePart { peer, spool, token, file: file.to_owned(), ranks: vec![rank] }
    }

    /// What a launcher tells: a session of this number, with these parts.
    fn told(number: u64, parts: Vec<NodePart>) -> Told {
        let text = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"w\"\nto = [\"r\"]\n";
        let rule = Config::parse(text).unwrap().file.remove(0);
        let handed = HandedOver { session: number, parts, ..HandedOver::new(PathBuf::from("/data/x.nc"), rule, 2) };
        let session = Session {
            file: format!("1-{number}"),
            handed,
            is_closed: false,
            header: (6, 1),
            published: None,
            gone: None,
        };
        Told { has_ended: false, sessions: vec![session] }
    }

    #[test]
    fn a_component_is_lost_with_any_of_its_launchers_and_sessions_with_those_that_have_parts() {
        let folder = std::env::temp_dir().join(format!("knarr-image-{}", std::process::id()));
        let own = SpoolPlace {
            directory: folder.clone(),
            most: 1,
            disk: folder.clone(),
            node: "r".to_owned(),
            token: "own".to_owned(),
            peer: None,
        };
        let rendezvous = Path::new("/meet");
        let met = image_of(&folder, rendezvous);
        let mut image = Image::new(&own, rendezvous, "w", "r");
        let (a, b) = (address("a"), address("b"));
        let apart = vec![part(&a, "1-1", 0), part(&b, "7-7", 1)];
        (1..=2).for_each(|launcher| image.expect(launcher));
        image.update(1, &Answering, &a, told(1, apart.clone())).unwrap();
        assert_eq!(Presence::of(&met, "w"), Presence::Absent, "the other one was not heard yet");
        image.update(2, &Answering, &b, told(2, Vec::new())).unwrap();
        assert_eq!(Presence::of(&met, "w"), Presence::Running);
        let more: Vec<Session> =
            told(1, apart.clone()).sessions.into_iter().chain(told(3, Vec::new()).sessions).collect();
        image.update(1, &Discarding, &a, Told { has_ended: false, sessions: more }).unwrap();
        let offers = Offers::met(&met, "w", Path::new("/data/x.nc"));
        let [(1, one), (2, two)] = &offers.all()[..] else { panic!("{:?}", offers.all()) };
        let handed = HandedOver::find(one).unwrap().unwrap();
        assert_eq!((handed.part, &handed.parts), (2, &apart));
        assert_eq!(handed.origin(one).unwrap(), (a.token.clone(), "1-1".to_owned()));
        assert_eq!(
            HandedOver::find(two).unwrap().unwrap().parts,
            [NodePart { ranks: vec![0, 1], ..part(&b, "1-2", 0) }]
        );

        // The session of the other launcher has a part there.
        image.lost(2, &b, "silent").unwrap();
        assert_eq!(Presence::of(&met, "w"), Presence::Absent);
        assert_eq!(
            [one, two].map(|session| Gone::why(session)),
            [Some("silent".to_owned()), Some("silent".to_owned())]
        );
        // News of it do not make it whole.
        let mut more = told(1, apart.clone());
        more.sessions[0].published = Some(knarr_capture::Published { order: 1, records: 1 });
        image.update(1, &Answering, &a, more.clone()).unwrap();
        assert_eq!((Presence::of(&met, "w"), Gone::why(one)), (Presence::Absent, Some("silent".to_owned())));
        image.update(2, &Answering, &b, told(2, Vec::new())).unwrap();
        assert_eq!(Presence::of(&met, "w"), Presence::Running);
        assert_eq!(([one, two].map(|session| Gone::why(session)), offers.all().len()), ([None, None], 2));

        // Each launcher has its sessions, and the program has ended when it has on all nodes.
        let ended = |told: Told| Told { has_ended: true, ..told };
        image.update(2, &Answering, &b, ended(Told::default())).unwrap();
        assert_eq!((offers.all().len(), Presence::of(&met, "w")), (1, Presence::Running));
        image.update(1, &Answering, &a, ended(more)).unwrap();
        assert_eq!(Presence::of(&met, "w"), Presence::Ended);
        HandedOver::note(one, "r", Reading::Done).unwrap();
        let news = image.news();
        assert_eq!((news.len(), news[0].launcher(), news[0].is_done), (1, 1, true));
        image.told(&news[0]);
        assert!(offers.all().is_empty() && !one.exists());
        image.forget(1);
        assert_eq!(Presence::of(&met, "w"), Presence::Ended);
        image.forget(2);
        assert_eq!(Presence::of(&met, "w"), Presence::Absent);
        fs::remove_dir_all(folder).unwrap();
    }
}
