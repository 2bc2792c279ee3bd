//! Answers for other nodes that take a while: who waits hears that they come.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use knarr_array::error::{Error, Result};

/// How often who waits is told.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Waits for what a thread sends, and calls `alive` once a second.
///
/// # Errors
/// What was sent; those of `alive`; `Internal` if the thread ends without.
pub(super) fn await_alive<T>(answer: &Receiver<Result<T>>, alive: &mut dyn FnMut() -> Result<()>) -> Result<T> {
    loop {
        match answer.recv_timeout(ALIVE_EVERY) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) => alive()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a thread has ended without an answer")),
        }
    }
}

/// Does `work` in a thread, and calls `alive` once a second.
///
/// # Errors
/// Those of `work` and of `alive`; `Internal` if no thread can be started.
pub(super) fn while_alive<T: Send>(
    work: impl FnOnce() -> Result<T> + Send,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Result<T> {
    std::thread::scope(|scope| {
        let (send, answer) = channel();
        let work = move || drop(send.send(work()));
        let started = std::thread::Builder::new().name("answer".to_owned()).spawn_scoped(scope, work);
        started.map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
        await_alive(&answer, alive)
    })
}
