//! The links that there are, and sides that are not what they should be.
#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_link::{
    Answers, CARRIERS, Carrier, Carriers, End, LONGEST_ANSWER, Limits, Link, Peer, Reach, SILENCE, Secret, Server,
    Stream, TcpLink,
};
use knarr_testing::{MemoryLink, suites};

fn start(node: &str, answers: Arc<dyn Answers>) -> Server {
    over(node, answers, Vec::new())
}

fn over(node: &str, answers: Arc<dyn Answers>, carriers: Carriers) -> Server {
    Server::over(node, answers, (&Reach::Everywhere, carriers), Limits::default()).unwrap()
}

/// One that lets few in.
fn narrow(answers: Arc<dyn Answers>, limits: Limits) -> Server {
    Server::over("far", answers, (&Reach::Here, Vec::new()), limits).unwrap()
}

#[test]
fn memory() {
    suites::link::check(|answers| {
        let gone = Arc::new(AtomicBool::new(false));
        let link = MemoryLink::new("far", answers, Arc::clone(&gone));
        (Box::new(link), Box::new(move || gone.store(true, Ordering::Relaxed)))
    });
}

#[test]
fn tcp() {
    suites::link::check(|answers| {
        let server = start("far", answers);
        let link = TcpLink::new(server.peer());
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
        suites::link::check(|answers| {
            let server = over("far", answers, vec![carrier]);
            let link = TcpLink::over(server.peer(), vec![carrier]);
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
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        Ok(question.to_vec())
    }
}

fn near(server: &Server) -> Peer {
    server.peer()
}

#[test]
fn another_secret_gets_no_answer() {
    let server = start("far", Arc::new(Same));
    let peer = Peer { secret: Secret::new().unwrap(), ..near(&server) };
    let error = TcpLink::new(peer).ask(b"hello").unwrap_err().to_string();
    assert!(error.contains("node 'far' is gone") && error.contains("secret"), "{error}");
    assert_eq!(TcpLink::new(near(&server)).ask(b"hello").unwrap(), b"hello");
}

#[test]
fn the_right_one_is_found_among_places() {
    let (wrong, right) = (start("x", Arc::new(Same)), start("far", Arc::new(Same)));
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
    let server = start("far", Arc::new(Same));
    let place = *server.peer().places.last().unwrap();
    for bytes in
        [b"GET / HTTP/1.1\r\n\r\n".repeat(10), b"KNARRLK\x04".repeat(20), b"KNARRLK\x06".repeat(20), vec![0xFF; 4000]]
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
        let server = over("far", Arc::new(Same), vec![&BROKEN[there]]);
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
        let server = over("far", Arc::new(Same), carriers(there));
        let begin = Instant::now();
        assert_eq!(TcpLink::over(near(&server), carriers(here)).ask(b"hello").unwrap(), b"hello");
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}

/// Takes a moment for each answer, and knows how many are under way at most.
#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Answers for Busy {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(question.to_vec())
    }
}

#[test]
fn more_that_ask_than_there_are_places_get_their_answers() {
    let busy = Arc::new(Busy::default());
    let answers: Arc<dyn Answers> = Arc::<Busy>::clone(&busy);
    let server = narrow(answers, Limits { connections: 3, ..Limits::default() });
    // Each has a connection of its own, and keeps it.
    let links: Vec<TcpLink> = (0..24).map(|_| TcpLink::new(near(&server))).collect();
    let begin = Barrier::new(links.len());
    std::thread::scope(|scope| {
        for (number, link) in (0u8..).zip(&links) {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                for question in 0..10u8 {
                    assert_eq!(link.ask(&[number, question]).unwrap(), [number, question]);
                }
            });
        }
    });
    // Connections that nobody asks on are in nobody's way.
    assert_eq!(TcpLink::new(near(&server)).ask(b"late").unwrap(), b"late");
    assert!(busy.most.load(Ordering::SeqCst) <= 3);
}

#[test]
fn strangers_take_no_places_and_have_little_time() {
    let patience = Duration::from_millis(300);
    let limits = Limits { connections: 4, strangers: 8, patience };
    let server = narrow(Arc::new(Same), limits);
    let place = server.peer().places[0];
    let mut strangers: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(place).unwrap()).collect();
    let link = TcpLink::new(near(&server));
    for number in 0..20u8 {
        strangers.push(TcpStream::connect(place).unwrap());
        assert_eq!(TcpLink::new(near(&server)).ask(&[number]).unwrap(), [number]);
        assert_eq!(link.ask(&[number]).unwrap(), [number]);
    }
    // One that sends a byte now and then has no more time than others.
    let mut slow = TcpStream::connect(place).unwrap();
    let begin = Instant::now();
    slow.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
    for byte in b"KNARRLK\x05".iter().chain(std::iter::repeat(&0)) {
        let sent = slow.write_all(&[*byte]);
        let heard = slow.read(&mut [0; 100]);
        if sent.is_err() || heard.is_ok() || heard.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            break;
        }
        assert!(begin.elapsed() < 10 * patience);
    }
    assert!(begin.elapsed() >= patience / 2);
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(SILENCE)).unwrap();
        assert!(matches!(stranger.read(&mut [0; 1]), Ok(0)), "it was ended");
    }
}

