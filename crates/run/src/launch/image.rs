//! The image of a component on another node: its sessions as directories in this run's spool, in which programs find the
//! header and how far the writer is. Values stay where they are; programs ask for what they get of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::{Address, Component, Gone, Offers, gone_of, image_of, sessions_of_images};
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
    /// `None` as long as the component cannot be reached.
    component: Option<Component>,
    /// By the names of their directories there.
    shown: BTreeMap<String, Shown>,
    /// Those that this component has read, as the other side was told: what it says may be older.
    read: BTreeSet<String>,
    made: u64,
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
    file: String,
    is_done: bool,
}

impl Image {
    pub(super) fn new(spool: &SpoolPlace, rendezvous: &Path, from: &str, reader: &str) -> Self {
        Self {
            met: image_of(&spool.directory, rendezvous),
            sessions: sessions_of_images(&spool.directory),
            from: from.to_owned(),
            reader: reader.to_owned(),
            component: None,
            shown: BTreeMap::new(),
            read: BTreeSet::new(),
            made: 0,
        }
    }

    /// The component is another run, or on this node now.
    pub(super) fn clear(&mut self) {
        for (_, shown) in std::mem::take(&mut self.shown) {
            self.take_back(&shown);
        }
        self.read.clear();
        self.component = None;
        let _ = fs::remove_dir_all(self.met.join(gone_of(&self.from)));
    }

    /// The component is reached, for the first time or again.
    ///
    /// # Errors
    /// As for [`Component::enter`]; `Write`.
    fn enter(&mut self) -> Result<()> {
        self.component = Some(Component::enter(&self.met, &self.from)?);
        let _ = fs::remove_dir_all(self.met.join(gone_of(&self.from)));
        for Shown { directory, session, .. } in self.shown.values() {
            Gone::clear(directory);
            Offers::met(&self.met, &self.from, &session.handed.target).offer(session.handed.session, directory)?;
        }
        Ok(())
    }

    /// The component cannot be reached.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn lost(&mut self, why: &str) -> Result<()> {
        let gone = self.met.join(gone_of(&self.from));
        fs::create_dir_all(&gone).map_err(|error| Error::write(&gone, &error))?;
        Gone::note(&gone, why)?;
        for shown in self.shown.values().filter(|shown| !shown.session.is_closed) {
            Gone::note(&shown.directory, why)?;
        }
        self.component = None;
        Ok(())
    }

    /// Shows what the component has told.
    ///
    /// # Errors
    /// Those of the link; `Write`; `Corrupt` for what makes no sense.
    pub(super) fn update(&mut self, link: &dyn Link, address: &Address, told: Told) -> Result<()> {
        if self.component.is_none() {
            self.enter()?;
        }
        let is_told = |file: &String| told.sessions.iter().any(|session| session.file == *file);
        self.read.retain(is_told);
        let gone: Vec<String> = self.shown.keys().filter(|file| !is_told(file)).cloned().collect();
        let gone: Vec<Shown> = gone.iter().filter_map(|file| self.shown.remove(file)).collect();
        gone.iter().for_each(|shown| self.take_back(shown));
        for session in told.sessions {
            self.show(link, address, session)?;
        }
        if told.has_ended
            && let Some(component) = &self.component
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

    fn show(&mut self, link: &dyn Link, address: &Address, session: Session) -> Result<()> {
        if self.read.contains(&session.file) {
            return Ok(());
        }
        let known = self.shown.get(&session.file);
        if known.is_some_and(|known| known.session == session) {
            return Ok(());
        }
        let begun = known.is_some_and(|known| known.begun);
        let (directory, is_new) = match known {
            Some(known) => (known.directory.clone(), false),
            None => (self.sessions.join(format!("{}-{}", self.from, self.made)), true),
        };
        fs::create_dir_all(&directory).map_err(|error| Error::write(&directory, &error))?;
        let brought = self.bring(link, address, &session, &directory);
        if is_new && brought.is_err() {
            HandedOver::discard(&directory);
        }
        brought?;
        self.made += u64::from(is_new);
        self.shown.insert(session.file.clone(), Shown { directory, session, begun });
        Ok(())
    }

    /// Brings a session to where its writer is with it.
    fn bring(&self, link: &dyn Link, address: &Address, session: &Session, directory: &Path) -> Result<()> {
        let known = self.shown.get(&session.file).map(|known| &known.session);
        let (target, rule) = (&session.handed.target, &session.handed.rule.transfer);
        if rule.from() != self.from || !rule.to().contains(&self.reader) || !target.is_absolute() {
            return Err(Error::corrupt("a session that is not for this component").at(target.display().to_string()));
        }
        if known.is_none_or(|known| known.header != session.header) {
            bring_header(link, session, directory)?;
        }
        if let Some(published) =
            session.published.filter(|_| known.is_none_or(|known| known.published != session.published))
        {
            published.save(directory)?;
        }
        match session.gone {
            Some(rank) => {
                let why = format!("rank {rank} of component '{}' has ended before it had closed the file", self.from);
                Gone::note(directory, &why)?;
            }
            None => Gone::clear(directory),
        }
        let ranks = (0..session.handed.ranks).collect();
        let (peer, spool) = (address.peer.clone(), address.spool.clone());
        let elsewhere = NodePart { peer, spool, file: session.file.clone(), ranks };
        let handed = session.handed.clone().elsewhere(elsewhere);
        if session.is_closed {
            handed.save(directory)?
        } else {
            handed.begin(directory)?
        }
        Offers::met(&self.met, &self.from, target).offer(session.handed.session, directory)
    }

    /// What the other side does not know yet of how far programs here are.
    pub(super) fn news(&self) -> Vec<Note> {
        let mut news = Vec::new();
        for (file, shown) in &self.shown {
            let is_noted = |reading| HandedOver::is_noted(&shown.directory, &self.reader, reading);
            if is_noted(Reading::Done) {
                news.push(Note { file: file.clone(), is_done: true });
            } else if !shown.begun && is_noted(Reading::Begun) {
                news.push(Note { file: file.clone(), is_done: false });
            }
        }
        news
    }

    /// The question that tells of it.
    pub(super) fn ask(&self, Note { file, is_done }: &Note) -> Ask {
        Ask::Note { file: file.clone(), reader: self.reader.clone(), is_done: *is_done }
    }

    /// The other side knows it.
    pub(super) fn told(&mut self, Note { file, is_done }: &Note) {
        if *is_done {
            if let Some(shown) = self.shown.remove(file) {
                self.read.insert(file.clone());
                self.take_back(&shown);
            }
        } else if let Some(shown) = self.shown.get_mut(file) {
            shown.begun = true;
        }
    }
}

/// Brings the header of a session, and which datasets it has.
fn bring_header(link: &dyn Link, session: &Session, directory: &Path) -> Result<()> {
    let length = session.header.0;
    if length > LONGEST_HEADER {
        return Err(Error::corrupt("a header that is longer than headers are"));
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let from = bytes.len() as u64;
        let piece = link.ask(&Ask::Header { file: session.file.clone(), from }.to_bytes()?)?;
        if piece.is_empty() || from + piece.len() as u64 > length {
            return Err(Error::new(ErrorKind::Read, "the header has changed while it was read"));
        }
        bytes.extend_from_slice(&piece);
    }
    let answer = link.ask(&Ask::Datasets { file: session.file.clone() }.to_bytes()?)?;
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
