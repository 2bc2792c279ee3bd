//! The side that answers, over TCP and what that leads to: a thread for each connection.
//!
//! Who has not proven to know the secret is a *stranger*: strangers are few, have little time, and take no place of those that
//! have. There are places for many connections. If all are taken, one on which nothing is asked ends: its side connects anew
//! when it asks again. If something is asked on all of them, who comes is told to come again later.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::carrier::Stream;
use crate::connection::{self, Carriers, Connection};
use crate::links::carriers;
use crate::message::{self, Kind};
use crate::peer::{Peer, Secret};
use crate::reach::Reach;
use crate::{Answers, LONGEST_ANSWER, SILENCE};

/// Connections at the same time, at most: each has a thread.
const MOST: usize = 512;
/// Strangers at the same time, at most. The one that came first goes when another one comes.
const MOST_STRANGERS: usize = 64;
/// Files that the rest of the process may have open.
const OTHER_FILES: u64 = 256;
/// A connection on which nothing was asked for so long is ended.
const IDLE: Duration = Duration::from_mins(10);
/// How long an answer may wait until the other side takes more of it: its node may be busy.
const TAKEN_WITHIN: Duration = Duration::from_mins(1);
/// How often who waits for an answer hears that it comes.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// How long connections over carriers may take to end.
const ENDING: Duration = Duration::from_millis(300);
/// Between two tries to let somebody in, if the system has no more files to give.
const AGAIN: Duration = Duration::from_millis(50);

/// How many may come.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections, and strangers.
    pub connections: usize,
    /// Those of them that have not proven to know the secret.
    pub strangers: usize,
    /// How long a stranger has to prove that it knows the secret.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(MOST).clamp(16, MOST);
        Self { connections, strangers: MOST_STRANGERS, patience: SILENCE }
    }
}

/// Answers questions until it is dropped.
pub struct Server {
    peer: Peer,
    /// From where it is reached, and where it listens.
    reaches: Vec<Reach>,
    places: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Arc<dyn Answers>,
    secret: Secret,
    carriers: Carriers,
    limits: Limits,
    /// Bytes of answers, by the names of what they went over.
    sent: Mutex<BTreeMap<&'static str, u64>>,
    is_over: AtomicBool,
    open: Mutex<Open>,
}

/// Connections, oldest first.
#[derive(Default)]
struct Open {
    strangers: Vec<(u64, Arc<TcpStream>)>,
    /// Those that agree on what the connection goes on.
    settling: Vec<(u64, Arc<TcpStream>)>,
    known: Vec<Arc<Line>>,
    last: u64,
}

/// A connection whose other side knows the secret.
struct Line {
    number: u64,
    tcp: Arc<TcpStream>,
    /// Held by the thread that serves it, but while it looks for an answer.
    stream: Mutex<Box<dyn Stream>>,
    asked: Mutex<Asked>,
}

/// What is asked on a connection.
#[derive(Clone, Copy)]
enum Asked {
    /// Nothing yet: it was connected then.
    First(Instant),
    /// Nothing, since then.
    Nothing(Instant),
    /// The question with this number. The other side has heard from this one then.
    Question(u64, Instant),
    /// It is over.
    Ended,
}

impl Asked {
    /// Since when the connection is in the way of others, if nothing is asked on it. A new one has time for its first question.
    fn idle(self) -> Option<Instant> {
        match self {
            Self::Nothing(since) => Some(since),
            Self::First(since) => Some(since).filter(|since| since.elapsed() > SILENCE),
            Self::Question(..) | Self::Ended => None,
        }
    }
}

impl Open {
    fn is_empty(&self) -> bool {
        self.strangers.is_empty() && self.settling.is_empty() && self.known.is_empty()
    }

    fn forget(&mut self, number: u64) {
        self.strangers.retain(|(other, _)| *other != number);
        self.settling.retain(|(other, _)| *other != number);
        self.known.retain(|line| line.number != number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Begins to answer where `reach` says, at ports that the system gives. Errors on the other side call this node `node`.
    ///
    /// # Errors
    /// `Write` if the system gives no port, `Internal` without threads; those of [`carriers`].
    pub fn start(node: &str, answers: Arc<dyn Answers>, reach: &Reach) -> Result<Self> {
        Self::over(node, answers, (reach, carriers()?), Limits::default())
    }

    /// Begins to answer by TCP, and over these carriers, to no more than `limits` says.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn over(
        node: &str,
        answers: Arc<dyn Answers>,
        (reach, carriers): (&Reach, Carriers),
        limits: Limits,
    ) -> Result<Self> {
        let secret = Secret::new()?;
        let peer = Peer { node: node.to_owned(), places: Vec::new(), secret: secret.clone() };
        let (is_over, sent, open) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { answers, secret, carriers, limits, sent, is_over, open });
        let mut server = Self { peer, reaches: Vec::new(), places: Vec::new(), shared };
        server.reach_too(reach)?;
        let telling = Arc::clone(&server.shared);
        spawn(move || telling.tell_alive())?;
        Ok(server)
    }

