//! `mpirun -n 64 knarr run -- ./model`: every rank has a launcher. The first one on a node, its *leader*, serves the others, and
//! is the aggregator of the node. The *followers* start their programs so that they find the leader, and return their exit codes.
//!
//! Launchers meet in a directory in the memory of the node, named after the job. The leader holds its lock. Each follower keeps a
//! connection to the leader as long as its program runs. When all programs have ended, no more followers are let in.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, ErrorKind as IoErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{HandedOver, NODE, Snapshot};
use serde::{Deserialize, Serialize};

use crate::launch::spools::left_behind::left_behind;
use crate::launch::spools::spool::SHARED_MEMORY;
use crate::launch::start::program::{GRACE, NotStarted, Signals, exit_code};
use crate::notices::Notices;
use knarr_capture::processes::{Processes, System};

/// How long until connections are accepted again after that has failed.
const AGAIN: Duration = Duration::from_millis(50);
/// Between two looks at what the first launcher does.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the first launcher may take to answer.
const FIRST_ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How long the others may take to end when the job is terminated: it is killed soon.
const HURRY: Duration = Duration::from_millis(500);
/// The same if this launcher's own program has failed: they may wait for it, in MPI, and batch systems end a job only when its
/// launcher has ended.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// What the names of places begin with where launchers meet.
const NAME: &str = "knarr-node-";
const LOCK: &str = "lock";
const READY: &str = "ready.json";
const SOCKET: &str = "first.sock";
/// What a job is named after where only the process is known that has started its ranks on this node.
const PARENT: &str = "parent ";
/// What the launchers say to each other.
const WELCOME: &str = "welcome\n";
const DONE: &str = "done\n";

/// The program's name for this node: that of the machine, if the variable does not say another one.
pub(in crate::launch) fn name() -> String {
    let named = std::env::var(NODE).ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// A job in which every rank has a launcher, as the program says that started them.
#[derive(Debug, PartialEq, Eq)]
struct MpiJob {
    id: String,
    ranks: u64,
    /// The number of them on this node, if it is known.
    here: Option<u64>,
    rank: Option<u64>,
}

impl MpiJob {
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
        let several = |name: &str| number(name).filter(|&count| count > 1);
        let parent = || rustix::process::Pid::as_raw(rustix::process::getppid());
        if let Some(ranks) = several("OMPI_COMM_WORLD_SIZE") {
            let id = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"].iter().find_map(|name| variable(name));
            let id = id.unwrap_or_else(|| format!("{PARENT}{}", parent()));
            let (here, rank) = (number("OMPI_COMM_WORLD_LOCAL_SIZE"), number("OMPI_COMM_WORLD_RANK"));
            return Some(Self { id, ranks, here, rank });
        }
        if let Some(ranks) = several("PMI_SIZE") {
            let id = format!("{PARENT}{}", parent());
            return Some(Self { id, ranks, here: number("MPI_LOCALNRANKS"), rank: number("PMI_RANK") });
        }
        let ranks = several("SLURM_STEP_NUM_TASKS")?;
        let word = |name: &str| variable(name).unwrap_or_default();
        let id = format!("slurm {}.{}", word("SLURM_JOB_ID"), word("SLURM_STEP_ID"));
        let here = number("SLURM_STEP_NUM_NODES").filter(|&nodes| nodes == 1).map(|_| ranks);
        Some(Self { id, ranks, here, rank: number("SLURM_PROCID") })
    }
}

/// Where the `mpiexec` of MPICH listens that has started this process, and which of its programs it is: the same on all nodes of a
/// job, and of no other job at the time. `None` if it was started otherwise.
pub(in crate::launch) fn hydra() -> Option<String> {
    let parent = rustix::process::Pid::as_raw(rustix::process::getppid());
    hydra_of(&fs::read(format!("/proc/{parent}/cmdline")).ok()?)
}

