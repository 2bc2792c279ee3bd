//! Work on files of others in a process of its own. The libraries that read them may crash on one that is damaged, or
//! that its program is changing: then only that process ends.
//!
//! A [`Worker`] starts this program again as `knarr worker`, which calls [`serve`]. It hands that process one [`Task`]
//! after the other over a socket, and hears its progress and its answers. When the process dies, the next task gets a new
//! one. When the socket is closed, because the work was cancelled or whoever asked was killed, the process stops at the next
//! chunk, removes what it has begun, and ends.
//!
//! [`means`] says what an engine is made of: the same one is made in each process.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod means;
mod pool;
mod serve;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, ErrorKind as IoErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::RUN_DIRECTORY;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::thread_limit::ThreadLimit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::consts::SIGKILL;

use crate::means::Means;

pub use pool::{Pool, Share};
pub use serve::{Tasks, serve};

/// The command of the program that has to call [`serve`].
pub const COMMAND: &str = "worker";

/// How often a wait for an answer looks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a process may take to stop before it is killed.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// What a process can be asked to do.
pub trait Task: Serialize + DeserializeOwned {
    /// What it is called between the processes.
    const NAME: &'static str;
    /// What comes of it.
    type Answer: Serialize + DeserializeOwned;

    /// Does it.
    ///
    /// # Errors
    /// Of the task.
    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Self::Answer>;
}

/// What a task may take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Effort {
    /// Worker threads.
    pub jobs: usize,
    /// At the lowest priority: a program runs that is not to be disturbed.
    pub background: bool,
    /// Bytes of memory; all that there are if `None`.
    pub memory: Option<u64>,
}

/// One task, and how it is done.
#[derive(Serialize, Deserialize)]
struct Order {
    name: String,
    task: Value,
    effort: Effort,
    /// Threads that may work when it begins.
    allowed: usize,
}

/// What a process is told, each in a line of JSON.
#[derive(Serialize, Deserialize)]
enum Say<O> {
    Do(O),
    /// So many threads may work from now on.
    Allow(usize),
}

/// What a process says, each in a line of JSON.
#[derive(Serialize, Deserialize)]
enum Word<A> {
    /// A phase of so many bytes begins.
    Begin(String, u64),
    /// So many bytes of it are done.
    Advance(u64),
    /// The task is done, or failed.
    Done(Result<A>),
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// The task failed, or was cancelled.
    Failed(Error),
    /// Its process died.
    Died(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(error) | Failure::Died(error) => error,
        }
    }
}

/// A process for work, started when there is some.
pub struct Worker {
    means: Means,
    allowed: ThreadLimit,
    running: Option<Running>,
}

impl Worker {
    /// For an engine with these means.
    pub fn new(means: Means) -> Self {
        Self::with_allowed(means, ThreadLimit::default())
    }

    /// The same; no more threads work at a time than are allowed at the moment.
    pub fn with_allowed(means: Means, allowed: ThreadLimit) -> Self {
        Self { means, allowed, running: None }
    }

    /// Has the task done, and waits. What a process that died or was killed left half written is still there.
    ///
    /// # Errors
    /// [`Failure`]; that of the task is `Interrupted` after `cancel` was set.
    pub fn ask<T: Task>(
        &mut self,
        task: &T,
        effort: Effort,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<T::Answer, Failure> {
        let unsaid = |error: serde_json::Error| Failure::Failed(Error::internal(error.to_string()));
        let task = serde_json::to_value(task).map_err(unsaid)?;
        let order = Order { name: T::NAME.to_owned(), task, effort, allowed: self.allowed.get() };
        if self.running.as_mut().is_some_and(Running::has_ended) {
            self.running = None;
        }
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(Running::start(&self.means).map_err(Failure::Failed)?),
        };
        let answer = running.ask(order, &self.allowed, cancel, progress);
        if running.is_stopped || matches!(answer, Err(Failure::Died(_))) {
            self.running = None;
        }
        answer
    }
}

/// A process.
struct Running {
    child: Child,
    socket: BufReader<UnixStream>,
    /// It was told to end.
    is_stopped: bool,
}

impl Running {
    fn start(means: &Means) -> Result<Self> {
        let internal = |error: std::io::Error| Error::internal(format!("cannot start a process for work: {error}"));
        let (ours, theirs) = UnixStream::pair().map_err(internal)?;
        ours.set_read_timeout(Some(LOOK_EVERY)).map_err(internal)?;
        // Whatever became of the file of this program: the same code answers.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("knarr").arg(COMMAND).env_remove(RUN_DIRECTORY);
        match std::env::var_os("LD_PRELOAD").map(|all| without_own(&all)) {
            Some(rest) if rest.is_empty() => command.env_remove("LD_PRELOAD"),
            Some(rest) => command.env("LD_PRELOAD", rest),
            None => &mut command,
        };
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn().map_err(internal)?;
        let mut started = Self { child, socket: BufReader::new(ours), is_stopped: false };
        match started.say(means) {
            Ok(()) => Ok(started),
            Err(_) => Err(started.death()),
        }
    }

