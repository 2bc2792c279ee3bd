//! The side that asks, over TCP and what that leads to. Connections are kept for the next question.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::carrier::Stream;
use crate::connection::{self, CONNECT, Carriers, TCP};
use crate::message::{self, Kind};
use crate::peer::Peer;
use crate::{LONGEST_QUESTION, Link, SILENCE};

/// Connections that are kept, at most. What more threads have asked on at the same time is ended.
const MOST_KEPT: usize = 8;
/// How often a question is asked on connections that break: the other side may have had no place for the first ones.
const TRIES: u32 = 6;
/// Before it is asked again, the first time; then twice as long each time.
const AGAIN: Duration = Duration::from_millis(10);
/// The longest of these times, if the other side says that it is busy.
const LONGEST_AGAIN: Duration = Duration::from_millis(500);
/// So long somebody may say that it is busy.
const BUSY: Duration = Duration::from_mins(10);

/// A link to a [`Server`](crate::Server). Nothing is connected before the first question.
///
/// A process that was forked from one that asks does not use the connections of that: answers to both would come to either.
pub struct TcpLink {
    peer: Peer,
    carriers: Carriers,
    /// No carrier has led to the other side: others do not try again.
    is_plain: AtomicBool,
    /// Connections that nobody asks on. A lock is never waited for: a thread that held one when the process was forked is not
    /// there.
    kept: [Mutex<Option<IdleConnection>>; MOST_KEPT],
    /// Number of the last question.
    number: AtomicU64,
    /// Number of the place that answered last; as many as there are if none has.
    place: AtomicUsize,
}

/// A connection that nobody asks on.
struct IdleConnection {
    /// The process that has made it.
    process: u32,
    stream: Box<dyn Stream>,
    _place: Slot,
}

/// Connections that this process keeps.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// How many these are at most: an eighth of the files that it may open, most of which are the program's.
fn most_of_process() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.and_then(|files| usize::try_from(files / 8).ok()).map_or(1024, |share| share.clamp(16, 1024))
}

/// A place for one of them.
struct Slot;

