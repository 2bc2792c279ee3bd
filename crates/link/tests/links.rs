//! The links that there are, and sides that are not what they should be.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use knarr_array::error::Result;
use knarr_link::{Answers, Link, MemoryLink, Peer, SILENCE, Secret, Server, TcpLink, testing};

#[test]
fn memory() {
    testing::check(|answers| {
        let gone = Arc::new(AtomicBool::new(false));
        let link = MemoryLink::new("far", answers, Arc::clone(&gone));
        (Box::new(link), Box::new(move || gone.store(true, Ordering::Relaxed)))
    });
}

#[test]
fn tcp() {
    testing::check(|answers| {
        let server = Server::start("far", answers).unwrap();
        let link = TcpLink::new(server.peer().clone());
        (Box::new(link), Box::new(move || drop(server)))
    });
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
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".repeat(10), b"KNARRLK\x03".repeat(20), vec![0xFF; 4000]] {
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
