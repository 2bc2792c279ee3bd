//! Processes of one component that have a session open by serial HDF5. They do not know of each other: the session ends for
//! the component when the last of those that have it open closes it.

use std::fs::File;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;

/// A process that has a session open. The lock goes with the process, however that ends.
pub(super) struct Taking {
    path: PathBuf,
    open: File,
}

impl Taking {
    /// Begins to take the session in `directory` for the component `reader`. `None` if that has taken it to the end meanwhile.
    ///
    /// # Errors
    /// `Write`.
    pub(super) fn begin(directory: &Path, reader: &str) -> Result<Option<Self>> {
        let path = directory.join(format!("open.{reader}"));
        let open = match File::options().create(true).truncate(false).write(true).open(&path) {
            // It went with the directory.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| Error::write(&path, &error))?,
        };
        // Whoever ends the session holds the lock for a moment.
        open.lock_shared().map_err(|error| Error::write(&path, &error))?;
        let is_unread = HandedOver::is_unread(directory, reader) && path.exists();
        Ok(is_unread.then_some(Self { path, open }))
    }

    /// This process has what it wants. `end` is called if no other one has the session open.
    pub(super) fn end(self, end: impl FnOnce()) {
        let Self { path, open } = self;
        // Children that were forked meanwhile have the lock, too.
        let _ = open.unlock();
        let Ok(last) = File::options().write(true).open(&path) else { return };
        if last.try_lock().is_ok() {
            end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_capture::Reading;

    #[test]
    fn the_last_of_those_that_have_it_open_ends_a_session() {
        let directory = std::env::temp_dir().join(format!("knarr-taking-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(HandedOver::PUBLISHED), b"").unwrap();
        let [first, second] = [(); 2].map(|()| Taking::begin(&directory, "a").unwrap().unwrap());
        let other = Taking::begin(&directory, "b").unwrap().unwrap();
        let mut ended = 0;
        first.end(|| ended += 1);
        assert_eq!(ended, 0);
        second.end(|| {
            HandedOver::note(&directory, "a", Reading::Done).unwrap();
            ended += 1;
        });
        assert_eq!(ended, 1);
        assert!(Taking::begin(&directory, "a").unwrap().is_none());
        other.end(|| ended += 1);
        assert_eq!(ended, 2);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(Taking::begin(&directory, "b").unwrap().is_none());
    }
}
