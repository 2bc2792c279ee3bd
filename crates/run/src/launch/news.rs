//! What the main loop of a run hears, and from whom.

use std::fs::Metadata;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, Message};
use knarr_choose::plan::Plan;
use knarr_routes::compress::Repacked;

use super::jobs::stage::improve::Improved;
use super::jobs::stage::kept::KeptCopy;
use super::outcome::Outcome;
use knarr_decisions::queue::JobId;

/// What the main loop hears.
pub(super) enum News {
    /// A process of the program did something.
    Message(Message),
    /// The program has ended, and all its messages have come before. With false, some of its processes run yet.
    Ended(ExitStatus, bool),
    /// A file is done. With what the system says of the one that was made, before the program can have given that another name.
    Done(JobId, Outcome, Option<Metadata>),
    /// A job needs more memory than it has got.
    Short(JobId),
    /// A file waits in a tier.
    Staged(JobId, Box<StagedFile>),
    /// A copy of a file that is in its place stays in a tier.
    Kept(KeptCopy),
    /// What is there of the file in a directory is encoded, or why it is not.
    Ahead(JobId, PathBuf, Result<Box<Plan>>),
    /// A file that waits in a tier was encoded anew, or why it was not.
    Improved(JobId, Result<Box<Improved>>),
    /// What the program has asked for is done, or cannot be.
    Answered(JobId),
    /// A packed file is as the program has made it again.
    GivenBack(PathBuf),
    /// The node that makes a file, of which a part lay in a directory, knows what became of it, or is gone.
    Gathered { path: PathBuf, directory: PathBuf, outcome: Outcome },
    /// What lies in the first directory was copied to the second one, on a disk, or finds no room there.
    MovedOut(PathBuf, Result<Option<PathBuf>>),
    /// All that was to be copied is.
    MovingEnded,
    /// Another node knows that the program has ended here, or is gone.
    EndNoted,
    /// A signal came.
    Signalled,
    /// Some call waits for a file that is not there yet, or the program does not want one any more.
    Named,
}

/// A file that waits in a tier.
pub(super) struct StagedFile {
    /// What was handed over.
    pub(super) handed: HandedOver,
    /// What was made of it.
    pub(super) repacked: Repacked,
    /// The directory there with what is known of it; `None` if that stays in memory.
    pub(super) to: Result<Option<PathBuf>>,
}

impl News {
    /// What became of a job on a file.
    pub(super) fn of_job(job: JobId, outcome: Outcome) -> Self {
        let made = outcome.made();
        Self::Done(job, outcome, made)
    }
}

/// What Knarr sends to its own socket when the program has ended, behind all messages of the program.
pub(super) const ENDED: &[u8] = b"ended";

/// How long the next message is waited for at a time: the word that the program has ended may be lost.
const LISTEN_FOR: Duration = Duration::from_secs(1);
/// Between two tries to hear something.
const PAUSE: Duration = Duration::from_millis(1);

/// Starts a thread.
///
/// # Errors
/// `Internal` if there is none to be had.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Error::internal(format!("cannot start a thread: {error}")))
}

/// Hands on what comes to the socket, until the program has ended.
pub(super) fn listen(socket: &UnixDatagram, status: &Receiver<(ExitStatus, bool)>, news: &Sender<News>) {
    let _ = socket.set_read_timeout(Some(LISTEN_FOR));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = match socket.recv(&mut buffer) {
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // What is not heard is found in the spool; that the program has ended must not be missed.
            Err(_) => match status.recv_timeout(PAUSE) {
                Ok((status, all)) => return drop(news.send(News::Ended(status, all))),
                Err(RecvTimeoutError::Timeout) => continue,
                // It was not started.
                Err(RecvTimeoutError::Disconnected) => return,
            },
        };
        let heard = if bytes == ENDED {
            status.recv().ok().map(|(status, all)| News::Ended(status, all))
        } else {
            Message::from_bytes(bytes).map(News::Message)
        };
        let last = matches!(heard, Some(News::Ended(..)));
        if heard.is_some_and(|heard| news.send(heard).is_err()) || last {
            return;
        }
    }
}
