//! How a connection begins, on both sides: with TCP, who is there, and on what it goes on.
//!
//! ```text
//! asks:    carriers that it has, with their versions; nothing more if it has none
//! answers: the one that is taken, or none
//! both:    their addresses on the carrier
//! both:    handshake over the carrier
//! both:    whether that went well: if not on both sides, the connection goes on with TCP
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, Stream};
use crate::peer::Secret;
use crate::{SILENCE, frame, handshake};

/// How long the other side may take to be reached: by TCP at one place, and then over a carrier.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);
/// The name of TCP, for reports.
pub(crate) const TCP: &str = "tcp";
/// Bytes of the names of carriers, at most.
const LONGEST_NAMES: usize = 1 << 10;
/// Bytes of the address of a carrier, at most.
pub const LONGEST_ADDRESS: usize = 1 << 16;

/// Carriers that a process may use.
pub type Carriers = Vec<&'static dyn Carrier>;

/// A connection whose sides know each other.
pub(crate) struct Connection {
    pub(crate) stream: Box<dyn Stream>,
    /// The name of what it goes over.
    pub(crate) carrier: &'static str,
}

/// Carriers that can be used, with a line for each that both sides compare.
fn usable(carriers: &[&'static dyn Carrier]) -> Vec<(&'static dyn Carrier, String)> {
    let line =
        |carrier: &&'static dyn Carrier| Some((*carrier, format!("{} {}", carrier.name(), carrier.version().ok()?)));
    carriers.iter().filter_map(line).collect()
}

fn read(tcp: &mut Plain, longest: usize) -> io::Result<Vec<u8>> {
    frame::read(tcp, longest)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// On the side that asks.
pub(crate) fn ask(tcp: TcpStream, secret: &Secret, carriers: &[&'static dyn Carrier]) -> io::Result<Connection> {
    let mut tcp = Plain::new(Arc::new(tcp))?;
    handshake::ask(&mut tcp, secret)?;
    let usable = usable(carriers);
    let lines: Vec<&str> = usable.iter().map(|(_, line)| line.as_str()).collect();
    frame::write(&mut tcp, lines.join("\n").as_bytes())?;
    if usable.is_empty() {
        return Ok(tcp.connection());
    }
    let taken = read(&mut tcp, LONGEST_NAMES)?;
    match usable.iter().find(|(_, line)| line.as_bytes() == taken) {
        Some((carrier, _)) => change(tcp, *carrier, |stream| handshake::ask(stream, secret)),
        None => Ok(tcp.connection()),
    }
}

/// On the side that answers: whether the other side knows the secret. It has so long to prove that.
pub(crate) fn admit(tcp: &TcpStream, secret: &Secret, patience: Duration) -> io::Result<()> {
    handshake::answer(&mut Until { tcp, end: Instant::now() + patience }, secret)
}

/// On the side that answers, after [`admit`].
pub(crate) fn answer(
    tcp: Arc<TcpStream>,
    secret: &Secret,
    carriers: &[&'static dyn Carrier],
) -> io::Result<Connection> {
    let mut tcp = Plain::new(tcp)?;
    let lines = read(&mut tcp, LONGEST_NAMES)?;
    if lines.is_empty() {
        return Ok(tcp.connection());
    }
    let is_known = |line: &str| lines.split(|byte| *byte == b'\n').any(|known| known == line.as_bytes());
    let taken = usable(carriers).into_iter().find(|(_, line)| is_known(line));
    frame::write(&mut tcp, taken.as_ref().map_or("", |(_, line)| line.as_str()).as_bytes())?;
    match taken {
        Some((carrier, _)) => change(tcp, carrier, |stream| handshake::answer(stream, secret)),
        None => Ok(tcp.connection()),
    }
}

/// A TCP connection that the side that answers can end from another thread.
///
/// A signal ends a wait, whoever waits goes on, and the system begins to count anew: a program with a timer of its own would wait
/// for ever. So signals are counted as waiting.
struct Plain {
    tcp: Arc<TcpStream>,
    reads: Duration,
    writes: Duration,
    /// When the first call was made of those that signals have ended since the last one that went well.
    since: Option<Instant>,
}

impl Plain {
    fn new(tcp: Arc<TcpStream>) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        let mut plain = Self { tcp, reads: SILENCE, writes: SILENCE, since: None };
        plain.set_patience(SILENCE, SILENCE).map(|()| plain)
    }

    fn connection(self) -> Connection {
        Connection { stream: Box::new(self), carrier: TCP }
    }

    fn wait(&mut self, most: Duration, call: impl FnOnce(&TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        let begin = self.since.unwrap_or_else(Instant::now);
        let done = call(&self.tcp);
        let is_signal = done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted);
        self.since = is_signal.then_some(begin);
        if is_signal && begin.elapsed() > most { Err(io::ErrorKind::TimedOut.into()) } else { done }
    }
}

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wait(self.reads, |mut tcp| tcp.read(bytes))
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(self.writes, |mut tcp| tcp.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Plain {
    fn set_patience(&mut self, reads: Duration, writes: Duration) -> io::Result<()> {
        (self.reads, self.writes) = (reads, writes);
        self.tcp.set_read_timeout(Some(reads))?;
        self.tcp.set_write_timeout(Some(writes))
    }
}

/// A TCP connection on which all that is to happen has to happen before `end`.
struct Until<'t> {
    tcp: &'t TcpStream,
    end: Instant,
}

impl Until<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut tcp = self.tcp;
        tcp.set_read_timeout(self.left()?)?;
        tcp.read(bytes)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut tcp = self.tcp;
        tcp.set_write_timeout(self.left()?)?;
        tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Goes on with a carrier, if that reaches the other side. `greet` is the handshake of this side.
fn change(
    mut tcp: Plain,
    carrier: &dyn Carrier,
    greet: impl FnOnce(&mut Box<dyn Stream>) -> io::Result<()>,
) -> io::Result<Connection> {
    let begun = carrier.begin().and_then(|end| Ok((end.address()?, end)));
    let (address, end) = begun.map_or_else(|_| (Vec::new(), None), |(address, end)| (address, Some(end)));
    frame::write(&mut tcp, &address)?;
    let theirs = read(&mut tcp, LONGEST_ADDRESS)?;
    let met = end.filter(|_| !theirs.is_empty()).and_then(|end| {
        let mut stream = end.connect(&theirs, tcp.tcp.try_clone().ok()?).ok()?;
        stream.set_patience(CONNECT, CONNECT).and_then(|()| greet(&mut stream)).ok()?;
        stream.set_patience(SILENCE, SILENCE).ok().map(|()| stream)
    });
    frame::write(&mut tcp, &[u8::from(met.is_some())])?;
    let is_met = read(&mut tcp, 1)? == [u8::from(true)];
    Ok(match met.filter(|_| is_met) {
        Some(stream) => Connection { stream, carrier: carrier.name() },
        None => tcp.connection(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn signals_make_no_wait_longer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut plain = Plain::new(Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap())).unwrap();
        let (begin, most) = (Instant::now(), Duration::from_millis(40));
        let signal = |plain: &mut Plain| {
            std::thread::sleep(most / 10);
            plain.wait(most, |_| Err(io::ErrorKind::Interrupted.into())).unwrap_err().kind()
        };
        while signal(&mut plain) == io::ErrorKind::Interrupted {
            assert!(begin.elapsed() < SILENCE);
        }
        assert_eq!(signal(&mut plain), io::ErrorKind::TimedOut);
        // Who has been heard has all the time again.
        assert_eq!(plain.wait(most, |_| Ok(1)).unwrap(), 1);
        assert_eq!(signal(&mut plain), io::ErrorKind::Interrupted);
    }
}
