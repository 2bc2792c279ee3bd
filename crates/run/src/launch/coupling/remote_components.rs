//! Components whose files the program reads. Threads keep a mirror of each: one watches which launchers the component has, one
//! per launcher listens for sessions, and one reports what was read.
//!
//! Programs wait for the mirror, so one process asks and not every rank. Values do not come this way: each rank asks for its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::meeting::Presence;
use knarr_capture::{Part, Snapshot, SpoolPlace};
use knarr_link::{Link, link_to, number_of};

use crate::launch::coupling::partners::{PartnerLauncher, Partners, keys};
use crate::launch::coupling::session_mirror::{Header, SessionMirror};
use crate::launch::coupling::session_server::{Ask, Near, SessionList};
use crate::launch::coupling::status_report::{Key, patience};
use crate::launch::news::spawn;
use crate::notices::Notices;

/// Between two looks which launchers the component has, if nothing is known to have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to hear a launcher that is not reached.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// Between two looks, as long as it is not reached, whether it says something new of how it is.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Between two looks for what programs here have read.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// The components whose files the program reads.
#[derive(Default)]
pub(in crate::launch) struct RemoteComponents(Vec<Arc<Writer>>);

/// One of them.
struct Writer {
    key: Key,
    reader: String,
    own: SpoolPlace,
    partners: Partners,
    state: Mutex<State>,
}

struct State {
    mirror: SessionMirror,
    /// Its launchers, by their numbers, and how they are asked.
    reached: BTreeMap<u64, (PartnerLauncher, Arc<dyn Link>)>,
    /// Those that cannot be heard yet.
    silent: BTreeSet<u64>,
    is_over: bool,
}

impl State {
    /// True as long as this launcher is heard.
    fn has(&self, launcher: u64, other: &PartnerLauncher) -> bool {
        !self.is_over && self.reached.get(&launcher).is_some_and(|(reached, _)| reached == other)
    }

    /// A launcher cannot be heard yet. The next look tries again.
    fn await_way(&mut self, launcher: u64, why: &str) {
        self.reached.remove(&launcher);
        self.silent.insert(launcher);
        self.mirror.await_way(launcher, why);
    }
}

impl RemoteComponents {
    /// Begins to hear the components that the rules name.
    ///
    /// # Errors
    /// `Internal` if there are no threads to be had.
    pub(in crate::launch) fn begin(
        snapshot: &Snapshot,
        partners: &Partners,
        notices: &Arc<dyn Notices>,
    ) -> Result<Self> {
        let (Some(own), Some(reader)) = (&snapshot.spool, &snapshot.component) else { return Ok(Self::default()) };
        let mut writers = Self::default();
        for key in keys(snapshot, Part::Reads) {
            let mirror = SessionMirror::new(own, &key, reader, patience(snapshot, &key));
            let state = Mutex::new(State { mirror, reached: BTreeMap::new(), silent: BTreeSet::new(), is_over: false });
            let (reader, own, partners) = (reader.clone(), own.clone(), partners.clone());
            let writer = Arc::new(Writer { key, reader, own, partners, state });
            writers.0.push(Arc::clone(&writer));
            let (looking, notices) = (Arc::clone(&writer), Arc::clone(notices));
            spawn("looker", move || looking.look(&notices))?;
            spawn("teller", move || {
                while writer.notify() {
                    std::thread::sleep(TELL_EVERY);
                }
            })?;
        }
        Ok(writers)
    }

    /// Tells the other sides what was read until now.
    pub(in crate::launch) fn notify(&self) {
        for writer in &self.0 {
            writer.notify();
        }
    }
}

impl Drop for RemoteComponents {
    fn drop(&mut self) {
        for writer in &self.0 {
            let mut state = writer.state();
            state.is_over = true;
            for (launcher, _) in std::mem::take(&mut state.reached) {
                // The spool goes, too.
                state.mirror.forget(launcher);
            }
        }
    }
}

