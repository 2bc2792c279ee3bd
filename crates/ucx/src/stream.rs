//! A stream of bytes between two workers. Its bytes travel as messages of at most [`PIECE`] bytes; some are under way at a time,
//! in both directions.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::load::Ucx;
use crate::sys::Worker;

/// Bytes of a message.
const PIECE: usize = 1 << 18;
/// Messages under way in one direction: the first buffers are those that receive.
const PIECES: usize = 4;
/// Bytes in front of the address of a worker: the tag of messages to it.
const TAG: usize = 8;
/// How often a thread looks for something to do before it sleeps, and before it looks at the clock while there is.
const ROUNDS: u32 = 256;

/// One side of a stream before it is connected.
pub struct End {
    ucx: &'static Ucx,
    worker: Worker,
    /// That of messages to this side: it is a number that others cannot guess.
    tag: u64,
}

impl End {
    /// One for a new stream.
    ///
    /// # Errors
    /// Those of UCX, which has no devices or memory for one more.
    pub fn new(ucx: &'static Ucx) -> io::Result<Self> {
        let mut worker = Worker::new(&ucx.context, 2 * PIECES, PIECE)?;
        let tag = RandomState::new().hash_one(std::process::id());
        for buffer in 0..PIECES {
            worker.receive(buffer, tag)?;
        }
        Ok(Self { ucx, worker, tag })
    }

    /// What the other side needs to connect. It is a secret of both.
    ///
    /// # Errors
    /// Those of UCX.
    pub fn address(&self) -> io::Result<Vec<u8>> {
        Ok([self.tag.to_le_bytes().as_slice(), &self.worker.address()?].concat())
    }

    /// Connects to the side with this address, which has proven who it is: UCX believes what an address says. The other side
    /// is there as long as it has `beside` open. Whether it is reached is known when it has answered.
    ///
    /// # Errors
    /// Those of UCX; `InvalidData` for what is no address.
    pub fn connect(mut self, address: &[u8], beside: TcpStream) -> io::Result<Stream> {
        let (tag, address) = address.split_first_chunk::<TAG>().ok_or(io::ErrorKind::InvalidData)?;
        self.worker.connect(address)?;
        Ok(Stream {
            ucx: self.ucx,
            worker: Some(self.worker),
            beside,
            tags: (self.tag, u64::from_le_bytes(*tag)),
            patience: (Duration::MAX, Duration::MAX),
            receiving: 0,
            unread: 0..0,
            sending: 0,
            unsent: 0,
        })
    }
}

/// A connection. What is written is sent when there is a whole piece of it, or with a flush.
pub struct Stream {
    ucx: &'static Ucx,
    /// There until it is dropped.
    worker: Option<Worker>,
    beside: TcpStream,
    /// Of messages to this side and to the other.
    tags: (u64, u64),
    /// Of reads and of writes.
    patience: (Duration, Duration),
    /// The buffer with the message that is next.
    receiving: usize,
    /// What was not read of it.
    unread: Range<usize>,
    /// The buffer for what is written next, after those that receive, and how much of it is full.
    sending: usize,
    unsent: usize,
}

/// What a stream waits for.
#[derive(Clone, Copy)]
enum Awaited {
    Received(usize),
    Sent(usize),
}

impl Stream {
    /// A read ends with `TimedOut` if the other side sends nothing for so long, a write if it takes nothing.
    pub fn set_patience(&mut self, reads: Duration, writes: Duration) {
        self.patience = (reads, writes);
    }

    fn worker(&mut self) -> io::Result<&mut Worker> {
        let is_here = self.ucx.is_here();
        let elsewhere = || io::Error::new(io::ErrorKind::NotConnected, "the process was forked");
        self.worker.as_mut().filter(|_| is_here).ok_or_else(elsewhere)
    }