/// The same of the command line of a proxy of Hydra.
fn hydra_of(command: &[u8]) -> Option<String> {
    let words: Vec<&str> = command.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok()).collect();
    let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
    let is_proxy = words.first().is_some_and(|program| program.contains("hydra"));
    let place = after("--control-port").map(ToOwned::to_owned).or_else(|| {
        // As Intel MPI calls it.
        Some(format!("{}:{}", after("--upstream-host")?, after("--upstream-port")?))
    });
    Some(format!("{} {}", place.filter(|_| is_proxy)?, after("--pgid").unwrap_or("0")))
}

/// What this launcher is.
pub(in crate::launch) enum Role {
    /// The only one.
    Alone,
    /// It serves the others on the node.
    NodeLeader(NodeLeader),
    /// Another one serves it.
    Follower(Follower),
}

/// Finds out what this launcher is; `config` and `component` are those of the command.
///
/// # Errors
/// `Write` without a place to meet; `Internal` if the first one does not answer.
pub(in crate::launch) fn join(config: &Path, component: Option<&str>) -> Result<Role> {
    sweep();
    let Some(job) = MpiJob::of(|name| std::env::var(name).ok()) else { return Ok(Role::Alone) };
    let mut hasher = DefaultHasher::new();
    (&job.id, name(), std::path::absolute(config).ok(), component).hash(&mut hasher);
    let user = rustix::process::geteuid().as_raw();
    let directory = parent().join(format!("{NAME}{user}-{:x}", hasher.finish()));
    loop {
        if let Some(lock) = hold(&directory, user)? {
            return Ok(Role::NodeLeader(NodeLeader { directory, _lock: lock, job, state: Arc::default() }));
        }
        if let Some(other) = Follower::enter(&directory)? {
            return Ok(Role::Follower(other));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Makes the place of a job, if there is none, and locks it; `None` if another launcher holds it, or is just leaving it.
fn hold(directory: &Path, user: u32) -> Result<Option<File>> {
    make(directory, user)?;
    let lock = match File::create(directory.join(LOCK)) {
        Ok(lock) => lock,
        // The first one has gone, and taken it along.
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::write(directory, &error)),
    };
    let inode = |found: std::io::Result<fs::Metadata>| found.map(|found| found.ino()).ok();
    if lock.try_lock().is_err() || inode(lock.metadata()) != inode(fs::metadata(directory.join(LOCK))) {
        return Ok(None);
    }
    for left in [READY, SOCKET] {
        let _ = fs::remove_file(directory.join(left));
    }
    Ok(Some(lock))
}

/// Removes a place whose lock this process holds. The lock goes last: from then on another launcher may hold the place, and
/// what it puts there stays.
fn remove(directory: &Path) {
    // What is known goes even if the directory cannot be read.
    let known = [READY, SOCKET].map(|name| directory.join(name));
    let inside = fs::read_dir(directory).into_iter().flatten().flatten();
    let others = inside.filter(|entry| entry.file_name() != LOCK).map(|entry| entry.path());
    for path in known.into_iter().chain(others) {
        let _ = fs::remove_file(path);
    }
    let _ = fs::remove_file(directory.join(LOCK));
    let _ = fs::remove_dir(directory);
}

/// Removes the places of jobs whose first launcher was killed.
pub(in crate::launch) fn sweep() {
    sweep_in(&parent(), rustix::process::geteuid().as_raw());
}

fn sweep_in(parent: &Path, user: u32) {
    for (place, lock) in left_behind(parent, &format!("{NAME}{user}-"), LOCK, user) {
        match lock {
            Some(_lock) => remove(&place),
            // Who has made it and not locked it yet finds it gone, and makes it again. With a lock that was made since, it stays.
            None => drop(fs::remove_dir(place)),
        }
    }
}

/// Where such places are.
fn parent() -> PathBuf {
    if Path::new(SHARED_MEMORY).is_dir() { PathBuf::from(SHARED_MEMORY) } else { std::env::temp_dir() }
}

fn make(directory: &Path, user: u32) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != IoErrorKind::AlreadyExists => return Err(Error::write(directory, &error)),
        _ => {}
    }
    match fs::symlink_metadata(directory) {
        Ok(found) if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 => {
            let what = "it belongs to somebody else, or others may change it";
            Err(Error::new(ErrorKind::Write, what).hint("remove it").at(directory.display().to_string()))
        }
        // It is made again if it has gone meanwhile.
        _ => Ok(()),
    }
}

