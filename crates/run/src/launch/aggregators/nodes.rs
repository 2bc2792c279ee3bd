//! Files whose ranks are on several nodes. The aggregator of the first node makes such a file, or offers it to other components.
//! Those of the others answer questions about what lies in their spools, and ask it what became of the file: when it is there, or
//! was read, their part goes. Components on other nodes ask for sessions (`session_server`) and for values in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{ENDED, HandedOver, NodePart};
use knarr_flow::engine::Engine;
use knarr_handover::{Question, answer};
use knarr_link::{Answers, Peer, Reach, Server, carriers, link_to};
use serde::{Deserialize, Serialize};

use crate::launch::aggregators::encoders::Encoders;
use crate::launch::aggregators::image_copy;
use crate::launch::aggregators::lossy_transfers::TransferBounds;
use crate::launch::coupling::session_server::Ask;
use crate::notices::Notices;
use knarr_worker::means::Means;

/// How often in a row another node may be out of reach before it is gone.
pub(super) const TRIES: u32 = 2;
/// How long this launcher stays for other nodes to ask what became of a file.
const STAYS_FOR_NODES: Duration = Duration::from_secs(10);
/// How long the program may go on on other nodes when it has ended here, before files that they have written are left.
const AFTER_END: Duration = Duration::from_secs(60);

/// What this launcher has to do with other nodes.
pub(in crate::launch) struct Nodes {
    node: String,
    /// Answers those of other nodes, as soon as there may be any.
    server: Mutex<Option<Server>>,
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    notices: Arc<dyn Notices>,
    /// For those that read values and logs.
    turns: Turns,
    /// Encode chunks for nodes that make files.
    pub(super) encoders: Encoders,
    /// Values that may lose something on their way.
    transfer_bounds: TransferBounds,
    /// Directories with those of files: the spool, and where it was moved.
    spools: Mutex<Vec<PathBuf>>,
    /// Files that this node makes or has made.
    made: Mutex<BTreeMap<String, Made>>,
    /// The number that was given last for a write, by the names of files.
    numbers: Mutex<BTreeMap<String, u64>>,
    /// When launchers of components that read have asked last, by the tokens of their spools.
    heard: Mutex<BTreeMap<String, Instant>>,
    /// Nodes on which the program has ended, by the same.
    ended_on: Mutex<BTreeSet<String>>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::launch) enum Fate {
    /// It is whole and synced in a tier of the node that makes it: the parts of other nodes are of no use any more. What becomes of
    /// it is known later.
    Staged,
    /// It is made, or all that were to read it have it.
    Done,
    /// Nobody will have it; who reads it may yet have its memory open.
    Discarded,
}

/// A file that this node looks after.
struct Made {
    /// What became of it; `None` as long as it is under way.
    outcome: Option<Result<Fate>>,
    /// Nodes that do not know it yet.
    untold: BTreeSet<String>,
}

/// How many may read values at the same time: the others sleep, and the node is not too busy to say that it is there.
struct Turns {
    free: Mutex<usize>,
    changed: Condvar,
}

/// One of them.
struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Self {
        /// Some may wait for a disk.
        const FOR_EACH_CORE: usize = 4;
        /// On a small node.
        const LEAST: usize = 16;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Self { free: Mutex::new((cores * FOR_EACH_CORE).max(LEAST)), changed: Condvar::new() }
    }
}

