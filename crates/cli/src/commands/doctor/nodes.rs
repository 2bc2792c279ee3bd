//! By what this node would reach others.

use knarr_link::{CARRIERS, Carrier, LINK, carriers};
use serde::Serialize;

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Nodes {
    /// What there is beside TCP.
    carriers: Vec<Found>,
    /// Names of those that are used if the other node uses them, too.
    used: Vec<&'static str>,
    /// What is wrong with the variable that chooses among them.
    refused: Option<String>,
}

#[derive(Debug, Serialize)]
struct Found {
    name: &'static str,
    /// If it can be used.
    version: Option<String>,
    /// Why it cannot.
    missing: Option<String>,
}

pub(super) fn ask() -> Nodes {
    let found = |carrier: &&dyn Carrier| {
        let (version, missing) = match carrier.version() {
            Ok(version) => (Some(version), None),
            Err(why) => (None, Some(why)),
        };
        Found { name: carrier.name(), version, missing }
    };
    let found: Vec<Found> = CARRIERS.iter().map(found).collect();
    let is_there = |name: &str| found.iter().any(|found| found.name == name && found.version.is_some());
    let (used, refused) = match carriers() {
        Ok(used) => (used.into_iter().map(Carrier::name).filter(|name| is_there(name)).collect(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Nodes { carriers: found, used, refused }
}

/// For people.
pub(super) fn print(nodes: &Nodes) {
    let used = if nodes.used.is_empty() { "tcp".to_owned() } else { nodes.used.join(", ") };
    println!("{:17} reached by {used}", "other nodes");
    for found in &nodes.carriers {
        let Found { name, version, missing } = found;
        match (version, missing) {
            (Some(version), _) if nodes.used.contains(name) => println!("{:17} {name} {version}", ""),
            (Some(version), _) => {
                println!("{:17} {name} {version} is not used: ask for it with {LINK}={name}", "");
            }
            (None, why) => println!("{:17} {name} cannot be used: {}", "", why.as_deref().unwrap_or("it is not there")),
        }
    }
    if let Some(refused) = &nodes.refused {
        println!("{:17} {refused}", "");
    }
}
