//! Starts the program, and waits for it beside the main loop.

use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::Prescription;

use crate::launch::aggregators::first::First;
use crate::launch::checkpoint::Watches;
use crate::launch::news::{ENDED, listen, spawn};
use crate::launch::outcome::Files;
use crate::launch::spools::taken::Taken;
use crate::launch::start::prepare::Begun;
use crate::launch::start::program::{self, NotStarted, Signals};
use crate::launch::work::Work;
use crate::processes::any_of_run;

/// Exit codes above say that a signal has ended the program, or the one that a shell has run.
const KILLED: u8 = 128;
/// How long the processes of such a program are waited for.
const AFTER_KILL: Duration = Duration::from_secs(30);
/// How often they are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What came of the main loop.
pub(in crate::launch) struct Supervised {
    /// The program's exit code.
    pub(in crate::launch) code: u8,
    pub(in crate::launch) files: Files,
    /// What was learnt of files that were compressed as they were written, newest last.
    pub(in crate::launch) learnt: Vec<Prescription>,
    /// Some process called HDF5.
    pub(in crate::launch) calls_seen: bool,
    /// What values took that waited for their files.
    pub(in crate::launch) taken: Taken,
}

/// Starts the program, waits for it, and packs what it closes.
///
/// # Errors
/// `Internal` if there are no threads to be had: then the program was not started. A program may wait for files, which are made
/// while another thread waits for the program.
pub(in crate::launch) fn supervise(begun: &Begun, watches: &Watches) -> Result<Result<Supervised, NotStarted>> {
    let (send, receive) = channel();
    let (ended, status) = channel();
    let listener = begun.stage.socket.try_clone().map_err(|error| Error::internal(error.to_string()))?;
    spawn("listener", {
        let send = send.clone();
        move || listen(&listener, &status, &send)
    })?;
    let mut work = Work::new(begun, watches, send.clone(), receive);
    let notices = &*begun.notices;
    let code = std::thread::scope(|scope| {
        let names = Arc::clone(&begun.names);
        // Without a thread nobody is told who waits for long.
        let looks = move || names.look_after(notices, &send);
        let _ = std::thread::Builder::new().name("names".to_owned()).spawn_scoped(scope, looks);
        let (give, take) = channel();
        let (signals, first, run) = (&begun.signals, begun.first.as_ref(), begun.stage.directory.as_path());
        let waits = move || await_end(signals, first, run, &take, &ended);
        let waiting = std::thread::Builder::new().name("program".to_owned()).spawn_scoped(scope, waits);
        let started = match waiting {
            Ok(_) => Ok(begun.signals.start(&begun.program, &begun.stage.directory, &begun.preload)),
            Err(error) => Err(Error::internal(format!("cannot start a thread: {error}; the program was not started"))
                .hint("raise the limit of processes (ulimit -u)")),
        };
        let code = started.map(|started| {
            started.map(|child| {
                let _ = give.send(child);
                work.until_done()
            })
        });
        begun.names.stop();
        code
    });
    let code = match code? {
        Ok(code) => code,
        Err(not_started) => return Ok(Err(not_started)),
    };
    let files = work.finish();
    begun.nodes.linger();
    begun.names.leave();
    let taken = begun.spool.as_ref().map(|spool| Taken::of(spool.path())).unwrap_or_default();
    let (learnt, calls_seen) = work.into_learnt();
    Ok(Ok(Supervised { code, files, learnt, calls_seen, taken }))
}

/// Waits for the program that comes, if one does, and says how it has ended.
fn await_end(
    signals: &Signals,
    first: Option<&First>,
    run: &Path,
    program: &Receiver<Child>,
    ended: &Sender<(ExitStatus, bool)>,
) {
    let Ok(mut child) = program.recv() else { return };
    // A program of which nothing can be known has not ended well.
    let status = signals.wait(&mut child).unwrap_or_else(|_| ExitStatus::from_raw(1 << 8));
    if first.is_none() && program::exit_code(status) > KILLED {
        // Of an 'mpirun' that was killed the ranks may go on: what they hand over is looked after.
        let since = Instant::now();
        let goes_on = || any_of_run(run) && !signals.is_terminated();
        while since.elapsed() < AFTER_KILL && goes_on() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    let all = first.is_none_or(|first| first.await_others(!status.success(), || signals.is_terminated()));
    let _ = ended.send((status, all));
    if let Ok(own) = UnixDatagram::unbound() {
        let socket = run.join(knarr_capture::SOCKET);
        while own.send_to(ENDED, &socket).is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {}
    }
}