impl Turns {
    fn take(&self) -> Turn<'_> {
        let free = self.changed.wait_while(lock(&self.free), |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nodes {
    /// Those of a launcher on node `node`, which answers those that `reach` says, and encodes for them with what the engine has.
    ///
    /// # Errors
    /// As for [`Server::start`]; `Config` if the environment asks for a link that there is not, also if it is not needed yet.
    pub(in crate::launch) fn new(
        node: String,
        reach: Option<&Reach>,
        (engine, means): (&Engine, Means),
        notices: Arc<dyn Notices>,
    ) -> Result<Self> {
        carriers()?;
        let (spools, made, numbers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (heard, ended_on) = (Mutex::default(), Mutex::default());
        let (encoders, transfer_bounds) = (Encoders::new(engine), TransferBounds::new(means));
        let shared = Arc::new(Shared {
            notices,
            turns: Turns::default(),
            encoders,
            transfer_bounds,
            spools,
            made,
            numbers,
            heard,
            ended_on,
        });
        let answers: Arc<dyn Answers> = Arc::<Shared>::clone(&shared);
        let server = reach.map(|reach| Server::start(&node, answers, reach)).transpose()?;
        Ok(Self { node, server: Mutex::new(server), shared })
    }

    /// What other nodes need to ask this one, if it answers.
    pub(in crate::launch) fn peer(&self) -> Option<Peer> {
        lock(&self.server).as_ref().map(Server::peer)
    }

    /// Answers those that `reach` says, too. Returns what they need to ask.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub(in crate::launch) fn answer_to(&self, reach: &Reach) -> Result<Peer> {
        let mut server = lock(&self.server);
        match &mut *server {
            Some(server) => server.reach_too(reach)?,
            none => *none = Some(Server::start(&self.node, Arc::<Shared>::clone(&self.shared), reach)?),
        }
        server.as_ref().map(Server::peer).ok_or_else(|| Error::internal("nobody answers"))
    }

    /// Bytes that were sent to other nodes, by the names of what they went over.
    pub(in crate::launch) fn sent(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.server).as_ref().map(Server::sent).unwrap_or_default()
    }

    /// Values that were sent to other nodes and may have lost something.
    pub(in crate::launch) fn transfer_bounds(&self) -> &TransferBounds {
        &self.shared.transfer_bounds
    }

    /// This node, as users know it.
    pub(in crate::launch) fn node(&self) -> &str {
        &self.node
    }

    /// Files of `spool` are answered for, too.
    pub(in crate::launch) fn add(&self, spool: &Path) {
        let mut spools = lock(&self.shared.spools);
        if !spools.iter().any(|known| known == spool) {
            spools.push(spool.to_owned());
        }
    }

    /// More threads may work than before.
    pub(in crate::launch) fn wake(&self) {
        self.shared.encoders.wake();
    }

    /// The program has ended: it offers no more sessions.
    pub(in crate::launch) fn ended(&self) {
        for spool in lock(&self.shared.spools).iter() {
            // Others find that out when this launcher goes.
            let _ = std::fs::write(spool.join(ENDED), b"");
        }
    }

    /// When the launcher whose spool has this token was heard last.
    pub(in crate::launch) fn heard(&self, token: &str) -> Option<Instant> {
        lock(&self.shared.heard).get(token).copied()
    }

    /// This node begins to make a file. Its values may be gone before all of it is done.
    pub(in crate::launch) fn begin(&self, handed: &HandedOver) {
        self.note(handed, None);
    }

    /// Tells the other nodes what became of a file that this one looks after, as soon as they ask.
    pub(in crate::launch) fn notify(&self, handed: &HandedOver, outcome: Result<Fate>) {
        self.note(handed, Some(outcome));
    }

    /// Tells other nodes, as soon as they ask, that nothing comes of what lies in a directory: nobody here knows which file it is.
    pub(in crate::launch) fn tell_unread(&self, directory: &Path, error: &Error) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let made = Made { outcome: Some(Err(error.clone())), untold: BTreeSet::new() };
        lock(&self.shared.made).insert(name, made);
    }

    /// What was encoded of the values in a directory of the spool, which goes, is not kept any more.
    pub(in crate::launch) fn forget(&self, directory: &Path) {
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.shared.encoders.kept().forget(name);
    }

    fn note(&self, handed: &HandedOver, outcome: Option<Result<Fate>>) {
        let Some((own, others)) = handed.parts.split_first() else { return };
        let untold = others.iter().map(|part| part.node().to_owned()).collect();
        lock(&self.shared.numbers).remove(&own.file);
        lock(&self.shared.made).insert(own.file.clone(), Made { outcome, untold });
    }

