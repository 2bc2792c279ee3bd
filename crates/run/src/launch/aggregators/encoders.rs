//! Encodes chunks for other nodes, which make files of them, in threads of the lowest priority: a program may run on this
//! node, and one thread then is enough. Keeps what it has encoded until it hears where to write it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;
use knarr_codec::codec::CodecList;
use knarr_flow::engine::Engine;
use knarr_flow::thread_limit::ThreadLimit;
use knarr_handover::{ChunkQuestion, Encoding, PendingChunks};
use rustix::process::setpriority_process;

/// The lowest priority.
const BACKGROUND: i32 = 19;

/// The part of the memory that chunks may take which wait to be written.
const KEPT: u64 = 4;

/// Threads that encode, and what they have to do.
pub(in crate::launch) struct Encoders(Arc<Shared>);

struct Shared {
    codecs: CodecList,
    /// Threads and bytes of memory, at most.
    jobs: usize,
    max_mem: u64,
    /// How many of the threads may work at the moment.
    allowed: ThreadLimit,
    state: Mutex<State>,
    changed: Condvar,
    /// What waits to be written.
    kept: PendingChunks,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Order>,
    /// Threads that there are, and those at work.
    threads: usize,
    busy: usize,
    /// Bytes that these take.
    used: u64,
    is_over: bool,
}

/// A chunk, and where the answer goes.
struct Order {
    chunk: ChunkQuestion,
    /// The file, if the chunk may be kept for it.
    keep: Option<String>,
    directory: PathBuf,
    answer: Sender<Result<Vec<u8>>>,
}

impl Encoders {
    /// With the codecs, threads and memory of the engine. No thread is started before there is something to do.
    pub(in crate::launch) fn new(engine: &Engine) -> Self {
        let Engine { jobs, max_mem, .. } = *engine;
        let (codecs, allowed) = (engine.codecs.clone(), engine.allowed.clone());
        let (state, changed) = (Mutex::default(), Condvar::new());
        let for_kept = max_mem / KEPT;
        let (kept, max_mem) = (PendingChunks::new(for_kept), max_mem - for_kept);
        Self(Arc::new(Shared { codecs, jobs, max_mem, allowed, state, changed, kept }))
    }

    /// More threads are allowed than before.
    pub(in crate::launch) fn wake(&self) {
        self.0.changed.notify_all();
    }

    /// What was encoded and waits to be written.
    pub(in crate::launch) fn kept(&self) -> &PendingChunks {
        &self.0.kept
    }

    /// The answer to a question about a chunk whose values are in a directory of the spool, and which may be kept for a file.
    ///
    /// # Errors
    /// As for [`Encoding::answer`]; `Internal` if there is no thread to be had.
    pub(in crate::launch) fn answer(
        &self,
        chunk: ChunkQuestion,
        keep: Option<String>,
        directory: &Path,
    ) -> Result<Vec<u8>> {
        let (send, receive) = channel();
        self.put(Order { chunk, keep, directory: directory.to_owned(), answer: send })?;
        receive.recv().map_err(|_| Error::internal("a thread has ended without an answer"))?
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
        self.allowed.get().min(self.jobs)
    }

    /// The next chunk, when this thread may work.
    fn take(&self) -> Option<Order> {
        let mut state = self.lock();
        while !state.is_over {
            let wanted = state.waiting.front().map_or(0, |order| order.chunk.memory());
            // One chunk is encoded in any case; what is too large is refused.
            let has_room = state.busy == 0 || state.used.saturating_add(wanted) <= self.max_mem;
            if state.busy < self.most()
                && has_room
                && let Some(order) = state.waiting.pop_front()
            {
                state.busy += 1;
                state.used = state.used.saturating_add(wanted);
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
        while let Some(Order { chunk, keep, directory, answer }) = self.take() {
            let _busy = Busy { shared: self, used: chunk.memory() };
            let values = |rank| directory.join(HandedOver::values(rank));
            // Who has asked may be gone.
            let keep = keep.as_deref().map(|file| (&self.kept, file));
            let _ = answer.send(encoding.answer(&self.codecs, &chunk, values, keep));
        }
    }
}

/// A thread at work, which others wait for even if it panics.
struct Busy<'a> {
    shared: &'a Shared,
    used: u64,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.busy -= 1;
        state.used = state.used.saturating_sub(self.used);
        if std::thread::panicking() {
            state.threads -= 1;
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::error::ErrorKind;
    use knarr_handover::Question;

    /// A chunk of four bytes of a rank.
    fn chunk(rank: usize) -> ChunkQuestion {
        let spec = r#"{"dtype":"U8","endian":"Little","shape":[4],"fills":[]}"#;
        let recipe = format!(
            r#"{{"chain":"raw","fallback":null,"spec":{spec},"bound":null,"verify":true,"container":"Frame"}}"#
        );
        let text = format!(
            r#"{{"Chunk":{{"file":"f","chunk":{{"program":"{}","recipe":{recipe},"bound":[0,0,0,0,0],"count":[4],
            "padding":[0],"fills":false,"ranks":[{rank}],"moves":[[0,0,0,4,1,0,0]]}},"may_keep":false}}}}"#,
            env!("CARGO_PKG_VERSION")
        );
        match Question::from_bytes(text.as_bytes()) {
            Ok(Question::Chunk { chunk, .. }) => *chunk,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chunks_are_encoded_for_all_that_ask_before_and_after_the_end_of_the_program() {
        let folder = std::env::temp_dir().join(format!("knarr-encoders-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(HandedOver::values(3)), [1, 2, 3, 4]).unwrap();
        let engine = Engine { jobs: 3, max_mem: 1, ..Engine::new(CodecList::pure()) };
        engine.allowed.set(1);
        let encoders = Encoders::new(&engine);
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|| {
                        let answer = encoders.answer(chunk(3), None, &folder).unwrap();
                        assert!(answer.ends_with(&[1, 2, 3, 4]));
                        // What is missing is an error of its own.
                        let missing = encoders.answer(chunk(4), None, &folder).unwrap_err();
                        assert_eq!(missing.kind(), ErrorKind::NotFound);
                    });
                }
            });
            assert!(encoders.0.lock().threads <= encoders.0.most());
            engine.allowed.set(3);
            encoders.wake();
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
