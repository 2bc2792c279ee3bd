//! From where this launcher is reached. On one node nothing listens on a network. If ranks of the program or components that read
//! its files are on other nodes, it listens at the addresses by which these are reached.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use knarr_array::error::Result;
use knarr_capture::meeting::{Address, Component};
use knarr_capture::{Part, Snapshot, SpoolPlace};
use knarr_link::{Reach, network};

use crate::launch::aggregators::nodes::Nodes;
use crate::launch::coupling::partners::{PartnerLauncher, Partners, keys};
use crate::launch::coupling::status_report::Key;

/// From where ranks of the job may ask that are on other nodes: those of the node from which the job was started reach them all.
///
/// `hydra` is what [`hydra`](crate::launch::aggregators::node_leader::hydra) says.
pub(in crate::launch) fn of_job(variable: impl Fn(&str) -> Option<String>, hydra: Option<&str>) -> Reach {
    let named = |name: &str| variable(name).into_iter().flat_map(|text| addresses(&text)).collect::<BTreeSet<_>>();
    let names = ["OMPI_MCA_orte_hnp_uri", "PRTE_MCA_prte_hnp_uri", "SLURM_LAUNCH_NODE_IPADDR"];
    let mut found: BTreeSet<IpAddr> = names.iter().flat_map(|name| named(name)).collect();
    if found.is_empty() {
        let host = hydra.and_then(|job| job.split(':').next());
        let resolved = host.and_then(|host| (host, 0).to_socket_addrs().ok());
        found = resolved.into_iter().flatten().map(|place| place.ip()).collect();
    }
    // A name of this machine that leads to itself says nothing of others.
    found.retain(|address| !address.is_loopback());
    if found.is_empty() { Reach::Everywhere } else { Reach::From(found) }
}

/// The addresses in `1234.0;tcp://10.0.0.7,192.168.1.7:4711;tcp6://[fd00::7]:4712`, or one alone.
fn addresses(text: &str) -> Vec<IpAddr> {
    let parts = text.split(';').flat_map(|part| part.split_once("://").map_or(part, |(_, rest)| rest).split(','));
    let address = |part: &str| {
        let bare = part.trim_start_matches('[');
        let bare = bare.split_once(']').map_or(bare, |(bare, _)| bare);
        // Behind the last address stands a port.
        let bare =
            if bare.matches(':').count() == 1 { bare.split_once(':').map_or(bare, |(bare, _)| bare) } else { bare };
        bare.parse().ok()
    };
    parts.filter_map(address).collect()
}

/// Before what has failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Lets launchers of other nodes reach this one as soon as there are any that read.
#[derive(Default)]
pub(in crate::launch) struct Listening {
    readers: BTreeSet<Key>,
    /// Those that were seen, by the tokens of their spools.
    known: BTreeSet<String>,
    changes: u64,
    /// When it failed last, if it did.
    failed: Option<Instant>,
}

impl Listening {
    pub(in crate::launch) fn new(snapshot: &Snapshot) -> Self {
        Self { readers: keys(snapshot, Part::Writes), ..Self::default() }
    }

    /// Looks whether there are new ones. They find in the directory in which components meet how this one is reached.
    ///
    /// If that fails, it is tried again every second, and only the first error is returned.
    ///
    /// # Errors
    /// As for [`Nodes::answer_to`]; `Write`.
    pub(in crate::launch) fn look(
        &mut self,
        (partners, nodes): (&Partners, &Nodes),
        components: &[Component],
        own: Option<&SpoolPlace>,
    ) -> Result<()> {
        // Those that could not be told do not change by themselves.
        let is_due = self.failed.is_some_and(|last| last.elapsed() >= AGAIN);
        let (Some(own), true) = (own, partners.has_changed(&mut self.changes) || is_due) else { return Ok(()) };
        let said = self.say((partners, nodes), components, own);
        let has_told = self.failed.is_some();
        self.failed = said.is_err().then(Instant::now);
        if has_told { Ok(()) } else { said }
    }

    /// Says how this node is reached to those that have not been told.
    fn say(
        &mut self,
        (partners, nodes): (&Partners, &Nodes),
        components: &[Component],
        own: &SpoolPlace,
    ) -> Result<()> {
        let all: Vec<PartnerLauncher> =
            self.readers.iter().flat_map(|key| partners.of(key).others.into_values()).collect();
        let far: Vec<PartnerLauncher> = all
            .into_iter()
            .filter(|other| {
                !other.is_near && !other.launcher.token.is_empty() && !self.known.contains(&other.launcher.token)
            })
            .collect();
        if far.is_empty() {
            return Ok(());
        }
        let here = network();
        let is_here = |other: &&PartnerLauncher| here.is_some() && other.launcher.network == here;
        let mut peer = None;
        if far.iter().any(|other| is_here(&other)) {
            peer = Some(nodes.answer_to(&Reach::Here)?);
        }
        let elsewhere = far.iter().filter(|other| !is_here(other));
        let addresses: BTreeSet<IpAddr> =
            elsewhere.clone().flat_map(|other| other.launcher.addresses.clone()).collect();
        if elsewhere.count() > 0 {
            peer = Some(nodes.answer_to(&Reach::From(addresses))?);
        }
        if let Some(peer) = peer {
            let address = Address { peer, spool: own.directory.clone(), token: own.token.clone() };
            components.iter().try_for_each(|component| component.announce(&address))?;
        }
        self.known.extend(far.into_iter().map(|other| other.launcher.token));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_node_that_has_started_a_job_are_known() {
        let of = |name: &'static str, text: &'static str| {
            of_job(move |asked| (asked == name).then(|| text.to_owned()), None)
        };
        let reach =
            |addresses: &[&str]| Reach::From(addresses.iter().map(|address| address.parse().unwrap()).collect());
        let uri = "1359.0;tcp://192.0.2.2,10.0.0.7:33535;tcp6://[fd00::2]:59481";
        assert_eq!(of("OMPI_MCA_orte_hnp_uri", uri), reach(&["192.0.2.2", "10.0.0.7", "fd00::2"]));
        assert_eq!(of("SLURM_LAUNCH_NODE_IPADDR", "10.1.2.3"), reach(&["10.1.2.3"]));
        for (name, text) in
            [("OMPI_MCA_orte_hnp_uri", "1.0;tcp4://127.0.0.1:1"), ("OMPI_MCA_orte_hnp_uri", "?"), ("", "")]
        {
            assert_eq!(of(name, text), Reach::Everywhere, "{text}");
        }
        assert_eq!(of_job(|_| None, Some("10.0.0.9:41535 0")), reach(&["10.0.0.9"]));
        assert_eq!(of_job(|_| None, Some("localhost:41535 0")), Reach::Everywhere);
    }
}
