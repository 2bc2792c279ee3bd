//! How the launcher of a component is reached from other nodes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_link::Peer;
use serde::{Deserialize, Serialize};

use super::names::{ADDRESS, name_of, numbers};
use crate::message::path_bytes;
use crate::snapshot::SpoolPlace;

/// Bytes of an address, at most.
const LONGEST: u64 = 1 << 16;

/// The address of a launcher, in the directory of its component. It holds a secret: only this user may read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Its launcher.
    pub peer: Peer,
    /// The spool of its node.
    #[serde(with = "path_bytes")]
    pub spool: PathBuf,
    /// No other spool has this, on whatever node.
    pub token: String,
}

impl Address {
    /// That of the launcher with this spool; `None` if it answers nobody.
    pub fn of(spool: &SpoolPlace) -> Option<Self> {
        let peer = spool.peer.clone()?;
        Some(Self { peer, spool: spool.directory.clone(), token: spool.token.clone() })
    }

    /// Writes it to a path in the directory of a component.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let beside = path.with_added_extension("new");
        let text = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        let write = || {
            let _ = fs::remove_file(&beside);
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(|error| Error::write(path, &error))
    }

    /// Those of the launchers of component `name` in the directory `rendezvous` that answer others, by their numbers.
    ///
    /// # Errors
    /// `Read`, `Corrupt`; `Config` if others than this user can read one or have written it.
    pub fn all(rendezvous: &Path, name: &str) -> Result<BTreeMap<u64, Self>> {
        Self::all_with(rendezvous, name, |_| None)
    }

    /// The same, where those that are `known` are not read again: a launcher keeps its address, and no other one has its number.
    ///
    /// # Errors
    /// As for [`Address::all`].
    pub fn all_with(rendezvous: &Path, name: &str, known: impl Fn(u64) -> Option<Self>) -> Result<BTreeMap<u64, Self>> {
        let directory = rendezvous.join(name);
        let found = |number| match known(number) {
            None => Self::read(&directory.join(name_of(ADDRESS, number))),
            known => Ok(known),
        };
        let read = |number| Ok(found(number)?.map(|address| (number, address)));
        numbers(&directory, ADDRESS).into_iter().map(read).filter_map(Result::transpose).collect()
    }

    /// True as long as the launcher with this number is there.
    pub fn is_there(rendezvous: &Path, name: &str, number: u64) -> bool {
        rendezvous.join(name).join(name_of(ADDRESS, number)).exists()
    }

    /// That at a path; `None` if there is none.
    fn read(path: &Path) -> Result<Option<Self>> {
        let mut text = Vec::new();
        let mut read = || {
            let file = File::open(path)?;
            let found = file.metadata()?;
            file.take(LONGEST).read_to_end(&mut text)?;
            Ok(found)
        };
        let found = match read() {
            Err(error) if is_missing(&error) => return Ok(None),
            found => found.map_err(|error: std::io::Error| Error::read(path, &error))?,
        };
        if found.mode() & 0o077 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
            let what = "others than this user can read the secret of the component, or have written it";
            return Err(Error::new(ErrorKind::Config, what)
                .hint("let 'rendezvous' be a directory on a file system that keeps owners and permissions")
                .at(path.display().to_string()));
        }
        let address = serde_json::from_slice(&text);
        address.map(Some).map_err(|error| Error::corrupt(error.to_string()).at(path.display().to_string()))
    }

    /// True if programs that hand over to the spool `own` reach that of this launcher without a link.
    pub fn is_near(&self, own: &SpoolPlace) -> bool {
        own.is_near(&self.peer.node, &self.spool, &self.token)
    }
}

/// Not there, or on a network file system, removed while it was open.
fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.kind() == std::io::ErrorKind::StaleNetworkFileHandle
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_link::Secret;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_address_is_for_this_user_and_says_who_is_near() {
        let folder = std::env::temp_dir().join(format!("knarr-address-{}", std::process::id()));
        let spool = folder.join("spool");
        fs::create_dir_all(&spool).unwrap();
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(spool.join(crate::ALIVE), "token").unwrap();
        let peer = Peer { node: "n".to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let own = SpoolPlace {
            directory: spool,
            most: 1,
            disk: folder.clone(),
            node: "n".to_owned(),
            token: "token".to_owned(),
            peer: Some(peer),
        };
        let address = Address::of(&own).unwrap();
        let path = folder.join("a").join("address.2");
        assert!(Address::all(&folder, "a").unwrap().is_empty());
        address.save(&path).unwrap();
        address.save(&path).unwrap();
        assert_eq!(Address::all(&folder, "a").unwrap(), BTreeMap::from([(2, address.clone())]));
        let none = Address { token: "known".to_owned(), ..address.clone() };
        let known = Address::all_with(&folder, "a", |number| (number == 2).then(|| none.clone())).unwrap();
        assert_eq!(known, BTreeMap::from([(2, none)]), "what is known is not read");
        assert!(Address::is_there(&folder, "a", 2) && !Address::is_there(&folder, "a", 1));
        assert!(address.is_near(&own));
        // Another node, and one of the same name with another spool at the path.
        assert!(!address.is_near(&SpoolPlace { node: "m".to_owned(), ..own.clone() }));
        assert!(!Address { token: "other".to_owned(), ..address.clone() }.is_near(&own));
        assert_eq!(Address::of(&SpoolPlace { peer: None, ..own }), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(Address::all(&folder, "a").unwrap_err().kind(), ErrorKind::Config);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{}").unwrap();
        assert_eq!(Address::all(&folder, "a").unwrap_err().kind(), ErrorKind::Corrupt);
        fs::remove_dir_all(folder).unwrap();
    }
}
