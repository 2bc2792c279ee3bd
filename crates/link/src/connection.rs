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

fn read(tcp: &TcpStream, longest: usize) -> io::Result<Vec<u8>> {
    frame::read(&mut &*tcp, longest)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// On the side that asks.
pub(crate) fn ask(tcp: TcpStream, secret: &Secret, carriers: &[&'static dyn Carrier]) -> io::Result<Connection> {
    let tcp = Arc::new(tcp);
    begin(&tcp)?;
    handshake::ask(&mut &*tcp, secret)?;
    let usable = usable(carriers);
    let lines: Vec<&str> = usable.iter().map(|(_, line)| line.as_str()).collect();
    frame::write(&mut &*tcp, lines.join("\n").as_bytes())?;
    if usable.is_empty() {
        return Ok(plain(tcp));
    }
    let taken = read(&tcp, LONGEST_NAMES)?;
    match usable.iter().find(|(_, line)| line.as_bytes() == taken) {
        Some((carrier, _)) => change(tcp, *carrier, |stream| handshake::ask(stream, secret)),
        None => Ok(plain(tcp)),
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
    begin(&tcp)?;
    let lines = read(&tcp, LONGEST_NAMES)?;
    if lines.is_empty() {
        return Ok(plain(tcp));
    }
    let is_known = |line: &str| lines.split(|byte| *byte == b'\n').any(|known| known == line.as_bytes());
    let taken = usable(carriers).into_iter().find(|(_, line)| is_known(line));
    frame::write(&mut &*tcp, taken.as_ref().map_or("", |(_, line)| line.as_str()).as_bytes())?;
    match taken {
        Some((carrier, _)) => change(tcp, carrier, |stream| handshake::answer(stream, secret)),
        None => Ok(plain(tcp)),
    }
}

fn begin(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(SILENCE))?;
    tcp.set_write_timeout(Some(SILENCE))
}

fn plain(tcp: Arc<TcpStream>) -> Connection {
    Connection { stream: Box::new(Plain(tcp)), carrier: TCP }
}

/// A TCP connection that the side that answers can end from another thread.
struct Plain(Arc<TcpStream>);

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(bytes)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Plain {
    fn set_patience(&mut self, reads: Duration, writes: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(reads))?;
        self.0.set_write_timeout(Some(writes))
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

/// Goes on with a carrier, if that reaches the other side. `meet` is the handshake of this side.
fn change(
    tcp: Arc<TcpStream>,
    carrier: &dyn Carrier,
    meet: impl FnOnce(&mut Box<dyn Stream>) -> io::Result<()>,
) -> io::Result<Connection> {
    let begun = carrier.begin().and_then(|end| Ok((end.address()?, end)));
    let (address, end) = begun.map_or_else(|_| (Vec::new(), None), |(address, end)| (address, Some(end)));
    frame::write(&mut &*tcp, &address)?;
    let theirs = read(&tcp, LONGEST_ADDRESS)?;
    let met = end.filter(|_| !theirs.is_empty()).and_then(|end| {
        let mut stream = end.connect(&theirs, tcp.try_clone().ok()?).ok()?;
        stream.set_patience(CONNECT, CONNECT).and_then(|()| meet(&mut stream)).ok()?;
        stream.set_patience(SILENCE, SILENCE).ok().map(|()| stream)
    });
    frame::write(&mut &*tcp, &[u8::from(met.is_some())])?;
    let is_met = read(&tcp, 1)? == [u8::from(true)];
    Ok(match met.filter(|_| is_met) {
        Some(stream) => Connection { stream, carrier: carrier.name() },
        None => plain(tcp),
    })
}
