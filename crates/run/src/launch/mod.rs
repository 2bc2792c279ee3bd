//! `knarr run`: a program is started with a library that tells which HDF5 and netCDF-4 files it writes; each is packed
//! in the background once it is closed, and put in its place. Restart files become sets. What a program writes with PnetCDF
//! it hands over in memory, and files are made of that.
//!
//! [`Launch::prepare`] gets everything in order, and [`Launch::run`] starts the program and stays until its files are done.
//! [`recover`] finishes what a run that was killed has left.
//!
//! Reading order: `start` (what must be in order, the program), [`supervisor`] (the main loop: it hears [`news`], the [`ledger`]
//! decides what is closed, and [`outcome`] and [`report`] are what became of it), `knarr_decisions` (which job begins next, how well files are encoded), `jobs` (what is
//! done with files), `spools` (directories of a run), [`names`] and [`waiting`] (programs that wait). If every rank is started by a launcher, one on each node serves them, and those of several
//! nodes make files together (`aggregators`). Components that transfer files to each other are `coupling`; restart files,
//! [`checkpoint`].

mod aggregators;
mod checkpoint;
mod coupling;
mod jobs;
mod names;
mod news;
mod outcome;
mod report;
mod spools;
mod start;
mod supervisor;
mod waiting;

pub use aggregators::lossy_transfers::LossyTransfer;
pub use jobs::worker_tasks;
pub use knarr_decisions::planner::Forecasts;
pub use knarr_decisions::stage::Latencies;
pub use knarr_handover::Crossed;
pub use knarr_names::Call;
pub use names::NameWaits;
pub use outcome::{Became, Done, Outcome, Row, Told, packed, undelivered};
pub use spools::recover::recover;
pub use spools::spool_usage::{SpoolUsage, TierUsage};
pub use spools::waiting::{HeldTier, RunningTiers, running_tiers};
pub use start::joined::join;
pub use start::options::Options;
pub use start::program::{CANNOT_BEGIN, NotStarted};
pub use supervisor::CopiesUsed;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use knarr_array::error::Result;
use knarr_choose::form::Form;
use knarr_flow::energy::Site;
use knarr_routes::compress::{Repacked, refuse_other_plan, save_plan};

use crate::notices::Notices;
use aggregators::node_leader::{Follower, Role};
use checkpoint::Watches;
use knarr_worker::means::Means;
use start::prepare::RunSetup;
use start::supervise::{Supervised, supervise};

/// A program that may start.
pub struct Launch(Launcher);

/// Who looks after it.
enum Launcher {
    /// This process.
    NodeLeader(Box<RunSetup>),
    /// Another `knarr run` on this node, which serves all ranks that are there.
    Follower { follower: Follower, program: Vec<OsString>, notices: Arc<dyn Notices> },
}

/// How a run ended.
pub enum Ended {
    /// With files of which this process knows what became.
    Ran(Box<Ran>),
    /// With this exit code; another `knarr run` on this node tells what became of files.
    Served(u8),
}

/// What a run did.
pub struct Ran {
    /// The exit code that tells what became of the program, or that a signal ended the run after it.
    pub code: u8,
    /// Some process of the program called HDF5.
    pub calls_seen: bool,
    /// Files in the order in which they were done.
    pub files: Vec<Done>,
    /// Time steps of route `checkpoint`.
    pub steps: Vec<Row>,
    /// What the centre pays for stored bytes, if the configuration says so.
    pub site: Option<Site>,
    /// Bytes that other nodes have asked of this one, by the names of what they went over.
    pub sent: BTreeMap<&'static str, u64>,
    /// What values took that waited for their files.
    pub usage: SpoolUsage,
    /// How well it was predicted what files become that wait in tiers; `None` if there were none.
    pub forecasts: Option<Forecasts>,
    /// How long these took to be safe.
    pub latencies: Latencies,
    /// What copies of files in their places were good for.
    pub copies: CopiesUsed,
    /// Calls that have waited for files that were not there yet.
    pub name_waits: NameWaits,
    /// What the engine was made of.
    pub means: Means,
    /// Of a job on several nodes, all but the first of which have reports of their own: the node.
    pub node: Option<String>,
}

impl Launch {
    /// Gets everything in order that a run needs.
    ///
    /// # Errors
    /// Of what is not in order.
    pub fn prepare(options: Options, notices: Arc<dyn Notices>) -> Result<Self> {
        let leader = match aggregators::node_leader::join(&options.config, options.component.as_deref())? {
            Role::Alone => None,
            Role::NodeLeader(leader) => Some(leader),
            Role::Follower(follower) => {
                return Ok(Self(Launcher::Follower { follower, program: options.program, notices }));
            }
        };
        Ok(Self(Launcher::NodeLeader(Box::new(start::prepare::prepare(options, notices, leader)?))))
    }

    /// Starts the program, and stays until it has ended and its files are done.
    ///
    /// # Errors
    /// `Internal` if the system has no threads to give. A program that cannot be started is a result.
    pub fn run(self) -> Result<Result<Ended, NotStarted>> {
        let mut setup = match self.0 {
            Launcher::NodeLeader(setup) => setup,
            Launcher::Follower { follower, program, notices } => {
                return Ok(follower.run(&program, &*notices)?.map(Ended::Served));
            }
        };
        let watched = std::mem::take(&mut setup.watched);
        let watches = Watches::start(watched, &setup.engine, &setup.means, &setup.notices)?;
        let Supervised { code, files, calls_seen, usage, forecasts, latencies, copies } =
            match supervise(&setup, &watches)? {
                Ok(supervised) => supervised,
                Err(not_started) => return Ok(Err(not_started)),
            };
        let (files, steps) = (files.into_list(), watches.finish());
        // What a signal stopped is told by the exit code, unless the program has a failure of its own to tell.
        let code = setup.signals.stopped_code().filter(|_| code == 0).unwrap_or(code);
        // A program that has handed a file over counts on it.
        let code = if code == 0 { undelivered(&files) } else { code };
        // Plans come now: before, they could be in the way of a program that removes its directories.
        let has_choices =
            |done: &&Repacked| done.plan.destination != Form::Values && is_still(&done.output, done.output_bytes);
        for done in packed(&files).filter(has_choices) {
            if let Err(error) =
                refuse_other_plan(&done.output, false).and_then(|()| save_plan(&done.plan, &done.output))
            {
                setup.notices.warn(&format!("the plan of {} is not saved: {error}", done.output.display()));
            }
        }
        let site = setup.snapshot.config.site;
        let is_beside = setup.leader.as_ref().is_some_and(|leader| leader.may_have_others() && !leader.has_root());
        let name_waits = setup.names.waits();
        let node = is_beside.then(|| setup.nodes.node().to_owned());
        let sent = setup.nodes.sent();
        Ok(Ok(Ended::Ran(Box::new(Ran {
            code,
            calls_seen,
            files,
            steps,
            site,
            sent,
            usage,
            forecasts,
            latencies,
            copies,
            name_waits,
            means: setup.means,
            node,
        }))))
    }
}

/// False if the program has put a file of another size in the place of this one.
fn is_still(output: &Path, bytes: u64) -> bool {
    std::fs::metadata(output).is_ok_and(|found| found.is_dir() || found.len() == bytes)
}
