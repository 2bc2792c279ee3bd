//! The side that answers, over TCP and what that leads to: a thread for each connection.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::connection::{self, Carriers, Connection};
use crate::links::carriers;
use crate::peer::{Peer, Secret};
use crate::tcp::{ALIVE, BYTES, ERROR};
use crate::{Answers, LONGEST_ANSWER, LONGEST_QUESTION, SILENCE, frame, places};

/// Connections at the same time, at most.
const MOST: usize = 512;
/// A connection on which nothing was asked for so long is ended.
const IDLE: Duration = Duration::from_mins(10);
/// How long connections over carriers may take to end.
const ENDING: Duration = Duration::from_millis(300);

/// Answers questions until it is dropped.
pub struct Server {
    peer: Peer,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Arc<dyn Answers>,
    secret: Secret,
    carriers: Carriers,
    /// Bytes of answers, by the names of what they went over.
    sent: Mutex<BTreeMap<&'static str, u64>>,
    is_over: AtomicBool,
    /// Those that are open, by number.
    open: Mutex<Vec<(u64, TcpStream)>>,
}

impl Server {
    /// Begins to answer, at a port that the system gives. Errors on the other side call this node `node`.
    ///
    /// # Errors
    /// `Write` if the system gives no port, `Internal` without threads; those of [`carriers`].
    pub fn start(node: &str, answers: Arc<dyn Answers>) -> Result<Self> {
        Self::over(node, answers, carriers()?)
    }

    /// Begins to answer by TCP, and over these carriers.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn over(node: &str, answers: Arc<dyn Answers>, carriers: Carriers) -> Result<Self> {
        let refused =
            |error: io::Error| Error::new(ErrorKind::Write, format!("no port can be had for other nodes: {error}"));
        // One that takes both kinds of addresses, where there are both.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .map_err(refused)?;
        let port = listener.local_addr().map_err(refused)?.port();
        let secret = Secret::new()?;
        let peer = Peer { node: node.to_owned(), places: places::all(port), secret: secret.clone() };
        let (is_over, sent, open) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { answers, secret, carriers, sent, is_over, open });
        let accepting = Arc::clone(&shared);
        let started = std::thread::Builder::new().name("link".to_owned()).spawn(move || accept(&listener, &accepting));
        started.map_err(|error| Error::internal(format!("cannot start a thread: {error}")))?;
        Ok(Self { peer, shared })
    }

    /// What others need to ask.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Bytes of answers that were sent, by the names of what they went over.
    pub fn sent(&self) -> BTreeMap<&'static str, u64> {
        self.shared.sent().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for (_, stream) in self.shared.open().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts.
        if let Some(port) = self.peer.places.first().map(SocketAddr::port) {
            let _ = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1));
        }
        // Libraries of carriers end with the process: nobody may be in them then.
        let end = Instant::now() + ENDING;
        while !self.shared.carriers.is_empty() && !self.shared.open().is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<(u64, TcpStream)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        let Ok((stream, _)) = listener.accept() else {
            // Too many files are open, perhaps.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(kept) = stream.try_clone() else { continue };
        {
            let mut open = shared.open();
            if open.len() >= MOST {
                continue;
            }
            open.push((number, kept));
        }
        let serving = Arc::clone(shared);
        let served = std::thread::Builder::new().name("link".to_owned()).spawn(move || {
            // A side that breaks off is its own trouble.
            let _ = serve(stream, &serving);
            serving.open().retain(|(other, _)| *other != number);
        });
        if served.is_err() {
            shared.open().retain(|(other, _)| *other != number);
        }
    }
}

fn serve(tcp: TcpStream, shared: &Shared) -> io::Result<()> {
    let Connection { mut stream, carrier } = connection::answer(tcp, &shared.secret, &shared.carriers)?;
    stream.set_patience(IDLE, SILENCE)?;
    while !shared.is_over.load(Ordering::Relaxed) {
        let Some(question) = frame::read(&mut stream, LONGEST_QUESTION)? else { return Ok(()) };
        let mut alive = || {
            let told = frame::write(&mut stream, &[ALIVE]);
            told.map_err(|error| Error::new(ErrorKind::Write, format!("nobody waits for the answer: {error}")))
        };
        let answer = shared.answers.answer(&question, &mut alive).and_then(|bytes| match bytes.len() {
            0..=LONGEST_ANSWER => Ok(bytes),
            _ => Err(Error::unsupported("an answer that is too long for a link")),
        });
        let (mut message, kind) = match answer {
            Ok(bytes) => (bytes, BYTES),
            Err(error) => (serde_json::to_vec(&error).unwrap_or_default(), ERROR),
        };
        message.push(kind);
        frame::write(&mut stream, &message)?;
        *shared.sent().entry(carrier).or_default() += message.len() as u64;
    }
    Ok(())
}
