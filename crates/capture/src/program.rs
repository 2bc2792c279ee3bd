//! The run as a process of the program has it: what the launcher asked for, and messages to it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use crate::{Event, Message, Snapshot, settled};

/// The run this process belongs to.
pub struct Run {
    directory: PathBuf,
    rules: Snapshot,
    uses_own_filter: bool,
}

/// How long the program waits for a launcher that does not listen: it may have been killed.
const LAUNCHER_LISTENS_WITHIN: Duration = Duration::from_secs(2);

/// True once this process has opened a file that a rule wants compressed.
static WRITES: AtomicBool = AtomicBool::new(false);

fn directory() -> Option<PathBuf> {
    std::env::var_os(crate::RUN_DIRECTORY).map(PathBuf::from).filter(|directory| directory.is_absolute())
}

/// The run; `None` outside of one, or when its directory is gone.
pub fn run() -> Option<&'static Run> {
    static RUN: OnceLock<Option<Run>> = OnceLock::new();
    RUN.get_or_init(|| {
        let directory = directory()?;
        let text = READ_AT_START.get().cloned().flatten();
        let at_start = text.and_then(|text| serde_json::from_slice(&text).ok());
        let rules = at_start.or_else(|| Snapshot::read(&directory))?;
        Some(Run { directory, uses_own_filter: rules.uses_own_filter(), rules })
    })
    .as_ref()
}

/// What the ranks of a program read of the run when they start. Later one of them may be unable to, if it has too many files
/// open, and the others would wait for it.
static READ_AT_START: OnceLock<Option<Vec<u8>>> = OnceLock::new();

/// By which MPIs and batch systems tell processes that they are ranks.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

impl Run {
    /// The rules.
    pub fn rules(&self) -> &Snapshot {
        &self.rules
    }

    /// True if some file may have chunks that only Knarr's filter reads.
    pub fn uses_own_filter(&self) -> bool {
        self.uses_own_filter
    }

    /// Keeps the launcher from putting packed files in place until the result is dropped. Gives up waiting for a
    /// launcher that holds the gate for long: the program must go on.
    pub fn gate(&self) -> Option<File> {
        let gate = File::open(self.directory.join(crate::GATE)).ok()?;
        let begin = Instant::now();
        while gate.try_lock_shared().is_err() {
            if begin.elapsed() > LAUNCHER_LISTENS_WITHIN {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Some(gate)
    }

    /// True as long as the launcher lives; also if nobody can tell.
    pub fn is_alive(&self) -> bool {
        let Some(spool) = &self.rules.spool else { return true };
        match settled(|| File::open(spool.directory.join(crate::ALIVE))) {
            Ok(alive) => alive.try_lock_shared().is_err(),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Tells the launcher.
    pub fn notify(&self, event: Event) {
        WRITES.fetch_or(matches!(event, Event::Opened { .. }), Ordering::Relaxed);
        send(&self.directory, event);
    }
}

/// A lock that a `fork` in another thread may have left taken is given up after a while.
pub fn patient<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..1000 {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(20)),
        }
    }
    None
}

/// A program image was loaded into this process.
pub fn started() {
    if let Some(directory) = directory() {
        if RANKS.iter().any(|name| std::env::var_os(name).is_some()) {
            READ_AT_START.get_or_init(|| std::fs::read(directory.join(crate::SNAPSHOT)).ok());
        }
        send(&directory, Event::Started);
    }
}

/// HDF5 is called from an object that had not called it before.
pub fn calls() {
    if let Some(run) = run() {
        run.notify(Event::Calls);
    }
}

/// The process ends in order.
pub fn exiting() {
    if WRITES.load(Ordering::Relaxed)
        && let Some(run) = run()
    {
        run.notify(Event::Exiting);
    }
}

/// One datagram from a socket of its own: nothing stays open that the program could close, inherit or run out of.
fn send(directory: &Path, event: Event) {
    let Some(bytes) = (Message { process: std::process::id(), event }).to_bytes() else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_write_timeout(Some(LAUNCHER_LISTENS_WITHIN)).is_err() {
        return;
    }
    let target = directory.join(crate::SOCKET);
    // A launcher that is gone wants no messages.
    while socket.send_to(&bytes, &target).is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {}
}