    fn look(&mut self, awaited: Awaited) -> io::Result<Option<usize>> {
        let worker = self.worker()?;
        match awaited {
            Awaited::Received(buffer) => worker.received(buffer),
            Awaited::Sent(buffer) => Ok(worker.is_sent(buffer)?.then_some(0)),
        }
    }

    /// Waits until an operation has ended. Gives the bytes that were received; `None` if the other side has ended.
    fn wait(&mut self, awaited: Awaited) -> io::Result<Option<usize>> {
        let patience = match awaited {
            Awaited::Received(_) => self.patience.0,
            Awaited::Sent(_) => self.patience.1,
        };
        let (mut rounds, mut end) = (0_u32, None);
        loop {
            if let Some(bytes) = self.look(awaited)? {
                return Ok(Some(bytes));
            }
            let did = self.worker()?.progress()?;
            rounds = rounds.wrapping_add(1);
            // UCX may always have something to do that leads nowhere.
            if (did || rounds < ROUNDS) && !rounds.is_multiple_of(ROUNDS) {
                continue;
            }
            let end = *end.get_or_insert_with(|| Instant::now().checked_add(patience));
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let may_sleep = !did && self.worker()?.arm()?;
            if self.sleep(if may_sleep { left } else { Some(Duration::ZERO) })? == Woken::Ended {
                // What it has sent before may be here already.
                for _ in 0..ROUNDS {
                    let _ = self.worker()?.progress();
                }
                return self.look(awaited);
            }
        }
    }

    /// Sleeps until there is something to do, at most for `left`.
    fn sleep(&mut self, left: Option<Duration>) -> io::Result<Woken> {
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let worker = self.worker.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut files = [
            PollFd::from_borrowed_fd(worker.wakes()?, PollFlags::IN),
            PollFd::from_borrowed_fd(self.beside.as_fd(), PollFlags::RDHUP),
        ];
        match poll(&mut files, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(Woken::There),
            woken => woken?,
        };
        let [_, beside] = files;
        Ok(if beside.revents().is_empty() { Woken::There } else { Woken::Ended })
    }

    fn send(&mut self) -> io::Result<()> {
        let (buffer, length, tag) = (PIECES + self.sending, self.unsent, self.tags.1);
        self.worker()?.send(buffer, length, tag)?;
        (self.sending, self.unsent) = ((self.sending + 1) % PIECES, 0);
        Ok(())
    }

    fn await_sent(&mut self, buffer: usize) -> io::Result<()> {
        self.wait(Awaited::Sent(PIECES + buffer))?.map(|_| ()).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

#[derive(PartialEq, Eq)]
enum Woken {
    There,
    Ended,
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (tag, buffer) = (self.tags.0, self.receiving);
        if self.unread.is_empty() && !bytes.is_empty() {
            let Some(length) = self.wait(Awaited::Received(buffer))? else { return Ok(0) };
            self.unread = 0..length;
        }
        let length = bytes.len().min(self.unread.len());
        if length > 0 {
            let range = self.unread.start..self.unread.start + length;
            bytes[..length].copy_from_slice(&self.worker()?.bytes(buffer)?[range]);
            self.unread.start += length;
            if self.unread.is_empty() {
                self.worker()?.receive(buffer, tag)?;
                self.receiving = (buffer + 1) % PIECES;
            }
        }
        Ok(length)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unsent == 0 {
            self.await_sent(self.sending)?;
        }
        let (buffer, begin) = (PIECES + self.sending, self.unsent);
        let free = self.worker()?.bytes(buffer)?.get_mut(begin..).unwrap_or_default();
        let length = free.len().min(bytes.len());
        free[..length].copy_from_slice(&bytes[..length]);
        self.unsent += length;
        if self.unsent == PIECE {
            self.send()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unsent > 0 {
            self.send()?;
        }
        (0..PIECES).try_for_each(|buffer| self.await_sent(buffer))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take().filter(|_| !self.ucx.is_here()) {
            worker.leave();
        }
    }
}
