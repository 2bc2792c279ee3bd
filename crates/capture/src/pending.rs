//! Names of files that are handed over, on the page of the run.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use knarr_flow::network::url_of;
use knarr_names::{Directory, Key, Kind, Names, Place};

use crate::HandedOver;

impl HandedOver {
    /// Enters the names of the file that is about to be handed over in `directory`: whoever uses one of them waits until the
    /// launcher has made the file. Returns the number of its generation; `None` if it has no name that anybody could wait for.
    pub fn enter(&self, names: &Names, directory: &Path) -> Option<u64> {
        let made = self.rule.made_of(&self.target);
        if url_of(&made).is_some() {
            // Nothing gets a name here.
            return None;
        }
        let place = place_of(directory)?;
        let kind = Kind { replaces: false, may_be_given_up: self.parts.is_empty(), is_directory: false };
        if made != self.target {
            let kind = Kind { is_directory: true, ..kind };
            enter(names, &made, place, kind);
        }
        enter(names, &self.target, place, kind)
    }
}

/// By what the page knows a directory in a spool.
pub fn place_of(directory: &Path) -> Option<Place<'_>> {
    directory.file_name().and_then(|name| Place::new(name.as_bytes()))
}

fn enter(names: &Names, path: &Path, place: Place<'_>, kind: Kind) -> Option<u64> {
    let (last, parent) = (path.file_name()?, path.parent()?);
    let directory = Directory::of(rustix::fs::CWD, parent.as_os_str().as_bytes())?;
    let key = Key::new(last.as_bytes(), directory);
    let replaces = path.symlink_metadata().is_ok() || names.find(&key, u64::MAX).is_some();
    names.enter(&key, place, Kind { replaces, ..kind })
}
