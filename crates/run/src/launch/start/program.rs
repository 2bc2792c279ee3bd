//! The program: started, sent the signals that come to Knarr, and waited for.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::launch::news::News;
use knarr_array::error::{Error, Result};
use knarr_capture::processes::ignored_signals;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Signals that are passed on while the program runs, and that stop Knarr after it.
const SIGNALS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Exit code of programs that run others, if something that they need is not in order.
pub const CANNOT_BEGIN: u8 = 125;
/// Exit codes of shells.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Between two looks for signals, where the system does not say when one comes.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long processes that the program left behind may take to close their files.
pub(in crate::launch) const GRACE: Duration = Duration::from_secs(2);

/// A program that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    /// The exit code that says so.
    pub code: u8,
    /// What went wrong.
    pub why: String,
}

/// Where the program is, for the thread that passes signals on.
#[derive(Default)]
struct Running {
    /// `Some` while the process may be signalled; taken away before its number can belong to another.
    process: Mutex<Option<rustix::process::Pid>>,
    /// Who is told that a signal came.
    told: Mutex<Option<Sender<News>>>,
}

/// Signals that come to Knarr.
pub(in crate::launch) struct Signals {
    running: Arc<Running>,
    /// The signal that came after the program had ended; 0 if none did.
    stopped_by: Arc<AtomicI32>,
    /// SIGTERM came, before or after.
    terminated: Arc<AtomicBool>,
}

impl Signals {
    /// Begins to listen. After the program has ended, a signal sets `cancel`. Signals that are ignored, as under
    /// `nohup`, stay so, for the program too.
    pub(in crate::launch) fn listen(cancel: Arc<AtomicBool>) -> Result<Self> {
        let internal = |error: std::io::Error| Error::internal(format!("cannot handle signals: {error}"));
        let ignored = ignored_signals();
        let wanted = SIGNALS.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let (read, write) = UnixStream::pair().map_err(internal)?;
        let mut signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), wanted).map_err(internal)?;
        let running = Arc::new(Running::default());
        let stopped_by = Arc::new(AtomicI32::new(0));
        let terminated = Arc::new(AtomicBool::new(false));
        let (to, stopped, is_terminated) = (Arc::clone(&running), Arc::clone(&stopped_by), Arc::clone(&terminated));
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                loop {
                    let mut is_any = false;
                    for origin in signals.pending() {
                        is_any = true;
                        if origin.signal == SIGTERM {
                            is_terminated.store(true, Ordering::Relaxed);
                        }
                        // What is typed at the terminal goes to the program without us.
                        if !to.pass_on(origin.signal, origin.cause != Cause::Kernel)
                            && ![SIGUSR1, SIGUSR2].contains(&origin.signal)
                        {
                            stopped.store(origin.signal, Ordering::Relaxed);
                            cancel.store(true, Ordering::Relaxed);
                        }
                    }
                    if is_any {
                        to.tell();
                    } else {
                        std::thread::sleep(LOOK_EVERY);
                    }
                    // If that fails, the next look comes after a moment.
                    let _ = poll(&mut [PollFd::new(signals.get_read(), PollFlags::IN)], None);
                }
            })
            .map_err(internal)?;
        Ok(Self { running, stopped_by, terminated })
    }

    /// From now on `told` hears of each signal that comes.
    pub(in crate::launch) fn tell(&self, told: Sender<News>) {
        *self.running.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Exit code after a signal that came when the program had ended.
    pub(in crate::launch) fn stopped_code(&self) -> Option<u8> {
        let signal = self.stopped_by.load(Ordering::Relaxed);
        u8::try_from(128 + signal).ok().filter(|_| signal > 0)
    }

    /// True if SIGTERM came: batch systems kill some seconds later.
    pub(in crate::launch) fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::Relaxed)
    }

    /// Starts the program.
    pub(in crate::launch) fn start(
        &self,
        command: &[OsString],
        directory: &Path,
        preload: &OsString,
    ) -> Result<Child, NotStarted> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(NotStarted { code: CANNOT_BEGIN, why: "no program is named".to_owned() });
        };
        let mut running = self.running.lock();
        let started = Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", preload)
            .env(knarr_capture::RUN_DIRECTORY, directory)
            .spawn();
        match started {
            Ok(child) => {
                *running = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                Ok(child)
            }
            Err(error) => {
                let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
                Err(NotStarted { code, why: format!("{}: {error}", program.to_string_lossy()) })
            }
        }
    }

    /// Waits for the program.
    pub(in crate::launch) fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        // The process stays a zombie, and its number its own, until it is reaped under the lock.
        if let Some(process) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            while waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                .is_err_and(|error| error == rustix::io::Errno::INTR)
            {}
        }
        let mut running = self.running.lock();
        let status = child.wait();
        *running = None;
        status
    }
}

impl Running {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<rustix::process::Pid>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        if let Some(told) = &*self.told.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = told.send(News::Signalled);
        }
    }

    /// Sends the signal to the program if it runs and if the signal was not sent to it too. False if it has ended.
    fn pass_on(&self, signal: i32, ours_alone: bool) -> bool {
        let running = self.lock();
        let Some(process) = *running else { return false };
        if ours_alone && let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
            // A program that changed its user may be out of reach.
            let _ = rustix::process::kill_process(process, signal);
        }
        true
    }
}

/// The exit code that tells what became of the program, as shells count.
pub(in crate::launch) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xFF).ok()).unwrap_or(CANNOT_BEGIN)
}
