//! Encodes chunks for other nodes, which make files of them, in threads of the lowest priority: a program may run on this
//! node, and one thread then is enough.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;
use knarr_codec::codec::CodecList;
use knarr_flow::engine::Engine;
use knarr_handover::{ChunkQuestion, Encoding};
use rustix::process::setpriority_process;

/// The lowest priority.
const BACKGROUND: i32 = 19;
/// How often who waits says that it is there.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Threads that encode, and what they have to do.
pub(super) struct Encoders(Arc<Shared>);

struct Shared {
    codecs: CodecList,
    /// Threads, at most.
    jobs: usize,
    /// The program has ended: all threads may work.
    is_free: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Order>,
    /// Threads that there are, and those at work.
    threads: usize,
    busy: usize,
    is_over: bool,
}

/// A chunk, and where the answer goes.
struct Order {
    chunk: ChunkQuestion,
    directory: PathBuf,
    answer: Sender<Result<Vec<u8>>>,
}

impl Encoders {
    /// With the codecs, threads and memory of the engine. No thread is started before there is something to do.
    pub(super) fn new(engine: &Engine) -> Self {
        let jobs = engine.fitting(Encoding::MEMORY).jobs;
        let (is_free, state, changed) = (AtomicBool::new(false), Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { codecs: engine.codecs.clone(), jobs, is_free, state, changed }))
    }

    /// The program has ended.
    pub(super) fn free(&self) {
        self.0.is_free.store(true, Ordering::Relaxed);
        self.0.changed.notify_all();
    }

    /// The answer to a question about a chunk whose values are in a directory of the spool. Says once a second that it comes.
    ///
    /// # Errors
    /// As for [`Encoding::answer`]; those of `alive`; `Internal` if there is no thread to be had.
    pub(super) fn answer(
        &self,
        chunk: ChunkQuestion,
        directory: &Path,
        alive: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<u8>> {
        let (send, receive) = channel();
        self.put(Order { chunk, directory: directory.to_owned(), answer: send })?;
        loop {
            match receive.recv_timeout(ALIVE_EVERY) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => alive()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a chunk was not encoded")),
            }
        }
    }

    fn put(&self, order: Order) -> Result<()> {
        let mut state = self.0.lock();
        if state.threads < self.0.most() && state.busy + state.waiting.len() >= state.threads {
            let shared = Arc::clone(&self.0);
            let started = std::thread::Builder::new().name("encoder".to_owned()).spawn(move || shared.work());
            match started {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    return Err(Error::internal(format!("cannot start a thread: {error}")));
                }
                Err(_) => {}
            }
        }
        state.waiting.push_back(order);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Drop for Encoders {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many threads may work.
    fn most(&self) -> usize {
        if self.is_free.load(Ordering::Relaxed) { self.jobs } else { 1 }
    }

    /// The next chunk, when this thread may work.
    fn take(&self) -> Option<Order> {
        let mut state = self.lock();
        while !state.is_over {
            if state.busy < self.most()
                && let Some(order) = state.waiting.pop_front()
            {
                state.busy += 1;
                return Some(order);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn work(&self) {
        // The priority is that of the thread. Where it is refused the work is only less polite.
        let _ = setpriority_process(None, BACKGROUND);
        let mut encoding = Encoding::default();
        while let Some(Order { chunk, directory, answer }) = self.take() {
            let _busy = Busy(self);
            let values = |rank| directory.join(HandedOver::values(rank));
            // Who has asked may be gone.
            let _ = answer.send(encoding.answer(&self.codecs, &chunk, values));
        }
    }
}

/// A thread at work, which others wait for even if it panics.
struct Busy<'a>(&'a Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if std::thread::panicking() {
            state.threads -= 1;
        }
        drop(state);
        self.0.changed.notify_all();
    }
}
