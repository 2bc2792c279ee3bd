//! The links that there are, and sides that are not what they should be.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knarr_array::error::Result;
use knarr_link::{
    Answers, CARRIERS, Carrier, End, LONGEST_ANSWER, Link, Peer, SILENCE, Secret, Server, Stream, TcpLink,
};
use knarr_testing::{MemoryLink, link_suite};

#[test]
fn memory() {
    link_suite::check(|answers| {
        let gone = Arc::new(AtomicBool::new(false));
        let link = MemoryLink::new("far", answers, Arc::clone(&gone));
        (Box::new(link), Box::new(move || gone.store(true, Ordering::Relaxed)))
    });
}

#[test]
fn tcp() {
    link_suite::check(|answers| {
        let server = Server::start("far", answers).unwrap();
        let link = TcpLink::new(server.peer().clone());
        (Box::new(link), Box::new(move || drop(server)))
    });
}

/// Those that this machine has.
fn usable() -> impl Iterator<Item = &'static dyn Carrier> {
    CARRIERS.iter().copied().filter(|carrier| match carrier.version() {
        Ok(_) => true,
        Err(why) => {
            let name = carrier.name();
            assert!(std::env::var_os("CI").is_none(), "CI takes no skips: {name}: {why}; run 'make setup' as root");
            eprintln!("skipped: {name}: {why}");
            false
        }
    })
}

#[test]
fn every_carrier() {
    for carrier in usable() {
        link_suite::check(|answers| {
            let server = Server::over("far", answers, vec![carrier]).unwrap();
            let link = TcpLink::over(server.peer().clone(), vec![carrier]);
            let end = move || {
                let sent = server.sent();
                assert!(sent[carrier.name()] > u64::try_from(LONGEST_ANSWER).unwrap(), "{sent:?}");
                assert_eq!(sent.len(), 1, "{sent:?}");
            };
            (Box::new(link), Box::new(end))
        });
    }
}

struct Same;

impl Answers for Same {
    fn answer(&self, question: &[u8], _: &mut dyn FnMut() -> Result<()>) -> Result<Vec<u8>> {
        Ok(question.to_vec())
    }
}

fn near(server: &Server) -> Peer {
    server.peer().clone()
}

#[test]
fn another_secret_gets_no_answer() {
    let server = Server::start("far", Arc::new(Same)).unwrap();
    let peer = Peer { secret: Secret::new().unwrap(), ..near(&server) };
    let error = TcpLink::new(peer).ask(b"hello").unwrap_err().to_string();
    assert!(error.contains("node 'far' is gone") && error.contains("secret"), "{error}");
    assert_eq!(TcpLink::new(near(&server)).ask(b"hello").unwrap(), b"hello");
}

#[test]
fn the_right_one_is_found_among_places() {
    let (wrong, right) = (Server::start("x", Arc::new(Same)).unwrap(), Server::start("far", Arc::new(Same)).unwrap());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut peer = near(&right);
    peer.places.splice(0..0, [closed, *wrong.peer().places.last().unwrap()]);
    let link = TcpLink::new(peer);
    assert_eq!(link.ask(b"a").unwrap(), b"a");
    assert_eq!(link.ask(b"b").unwrap(), b"b");
    let error = TcpLink::new(Peer { places: Vec::new(), ..near(&right) }).ask(b"a").unwrap_err();
    assert!(error.to_string().contains("where it can be reached"), "{error}");
}

#[test]
fn who_is_silent_is_gone_after_some_seconds() {
    // The system takes the connection, and nobody answers: as if the other process was stopped.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (node, places) = ("far".to_owned(), vec![listener.local_addr().unwrap()]);
    let link = TcpLink::new(Peer { node, places, secret: Secret::new().unwrap() });
    let begin = Instant::now();
    let error = link.ask(b"hello").unwrap_err().to_string();
    assert!(error.contains("node 'far' is gone: it has not answered for 5 s"), "{error}");
    assert!(begin.elapsed() < 2 * SILENCE, "{:?}", begin.elapsed());
}

#[test]
fn hostile_bytes_end_only_their_own_connection() {
    let server = Server::start("far", Arc::new(Same)).unwrap();
    let place = *server.peer().places.last().unwrap();
    for bytes in
        [b"GET / HTTP/1.1\r\n\r\n".repeat(10), b"KNARRLK\x03".repeat(20), b"KNARRLK\x05".repeat(20), vec![0xFF; 4000]]
    {
        let mut stream = TcpStream::connect(place).unwrap();
        stream.set_read_timeout(Some(2 * SILENCE)).unwrap();
        stream.write_all(&bytes).unwrap();
        // It is ended without a word, or by a reset.
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.is_empty(), "{heard:?}");
    }
    assert_eq!(TcpLink::new(near(&server)).ask(b"hello").unwrap(), b"hello");
}

/// A carrier that lets nobody through, in one way or another.
struct Broken(Break);

#[derive(Clone, Copy, PartialEq)]
enum Break {
    /// It has no address.
    Begin,
    /// It refuses the address of the other side.
    Connect,
    /// It takes what is written, and nothing ever comes.
    Silence,
}

impl Carrier for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn version(&self) -> Result<String, String> {
        Ok("1".to_owned())
    }

    fn begin(&self) -> io::Result<Box<dyn End>> {
        if self.0 == Break::Begin { Err(io::ErrorKind::NotFound.into()) } else { Ok(Box::new(Broken(self.0))) }
    }
}

impl End for Broken {
    fn address(&self) -> io::Result<Vec<u8>> {
        Ok(vec![7; 100])
    }

    fn connect(self: Box<Self>, address: &[u8], _: TcpStream) -> io::Result<Box<dyn Stream>> {
        assert_eq!(address, [7; 100]);
        if self.0 == Break::Connect {
            Err(io::ErrorKind::ConnectionRefused.into())
        } else {
            Ok(Box::new(Hole::default()))
        }
    }
}

#[derive(Default)]
struct Hole {
    patience: Duration,
}

impl Read for Hole {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(self.patience);
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Write for Hole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Hole {
    fn set_patience(&mut self, reads: Duration, _: Duration) -> io::Result<()> {
        self.patience = reads;
        Ok(())
    }
}

static BROKEN: [Broken; 3] = [Broken(Break::Begin), Broken(Break::Connect), Broken(Break::Silence)];

#[test]
fn what_a_carrier_does_not_carry_goes_by_tcp() {
    for (here, there) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)] {
        let server = Server::over("far", Arc::new(Same), vec![&BROKEN[there]]).unwrap();
        let link = TcpLink::over(near(&server), vec![&BROKEN[here]]);
        let begin = Instant::now();
        assert_eq!(link.ask(b"hello").unwrap(), b"hello", "{here} {there}");
        assert!(begin.elapsed() < SILENCE, "{here} {there}: {:?}", begin.elapsed());
        // It is not tried again.
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(link.ask(b"again").unwrap(), b"again"));
            }
        });
        assert!(begin.elapsed() < Duration::from_secs(1), "{here} {there}: {:?}", begin.elapsed());
        assert_eq!(server.sent().into_keys().collect::<Vec<_>>(), ["tcp"]);
    }
}

#[test]
fn a_carrier_is_used_only_if_both_sides_use_it() {
    for (here, there) in [(true, false), (false, true)] {
        let carriers = |uses: bool| if uses { vec![&BROKEN[2] as &dyn Carrier] } else { Vec::new() };
        let server = Server::over("far", Arc::new(Same), carriers(there)).unwrap();
        let begin = Instant::now();
        assert_eq!(TcpLink::over(near(&server), carriers(here)).ask(b"hello").unwrap(), b"hello");
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}
