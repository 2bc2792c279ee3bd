//! Components on other nodes whose files the program reads. Threads keep an image of each of them: one looks which launchers it
//! has, one for each of these hears what there is to read, and one tells them what was read.
//!
//! Programs on this node wait for the image as for a component beside them, so one process asks and not each rank. Values do
//! not come this way: each rank asks for its own, directly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::config::Route;
use knarr_capture::meeting::{Address, Component};
use knarr_capture::{Part, Snapshot, SpoolPlace};
use knarr_link::{Link, link_to};

use super::image::Image;
use super::offering::{Ask, Told, number_of};
use crate::notices::Notices;

/// Between two looks which launchers the component has.
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
    /// Its launchers, if one of them is on another node, by their numbers: the addresses by which they were reached last.
    reached: BTreeMap<u64, Reached>,
    is_over: bool,
}

type Reached = (Address, Arc<dyn Link>);

impl State {
    /// True as long as this launcher is heard.
    fn has(&self, launcher: u64, address: &Address) -> bool {
        !self.is_over && self.reached.get(&launcher).is_some_and(|(reached, _)| reached == address)
    }
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
            let state = Mutex::new(State { image, reached: BTreeMap::new(), is_over: false });
            let other = Arc::new(Other { rendezvous, from, reader: reader.clone(), own: own.clone(), state });
            others.0.push(Arc::clone(&other));
            let (looking, notices) = (Arc::clone(&other), Arc::clone(notices));
            spawn("looker", move || looking.look(&notices))?;
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
            for (launcher, _) in std::mem::take(&mut state.reached) {
                state.image.forget(launcher);
            }
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

    /// Looks for launchers of the component, and hears each of them, until the run is over.
    fn look(self: &Arc<Self>, notices: &Arc<dyn Notices>) {
        let mut warned = None;
        while !self.state().is_over {
            let come = self.come().and_then(|come| {
                let hear = |launcher| {
                    let (other, notices) = (Arc::clone(self), Arc::clone(notices));
                    spawn("hearer", move || other.hear(launcher, &*notices))
                };
                come.into_iter().try_for_each(hear)
            });
            if let Err(error) = come {
                self.warn(&error, &mut warned, &**notices);
            }
            let reached = self.state().reached.len();
            std::thread::sleep(Component::paced(LOOK_EVERY, reached));
        }
    }

    /// Looks which launchers there are. Returns those that have come.
    fn come(&self) -> Result<Vec<u64>> {
        let known: BTreeMap<u64, Address> =
            self.state().reached.iter().map(|(number, (address, _))| (*number, address.clone())).collect();
        let mut there = Address::all_with(&self.rendezvous, &self.from, |number| known.get(&number).cloned())?;
        if there.values().all(|address| address.is_near(&self.own)) {
            there.clear();
        }
        let mut state = self.state();
        if state.is_over {
            return Ok(Vec::new());
        }
        let gone: Vec<u64> = state
            .reached
            .iter()
            .filter(|(number, (known, _))| there.get(number) != Some(known))
            .map(|(n, _)| *n)
            .collect();
        for launcher in gone {
            state.reached.remove(&launcher);
            state.image.forget(launcher);
        }
        there.retain(|launcher, _| !state.reached.contains_key(launcher));
        let come = there.keys().copied().collect();
        for (launcher, address) in there {
            let link = link_to(address.peer.clone());
            state.reached.insert(launcher, (address, link));
            state.image.expect(launcher);
        }
        Ok(come)
    }

    /// Hears of the sessions of a launcher until it has gone.
    fn hear(&self, launcher: u64, notices: &dyn Notices) {
        let (mut known, mut warned) = (0, None);
        let Some((address, link)) = self.state().reached.get(&launcher).cloned() else { return };
        while self.is_reached(launcher, &address) {
            let heard = self.hear_once(launcher, (&address, &*link), known);
            known = heard.as_ref().ok().copied().unwrap_or(0);
            if known == 0 {
                std::thread::sleep(LOOK_EVERY);
            }
            // One that has ended takes its address with it, and nothing is amiss.
            if let Err(error) = heard
                && Address::is_there(&self.rendezvous, &self.from, launcher)
                && let Some(lost) = self.lose(launcher, &address, &error)
            {
                lost.err().into_iter().for_each(|error| notices.warn(&error.to_string()));
                self.warn(&error, &mut warned, notices);
            }
        }
    }

    /// Warns of what it did not warn of last.
    fn warn(&self, error: &Error, warned: &mut Option<String>, notices: &dyn Notices) {
        let said = format!("component '{}': {error}", self.from);
        if warned.as_ref() != Some(&said) {
            notices.warn(&said);
            *warned = Some(said);
        }
    }

    fn is_reached(&self, launcher: u64, address: &Address) -> bool {
        self.state().has(launcher, address)
    }

    /// The image shows that a launcher is not reached. `None` if nobody waits for it any more.
    fn lose(&self, launcher: u64, address: &Address, error: &Error) -> Option<Result<()>> {
        let mut state = self.state();
        state.has(launcher, address).then(|| state.image.lost(launcher, address, error.message()))
    }

    /// Asks once. Returns the number of the answer.
    fn hear_once(&self, launcher: u64, (address, link): (&Address, &dyn Link), known: u64) -> Result<u64> {
        let ask = Ask::Sessions { reader: self.reader.clone(), known };
        let answer = link.ask(&ask.to_bytes(&self.own.token)?)?;
        let told: Told = serde_json::from_slice(&answer)
            .map_err(|error| Error::corrupt(format!("an answer makes no sense: {error}")))?;
        let mut state = self.state();
        if !state.has(launcher, address) {
            return Ok(0);
        }
        state.image.update(launcher, link, address, told).map(|()| number_of(&answer))
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
        for note in news {
            let Some((_, link)) = reached.get(&note.launcher()) else { continue };
            let ask = self.state().image.ask(&note);
            let answer = ask.to_bytes(&self.own.token).and_then(|question| link.ask(&question));
            // What is gone there needs to know nothing.
            if answer.map_or_else(|error| error.kind() == ErrorKind::NotFound, |_| true) {
                self.state().image.told(&note);
            }
        }
        true
    }
}
