//! How the launcher of a component is reached from other nodes.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_link::Peer;
use serde::{Deserialize, Serialize};

use super::names::{ADDRESS, name_of};
use knarr_array::path_bytes;

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

    /// That of the launcher with this number, of component `name` in the directory `rendezvous`; `None` if it answers nobody.
    ///
    /// # Errors
    /// `Read`, `Corrupt`; `Config` if others than this user can read it or have written it.
    pub fn of(rendezvous: &Path, name: &str, number: u64) -> Result<Option<Self>> {
        Self::read(&rendezvous.join(name).join(name_of(ADDRESS, number)))
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
    fn an_address_is_for_this_user() {
        let folder = std::env::temp_dir().join(format!("knarr-address-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        let peer = Peer { node: "n".to_owned(), places: Vec::new(), secret: Secret::new().unwrap() };
        let address = Address { peer, spool: folder.join("spool"), token: "token".to_owned() };
        let path = folder.join("a").join("address.2");
        let of = |number| Address::of(&folder, "a", number);
        assert_eq!(of(2).unwrap(), None);
        address.save(&path).unwrap();
        address.save(&path).unwrap();
        assert_eq!((of(2).unwrap(), of(1).unwrap()), (Some(address), None));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(of(2).unwrap_err().kind(), ErrorKind::Config);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{}").unwrap();
        assert_eq!(of(2).unwrap_err().kind(), ErrorKind::Corrupt);
        fs::remove_dir_all(folder).unwrap();
    }
}