    /// Stays until other nodes know what became of files, for some seconds at most.
    pub(in crate::launch) fn linger(&self) {
        let end = Instant::now() + STAYS_FOR_NODES;
        let is_asked = |made: &Made| made.outcome.is_some() && !made.untold.is_empty();
        while Instant::now() < end && lock(&self.shared.made).values().any(is_asked) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The nodes whose spools have these tokens, and whose ranks have written a file.
    pub(in crate::launch) fn others(&self, tokens: BTreeSet<String>) -> Others {
        Others { tokens, shared: Arc::clone(&self.shared) }
    }
}

/// Nodes whose ranks have written a file that this one is to replace.
pub(in crate::launch) struct Others {
    tokens: BTreeSet<String>,
    shared: Arc<Shared>,
}

impl Others {
    /// Waits until the program has ended on all of them, for some time: nobody there writes the file by itself then. To be called
    /// when it has ended here.
    ///
    /// # Errors
    /// `Interrupted`, also if it goes on there, or if one is gone.
    pub(in crate::launch) fn await_end(&self, cancel: &AtomicBool) -> Result<()> {
        let end = Instant::now() + AFTER_END;
        while !self.tokens.is_subset(&lock(&self.shared.ended_on)) {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
            }
            if Instant::now() >= end {
                let what =
                    "ranks on other nodes have written it, and one of these has not said that its program has ended";
                return Err(Error::new(ErrorKind::Interrupted, what));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Tells another node that the program has ended on the one whose spool has this token. One that is gone replaces no file.
pub(in crate::launch) fn tell_end(keeper: &Peer, token: &str) {
    let Ok(question) = (Question::Ended { token: token.to_owned() }).to_bytes() else { return };
    let link = link_to(keeper.clone());
    let _ = (0..TRIES).any(|_| link.ask(&question).is_ok());
}

impl Shared {
    /// The directory of a file, by its name.
    pub(super) fn find(&self, file: &str) -> Option<PathBuf> {
        let found = |spool: &PathBuf| Some(spool.join(file)).filter(|directory| directory.is_dir());
        lock(&self.spools).iter().rev().find_map(found).filter(|_| NodePart::is_name(file))
    }

    fn directory(&self, file: &str) -> Result<PathBuf> {
        let missing = || Error::new(ErrorKind::NotFound, format!("nothing is handed over as '{file}'"));
        self.find(file).ok_or_else(missing)
    }
}

impl Answers for Shared {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        if let Some((asker, asked)) = Ask::from_bytes(question) {
            let spools = lock(&self.spools).clone();
            lock(&self.heard).insert(asker.clone(), Instant::now());
            return asked.answer(&asker, &spools);
        }
        let mut question = Question::from_bytes(question)?;
        match question {
            Question::Log { ref file, rank, .. } | Question::Values { ref file, rank, .. } => {
                let (file, directory) = (file.clone(), self.directory(file)?);
                let _turn = self.turns.take();
                let sending = self.transfer_bounds.validate(&mut question, &file, &directory)?;
                let (values, log) = (HandedOver::values(rank), HandedOver::log(rank));
                let (bytes, crossed) = answer(&question, &directory.join(values), &directory.join(log))?;
                if let (Some(sending), Some(crossed)) = (sending, crossed) {
                    self.transfer_bounds.sent(sending, crossed);
                }
                Ok(bytes)
            }
            Question::Bounds { file } => self.transfer_bounds.bounds(&file, &self.directory(&file)?),
            Question::Chunk { file, chunk, may_keep } => {
                let directory = self.directory(&file)?;
                self.encoders.answer(*chunk, may_keep.then_some(file), &directory)
            }
            Question::Image { file, from } => {
                let directory = self.directory(&file)?;
                let _turn = self.turns.take();
                image_copy::piece(&directory, from)
            }
            Question::Write { file, path, chunks } => {
                self.directory(&file)?;
                self.encoders.kept().write(&file, &path, &chunks).map(|()| Vec::new())
            }
            Question::Sync { file } => {
                self.directory(&file)?;
                self.encoders.kept().sync(&file).map(|()| Vec::new())
            }
            Question::Number { file } => {
                self.directory(&file)?;
                let mut numbers = lock(&self.numbers);
                let last = numbers.entry(file).or_default();
                *last += 1;
                Ok(last.to_le_bytes().to_vec())
            }
            Question::Ended { token } => {
                lock(&self.ended_on).insert(token);
                Ok(Vec::new())
            }
            Question::Outcome { file, node, freed } => {
                if let Some((part, directory)) = freed.zip(self.find(&file)) {
                    HandedOver::note_freed(&directory, part);
                }
                let mut made = lock(&self.made);
                let known: Option<Result<Fate>> = match made.get_mut(&file) {
                    Some(Made { outcome: Some(outcome), untold }) => {
                        if !matches!(outcome, Ok(Fate::Staged)) {
                            untold.remove(&node);
                        }
                        Some(outcome.clone())
                    }
                    Some(_) => None,
                    None => self.directory(&file).err().map(Err),
                };
                serde_json::to_vec(&known).map_err(|error| Error::internal(error.to_string()))
            }
        }
    }

    fn crowded(&self, why: &Error) {
        self.notices.warn(&why.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_codec::codec::CodecList;
    use knarr_config::Config;
    use knarr_link::Secret;
    use knarr_worker::means::Resources;

    fn means() -> Means {
        let resources = Resources { jobs: Some(1), max_mem: None, profile: None, model: None };
        Means::without_costs(&resources).unwrap()
    }

    struct Quiet;

    impl Notices for Quiet {
        fn notify(&self, _: &str) {}
        fn warn(&self, _: &str) {}
    }

    fn nodes() -> Nodes {
        Nodes::new("a".to_owned(), None, (&Engine::new(CodecList::pure()), means()), Arc::new(Quiet)).unwrap()
    }

    fn part(node: &str, spool: &Path) -> NodePart {
        let peer = Peer { node: node.to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        NodePart { peer, spool: spool.to_owned(), token: String::new(), file: format!("{node}-0"), ranks: Vec::new() }
    }

    #[test]
    fn a_file_waits_for_the_end_of_the_program_on_all_nodes_that_have_written_it() {
        let nodes = nodes();
        let others = || nodes.others(["b".to_owned(), "c".to_owned()].into());
        let notify = |token: &str| {
            let question = Question::Ended { token: token.to_owned() }.to_bytes().unwrap();
            assert!(nodes.shared.answer(&question).unwrap().is_empty());
        };
        nodes.others(BTreeSet::new()).await_end(&AtomicBool::new(false)).unwrap();
        notify("b");
        assert!(others().await_end(&AtomicBool::new(true)).is_err(), "c goes on");
        notify("b");
        notify("c");
        others().await_end(&AtomicBool::new(true)).unwrap();
    }

    #[test]
    fn a_file_whose_values_are_gone_is_not_lost_before_it_is_told_of() {
        let spool = std::env::temp_dir().join(format!("knarr-nodes-{}", std::process::id()));
        std::fs::create_dir_all(spool.join("a-0")).unwrap();
        let nodes = nodes();
        nodes.add(&spool);
        let rule = Config::parse("[[file]]\npattern = \"*\"\n").unwrap().file.remove(0);
        let parts = vec![part("a", &spool), part("b", &spool)];
        let handed = HandedOver { parts, ..HandedOver::new("/out/hist.nc".into(), rule, 2) };
        let question =
            Question::Outcome { file: "a-0".to_owned(), node: "b".to_owned(), freed: None }.to_bytes().unwrap();
        let ask = || {
            let answer = nodes.shared.answer(&question).unwrap();
            serde_json::from_slice::<Option<Result<Fate>>>(&answer).unwrap()
        };
        assert!(ask().is_none());
        nodes.begin(&handed);
        std::fs::remove_dir_all(&spool).unwrap();
        assert!(ask().is_none(), "it is in place, or fails, in a moment");
        nodes.notify(&handed, Ok(Fate::Staged));
        assert!(matches!(ask(), Some(Ok(Fate::Staged))));
        nodes.notify(&handed, Ok(Fate::Done));
        assert!(matches!(ask(), Some(Ok(Fate::Done))));
        let begin = Instant::now();
        nodes.linger();
        assert!(begin.elapsed() < STAYS_FOR_NODES, "everybody knows it");
        // What was never there is no file that is under way.
        nodes.shared.made.lock().unwrap().clear();
        assert!(matches!(ask(), Some(Err(_))));
    }
}
