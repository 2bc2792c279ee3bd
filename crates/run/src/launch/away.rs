//! Components on other nodes whose files the program reads. Two threads for each of them keep its image: one hears what there
//! is to read, the other tells what was read.
//!
//! Programs on this node wait for the image as for a component beside them, so one process asks and not each rank. Values do
//! not come this way: each rank asks for its own, directly.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::config::Route;
use knarr_capture::meeting::Address;
use knarr_capture::{Part, Snapshot, SpoolPlace};
use knarr_link::{Link, link_to};

use super::image::Image;
use super::offering::{Ask, Told, number_of};
use crate::notices::Notices;

/// Between two looks for a component that is not there, or is on this node.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two looks for what programs here have read.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// The components whose files the program reads.
#[derive(Default)]
pub(super) struct Away(Vec<Arc<Other>>);

/// One of them.
struct Other {
    rendezvous: PathBuf,
    from: String,
    reader: String,
    own: SpoolPlace,
    state: Mutex<State>,
}

struct State {
    image: Image,
    /// The address by which it was reached last.
    reached: Option<(Address, Arc<dyn Link>)>,
    is_over: bool,
}

impl Away {
    /// Begins to look for the components that the rules name.
    ///
    /// # Errors
    /// `Internal` if there are no threads to be had.
    pub(super) fn begin(snapshot: &Snapshot, notices: &Arc<dyn Notices>) -> Result<Self> {
        let (Some(own), Some(reader)) = (&snapshot.spool, &snapshot.component) else { return Ok(Self::default()) };
        let transfers = snapshot.config.file.iter().filter(|rule| rule.route == Route::Transfer);
        let read = transfers.filter(|rule| snapshot.part(rule) == Some(Part::Reads)).map(|rule| &rule.transfer);
        let pairs: BTreeSet<(PathBuf, String)> =
            read.map(|rule| (rule.rendezvous().to_owned(), rule.from().to_owned())).collect();
        let mut others = Self::default();
        for (rendezvous, from) in pairs {
            let image = Image::new(own, &rendezvous, &from, reader);
            let state = Mutex::new(State { image, reached: None, is_over: false });
            let other = Arc::new(Other { rendezvous, from, reader: reader.clone(), own: own.clone(), state });
            others.0.push(Arc::clone(&other));
            let (hearing, notices) = (Arc::clone(&other), Arc::clone(notices));
            spawn("hearer", move || hearing.hear(&*notices))?;
            spawn("teller", move || {
                while other.tell() {
                    std::thread::sleep(TELL_EVERY);
                }
            })?;
        }
        Ok(others)
    }

    /// Tells the other sides what was read until now.
    pub(super) fn tell(&self) {
        for other in &self.0 {
            other.tell();
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        for other in &self.0 {
            let mut state = other.state();
            state.is_over = true;
            state.image.clear();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Error::internal(format!("cannot start a thread: {error}")))
}

impl Other {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of sessions until the run is over.
    fn hear(&self, notices: &dyn Notices) {
        let (mut known, mut warned) = (0, None);
        while !self.state().is_over {
            let reached = self.link();
            let heard = match &reached {
                Ok(Some((address, link))) => self.hear_once(address, &**link, known).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error.clone()),
            };
            known = heard.as_ref().ok().copied().flatten().unwrap_or(0);
            if known == 0 {
                std::thread::sleep(LOOK_EVERY);
            }
            // One that has ended takes its address with it, and nothing is amiss.
            if let Err(error) = heard
                && self.has_kept(&reached)
            {
                let said = format!("component '{}': {error}", self.from);
                let mut state = self.state();
                let lost = if state.is_over { Ok(()) } else { state.image.lost(error.message()) };
                drop(state);
                if warned.as_ref() != Some(&said) {
                    lost.err().into_iter().for_each(|error| notices.warn(&error.to_string()));
                    notices.warn(&said);
                    warned = Some(said);
                }
            }
        }
    }

    /// True if the component has the address that it had.
    fn has_kept(&self, reached: &Result<Option<(Address, Arc<dyn Link>)>>) -> bool {
        let address = |reached: &Option<(Address, _)>| reached.as_ref().map(|(address, _)| address.clone());
        reached.as_ref().map(address).ok() == self.link().as_ref().map(address).ok()
    }

    /// How the component is reached; `None` if it is not there, or is on this node.
    fn link(&self) -> Result<Option<(Address, Arc<dyn Link>)>> {
        let address = Address::read(&self.rendezvous, &self.from)?.filter(|address| !address.is_near(&self.own));
        let mut state = self.state();
        if state.reached.as_ref().map(|(address, _)| address) != address.as_ref() {
            state.image.clear();
            state.reached = address.map(|address| (address.clone(), link_to(address.peer)));
        }
        Ok(state.reached.clone())
    }

    /// Asks once. Returns the number of the answer.
    fn hear_once(&self, address: &Address, link: &dyn Link, known: u64) -> Result<u64> {
        let ask = Ask::Sessions { reader: self.reader.clone(), known };
        let answer = link.ask(&ask.to_bytes()?)?;
        let told: Told = serde_json::from_slice(&answer)
            .map_err(|error| Error::corrupt(format!("an answer makes no sense: {error}")))?;
        let mut state = self.state();
        if state.is_over || state.reached.as_ref().is_none_or(|(reached, _)| reached != address) {
            return Ok(0);
        }
        state.image.update(link, address, told).map(|()| number_of(&answer))
    }

    /// Tells what was read. False when the run is over.
    fn tell(&self) -> bool {
        let (news, reached) = {
            let state = self.state();
            if state.is_over {
                return false;
            }
            (state.image.news(), state.reached.clone())
        };
        let Some((_, link)) = reached else { return true };
        for note in news {
            let ask = self.state().image.ask(&note);
            let answer = ask.to_bytes().and_then(|question| link.ask(&question));
            // What is gone there needs to know nothing.
            if answer.map_or_else(|error| error.kind() == ErrorKind::NotFound, |_| true) {
                self.state().image.told(&note);
            }
        }
        true
    }
}