/// Whoever asks gets what the one before has asked for: as two processes do that share a connection.
#[test]
fn an_answer_to_another_question_is_none() {
    let server = start("far", Arc::new(Same));
    let behind = *server.peer().places.last().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(behind).unwrap());
            let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap(), true), (far, near, false)];
            for (mut from, mut to, is_asked) in ways {
                std::thread::spawn(move || {
                    let mut bytes = [0; 1000];
                    while let Ok(mut length @ 1..) = from.read(&mut bytes) {
                        // A question may come in pieces, or together with what was said before it.
                        from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                        while let Ok(more @ 1..) = from.read(&mut bytes[length..]) {
                            length += more;
                        }
                        from.set_read_timeout(None).unwrap();
                        // The numbers of all questions but the first are those of earlier ones.
                        let at = length.saturating_sub(17);
                        let is_question =
                            length >= 17 && bytes[at + 4..at + 8] == crc(&bytes[at + 8..length]).to_le_bytes();
                        if is_asked && is_question && bytes[at + 8] > 0 {
                            bytes[at + 8] -= 1;
                            let crc = crc(&bytes[at + 8..length]);
                            bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
                        }
                        if to.write_all(&bytes[..length]).is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    let link = TcpLink::new(Peer { places: vec![between], ..near(&server) });
    assert_eq!(link.ask(b"0").unwrap(), b"0");
    let error = link.ask(b"1").unwrap_err();
    assert!(error.to_string().contains("an answer to another question"), "{error}");
}

/// CRC-32C, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Notes what it is told.
#[derive(Default)]
struct Crowded(std::sync::Mutex<Vec<String>>);

impl Answers for Crowded {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        Ok(question.to_vec())
    }

    fn crowded(&self, why: &Error) {
        self.0.lock().unwrap().push(why.to_string());
    }
}

/// False in the process of all tests, which runs this one in another process: the limit is that of a process.
fn has_few_files(test: &str, files: u32) -> bool {
    const CHILD: &str = "KNARR_TEST_FEW_FILES";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let (own, limited) = (std::env::current_exe().unwrap(), format!("ulimit -n {files}; exec \"$@\""));
    let mut run = Command::new("sh");
    run.args(["-c", &limited, "sh"]).arg(own).args(["--exact", &format!("links::{test}"), "--nocapture"]);
    let ran = run.env(CHILD, "1").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    false
}

#[test]
fn who_asks_many_keeps_few_connections() {
    if !has_few_files("who_asks_many_keeps_few_connections", 100) {
        return;
    }
    let server = narrow(Arc::new(Same), Limits::default());
    let links: Vec<TcpLink> = (0..80).map(|_| TcpLink::new(near(&server))).collect();
    for _ in 0..3 {
        assert!(links.iter().all(|link| link.ask(b"hello").unwrap() == b"hello"));
    }
}

#[test]
fn too_many_open_files_are_told_once_and_end_no_answers() {
    if !has_few_files("too_many_open_files_are_told_once_and_end_no_answers", 40) {
        return;
    }
    let crowded = Arc::new(Crowded::default());
    let answers: Arc<dyn Answers> = Arc::<Crowded>::clone(&crowded);
    let server = narrow(answers, Limits::default());
    let link = TcpLink::new(near(&server));
    assert_eq!(link.ask(b"first").unwrap(), b"first");
    // Files that nobody gives back.
    let (mut taken, begin) = (Vec::new(), Instant::now());
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    taken.pop();
    let place: SocketAddr = server.peer().places[0];
    let knocks = TcpStream::connect(place).unwrap();
    while crowded.0.lock().unwrap().is_empty() {
        assert!(begin.elapsed() < SILENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let told = crowded.0.lock().unwrap().clone();
    assert!(told.len() == 1 && told[0].contains("Too many open files") && told[0].contains("ulimit"), "{told:?}");
    drop((taken, knocks));
    assert_eq!(link.ask(b"again").unwrap(), b"again");
}

/// Panics for an answer.
struct Panics;

impl Answers for Panics {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        assert!(question != b"panic", "this panic is wanted");
        Ok(question.to_vec())
    }
}

#[test]
fn nobody_waits_for_an_answer_that_ends_in_a_panic() {
    let server = start("far", Arc::new(Panics));
    let (link, begin) = (TcpLink::new(near(&server)), Instant::now());
    assert!(link.ask(b"panic").unwrap_err().to_string().contains("it has ended the connection"));
    assert!(begin.elapsed() < SILENCE);
    assert_eq!(link.ask(b"hello").unwrap(), b"hello");
}
