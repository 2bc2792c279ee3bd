//! The side that asks, over TCP and what that leads to. Connections are kept for the next question: as many as threads ask at the same time.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use knarr_array::error::{Error, ErrorKind, Result};

use crate::carrier::Stream;
use crate::connection::{self, CONNECT, Carriers, TCP};
use crate::peer::Peer;
use crate::{LONGEST_ANSWER, LONGEST_QUESTION, Link, SILENCE, frame};

/// Last byte of an answer that is bytes, and of one that is an error.
pub(crate) const BYTES: u8 = 0;
pub(crate) const ERROR: u8 = 1;
/// A message of this byte says that the answer comes later.
pub(crate) const ALIVE: u8 = 2;

/// A link to a [`Server`](crate::Server). Nothing is connected before the first question.
pub struct TcpLink {
    peer: Peer,
    carriers: Carriers,
    /// No carrier has led to the other side: others do not try again.
    is_plain: AtomicBool,
    idle: Mutex<Vec<Box<dyn Stream>>>,
    /// Number of the place that answered last; as many as there are if none has.
    place: AtomicUsize,
}

impl TcpLink {
    /// To `peer`, by TCP alone.
    pub fn new(peer: Peer) -> Self {
        Self::over(peer, Vec::new())
    }

    /// To `peer`, over a carrier that it uses, too, or by TCP.
    pub fn over(peer: Peer, carriers: Carriers) -> Self {
        let (place, is_plain) = (AtomicUsize::new(peer.places.len()), AtomicBool::new(carriers.is_empty()));
        Self { peer, carriers, is_plain, idle: Mutex::default(), place }
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
                // What is said of the first one says most.
                Err(error) => {
                    failed.get_or_insert(error);
                }
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

    fn exchange(stream: &mut Box<dyn Stream>, question: &[u8]) -> io::Result<Vec<u8>> {
        frame::write(stream, question)?;
        loop {
            let message = frame::read(stream, LONGEST_ANSWER + 1)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if message != [ALIVE] {
                return Ok(message);
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Stream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Link for TcpLink {
    fn node(&self) -> &str {
        &self.peer.node
    }

    fn ask(&self, question: &[u8]) -> Result<Vec<u8>> {
        if question.len() > LONGEST_QUESTION {
            return Err(Error::usage("a question that is too long for a link"));
        }
        let kept = self.idle().pop();
        // A connection that was kept may have been ended meanwhile; one that is new says what is the matter.
        let again = kept.and_then(|mut stream| Some((Self::exchange(&mut stream, question).ok()?, stream)));
        let (mut answer, stream) = match again {
            Some(answered) => answered,
            None => {
                let mut stream = self.connect().map_err(|error| self.gone(&error))?;
                (Self::exchange(&mut stream, question).map_err(|error| self.gone(&error))?, stream)
            }
        };
        self.idle().push(stream);
        match answer.pop() {
            Some(BYTES) => Ok(answer),
            Some(ERROR) => Err(serde_json::from_slice(&answer)
                .unwrap_or_else(|_| Error::corrupt("an error that makes no sense"))
                .at(format!("node '{}'", self.peer.node))),
            _ => Err(Error::corrupt("an answer that makes no sense").at(format!("node '{}'", self.peer.node))),
        }
    }
}
