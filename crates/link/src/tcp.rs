//! The side that asks, over TCP. Connections are kept for the next question: as many as threads ask at the same time.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};

use crate::peer::Peer;
use crate::{LONGEST_ANSWER, LONGEST_QUESTION, Link, SILENCE, frame, handshake};

/// How long a place may take to be reached: there may be others.
const CONNECT: Duration = Duration::from_secs(2);
/// Last byte of an answer that is bytes, and of one that is an error.
pub(crate) const BYTES: u8 = 0;
pub(crate) const ERROR: u8 = 1;
/// A message of this byte says that the answer comes later.
pub(crate) const ALIVE: u8 = 2;

/// A link to a [`Server`](crate::Server). Nothing is connected before the first question.
#[derive(Debug)]
pub struct TcpLink {
    peer: Peer,
    idle: Mutex<Vec<TcpStream>>,
    /// Number of the place that answered last; as many as there are if none has.
    place: AtomicUsize,
}

impl TcpLink {
    /// To `peer`.
    pub fn new(peer: Peer) -> Self {
        let place = AtomicUsize::new(peer.places.len());
        Self { peer, idle: Mutex::default(), place }
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

    fn connect(&self) -> io::Result<TcpStream> {
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

    fn connect_to(&self, place: &SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(place, CONNECT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        handshake::ask(&mut stream, &self.peer.secret)?;
        Ok(stream)
    }

    fn exchange(stream: &mut TcpStream, question: &[u8]) -> io::Result<Vec<u8>> {
        frame::write(stream, question)?;
        loop {
            let message = frame::read(stream, LONGEST_ANSWER + 1)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if message != [ALIVE] {
                return Ok(message);
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
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
