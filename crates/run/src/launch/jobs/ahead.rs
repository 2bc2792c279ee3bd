//! Encodes chunks of files that a program still has open, while nothing else is to be done. When such a file is closed, most of
//! it is encoded already. What was encoded in another way than the file is made, or was put anew since, is encoded again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Datasets, HandedOver, tier_holding};
use knarr_choose::plan::Plan;
use knarr_config::Output;
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_flow::pipeline::for_later;
use knarr_flow::settings::Settings;
use knarr_flow::store::Source;
use knarr_formats::handed_over::HandedOverSource;
use knarr_formats::hdf5::Handed;
use knarr_formats::open_handed_over;
use knarr_handover::{AheadChunks, AssembledPuts};
use knarr_routes::compress::encode_source_ahead;
use serde::{Deserialize, Serialize};

use crate::launch::jobs::deliver::rank_values;
use crate::launch::jobs::kind::kind_of;
use crate::launch::news::spawn;
use crate::launch::start::prepare::RunSetup;
use knarr_worker::{Effort, Task, Worker};

/// Files that are closed sooner are not worth a look.
const LEAST: Duration = Duration::from_secs(1);
/// How often files are looked for, while there is more of them each time.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same of a program that has put nothing for long.
const LOOK_SELDOM: Duration = Duration::from_secs(8);
/// Looking takes less than this part of the time then, however many logs there are.
const PART_OF_TIME: u32 = 4000;
/// The next look comes when logs have grown by this part, in percent: each looks at all of the file.
const GROWN: u64 = 10;
/// How often a file is tried that cannot be read.
const ATTEMPTS: u32 = 5;

/// Encodes what a file has by now.
#[derive(Serialize, Deserialize)]
pub(crate) struct EncodeAhead {
    #[serde(with = "knarr_array::path_bytes")]
    directory: PathBuf,
    handed: HandedOver,
    /// Where the chunks go.
    #[serde(with = "knarr_array::path_bytes")]
    chunks: PathBuf,
    earlier: Option<Plan>,
}

impl Task for EncodeAhead {
    const NAME: &'static str = "encode ahead";
    type Answer = Plan;

    fn run(self, engine: &Engine, _: &dyn Progress) -> Result<Plan> {
        let Self { directory, handed, chunks, earlier } = self;
        let puts = AssembledPuts::of(u64::MAX, rank_values(&handed, &directory, &BTreeMap::new()))?;
        let tier = tier_holding(directory.parent().unwrap_or(&directory), &chunks);
        let puts = puts.with_ahead(Some(AheadChunks::keep(&directory, tier, &chunks)?));
        let header = directory.join(HandedOver::HEADER);
        let source: Box<dyn Source> = match Datasets::read(&directory)? {
            Some(Datasets { addresses }) => {
                // How far datasets have grown is written into it.
                let copy = directory.join("ahead.h5");
                fs::copy(&header, &copy).map_err(|error| Error::write(&copy, &error))?;
                let state = Handed { is_closed: false, is_serial: handed.is_serial };
                open_handed_over(&copy, (puts, &addresses), &handed.target, state, &engine.codecs)?
            }
            None => Box::new(HandedOverSource::open(&header, puts, None, &handed.target)?),
        };
        let kind = kind_of(&handed, &*source, None)?;
        let (earlier, filters) = (earlier.map(Arc::new), handed.readers_filters());
        let settings = Settings { earlier, as_whole: true, filters, ..handed.rule.lenient_settings()? };
        encode_source_ahead(engine, source, kind, &settings)
    }
}

/// What is known of an open file.
struct Open {
    since: Instant,
    /// Ranks that have logs.
    ranks: usize,
    /// Bytes of its logs when it was looked at, and when its chains were chosen.
    logged: u64,
    planned: u64,
    plan: Option<Arc<Plan>>,
    /// How often it could not be read: its header may be under way.
    failed: u32,
}

/// A file of which chunks are to be encoded.
#[derive(Clone)]
pub(in crate::launch) struct Ahead {
    directory: PathBuf,
    handed: HandedOver,
    chunks: PathBuf,
    earlier: Option<Arc<Plan>>,
}

/// Open files, and what is encoded of them.
pub(in crate::launch) struct AheadWork {
    worker: Arc<Mutex<Worker>>,
    files: BTreeMap<PathBuf, Open>,
    looked: Option<Instant>,
    /// The next look comes so long after that.
    pause: Duration,
    /// Set to stop what is under way.
    under_way: Option<Arc<AtomicBool>>,
}

impl AheadWork {
    pub(in crate::launch) fn new(begun: &RunSetup) -> Self {
        let worker = Worker::with_allowed(begun.means.clone(), begun.engine.allowed.clone());
        let worker = Arc::new(Mutex::new(worker));
        Self { worker, files: BTreeMap::new(), looked: None, pause: LOOK_EVERY, under_way: None }
    }

