//! Starts the program, and waits for it beside the main loop.

use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};

use crate::launch::aggregators::node_leader::NodeLeader;
use crate::launch::checkpoint::Watches;
use crate::launch::news::{ENDED, listen, spawn};
use crate::launch::outcome::Files;
use crate::launch::spools::spool_usage::SpoolUsage;
use crate::launch::start::learned;
use crate::launch::start::prepare::RunSetup;
use crate::launch::start::program::{self, NotStarted, Signals};
use crate::launch::supervisor::{CopiesUsed, Supervisor};
use knarr_capture::processes::any_of_run;
use knarr_decisions::planner::Forecasts;
use knarr_decisions::stage::Latencies;

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
    /// Some process called HDF5.
    pub(in crate::launch) calls_seen: bool,
    /// What values took that waited for their files.
    pub(in crate::launch) usage: SpoolUsage,
    /// How well it was predicted what files become that wait in tiers.
    pub(in crate::launch) forecasts: Option<Forecasts>,
    /// How long these took to be safe.
    pub(in crate::launch) latencies: Latencies,
    /// What copies of files were good for.
    pub(in crate::launch) copies: CopiesUsed,
}

/// Starts the program, waits for it, and packs what it closes.
///
/// # Errors
/// `Internal` if there are no threads to be had: then the program was not started. A program may wait for files, which are made
/// while another thread waits for the program.
pub(in crate::launch) fn supervise(setup: &RunSetup, watches: &Watches) -> Result<Result<Supervised, NotStarted>> {
    let (send, receive) = channel();
    let (ended, status) = channel();
    let listener = setup.run_directory.socket.try_clone().map_err(|error| Error::internal(error.to_string()))?;
    spawn("listener", {
        let send = send.clone();
        move || listen(&listener, &status, &send)
    })?;
    setup.signals.tell(send.clone());
    let mut supervisor = Supervisor::new(setup, watches, send.clone(), receive);
    let notices = &*setup.notices;
    let code = std::thread::scope(|scope| {
        let names = Arc::clone(&setup.names);
        // Without a thread nobody is told who waits for long.
        let looks = move || names.look_after(notices, &send);
        let _ = std::thread::Builder::new().name("names".to_owned()).spawn_scoped(scope, looks);
        let (give, take) = channel();
        let (signals, leader, run) = (&setup.signals, setup.leader.as_ref(), setup.run_directory.directory.as_path());
        let waits = move || await_end(signals, leader, run, &take, &ended);
        let waiting = std::thread::Builder::new().name("program".to_owned()).spawn_scoped(scope, waits);
        let started = match waiting {
            Ok(_) => Ok(setup.signals.start(&setup.program, &setup.run_directory.directory, &setup.preload)),
            Err(error) => Err(Error::internal(format!("cannot start a thread: {error}; the program was not started"))
                .hint("raise the limit of processes (ulimit -u)")),
        };
        let code = started.map(|started| {
            started.map(|child| {
                let _ = give.send(child);
                supervisor.until_done()
            })
        });
        setup.names.stop();
        code
    });
    let code = match code? {
        Ok(code) => code,
        Err(not_started) => return Ok(Err(not_started)),
    };
    let files = supervisor.finish();
    setup.nodes.linger();
    setup.names.leave();
    let usage = setup
        .spool
        .as_ref()
        .map(|spool| SpoolUsage::of(spool.path(), setup.snapshot.spool.as_ref()))
        .unwrap_or_default();
    let (calls_seen, forecasts, latencies) = (supervisor.calls_seen(), supervisor.forecasts(), supervisor.latencies());
    let copies = supervisor.copies_used();
    if let Some(profile) = setup.means.profile().filter(|_| forecasts.is_some())
        && let Err(error) = learned::save(profile, supervisor.learned())
    {
        setup.notices.warn(&format!("what was learned of files is not kept for later runs: {error}"));
    }
    Ok(Ok(Supervised { code, files, calls_seen, usage, forecasts, latencies, copies }))
}

/// Waits for the program that comes, if one does, and says how it has ended.
fn await_end(
    signals: &Signals,
    leader: Option<&NodeLeader>,
    run: &Path,
    program: &Receiver<Child>,
    ended: &Sender<(ExitStatus, bool)>,
) {
    let Ok(mut child) = program.recv() else { return };
    // A program of which nothing can be known has not ended well.
    let status = signals.wait(&mut child).unwrap_or_else(|_| ExitStatus::from_raw(1 << 8));
    if leader.is_none() && program::exit_code(status) > KILLED {
        // Of an 'mpirun' that was killed the ranks may go on: what they hand over is looked after.
        let since = Instant::now();
        let goes_on = || any_of_run(run) && !signals.is_terminated();
        while since.elapsed() < AFTER_KILL && goes_on() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    let all = leader.is_none_or(|leader| leader.await_others(!status.success(), || signals.is_terminated()));
    let _ = ended.send((status, all));
    if let Ok(own) = UnixDatagram::unbound() {
        let socket = run.join(knarr_capture::SOCKET);
        while own.send_to(ENDED, &socket).is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {}
    }
}
