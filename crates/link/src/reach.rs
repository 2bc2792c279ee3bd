//! The addresses at which this node listens and is reached.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

/// Connections that may wait to be accepted; the system may allow fewer.
const WAITING: i32 = 4096;

/// From where this process is to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// By processes that share its network: no other machine can connect.
    Here,
    /// From these addresses: it listens at those by which the system would answer them.
    From(BTreeSet<IpAddr>),
    /// From everywhere.
    Everywhere,
}

impl Reach {
    /// Opens ports at addresses at which none is open yet.
    pub(crate) fn listen(&self, open: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
        let listeners = match self {
            Self::Here => vec![TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?],
            Self::From(peers) => {
                let own: BTreeSet<IpAddr> = peers.iter().filter_map(|peer| toward(*peer)).collect();
                let (known, new): (Vec<IpAddr>, Vec<IpAddr>) =
                    own.into_iter().partition(|own| open.iter().any(|place| place.ip() == *own));
                // An address may have gone meanwhile.
                let begun: Vec<_> = new.iter().filter_map(|address| TcpListener::bind((*address, 0)).ok()).collect();
                if known.is_empty() && begun.is_empty() { everywhere()? } else { begun }
            }
            Self::Everywhere => everywhere()?,
        };
        // All ranks of a job connect at the same moment. The standard library has 128 wait at most, and the system drops more.
        listeners.iter().try_for_each(|listener| Ok(rustix::net::listen(listener, WAITING)?)).map(|()| listeners)
    }

    /// What others are told who are to reach ports that were opened at these places.
    pub(crate) fn reachable_at(&self, open: &[SocketAddr]) -> Vec<SocketAddr> {
        match open.iter().find(|place| place.ip().is_unspecified()) {
            Some(everywhere) => all(everywhere.port()),
            None => open.to_vec(),
        }
    }
}

/// One port for addresses of both kinds. A system may have them apart, or only one of them.
fn everywhere() -> io::Result<Vec<TcpListener>> {
    let Ok(both) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) else {
        return Ok(vec![TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?]);
    };
    // This fails where the first one takes both kinds.
    let other = TcpListener::bind((Ipv4Addr::UNSPECIFIED, both.local_addr()?.port())).ok();
    Ok(std::iter::once(both).chain(other).collect())
}

/// The address of this node from which the system would send to another one. Nothing is sent.
fn toward(peer: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((peer, 9)).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}

/// What tells the network of this process from those of others: processes with equal ones reach each other at the loopback. `None`
/// if the system does not say.
pub fn network() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {}", boot.trim(), space.display()))
}

/// The addresses of this node by which others reach it, but for the loopback.
pub fn addresses() -> Vec<IpAddr> {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut found: Vec<IpAddr> = v4(&text("/proc/net/fib_trie")).into_iter().map(IpAddr::V4).collect();
    found.extend(v6(&text("/proc/net/if_inet6")).into_iter().map(IpAddr::V6));
    found
}

/// The places of a port that is open on all addresses. Other nodes cannot reach the loopback; a process that shares this
/// one's network can, so it comes last.
fn all(port: u16) -> Vec<SocketAddr> {
    let mut found = addresses();
    found.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
    found.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// Addresses of the node in `/proc/net/fib_trie`: each is a line `|-- 10.0.0.7` before one that says `/32 host LOCAL`.
fn v4(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last.filter(|address: &Ipv4Addr| !address.is_loopback() && !found.contains(address))
        {
            found.push(address);
        }
    }
    found
}

/// Addresses in `/proc/net/if_inet6` that are more than those of a link.
fn v6(table: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok().map(Ipv6Addr::from_bits);
    let all = table.lines().filter_map(address);
    all.filter(|address| !address.is_loopback() && !address.is_unicast_link_local()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_node_are_those_that_others_reach() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.1.0.7\n        \
                     /32 host LOCAL\n     |-- 10.1.0.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host \
                     LOCAL\nLocal:\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(v4(table), [Ipv4Addr::new(10, 1, 0, 7)]);
        let table = "fe800000000000000000000000000001 02 40 20 80 eth0\n00000000000000000000000000000001 01 80 10 80 lo\n\
                     20010db8000000000000000000000005 02 40 00 00 eth0\n";
        assert_eq!(v6(table), ["2001:db8::5".parse::<Ipv6Addr>().unwrap()]);
        assert!(v4("").is_empty() && v6("nonsense\n").is_empty());
        assert_eq!(all(7).last(), Some(&"127.0.0.1:7".parse().unwrap()));
    }

    #[test]
    fn ports_are_open_where_peers_come_from_and_nowhere_else() {
        let open = |reach: &Reach| -> Vec<SocketAddr> {
            reach.listen(&[]).unwrap().iter().map(|listener| listener.local_addr().unwrap()).collect()
        };
        let here = open(&Reach::Here);
        assert!(here.len() == 1 && here[0].ip().is_loopback());
        assert_eq!(Reach::Here.reachable_at(&here), here);
        // The loopback is reached from the loopback.
        let near = Reach::From(BTreeSet::from([Ipv4Addr::new(127, 0, 0, 9).into()]));
        let places = open(&near);
        assert!(places.iter().all(|place| place.ip().is_loopback()), "{places:?}");
        assert_eq!(near.reachable_at(&places), places);
        assert!(near.listen(&places).unwrap().is_empty(), "a second port at the same address");
        // Nobody is reached: all are.
        for reach in [Reach::From(BTreeSet::new()), Reach::Everywhere] {
            let places = open(&reach);
            assert!(places.iter().all(|place| place.ip().is_unspecified()), "{places:?}");
            assert_eq!(reach.reachable_at(&places), all(places[0].port()));
        }
        // Addresses of both kinds lead there.
        let listeners = Reach::Everywhere.listen(&[]).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(network(), network());
    }
}