impl Writer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees which launchers the component has, and hears each of them, until the run is over.
    fn look(self: &Arc<Self>, notices: &Arc<dyn Notices>) {
        let (mut warned, mut changes) = (None, 0);
        while !self.state().is_over {
            let (partner, now) = self.partners.await_change(&self.key, changes, LOOK_EVERY);
            changes = now;
            // What a run that was killed has left is of no account.
            let failed = partner.failed.clone();
            let is_absent = partner.presence() == Presence::Absent;
            let was_killed = is_absent && partner.was_seen && partner.was_killed(&self.key);
            self.state().mirror.set_killed(was_killed);
            let there = if is_absent { BTreeMap::new() } else { partner.others };
            let come = self.come(&there, failed.as_deref());
            // What programs could not be told until now is tried again with each look.
            let told = self.tell_programs();
            let listen = |launcher| {
                let (writer, notices) = (Arc::clone(self), Arc::clone(notices));
                let heard = spawn("hearer", move || writer.listen(launcher, &*notices));
                heard.inspect_err(|error| self.state().await_way(launcher, error.message()))
            };
            for error in come.into_iter().map(listen).chain([told]).filter_map(Result::err) {
                self.warn(&error, &mut warned, &**notices);
            }
        }
    }

    /// Tells programs what is known.
    fn tell_programs(&self) -> Result<()> {
        let mut state = self.state();
        if state.is_over { Ok(()) } else { state.mirror.notify() }
    }

    /// Takes notice of the launchers that there are. Returns those that have come. `failed` says why an address is not known.
    fn come(&self, there: &BTreeMap<u64, PartnerLauncher>, failed: Option<&str>) -> Vec<u64> {
        let mut state = self.state();
        if state.is_over {
            return Vec::new();
        }
        let is_gone = |(number, (known, _)): (&u64, &(PartnerLauncher, Arc<dyn Link>))| {
            (there.get(number).map(|other| &other.launcher) != Some(&known.launcher)).then_some(*number)
        };
        for launcher in state.reached.iter().filter_map(is_gone).collect::<Vec<_>>() {
            state.reached.remove(&launcher);
            state.mirror.forget(launcher);
        }
        for launcher in state.silent.iter().filter(|number| !there.contains_key(number)).copied().collect::<Vec<_>>() {
            state.silent.remove(&launcher);
            state.mirror.forget(launcher);
        }
        let mut come = Vec::new();
        for (launcher, other) in there {
            if state.has(*launcher, other) {
                continue;
            }
            // One on another node says how it is reached as soon as it sees this one.
            let link: Option<Arc<dyn Link>> = match (&other.address, other.is_near) {
                (_, true) => Some(Arc::new(Near::new(&other.launcher.node, &other.launcher.spool))),
                (Some(address), false) => Some(link_to(address.peer.clone())),
                (None, false) => None,
            };
            let Some(link) = link else {
                let node = &other.launcher.node;
                let silent = format!("node '{node}' has not said how it is reached");
                state.await_way(*launcher, failed.unwrap_or(&silent));
                continue;
            };
            state.silent.remove(launcher);
            state.reached.insert(*launcher, (other.clone(), link));
            state.mirror.expect(*launcher);
            come.push(*launcher);
        }
        come
    }

    /// Hears of the sessions of a launcher until it has gone.
    fn listen(&self, launcher: u64, notices: &dyn Notices) {
        let (mut known, mut warned, mut renewed) = (0, None, None::<Instant>);
        let Some((other, link)) = self.state().reached.get(&launcher).cloned() else { return };
        while self.is_reached(launcher, &other) {
            let heard = self.listen_once(launcher, (&other, &*link), known);
            known = heard.as_ref().ok().copied().unwrap_or(0);
            let Err(error) = heard else { continue };
            let lost = {
                let mut state = self.state();
                state.has(launcher, &other).then(|| state.mirror.lost(launcher, error.message()))
            };
            if let Some(lost) = lost {
                // One that has ended takes its name along, which is seen in a moment.
                std::thread::sleep(TRY_EVERY);
                if self.is_reached(launcher, &other) && !self.has_gone(launcher) {
                    lost.err().into_iter().for_each(|error| notices.warn(&error.to_string()));
                    self.warn(&error, &mut warned, notices);
                    if renewed.is_none_or(|renewed| renewed.elapsed() > RENEW_EVERY) {
                        self.partners.look_again(&self.key, launcher);
                        renewed = Some(Instant::now());
                    }
                }
            }
        }
    }

    /// True if a launcher has left the directory in which it was met.
    fn has_gone(&self, launcher: u64) -> bool {
        !self.partners.is_there(&self.key, launcher)
    }

    /// Warns of what it did not warn of last.
    fn warn(&self, error: &Error, warned: &mut Option<String>, notices: &dyn Notices) {
        let said = format!("component '{}': {error}", self.key.1);
        if warned.as_ref() != Some(&said) {
            notices.warn(&said);
            *warned = Some(said);
        }
    }

    fn is_reached(&self, launcher: u64, other: &PartnerLauncher) -> bool {
        self.state().has(launcher, other)
    }

    /// Asks once. Returns the number of the answer.
    fn listen_once(&self, launcher: u64, (other, link): (&PartnerLauncher, &dyn Link), known: u64) -> Result<u64> {
        let ask = Ask::Sessions { reader: self.reader.clone(), known };
        let answer = link.ask(&ask.to_bytes(&self.own.token)?)?;
        let list: SessionList = serde_json::from_slice(&answer)
            .map_err(|error| Error::corrupt(format!("an answer makes no sense: {error}")))?;
        // Nobody waits for what crosses the network meanwhile.
        let wants = if other.is_near { Vec::new() } else { self.state().mirror.wants(launcher, &list) };
        let mut headers = BTreeMap::new();
        for session in wants {
            if let Some(header) = Header::ask(link, &self.own.token, &session)? {
                headers.insert(session.file, header);
            }
        }
        let mut state = self.state();
        if !state.has(launcher, other) {
            return Ok(0);
        }
        // Of what has changed meanwhile the next answer tells.
        let is_whole = state.mirror.wants(launcher, &list).iter().all(|session| headers.contains_key(&session.file));
        let number = if is_whole || other.is_near { number_of(&answer) } else { 0 };
        state.mirror.update((launcher, other), list, headers).map(|()| number)
    }

    /// Tells what was read. False when the run is over.
    fn notify(&self) -> bool {
        let (all, reached) = {
            let state = self.state();
            if state.is_over {
                return false;
            }
            (state.mirror.news(), state.reached.clone())
        };
        for news in all {
            let Some((_, link)) = reached.get(&news.launcher()) else { continue };
            // Who does not answer is tried where it is heard.
            if self.state().mirror.is_lost(news.launcher()) {
                continue;
            }
            let ask = self.state().mirror.ask(&news);
            let answer = ask.to_bytes(&self.own.token).and_then(|question| link.ask(&question));
            // What is gone there needs to know nothing.
            if answer.map_or_else(|error| error.kind() == ErrorKind::NotFound, |_| true) {
                self.state().mirror.mark_sent(&news);
            }
        }
        true
    }
}
