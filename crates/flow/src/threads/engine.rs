//! The engine: codecs, profile, threads and memory. A handle without globals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::objects::urls::StoreResolver;
use crate::store::Source;
use crate::threads::memory::keep_freed;
use crate::threads::thread_limit::ThreadLimit;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::goal::Goal;
use knarr_array::quality::Bound;
use knarr_choose::choose::{Chooser, PATIENT};
use knarr_choose::predictor::Predictor;
use knarr_choose::profile::Profile;
use knarr_codec::codec::CodecList;

/// What part of the memory decoded chunks of a source may take.
const CACHED: u64 = 4;

/// Codecs, profile, model and resources that one operation uses. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    /// Codecs that may be used.
    pub codecs: CodecList,
    /// Costs that choices are made with.
    pub profile: Arc<Profile>,
    /// What choices expect of chains.
    pub predictor: Arc<Predictor>,
    /// Worker threads, at least 1.
    pub jobs: usize,
    /// How many of them may work at the moment.
    pub allowed: ThreadLimit,
    /// Bytes that chunks, buffers and caches may take together.
    pub max_mem: u64,
    /// What that would be if nothing else were done at the same time, if that is more. Chunks are chosen by it: what is made does not
    /// depend on what is done beside it.
    pub max_mem_alone: Option<u64>,
    /// How many times as much a user has to say for that, who has one option for this and other memory.
    pub mem_asked: u64,
    /// How many times as long as encoding a small variable the trials for it may take.
    pub patience: f64,
    /// Opens what lies elsewhere; `None` if all inputs and outputs are files of this machine.
    pub stores: Option<Arc<dyn StoreResolver>>,
    /// Set from outside to stop at the next chunk.
    pub cancel: Arc<AtomicBool>,
}

impl Engine {
    /// An engine with the built-in profile and model, all cores of this machine and 1 GiB of memory. The process keeps some
    /// freed memory from now on.
    pub fn new(codecs: CodecList) -> Self {
        keep_freed();
        Self {
            codecs,
            profile: Arc::new(Profile::built_in()),
            predictor: Arc::new(Predictor::built_in()),
            jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            allowed: ThreadLimit::default(),
            max_mem: 1 << 30,
            max_mem_alone: None,
            mem_asked: 1,
            patience: PATIENT,
            stores: None,
            cancel: Arc::new(AtomicBool::new(false)),
        }
    }