/// What the others need to start the program.
#[derive(Serialize, Deserialize)]
struct Ready {
    #[serde(with = "knarr_array::path_bytes")]
    run: PathBuf,
    #[serde(with = "knarr_array::path_bytes")]
    preload: PathBuf,
}

/// The launcher that serves the others.
pub(in crate::launch) struct NodeLeader {
    directory: PathBuf,
    _lock: File,
    job: MpiJob,
    state: Arc<(Mutex<State>, Condvar)>,
}

/// The others.
#[derive(Default)]
struct State {
    came: u64,
    present: u64,
    /// Rank 0 is among them.
    has_root: bool,
    /// Nobody is let in any more.
    is_closed: bool,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeLeader {
    /// What the launchers of the job on all nodes have in common.
    pub(in crate::launch) fn run(&self) -> String {
        match (self.job.id.starts_with(PARENT), hydra()) {
            (false, _) => self.job.id.clone(),
            (true, Some(job)) => format!("hydra {job}"),
            // Nothing says on all nodes which job it is.
            (true, None) => format!("{} ranks", self.job.ranks),
        }
    }

    /// True if ranks of the job may be on other nodes.
    pub(in crate::launch) fn may_have_others(&self) -> bool {
        std::env::var_os(NODE).is_some() || self.job.here != Some(self.job.ranks)
    }

    /// Lets the others in: `run` is the directory of the run, `preload` what their programs load.
    ///
    /// # Errors
    /// `Write`, `Internal`.
    pub(in crate::launch) fn open(&self, run: &Path, preload: &OsString) -> Result<()> {
        let socket = self.directory.join(SOCKET);
        let listener = UnixListener::bind(&socket).map_err(|error| Error::write(&socket, &error))?;
        let state = Arc::clone(&self.state);
        let accept = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Too many files are open in this process: others ask again until some are closed.
                    std::thread::sleep(AGAIN);
                    continue;
                };
                let state = Arc::clone(&state);
                let serve = move || {
                    let _ = serve_follower(&stream, &state);
                };
                // Who is not attended to finds the door closed, and asks again.
                let _ = std::thread::Builder::new().name("rank".to_owned()).stack_size(1 << 17).spawn(serve);
            }
        };
        let started = std::thread::Builder::new().name("door".to_owned()).spawn(accept);
        started.map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
        let ready = Ready { run: run.to_owned(), preload: PathBuf::from(preload) };
        let text = serde_json::to_vec(&ready).map_err(|error| Error::internal(error.to_string()))?;
        knarr_flow::output::replace(&self.directory.join(READY), &text)
    }

    /// Waits, after this launcher's own program has ended, until those of all others have; when that has failed, or
    /// `is_terminated`, not for long. False if some of them run yet.
    pub(in crate::launch) fn await_others(&self, has_failed: bool, is_terminated: impl Fn() -> bool) -> bool {
        let (state, changed) = &*self.state;
        let since = Instant::now();
        let mut now = lock(state);
        loop {
            let all_came = self.job.here.is_some_and(|here| now.came + 1 >= here) && std::env::var_os(NODE).is_none();
            let is_done = now.present == 0 && (all_came || since.elapsed() > GRACE);
            let is_late = has_failed && since.elapsed() > AFTER_FAILURE;
            if is_done || is_late || is_terminated() && (now.present == 0 || since.elapsed() > HURRY) {
                now.is_closed = true;
                return now.present == 0;
            }
            now = changed.wait_timeout(now, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// True if rank 0 of the job is on this node.
    pub(in crate::launch) fn has_root(&self) -> bool {
        self.job.rank.is_none_or(|rank| rank == 0) || lock(&self.state.0).has_root
    }
}

impl Drop for NodeLeader {
    fn drop(&mut self) {
        lock(&self.state.0).is_closed = true;
        remove(&self.directory);
    }
}

/// Serves one of the others until its program has ended.
fn serve_follower(mut stream: &UnixStream, (state, changed): &(Mutex<State>, Condvar)) -> std::io::Result<()> {
    let mut words = BufReader::new(stream);
    let mut line = String::new();
    // Its rank, if it knows it.
    words.read_line(&mut line)?;
    {
        let mut state = lock(state);
        if state.is_closed {
            return Ok(());
        }
        state.came += 1;
        state.present += 1;
        state.has_root |= line.trim() == "0";
    }
    let heard = stream.write_all(WELCOME.as_bytes()).and_then(|()| {
        let (mut process, mut last) = (String::new(), String::new());
        words.read_line(&mut process)?;
        words.read_line(&mut last)?;
        Ok((process.trim().parse::<u32>().ok(), last == DONE))
    });
    // A launcher that was killed leaves its program running.
    if let Ok((Some(process), false)) = heard {
        while System.alive(process) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    lock(state).present -= 1;
    changed.notify_all();
    Ok(())
}

/// A launcher that another one serves.
pub(in crate::launch) struct Follower {
    first: UnixStream,
    run: PathBuf,
    preload: OsString,
}

impl Follower {
    /// `None` if the first one lets nobody in: not yet, or no more.
    fn enter(directory: &Path) -> Result<Option<Self>> {
        let Ok(text) = fs::read(directory.join(READY)) else { return Ok(None) };
        let Ok(Ready { run, preload }) = serde_json::from_slice(&text) else { return Ok(None) };
        let Ok(mut first) = UnixStream::connect(directory.join(SOCKET)) else { return Ok(None) };
        let rank = MpiJob::of(|name| std::env::var(name).ok()).and_then(|job| job.rank);
        let rank = rank.map_or_else(String::new, |rank| rank.to_string());
        let mut word = [0; WELCOME.len()];
        let asked = first
            .set_read_timeout(Some(FIRST_ANSWERS_WITHIN))
            .and_then(|()| first.write_all(format!("{rank}\n").as_bytes()))
            .and_then(|()| first.read_exact(&mut word));
        match asked {
            Ok(()) => Ok(Some(Self { first, run, preload: preload.into_os_string() })),
            Err(error) if matches!(error.kind(), IoErrorKind::WouldBlock | IoErrorKind::TimedOut) => {
                let what = "the first 'knarr run' of this node does not answer";
                Err(Error::internal(what).hint("it may be stopped: look for it with 'ps'"))
            }
            Err(_) => Ok(None),
        }
    }

    /// Runs the program. Returns its exit code, or one that says that the first launcher is gone.
    ///
    /// # Errors
    /// `Internal`. A program that cannot be started is a result.
    pub(in crate::launch) fn run(
        mut self,
        program: &[OsString],
        notices: &dyn Notices,
    ) -> Result<Result<u8, NotStarted>> {
        let signals = Signals::listen(Arc::new(AtomicBool::new(false)))?;
        let spool = Snapshot::read(&self.run).and_then(|snapshot| snapshot.spool);
        let mut child = match signals.start(program, &self.run, &self.preload) {
            Ok(child) => child,
            Err(not_started) => return Ok(Err(not_started)),
        };
        // If the first one is gone, that is told at the end.
        let _ = self.first.write_all(format!("{}\n", child.id()).as_bytes());
        let status = signals.wait(&mut child);
        let code = status.map_or(crate::launch::CANNOT_BEGIN, exit_code);
        let is_there = self.first.write_all(DONE.as_bytes()).is_ok();
        let left = spool.map(|spool| spool.directory).filter(|spool| !is_there && !HandedOver::left(spool).is_empty());
        let Some(spool) = left else { return Ok(Ok(code)) };
        notices.warn(&format!(
            "the 'knarr run' that serves this node was killed: what its programs have handed over is kept\n  hint: 'knarr \
             run --recover {}' makes files of it",
            spool.display()
        ));
        Ok(Ok(if code == 0 { ErrorKind::Write.exit_code() } else { code }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn job(variables: &[(&str, &str)]) -> Option<MpiJob> {
        MpiJob::of(|asked| variables.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn jobs_of_several_ranks_are_known() {
        let open = [
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("PMIX_NAMESPACE", "123"),
        ];
        assert_eq!(job(&open), Some(MpiJob { id: "123".to_owned(), ranks: 8, here: Some(4), rank: Some(5) }));
        let hydra = job(&[("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2"), ("PMI_RANK", "0")]).unwrap();
        assert_eq!((hydra.ranks, hydra.here, hydra.rank), (2, Some(2), Some(0)));
        let slurm = [
            ("SLURM_STEP_NUM_TASKS", "6"),
            ("SLURM_JOB_ID", "9"),
            ("SLURM_STEP_ID", "1"),
            ("SLURM_STEP_NUM_NODES", "2"),
            ("SLURM_PROCID", "3"),
        ];
        assert_eq!(job(&slurm), Some(MpiJob { id: "slurm 9.1".to_owned(), ranks: 6, here: None, rank: Some(3) }));
    }

    #[test]
    fn jobs_of_hydra_are_told_apart_by_their_mpiexec() {
        let command = |text: &str| text.replace(' ', "\0").into_bytes();
        let proxy = "/usr/bin/hydra_pmi_proxy --control-port n1:41535 --rmk user --pgid 0 --proxy-id";
        // Proxies of all nodes have the same but for their own numbers.
        for number in ["0", "7"] {
            assert_eq!(hydra_of(&command(&format!("{proxy} {number}"))).as_deref(), Some("n1:41535 0"));
        }
        let intel = "/opt/mpi/bin/hydra_bstrap_proxy --upstream-host n2 --upstream-port 35001 --pgid 3";
        assert_eq!(hydra_of(&command(intel)).as_deref(), Some("n2:35001 3"));
        for other in ["/bin/bash -c x --control-port n1:1", "/usr/bin/hydra_pmi_proxy --rmk user", ""] {
            assert_eq!(hydra_of(&command(other)), None, "{other}");
        }
    }

    #[test]
    fn places_of_the_dead_are_removed_and_those_of_the_living_are_not() {
        let parent = std::env::temp_dir().join(format!("knarr-places-{}", std::process::id()));
        let user = rustix::process::geteuid().as_raw();
        let place = |user: u32, name: &str| parent.join(format!("{NAME}{user}-{name}"));
        let made = [place(user, "a"), place(user, "b"), place(user + 1, "a")].map(|place| {
            fs::create_dir_all(&place).unwrap();
            File::create(place.join(LOCK)).unwrap()
        });
        made[1].lock().unwrap();
        // A pipe, which nobody writes, and a directory that others may change.
        let (pipe, shared) = (place(user, "pipe"), place(user, "shared"));
        for place in [&pipe, &shared] {
            fs::create_dir_all(place).unwrap();
        }
        rustix::fs::mknodat(rustix::fs::CWD, pipe.join(LOCK), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        File::create(shared.join(LOCK)).unwrap();
        fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        sweep_in(&parent, user);
        assert!(!place(user, "a").exists() && place(user, "b").exists() && place(user + 1, "a").exists());
        assert!(shared.exists());
        fs::remove_dir_all(parent).unwrap();
    }

    /// However often launchers of other jobs look for places of the dead meanwhile.
    #[test]
    fn a_place_that_is_held_stays() {
        let parent = std::env::temp_dir().join(format!("knarr-held-{}", std::process::id()));
        fs::create_dir(&parent).unwrap();
        let user = rustix::process::geteuid().as_raw();
        let place = parent.join(format!("{NAME}{user}-a"));
        let is_over = AtomicBool::new(false);
        let (mut held, mut lost) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    sweep_in(&parent, user);
                }
            });
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(500) {
                let Some(lock) = hold(&place, user).unwrap() else { continue };
                let is_made = File::create(place.join(SOCKET)).is_ok();
                std::thread::yield_now();
                held += 1;
                lost += u32::from(!is_made || !place.join(SOCKET).exists() || !place.join(LOCK).exists());
                // As if it was killed: the place stays.
                drop(lock);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        fs::remove_dir_all(parent).unwrap();
        assert!(held > 0 && lost == 0, "{lost} of {held} were removed while they were held");
    }

    #[test]
    fn a_single_rank_is_alone() {
        for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"] {
            assert_eq!(job(&[(name, "1")]), None);
            assert_eq!(job(&[(name, "")]), None);
        }
        assert_eq!(job(&[]), None);
    }
}