    pub(in crate::launch) fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    /// Stops at the next chunk. What is done by then is kept.
    pub(in crate::launch) fn stop(&self) {
        if let Some(cancel) = &self.under_way {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    /// The next file of which there is more than before, if nothing is under way. `earlier` is what is chosen for a file with this
    /// name unless its values look differently.
    pub(in crate::launch) fn next(
        &mut self,
        begun: &RunSetup,
        earlier: impl Fn(&Path) -> Option<Arc<Plan>>,
    ) -> Option<Ahead> {
        let spool = begun.spool.as_ref().filter(|_| self.is_idle())?;
        if self.looked.is_some_and(|looked| looked.elapsed() < self.pause) {
            return None;
        }
        let begin = Instant::now();
        self.looked = Some(begin);
        let directories = HandedOver::directories(spool.path()).unwrap_or_default();
        self.files.retain(|directory, _| directories.contains(directory));
        let mut is_quiet = true;
        for directory in directories {
            let known = match self.files.entry(directory.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let Ok(handed) = HandedOver::begun(&directory) else { continue };
                    let failed = if is_encoded(&handed) { 0 } else { ATTEMPTS };
                    let (since, ranks) = (Instant::now(), handed.ranks);
                    new.insert(Open { since, ranks, logged: 0, planned: 0, plan: None, failed })
                }
            };
            if known.failed >= ATTEMPTS {
                continue;
            }
            let logged = logged(&directory, known.ranks);
            if logged <= known.logged + known.logged * GROWN / 100 {
                continue;
            }
            is_quiet = false;
            // It may have been closed.
            let handed = HandedOver::begun(&directory).ok().filter(|_| known.since.elapsed() >= LEAST);
            let Some(handed) = handed else { continue };
            self.pause = LOOK_EVERY;
            known.logged = logged;
            // What is true of the first steps may not be of the others.
            if logged > 2 * known.planned {
                (known.planned, known.plan) = (logged, None);
            }
            let earlier = known.plan.clone().or_else(|| earlier(&handed.target));
            let token = begun.snapshot.spool.as_ref().map(|spool| spool.token.as_str()).unwrap_or_default();
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let places = begun.snapshot.spool.as_ref().map_or(&[][..], |spool| &spool.places);
            // Files stay in the last tier.
            let fast = places.split_last().and_then(|(_, waiting)| waiting.first());
            let chunks = fast.filter(|_| handed.rule.stage().is_some()).map_or(begun.scratch.path(), |fast| &fast.path);
            let chunks = chunks.join(format!("{token}-{name}.ahead"));
            return Some(Ahead { directory, handed, chunks, earlier });
        }
        self.pause = match is_quiet {
            true => LOOK_SELDOM.min(self.pause * 2).max(begin.elapsed() * PART_OF_TIME),
            false => LOOK_EVERY,
        };
        None
    }

    /// Begins. The result is told. False if there is no thread to be had.
    pub(in crate::launch) fn start(
        &mut self,
        ahead: Ahead,
        jobs: usize,
        notify: impl FnOnce(PathBuf, Result<Box<Plan>>) + Send + 'static,
    ) -> bool {
        let Ahead { directory, handed, chunks, earlier } = ahead;
        let (cancel, worker) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self.worker));
        let (stop, effort) = (Arc::clone(&cancel), Effort { jobs, background: true, memory: None });
        let earlier = earlier.as_deref().cloned();
        let started = spawn("ahead", move || {
            let task = EncodeAhead { directory: directory.clone(), handed, chunks, earlier };
            let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            let done = worker.ask(&task, effort, &stop, &Silent).map_err(Error::from);
            notify(directory, done.map(Box::new));
        });
        if started.is_ok() {
            self.under_way = Some(cancel);
        }
        started.is_ok()
    }

    /// It was not begun: there is as much to do as before.
    pub(in crate::launch) fn not_begun(&mut self, ahead: &Ahead) {
        if let Some(known) = self.files.get_mut(&ahead.directory) {
            known.logged = 0;
        }
    }

    /// What was under way has ended.
    pub(in crate::launch) fn done(&mut self, directory: &Path, plan: Result<Box<Plan>>) {
        self.under_way = None;
        let Some(known) = self.files.get_mut(directory) else { return };
        match plan {
            Ok(plan) => known.plan = Some(Arc::new(for_later(*plan))),
            // Stopped for what is more urgent: there is as much to do as before.
            Err(error) if error.kind() == ErrorKind::Interrupted => known.logged = 0,
            Err(_) => {
                known.failed += 1;
                known.logged = 0;
            }
        }
    }
}

/// True for a file whose values are all on this node, and that is made of chunks.
fn is_encoded(handed: &HandedOver) -> bool {
    let is_here = handed.ranks > 0 && handed.parts.is_empty();
    is_here && handed.rule.route().traits().is_handed_over && *handed.rule.compress().output() != Output::Classic
}

/// Bytes of the logs of all ranks.
fn logged(directory: &Path, ranks: usize) -> u64 {
    (0..ranks).filter_map(|rank| Some(fs::metadata(directory.join(HandedOver::log(rank))).ok()?.len())).sum()
}
