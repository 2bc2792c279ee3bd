//! What the launcher asked for, and messages to it.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knarr_core::capture::{self, Event, Message, Snapshot};

/// The run this process belongs to.
pub(crate) struct Run {
    directory: PathBuf,
    snapshot: Snapshot,
}

/// How long the program waits for a launcher that does not listen: it may have been killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// True once this process has opened a file that a rule wants compressed.
static WRITES: AtomicBool = AtomicBool::new(false);

fn directory() -> Option<PathBuf> {
    std::env::var_os(capture::RUN_DIRECTORY).map(PathBuf::from).filter(|directory| directory.is_absolute())
}

/// The run; `None` outside of one, or when its directory is gone.
pub(crate) fn run() -> Option<&'static Run> {
    static RUN: OnceLock<Option<Run>> = OnceLock::new();
    RUN.get_or_init(|| {
        let directory = directory()?;
        let snapshot = Snapshot::read(&directory)?;
        Some(Run { directory, snapshot })
    })
    .as_ref()
}

impl Run {
    /// What was asked for.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Keeps the launcher from putting packed files in place until the result is dropped. Gives up waiting for a
    /// launcher that holds the gate for long: the program must go on.
    pub(crate) fn gate(&self) -> Option<File> {
        let gate = File::open(self.directory.join(capture::GATE)).ok()?;
        let begin = Instant::now();
        while gate.try_lock_shared().is_err() {
            if begin.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Some(gate)
    }

    /// Tells the launcher.
    pub(crate) fn tell(&self, event: Event) {
        WRITES.fetch_or(matches!(event, Event::Opened { .. }), Ordering::Relaxed);
        send(&self.directory, event);
    }
}

/// A program image was loaded into this process.
pub(crate) fn started() {
    if let Some(directory) = directory() {
        send(&directory, Event::Started);
    }
}

/// HDF5 is called from an object that had not called it before.
pub(crate) fn calls() {
    if let Some(run) = run() {
        run.tell(Event::Calls);
    }
}

/// The process ends in order.
pub(crate) fn exiting() {
    if WRITES.load(Ordering::Relaxed)
        && let Some(run) = run()
    {
        run.tell(Event::Exiting);
    }
}

/// One datagram from a socket of its own: nothing stays open that the program could close, inherit or run out of.
fn send(directory: &Path, event: Event) {
    let Some(bytes) = (Message { process: std::process::id(), event }).to_bytes() else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let target = directory.join(capture::SOCKET);
    // A launcher that is gone wants no messages.
    while socket.send_to(&bytes, &target).is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {}
}
