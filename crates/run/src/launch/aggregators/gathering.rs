//! A file of which this node holds a part, and which another node makes. This one asks what becomes of it. Its part goes when it is of
//! no use any more, and processes of this node may read the file before it is in its place.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{HandedOver, NodePart};
use knarr_handover::Question;
use knarr_link::{Link, link_to};

use super::image_copy::ImageCopy;
use super::nodes::{Fate, Nodes, Shared, TRIES};
use crate::launch::names::Names;
use crate::launch::outcome::Outcome;

/// Between two questions what became of a file.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// The same while a process waits for it.
const ASK_OFTEN: Duration = Duration::from_millis(20);

/// A part of a file that was handed over here.
pub(in crate::launch) struct Gathering {
    handed: HandedOver,
    /// What was handed over.
    directory: PathBuf,
    /// Hears if a process waits for the file.
    wanted: Receiver<()>,
    cancel: Arc<AtomicBool>,
    names: Arc<Names>,
    node: String,
    shared: Arc<Shared>,
}

impl Gathering {
    /// The part `handed` in a directory of the spool.
    pub(in crate::launch) fn new(
        nodes: &Nodes,
        (handed, directory): (HandedOver, PathBuf),
        wanted: Receiver<()>,
        cancel: Arc<AtomicBool>,
        names: Arc<Names>,
    ) -> Self {
        let (node, shared) = (nodes.node().to_owned(), Arc::clone(&nodes.shared));
        Self { handed, directory, wanted, cancel, names, node, shared }
    }

    /// Waits for the node that makes the file. To be called in a thread. Returns what became of it.
    pub(in crate::launch) fn run(self) -> Outcome {
        let mut part = Part { is_freed: false, copy: None };
        let outcome = match self.handed.maker().zip(self.handed.own_part()) {
            Some((maker, own)) => self.outcome((maker, own), &mut part),
            None => Outcome::Failed(Error::internal("no part of a file")),
        };
        // Nobody is led to the copy from now on.
        self.names.end(&self.directory, &outcome);
        outcome
    }

    /// What became of the file, and with it of the part.
    fn outcome(&self, (maker, own): (&NodePart, &NodePart), part: &mut Part) -> Outcome {
        let Self { handed, shared, .. } = self;
        let known = self.ask(maker, own, part);
        // The node may have been gone a moment after it had made the file.
        let known = if handed.take_note() { Ok(Fate::Done) } else { known };
        let directory = self.found(own);
        shared.encoders.kept().forget(&own.file);
        let gathered = || Outcome::Gathered { node: maker.node().to_owned() };
        match known {
            Ok(Fate::Discarded) => {
                HandedOver::discard(&directory);
                gathered()
            }
            Ok(Fate::Staged | Fate::Done) => {
                handed.remove(&directory);
                gathered()
            }
            // That node has all of it.
            Err(error) if part.is_freed && error.kind() == ErrorKind::Interrupted => gathered(),
            Err(error) if part.is_freed => {
                let hint = format!("it waits in a tier of node '{}': recover it there", maker.node());
                Outcome::Lost(error.hint(hint))
            }
            // Without that node nobody learns of the session.
            Err(error) if !handed.is_owed(&directory) => {
                HandedOver::discard(&directory);
                Outcome::Missed(error)
            }
            Err(error) => {
                let _ = HandedOver::set_aside(&directory);
                Outcome::Undelivered(error, directory)
            }
        }
    }

    /// Asks the node that makes the file until it knows what became of it.
    fn ask(&self, maker: &NodePart, own: &NodePart, part: &mut Part) -> Result<Fate> {
        let link = link_to(maker.peer.clone());
        let (mut failed, mut is_wanted) = (0, false);
        // What that node is to be told.
        let mut freed = None;
        loop {
            let (file, node) = (maker.file.clone(), self.node.clone());
            match link.ask(&Question::Outcome { file, node, freed }.to_bytes()?) {
                Ok(answer) => {
                    (failed, freed) = (0, None);
                    let known = serde_json::from_slice::<Option<Result<Fate>>>(&answer);
                    let known = known.map_err(|error| Error::corrupt(format!("an answer makes no sense: {error}")))?;
                    match known {
                        None => {}
                        Some(Ok(Fate::Staged)) => freed = self.staged((&*link, maker, own), is_wanted, part),
                        Some(outcome) => return outcome.map_err(|error| error.at(format!("node '{}'", maker.node()))),
                    }
                    self.names.beat();
                }
                Err(error) => {
                    failed += 1;
                    if failed >= TRIES {
                        return Err(error);
                    }
                }
            }
            // That node hears first that the part is gone.
            if self.cancel.load(Ordering::Relaxed) && freed.is_none() {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
            }
            let is_awaited = is_wanted && part.copy.is_none();
            match self.wanted.recv_timeout(if is_awaited { ASK_OFTEN } else { ASK_EVERY }) {
                Ok(()) => is_wanted = true,
                Err(RecvTimeoutError::Timeout) => {}
                // The main loop is gone.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
                }
            }
        }
    }

    /// The file waits in a tier of the node that makes it. Returns the number of the part if that is removed now.
    fn staged(
        &self,
        (link, maker, own): (&dyn Link, &NodePart, &NodePart),
        is_wanted: bool,
        part: &mut Part,
    ) -> Option<usize> {
        let is_new = !part.is_freed;
        if is_new {
            part.is_freed = true;
            self.shared.encoders.kept().forget(&own.file);
            self.names.begin(&self.directory);
            self.handed.remove(&self.found(own));
        }
        if is_wanted && part.copy.is_none() {
            let may_go_on = || {
                self.names.beat();
                !self.cancel.load(Ordering::Relaxed)
            };
            let copy = ImageCopy::fetch(link, &maker.file, own, may_go_on);
            // Otherwise it is waited for until it is in its place.
            if let Ok(copy) = &copy {
                self.names.stage(&self.directory, &copy.path);
            }
            part.copy = Some(copy.ok());
        }
        is_new.then_some(self.handed.part)
    }

    /// Where the part lies by now.
    fn found(&self, own: &NodePart) -> PathBuf {
        self.shared.find(&own.file).unwrap_or_else(|| own.directory())
    }
}

/// What there is of the file on this node.
struct Part {
    /// It is of no use any more, and gone.
    is_freed: bool,
    /// A copy of the file, if one was asked for and there was room.
    copy: Option<Option<ImageCopy>>,
}
