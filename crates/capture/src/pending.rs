//! Names of files that are handed over, on the page of the run and in notes for other nodes.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_flow::urls::url_of;
use knarr_names::{Directory, Key, Kind, Names, SpoolName};

use crate::HandedOver;

impl HandedOver {
    /// Enters the names of the file that is about to be handed over in `directory`: whoever uses one of them waits until the
    /// launcher has made the file. Waits itself for what other nodes make of these names if it `may_wait`.
    ///
    /// # Errors
    /// `Write`: on other nodes nobody waits for the file.
    pub fn enter(&self, names: &Names, directory: &Path, may_wait: bool) -> Result<()> {
        let made = self.rule.made_of(&self.target);
        let is_in_bucket = url_of(&made).is_some();
        // A file has its name as long as it waits in a tier on its way there.
        let is_named = !is_in_bucket || self.rule.place.is_some();
        let Some(place) = place_of(directory).filter(|_| is_named) else {
            // Nothing gets a name here.
            return Ok(());
        };
        let kind = Kind { may_be_given_up: self.parts.is_empty(), ..Kind::default() };
        let notes = Notes { is_maker: self.maker().is_none(), may_wait };
        let store = Kind { is_directory: true, ..kind };
        let of_store =
            if made == self.target || is_in_bucket { Ok(()) } else { enter(names, &made, place, store, &notes) };
        of_store.and(enter(names, &self.target, place, kind, &notes))
    }
}

/// What to do about other nodes.
struct Notes {
    /// This one makes the file.
    is_maker: bool,
    may_wait: bool,
}

/// By what the page knows a directory in a spool.
pub fn place_of(directory: &Path) -> Option<SpoolName<'_>> {
    directory.file_name().and_then(|name| SpoolName::new(name.as_bytes()))
}

/// By what the page and other nodes know a name. `None` if it is none.
pub fn key_of(path: &Path) -> Option<Key<'_>> {
    let (last, parent) = (path.file_name()?, path.parent()?);
    let directory = Directory::of(rustix::fs::CWD, parent.as_os_str().as_bytes())?;
    Some(Key::new(last.as_bytes(), directory))
}

fn enter(names: &Names, path: &Path, place: SpoolName<'_>, kind: Kind, told: &Notes) -> Result<()> {
    let Some(key) = key_of(path) else { return Ok(()) };
    let replaces = path.symlink_metadata().is_ok() || names.find(&key, u64::MAX).is_some();
    let entered = names.enter(&key, place, Kind { replaces, ..kind });
    let Some((notes, generation)) = names.notes().filter(|_| told.is_maker).zip(entered) else { return Ok(()) };
    let noted = notes.notify(&key, replaces, generation, told.may_wait);
    noted.map_err(|error| Error::write(path, &error.into()))
}
