//! Where this node is reached: its own addresses, as the system lists them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The places of a port that is open on all addresses. Other nodes cannot reach the loopback; a process that shares this
/// one's network can, so it comes last.
pub(crate) fn all(port: u16) -> Vec<SocketAddr> {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut found: Vec<IpAddr> = v4(&text("/proc/net/fib_trie")).into_iter().map(IpAddr::V4).collect();
    found.extend(v6(&text("/proc/net/if_inet6")).into_iter().map(IpAddr::V6));
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
}
