//! `knarr worker`: the side that works. Only [`Worker`](super::Worker) starts it.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::thread_limit::ThreadLimit;
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setpriority_process, setrlimit};
use serde::Serialize;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::{Effort, Order, STOPS_WITHIN, Say, Task, Word};
use crate::means::Means;

/// The lowest priority: the work takes no time from a program that runs.
const BACKGROUND: i32 = 19;
/// Progress is told this often.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Does a task, and answers.
type Answer = fn(Value, &Engine, &Asker);

/// What a process can be asked to do. Those that ask have the same list.
#[derive(Default)]
pub struct Tasks(Vec<(&'static str, Answer)>);

impl Tasks {
    /// These and one more.
    #[must_use]
    pub fn with<T: Task>(mut self) -> Self {
        self.0.push((T::NAME, |task, engine, asker| asker.answer::<T>(task, engine)));
        self
    }

    /// Does the task of this name, and answers.
    fn answer(&self, name: &str, task: Value, engine: &Engine, asker: &Asker) {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, answer)) => answer(task, engine, asker),
            None => asker.refuse(name),
        }
    }
}

/// Does what is asked for on the socket that is standard input, until nobody asks any more.
///
/// # Errors
/// `Usage` if nobody there asks for anything, `Internal`.
pub fn serve(tasks: &Tasks) -> Result<()> {
    // What a terminal or a batch system sends to all processes is for the one that asks: it decides what stops.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    // A crash is told in words; an image of the memory would lie among the user's files.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let internal = |error: std::io::Error| Error::internal(error.to_string());
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).map_err(internal)?;
    let mut lines = BufReader::new(socket.try_clone().map_err(internal)?);
    let mut first = Vec::new();
    let means: Option<Means> =
        lines.read_until(b'\n', &mut first).ok().and_then(|_| serde_json::from_slice(&first).ok());
    let Some(means) = means else {
        return Err(Error::usage("this command is one that knarr itself starts").hint("see knarr --help"));
    };
    let engine = means.engine();
    let cancel = engine.as_ref().map(|engine| Arc::clone(&engine.cancel)).unwrap_or_default();
    let allowed = engine.as_ref().map(|engine| engine.allowed.clone()).unwrap_or_default();
    let asker = Asker { socket: Mutex::new(socket), told: Mutex::new((Instant::now(), 0)) };
    let (send, orders) = channel();
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || listen(lines, send, (&cancel, &allowed)))
        .map_err(internal)?;
    for order in orders {
        match &engine {
            Ok(engine) => work(tasks, order, engine, &asker),
            Err(error) => asker.say(&Word::<()>::Done(Err(error.clone()))),
        }
    }
    Ok(())
}

/// Hands on what is to be done. When nobody asks any more, what is under way has to stop.
fn listen(mut lines: BufReader<UnixStream>, orders: Sender<Order>, (cancel, allowed): (&AtomicBool, &ThreadLimit)) {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
        match serde_json::from_slice::<Say<Order>>(&line) {
            Ok(Say::Do(order)) => {
                allowed.set(order.allowed);
                if orders.send(order).is_err() {
                    break;
                }
            }
            Ok(Say::Allow(threads)) => allowed.set(threads),
            Err(_) => break,
        }
        line.clear();
    }
    cancel.store(true, Ordering::Relaxed);
    // Threads that pause have to see it.
    allowed.set(usize::MAX);
    // The process ends after its last task.
    drop(orders);
    std::thread::sleep(STOPS_WITHIN);
    // Whatever it does, it does not see that it is to stop.
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Does the task in a thread of its own, whose priority can be lowered.
fn work(tasks: &Tasks, order: Order, engine: &Engine, asker: &Asker) {
    let Order { name, task, effort: Effort { jobs, background, memory }, .. } = order;
    let max_mem = memory.map_or(engine.max_mem, |memory| memory.min(engine.max_mem));
    let engine = &Engine { jobs, max_mem, max_mem_alone: Some(engine.max_mem), ..engine.clone() };
    let done = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, || {
            if background {
                // Its threads inherit it; where it is refused the work is only less polite.
                let _ = setpriority_process(None, BACKGROUND);
            }
            tasks.answer(&name, task, engine, asker);
        });
        worker.map(|worker| worker.join())
    });
    let fault = match done {
        Ok(Ok(())) => return,
        Ok(Err(_panic)) => Error::internal("the work ended without a result"),
        Err(error) => Error::internal(format!("cannot start a thread: {error}")),
    };
    asker.say(&Word::<()>::Done(Err(fault)));
}

/// Who asked.
struct Asker {
    socket: Mutex<UnixStream>,
    /// When progress was told last, and what was not told since.
    told: Mutex<(Instant, u64)>,
}

impl Asker {
    /// Does a task and says how it ended.
    fn answer<T: Task>(&self, task: Value, engine: &Engine) {
        let task = serde_json::from_value::<T>(task);
        let task = task.map_err(|error| Error::internal(format!("a task makes no sense: {error}")));
        self.say(&Word::Done(task.and_then(|task| task.run(engine, self))));
    }

    /// Says that there is no such task.
    fn refuse(&self, name: &str) {
        self.say(&Word::<()>::Done(Err(Error::internal(format!("there is no task '{name}'")))));
    }

    fn say(&self, word: &impl Serialize) {
        // What cannot be said is heard as a death.
        let Ok(mut line) = serde_json::to_vec(word) else { return };
        line.push(b'\n');
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if (&*socket).write_all(&line).is_err() {
            // Who asked would wait for the rest for ever.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Progress for Asker {
    fn begin(&self, phase: &str, bytes: u64) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), 0);
        self.say(&Word::<()>::Begin(phase.to_owned(), bytes));
    }

    fn advance(&self, bytes: u64) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1 += bytes;
        if told.0.elapsed() >= TELL_EVERY {
            self.say(&Word::<()>::Advance(told.1));
            *told = (Instant::now(), 0);
        }
    }
}