    /// Answers those that `reach` says, too.
    ///
    /// # Errors
    /// `Write` if the system gives no port, `Internal` without threads.
    pub fn reach_too(&mut self, reach: &Reach) -> Result<()> {
        if self.reaches.iter().any(|known| known == reach || *known == Reach::Everywhere) {
            return Ok(());
        }
        let refused =
            |error: io::Error| Error::new(ErrorKind::Write, format!("no port can be had for other nodes: {error}"));
        let listeners = reach.listen(&self.places).map_err(refused)?;
        let places = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>().map_err(refused)?;
        for listener in listeners {
            let accepting = Arc::clone(&self.shared);
            spawn(move || accept(&listener, &accepting))?;
        }
        self.peer.places.extend(reach.reachable_at(&places));
        self.places.extend(places);
        self.reaches.push(reach.clone());
        Ok(())
    }

    /// What others need to ask.
    pub fn peer(&self) -> Peer {
        self.peer.clone()
    }

    /// Bytes of answers that were sent, by the names of what they went over.
    pub fn sent(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.shared.sent).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        {
            let open = lock(&self.shared.open);
            let begun = open.strangers.iter().chain(&open.settling).map(|(_, tcp)| tcp);
            let all = begun.chain(open.known.iter().map(|line| &line.tcp));
            all.for_each(|tcp| drop(tcp.shutdown(Shutdown::Both)));
        }
        // Wakes the threads that accept.
        for place in &self.places {
            let near = match place {
                SocketAddr::V4(place) if place.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, place.port()).into(),
                SocketAddr::V6(place) if place.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, place.port()).into(),
                place => *place,
            };
            let _ = TcpStream::connect_timeout(&near, Duration::from_secs(1));
        }
        // Libraries of carriers end with the process: nobody may be in them then.
        let end = Instant::now() + ENDING;
        while !self.shared.carriers.is_empty() && !lock(&self.shared.open).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends a connection when its thread ends, even by a panic: nobody says then that an answer comes.
struct Ends<'a> {
    shared: &'a Shared,
    number: u64,
    tcp: &'a TcpStream,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.shared.forget(self.number);
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name("link".to_owned()).spawn(work);
    started.map(drop).map_err(|error| Error::internal(format!("cannot start a thread: {error}")))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut has_told = false;
    loop {
        let accepted = listener.accept();
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                has_told = false;
                shared.let_in(stream);
            }
            // Who knocked has gone.
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
            Err(error) => {
                if !std::mem::replace(&mut has_told, true) {
                    let what = format!("other nodes cannot connect: {error}");
                    let hint = "if too many files are open, raise the limit ('ulimit -n') or run fewer ranks per node";
                    shared.answers.crowded(&Error::new(ErrorKind::Read, what).hint(hint));
                }
                // One file is enough for the next one.
                shared.make_room();
                std::thread::sleep(AGAIN);
            }
        }
    }
}

impl Shared {
    /// Somebody has connected. Who came as a stranger before many others goes.
    fn let_in(self: &Arc<Self>, stream: TcpStream) {
        let tcp = Arc::new(stream);
        let number = {
            let mut open = lock(&self.open);
            if open.strangers.len() >= self.limits.strangers {
                let (_, first) = open.strangers.remove(0);
                let _ = first.shutdown(Shutdown::Both);
            }
            open.last += 1;
            let number = open.last;
            open.strangers.push((number, Arc::clone(&tcp)));
            number
        };
        let serving = Arc::clone(self);
        let served = std::thread::Builder::new().name("link".to_owned()).spawn(move || {
            let _ends = Ends { shared: &serving, number, tcp: &tcp };
            // A side that breaks off is its own trouble.
            let _ = serving.admit(number, &tcp);
        });
        if served.is_err() {
            self.forget(number);
        }
    }

    fn forget(&self, number: u64) {
        lock(&self.open).forget(number);
    }

    /// Ends the connection on which nothing was asked for longest. False if something is asked on all of them.
    fn make_room(&self) -> bool {
        let idle = {
            let open = lock(&self.open);
            let since = |line: &Arc<Line>| Some((lock(&line.asked).idle()?, Arc::clone(line)));
            open.known.iter().filter_map(since).min_by_key(|(since, _)| *since)
        };
        let Some((_, line)) = idle else { return false };
        {
            let mut asked = lock(&line.asked);
            if asked.idle().is_none() {
                return true;
            }
            *asked = Asked::Ended;
        }
        let _ = line.tcp.shutdown(Shutdown::Both);
        self.forget(line.number);
        true
    }