    /// What chooses chains for `goal` under `bound`.
    pub fn chooser<'a>(&'a self, goal: &'a Goal, bound: Option<&'a Bound>) -> Chooser<'a> {
        Chooser { codecs: &self.codecs, profile: &self.profile, predictor: &self.predictor, goal, bound }
    }

    /// Lets a source keep its share of the memory: said before its values are read.
    pub fn bound(&self, source: &dyn Source) {
        source.limit_cache(usize::try_from(self.cache()).unwrap_or(usize::MAX));
    }

    /// Bytes that decoded chunks of a source may take.
    pub fn cache(&self) -> u64 {
        self.max_mem / CACHED
    }

    /// The engine with at most as many workers as fit the memory, if each takes so many bytes.
    #[must_use]
    pub fn fitting(&self, bytes: u64) -> Self {
        let most = usize::try_from(self.max_mem / bytes.max(1)).unwrap_or(usize::MAX);
        Self { jobs: self.jobs.clamp(1, most.max(1)), ..self.clone() }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `Interrupted` once [`Engine::cancel`] is set.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted; nothing was changed"));
        }
        Ok(())
    }

    /// Calls `work` for every index below `count` on the worker threads, of which the calling one is the first, and
    /// returns the results in order. The first error in index order wins.
    ///
    /// # Errors
    /// What `work` returns, or `Interrupted`.
    pub fn parallel<T: Send>(&self, count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let worker = |number: usize| {
            let mut done = Vec::new();
            loop {
                let is_over =
                    || failed.load(Ordering::Relaxed) || next.load(Ordering::Relaxed) >= count || self.is_cancelled();
                self.allowed.await_turn(number, is_over);
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count || failed.load(Ordering::Relaxed) {
                    return done;
                }
                let result = self.check_cancelled().and_then(|()| work(index));
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                done.push((index, result));
            }
        };
        let mut done = std::thread::scope(|scope| {
            // Where the system gives no thread, those that there are do the work.
            let start = |number| std::thread::Builder::new().spawn_scoped(scope, move || worker(number)).ok();
            let others: Vec<_> = (1..self.jobs.min(count)).map_while(start).collect();
            let mut done = {
                let _caller = Caller { failed: &failed, allowed: &self.allowed };
                worker(0)
            };
            for other in others {
                done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        // Indices are claimed in order, so every one before the first error is there.
        done.sort_unstable_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

/// The thread that has others work beside it. When it ends, even by a panic, none of them waits for a turn that will not come.
struct Caller<'a> {
    failed: &'a AtomicBool,
    allowed: &'a ThreadLimit,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.failed.fetch_or(std::thread::panicking(), Ordering::Relaxed);
        self.allowed.wake();
    }
}

/// Hears how far an operation is. Called from worker threads.
pub trait Progress: Sync {
    /// A phase of `bytes` of work begins.
    fn begin(&self, phase: &str, bytes: u64);
    /// `bytes` of it are done.
    fn advance(&self, bytes: u64);
}

/// Hears nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &str, _bytes: u64) {}
    fn advance(&self, _bytes: u64) {}
}

/// A size such as `512M`, `4G`, `100000`; powers of 1024.
///
/// # Errors
/// `Usage`.
pub fn parse_size(text: &str) -> Result<u64> {
    let refuse = || Error::usage(format!("'{text}' is not a size")).hint("write it like 512M or 4G");
    let trimmed = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, shift) = match trimmed.chars().last() {
        Some('K' | 'k') => (trimmed.split_at(trimmed.len() - 1).0, 10),
        Some('M' | 'm') => (trimmed.split_at(trimmed.len() - 1).0, 20),
        Some('G' | 'g') => (trimmed.split_at(trimmed.len() - 1).0, 30),
        Some('T' | 't') => (trimmed.split_at(trimmed.len() - 1).0, 40),
        _ => (trimmed, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| refuse())?;
    number.checked_mul(1 << shift).filter(|&size| size > 0).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_keeps_order_and_reports_the_first_error() {
        let engine = Engine { jobs: 3, ..Engine::new(CodecList::pure()) };
        assert_eq!(engine.parallel(50, |i| Ok(i * 2)).unwrap(), (0..50).map(|i| i * 2).collect::<Vec<_>>());
        assert!(engine.parallel(0, |_| Ok(())).unwrap().is_empty());
        let error = engine.parallel(50, |i| if i >= 7 { Err(Error::usage(i.to_string())) } else { Ok(i) }).unwrap_err();
        assert_eq!(error.message(), "7");
        engine.cancel.store(true, Ordering::Relaxed);
        assert_eq!(engine.parallel(5, Ok).unwrap_err().kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn only_as_many_threads_work_as_are_allowed_at_the_moment() {
        let engine = Engine { jobs: 3, ..Engine::new(CodecList::pure()) };
        engine.allowed.set(1);
        let busy = std::sync::atomic::AtomicUsize::new(0);
        let work = |index| {
            let now = busy.fetch_add(1, Ordering::Relaxed) + 1;
            if index < 4 {
                // The thread that calls may always work; the others wait.
                assert_eq!(now, 1);
            } else if index == 4 {
                engine.allowed.set(3);
                let begin = std::time::Instant::now();
                while busy.load(Ordering::Relaxed) < 3 {
                    assert!(begin.elapsed().as_secs() < 30, "the others do not come");
                    std::thread::yield_now();
                }
            } else {
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            busy.fetch_sub(1, Ordering::Relaxed);
            Ok(index)
        };
        assert_eq!(engine.parallel(40, work).unwrap(), (0..40).collect::<Vec<_>>());
        // Nobody waits for a turn after the thread that calls, whatever became of it.
        engine.allowed.set(1);
        assert!(engine.parallel(9, |index| if index == 2 { Err(Error::usage("no")) } else { Ok(()) }).is_err());
        let panics = || engine.parallel(9, |index| if index == 2 { panic!("as wanted") } else { Ok(()) });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("512M").unwrap(), 512 << 20);
        assert_eq!(parse_size("4GiB").unwrap(), 4 << 30);
        assert_eq!(parse_size("100000").unwrap(), 100_000);
        for text in ["", "M", "-1G", "1.5G", "0", "99999999999T", "é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