    fn say(&mut self, what: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))?;
        line.push(b'\n');
        self.socket.get_mut().write_all(&line).map_err(|error| Error::internal(error.to_string()))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn ask<A: DeserializeOwned>(
        &mut self,
        order: Order,
        allowed: &ThreadLimit,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<A, Failure> {
        let mut stopped: Option<Instant> = None;
        let mut known = order.allowed;
        if self.say(&Say::Do(order)).is_err() {
            return Err(Failure::Died(self.death()));
        }
        let mut line = Vec::new();
        loop {
            if stopped.is_none() && cancel.load(Ordering::Relaxed) {
                stopped = Some(Instant::now());
                self.is_stopped = true;
                let _ = self.socket.get_mut().shutdown(Shutdown::Write);
            }
            if stopped.is_none() && allowed.get() != known {
                known = allowed.get();
                // If it hears nothing it has died, and that is noticed below.
                let _ = self.say(&Say::<()>::Allow(known));
            }
            if stopped.is_some_and(|since| since.elapsed() > STOPS_WITHIN) {
                let _ = self.child.kill();
            }
            match self.socket.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {}
                // What came of the line is kept.
                Err(error) if is_passing(error.kind()) => continue,
                Ok(_) | Err(_) if stopped.is_some() => return Err(Failure::Failed(interrupted())),
                Ok(_) | Err(_) => return Err(Failure::Died(self.death())),
            }
            let word = serde_json::from_slice(&line)
                .map_err(|error| Failure::Failed(Error::internal(format!("an answer makes no sense: {error}"))))?;
            line.clear();
            match word {
                Word::Begin(phase, bytes) => progress.begin(&phase, bytes),
                Word::Advance(bytes) => progress.advance(bytes),
                Word::Done(answer) => return answer.map_err(Failure::Failed),
            }
        }
    }

    /// Waits for the end of the process, and says how it died.
    fn death(&mut self) -> Error {
        match self.end() {
            Ok(status) => died(status),
            Err(error) => Error::internal(format!("lost a process: {error}")),
        }
    }

    fn end(&mut self) -> std::io::Result<ExitStatus> {
        let _ = self.socket.get_mut().shutdown(Shutdown::Both);
        let begin = Instant::now();
        while begin.elapsed() < STOPS_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted; nothing was changed")
}

/// True if the next read may bring what this one did not.
fn is_passing(kind: IoErrorKind) -> bool {
    matches!(kind, IoErrorKind::WouldBlock | IoErrorKind::TimedOut | IoErrorKind::Interrupted)
}

/// How a process died under its task.
fn died(status: ExitStatus) -> Error {
    let Some(signal) = status.signal() else {
        return Error::internal(format!("the process that worked on it ended without an answer ({status})"));
    };
    let name = signal_hook::low_level::signal_name(signal).map_or_else(|| signal.to_string(), str::to_owned);
    let what = format!("the process that worked on it was ended by signal {name}");
    if signal == SIGKILL {
        return Error::new(ErrorKind::Read, what)
            .hint("if memory was short, allow less of it with --max-mem or fewer threads with --jobs");
    }
    Error::corrupt(what).hint(
        "reading it crashed: the file is damaged, or a program was changing it; if others can read it, report this as \
         a defect of Knarr",
    )
}

/// What is preloaded besides the library that watches programs: it has nothing to watch here.
fn without_own(preload: &OsStr) -> OsString {
    let is_own =
        |word: &&[u8]| Path::new(OsStr::from_bytes(word)).file_name() == Some(OsStr::new(knarr_capture::PRELOAD));
    let words = preload.as_bytes().split(|byte| b" :".contains(byte));
    let rest: Vec<&[u8]> = words.filter(|word| !word.is_empty() && !is_own(word)).collect();
    OsString::from_vec(rest.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_preload_stays() {
        let rest = |text: &str| without_own(OsStr::new(text)).into_string().unwrap();
        assert_eq!(rest("/a b/libknarr_preload.so:/usr/lib/libx.so y.so"), "/a:/usr/lib/libx.so:y.so");
        assert_eq!(rest("/opt/libknarr_preload.so"), "");
    }

    #[test]
    fn a_death_says_how() {
        let killed = |signal: i32| died(ExitStatus::from_raw(signal));
        assert!(killed(6).to_string().contains("SIGABRT") && killed(6).kind() == ErrorKind::Corrupt);
        assert!(killed(9).to_string().contains("--max-mem") && killed(9).kind() == ErrorKind::Read);
        assert_eq!(died(ExitStatus::from_raw(1 << 8)).kind(), ErrorKind::Internal);
    }
}