    /// Finds out who has connected, and serves those that know the secret.
    fn admit(&self, number: u64, tcp: &Arc<TcpStream>) -> io::Result<()> {
        connection::admit(tcp, &self.secret, self.limits.patience)?;
        {
            let mut open = lock(&self.open);
            open.forget(number);
            open.settling.push((number, Arc::clone(tcp)));
        }
        let Connection { mut stream, carrier } = connection::answer(Arc::clone(tcp), &self.secret, &self.carriers)?;
        stream.set_patience(IDLE, TAKEN_WITHIN)?;
        let line = Arc::new(Line {
            number,
            tcp: Arc::clone(tcp),
            stream: Mutex::new(stream),
            asked: Mutex::new(Asked::First(Instant::now())),
        });
        if !self.has_place(&line) {
            let mut stream = lock(&line.stream);
            stream.set_patience(SILENCE, TAKEN_WITHIN)?;
            let Some((number, _)) = message::read_question(&mut *stream)? else { return Ok(()) };
            return message::write(&mut *stream, number, Vec::new(), Kind::Busy);
        }
        self.serve(&line, carrier)
    }

    /// Gives a connection a place. False if there is none.
    fn has_place(&self, line: &Arc<Line>) -> bool {
        loop {
            {
                let mut open = lock(&self.open);
                if open.known.len() < self.limits.connections {
                    open.forget(line.number);
                    open.known.push(Arc::clone(line));
                    return true;
                }
            }
            if !self.make_room() {
                return false;
            }
        }
    }

    fn serve(&self, line: &Line, carrier: &'static str) -> io::Result<()> {
        while !self.is_over.load(Ordering::Relaxed) {
            let Some((number, question)) = message::read_question(&mut *lock(&line.stream))? else { return Ok(()) };
            {
                let mut asked = lock(&line.asked);
                if matches!(*asked, Asked::Ended) {
                    return Ok(());
                }
                *asked = Asked::Question(number, Instant::now());
            }
            let answer = self.answers.answer(&question).and_then(|bytes| match bytes.len() {
                0..=LONGEST_ANSWER => Ok(bytes),
                _ => Err(Error::unsupported("an answer that is too long for a link")),
            });
            let (bytes, kind) = match answer {
                Ok(bytes) => (bytes, Kind::Bytes),
                Err(error) => (serde_json::to_vec(&error).unwrap_or_default(), Kind::Error),
            };
            let length = bytes.len() as u64;
            {
                let mut stream = lock(&line.stream);
                message::write(&mut *stream, number, bytes, kind)?;
                // Nobody may say behind the answer that it comes.
                *lock(&line.asked) = Asked::Nothing(Instant::now());
            }
            *lock(&self.sent).entry(carrier).or_default() += length;
        }
        Ok(())
    }

    /// Tells those that wait for answers that these come, until the server is over.
    fn tell_alive(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(ALIVE_EVERY / 4);
            let lines = lock(&self.open).known.clone();
            for line in lines {
                let number = match *lock(&line.asked) {
                    Asked::Question(number, heard) if heard.elapsed() >= ALIVE_EVERY => number,
                    _ => continue,
                };
                // Else the answer is on its way.
                let Ok(mut stream) = line.stream.try_lock() else { continue };
                // Nobody else writes now; the question may have been answered before.
                if !matches!(*lock(&line.asked), Asked::Question(asked, _) if asked == number) {
                    continue;
                }
                match message::write(&mut *stream, number, Vec::new(), Kind::Alive) {
                    Ok(()) => *lock(&line.asked) = Asked::Question(number, Instant::now()),
                    Err(_) => drop(line.tcp.shutdown(Shutdown::Both)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, TcpLink};

    struct Same;

    impl Answers for Same {
        fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
            Ok(question.to_vec())
        }
    }

    #[test]
    fn who_has_just_come_is_in_nobodys_way() {
        let limits = Limits { connections: 1, ..Limits::default() };
        let server = Server::over("far", Arc::new(Same), (&Reach::Here, Vec::new()), limits).unwrap();
        let peer = server.peer();
        let tcp = TcpStream::connect(peer.places[0]).unwrap();
        let mut first = connection::ask(tcp, &peer.secret, &[]).unwrap().stream;
        while lock(&server.shared.open).known.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::scope(|scope| {
            let second = scope.spawn(|| TcpLink::new(peer.clone()).ask(b"second"));
            std::thread::sleep(Duration::from_millis(200));
            message::ask(&mut first, 0, b"first").unwrap();
            assert_eq!(message::read_answer(&mut first, 0).unwrap(), (b"first".to_vec(), Kind::Bytes));
            assert_eq!(second.join().unwrap().unwrap(), b"second");
        });
    }
}