impl Slot {
    /// `None` if all are taken.
    fn new() -> Option<Self> {
        let most = most_of_process();
        let more = |kept: usize| Some(kept + 1).filter(|&more| more <= most);
        KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TcpLink {
    /// To `peer`, by TCP alone.
    pub fn new(peer: Peer) -> Self {
        Self::over(peer, Vec::new())
    }

    /// To `peer`, over a carrier that it uses, too, or by TCP.
    pub fn over(peer: Peer, carriers: Carriers) -> Self {
        let (place, is_plain) = (AtomicUsize::new(peer.places.len()), AtomicBool::new(carriers.is_empty()));
        let (kept, number) = (std::array::from_fn(|_| Mutex::new(None)), AtomicU64::new(0));
        Self { peer, carriers, is_plain, kept, number, place }
    }

    /// Whom it leads to.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    fn gone(&self, error: &io::Error) -> Error {
        let what = match error.kind() {
            _ if is_silence(error) => format!("it has not answered for {} s", SILENCE.as_secs()),
            io::ErrorKind::UnexpectedEof => "it has ended the connection".to_owned(),
            _ => error.to_string(),
        };
        Error::new(ErrorKind::Read, format!("the aggregator of node '{}' is gone: {what}", self.peer.node))
            .hint("its own 'knarr run' says why, if it was not killed; what was handed over there is kept")
    }

    fn busy(&self) -> Error {
        let node = &self.peer.node;
        let what = format!("the aggregator of node '{node}' has been busy for {} s", BUSY.as_secs());
        Error::new(ErrorKind::Read, what).hint("run fewer processes that read from it at the same time")
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let known = self.place.load(Ordering::Relaxed);
        let nowhere = || io::Error::new(io::ErrorKind::AddrNotAvailable, "nobody knows where it can be reached");
        let mut failed = None;
        let others = (0..self.peer.places.len()).filter(|number| *number != known);
        let order = std::iter::once(known).chain(others);
        for (number, place) in order.filter_map(|number| Some((number, self.peer.places.get(number)?))) {
            match self.connect_to(place) {
                Ok(stream) => {
                    self.place.store(number, Ordering::Relaxed);
                    return Ok(stream);
                }
                // Who was there and is silent now is gone.
                Err(error) if number == known && is_silence(&error) => return Err(error),
                // What is said of the first one says most, but that somebody was there says more.
                Err(error) if failed.is_none() || is_broken(&error) => failed = Some(error),
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(nowhere))
    }

    fn connect_to(&self, place: &SocketAddr) -> io::Result<Box<dyn Stream>> {
        let tcp = TcpStream::connect_timeout(place, CONNECT)?;
        if self.is_plain.load(Ordering::Relaxed) {
            return Ok(connection::ask(tcp, &self.peer.secret, &[])?.stream);
        }
        let connection = connection::ask(tcp, &self.peer.secret, &self.carriers)?;
        self.is_plain.store(connection.carrier == TCP, Ordering::Relaxed);
        Ok(connection.stream)
    }

    fn exchange(stream: &mut Box<dyn Stream>, number: u64, question: &[u8]) -> io::Result<(Vec<u8>, Kind)> {
        message::ask(stream, number, question)?;
        message::read_answer(stream, number)
    }

    /// Calls `use_it` with places for connections until one gives something.
    fn in_place<T>(&self, mut use_it: impl FnMut(&mut Option<IdleConnection>) -> Option<T>) -> Option<T> {
        self.kept.iter().find_map(|place| match place.try_lock() {
            Ok(mut place) => use_it(&mut place),
            Err(TryLockError::Poisoned(poisoned)) => use_it(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// A connection of this process that nobody asks on.
    fn take(&self) -> Option<Box<dyn Stream>> {
        let process = std::process::id();
        // That of another process is closed here, and stays open there.
        self.in_place(|place| place.take().filter(|kept| kept.process == process)).map(|kept| kept.stream)
    }

    fn keep(&self, stream: Box<dyn Stream>) {
        let Some(place) = Slot::new() else { return };
        let mut kept = Some(IdleConnection { process: std::process::id(), stream, _place: place });
        let _ = self.in_place(|place| match place {
            Some(_) => None,
            empty => {
                *empty = kept.take();
                Some(())
            }
        });
    }

    /// Asks until an answer comes.
    fn answer(&self, question: &[u8]) -> Result<(Vec<u8>, Kind)> {
        let begin = Instant::now();
        // All tries, and those since the other side has been heard.
        let (mut tries, mut broken) = (0, 0);
        loop {
            // One that was kept may have been ended meanwhile; one that is new says what is the matter.
            let (kept, number) = (self.take(), self.number.fetch_add(1, Ordering::Relaxed));
            let is_new = kept.is_none();
            let asked = kept.map_or_else(|| self.connect(), Ok).and_then(|mut stream| {
                let answer = Self::exchange(&mut stream, number, question)?;
                Ok((answer, stream))
            });
            match asked {
                Ok(((_, Kind::Busy), _)) if begin.elapsed() > BUSY => return Err(self.busy()),
                Ok(((_, Kind::Busy), _)) => broken = 0,
                Ok((answer, stream)) => {
                    self.keep(stream);
                    return Ok(answer);
                }
                Err(error) if is_new && (!is_broken(&error) || broken >= TRIES) => return Err(self.gone(&error)),
                Err(error) if !is_new => {
                    // Nobody waits as long for each of the others.
                    if is_silence(&error) {
                        while self.take().is_some() {}
                    }
                    continue;
                }
                Err(_) => broken += 1,
            }
            tries += 1;
            std::thread::sleep(pause(tries));
        }
    }
}

/// Before the next try. Others that have failed at the same moment come at another time.
fn pause(tries: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let longest = AGAIN.saturating_mul(1 << tries.min(10)).min(LONGEST_AGAIN);
    let share = RandomState::new().hash_one(tries) % 1024;
    longest / 2 + longest.saturating_mul(u32::try_from(share).unwrap_or(0)) / 2048
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// True if the other side has ended the connection.
fn is_broken(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::UnexpectedEof | Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe)
}

impl Link for TcpLink {
    fn node(&self) -> &str {
        &self.peer.node
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>> {
        if question.len() > LONGEST_QUESTION {
            return Err(Error::usage("a question that is too long for a link"));
        }
        match self.answer(question)? {
            (answer, Kind::Bytes) => Ok(answer),
            (answer, _) => Err(serde_json::from_slice(&answer)
                .unwrap_or_else(|_| Error::corrupt("an error that makes no sense"))
                .at(format!("node '{}'", self.peer.node))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Secret;
    use std::net::TcpListener;
    use std::sync::Arc;

    /// A node that is busy for `busy` questions, ends the connection of the next one, and answers then, twice over.
    #[test]
    fn who_was_busy_may_end_a_connection() {
        let (busy, listener) = (TRIES as usize + 2, TcpListener::bind("127.0.0.1:0").unwrap());
        let (secret, places) = (Secret::new().unwrap(), vec![listener.local_addr().unwrap()]);
        let link = TcpLink::new(Peer { node: "far".to_owned(), places, secret: secret.clone() });
        let answering = std::thread::spawn(move || {
            for number in 0..2 * (busy + 2) {
                let tcp = Arc::new(listener.accept().unwrap().0);
                connection::admit(&tcp, &secret, SILENCE).unwrap();
                let mut stream = connection::answer(tcp, &secret, &[]).unwrap().stream;
                let (of, question) = message::read_question(&mut stream).unwrap().unwrap();
                match number % (busy + 2) {
                    now if now < busy => message::write(&mut stream, of, Vec::new(), Kind::Busy).unwrap(),
                    now if now == busy => {}
                    _ => message::write(&mut stream, of, question, Kind::Bytes).unwrap(),
                }
            }
        });
        assert_eq!(link.ask(b"a").unwrap(), b"a");
        while link.take().is_some() {}
        assert_eq!(link.ask(b"b").unwrap(), b"b");
        answering.join().unwrap();
    }
}
