//! Two sides of a stream, in two threads.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use knarr_ucx::{End, Stream, Ucx, load};

/// UCX, if it is on this machine.
fn ucx() -> Option<&'static Ucx> {
    match load() {
        Ok(ucx) => Some(ucx),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "CI takes no skips: {why}; run 'make setup' as root");
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Two sides, and what else holds the TCP connection of the second one.
fn pair(ucx: &'static Ucx) -> (Stream, Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    let (a, b) = (End::new(ucx).unwrap(), End::new(ucx).unwrap());
    let (at, to) = (a.address().unwrap(), b.address().unwrap());
    assert_ne!(at[..8], to[..8], "tags are to be random");
    let held = other.try_clone().unwrap();
    let (a, b) = (a.connect(&to, one).unwrap(), b.connect(&at, other).unwrap());
    (a, b, held)
}

/// Bytes that differ at all places of a message.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| u8::try_from((place ^ (place >> 8) ^ (place >> 16)) & 0xFF).unwrap()).collect()
}

#[test]
fn bytes_come_in_order_in_both_directions() {
    let Some(ucx) = ucx() else { return };
    let (mut a, mut b, _held) = pair(ucx);
    let lengths = [0, 1, 7, 4096, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 5_000_000];
    let echo = std::thread::spawn(move || {
        for length in lengths {
            let mut heard = vec![0; length];
            b.read_exact(&mut heard).unwrap();
            b.write_all(&heard).unwrap();
            b.flush().unwrap();
        }
        // The other side has read it, and says so.
        b.read_exact(&mut [0]).unwrap();
    });
    for length in lengths {
        let said = bytes(length);
        for part in said.chunks(100_003) {
            a.write_all(part).unwrap();
        }
        a.flush().unwrap();
        let mut heard = vec![0; length];
        a.read_exact(&mut heard).unwrap();
        assert!(heard == said, "{length} bytes came back changed");
    }
    a.write_all(&[1]).unwrap();
    a.flush().unwrap();
    echo.join().unwrap();
}

#[test]
fn patience_ends() {
    let Some(ucx) = ucx() else { return };
    let (mut a, b, _held) = pair(ucx);
    a.set_patience(Duration::from_millis(300), Duration::from_millis(300));
    let begin = Instant::now();
    assert_eq!(a.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    // More than UCX takes without the other side.
    let error = a.write_all(&bytes(64 << 20)).and_then(|()| a.flush()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!((600..3000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    drop(b);
}

/// Hundredths of a second that this thread has used the processor.
fn used() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn waiting_takes_no_processor() {
    let Some(ucx) = ucx() else { return };
    let (mut a, mut b, _held) = pair(ucx);
    let other = std::thread::spawn(move || {
        b.write_all(&[1]).unwrap();
        b.flush().unwrap();
        b.read_exact(&mut [0]).unwrap();
    });
    a.read_exact(&mut [0]).unwrap();
    a.set_patience(Duration::from_millis(1500), Duration::from_secs(1));
    let begin = used();
    assert_eq!(a.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(used() - begin < 15, "{} ms", 10 * (used() - begin));
    a.write_all(&[1]).unwrap();
    a.flush().unwrap();
    other.join().unwrap();
}

#[test]
fn the_end_of_the_other_side_is_noticed() {
    let Some(ucx) = ucx() else { return };
    let (mut a, mut b, held) = pair(ucx);
    let ends = std::thread::spawn(move || {
        b.write_all(b"last words").unwrap();
        b.flush().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop((b, held));
    });
    let (mut heard, begin) = (Vec::new(), Instant::now());
    // UCX may notice before TCP does.
    let end = a.read_to_end(&mut heard);
    assert!(end.is_ok() || end.as_ref().is_err_and(|error| error.kind() == ErrorKind::Other), "{end:?}");
    assert_eq!(heard, b"last words");
    ends.join().unwrap();
    let error = a.write_all(&bytes(64 << 20)).and_then(|()| a.flush()).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::TimedOut);
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    // Whoever is about to be killed has little time.
    let begin = Instant::now();
    drop(a);
    assert!(begin.elapsed() < Duration::from_millis(400), "{:?}", begin.elapsed());
}

#[test]
fn what_is_no_address_is_an_error() {
    let Some(ucx) = ucx() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(End::new(ucx).unwrap().connect(b"short", tcp).is_err());
}
