//! A packed file that takes the place of one that waits in a tier: of what the program has written there itself, or of a file that was
//! encoded in less time than there was. Both lie there for a moment, and one rename says which counts.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::HandedOver;
use super::image::{PACKED_SUFFIX, is_packed_path, path_of};
use crate::tiers::tier_of_spool;
use knarr_array::error::{Error, Result};
use knarr_tier::{Purpose, Room};

/// Name of a link to a packed file that is being made.
const PACKED: &str = "packed";

impl HandedOver {
    /// Where a packed file is to be made of the one that waits, beside the directory. It goes with that. `None` if that cannot be
    /// noted, or if the one that waits is packed already.
    pub fn begin_packed(directory: &Path) -> Option<PathBuf> {
        Self::drop_packed(directory);
        if path_of(directory).is_some_and(|path| is_packed_path(&path)) {
            return None;
        }
        // Whoever was to exchange the links was killed before it had: both lead to the same file.
        let _ = std::fs::remove_file(directory.join(Self::PLAIN));
        let mut name = directory.file_name()?.to_owned();
        name.push(PACKED_SUFFIX);
        let path = directory.with_file_name(name);
        symlink(&path, directory.join(PACKED)).ok().map(|()| path)
    }

    /// Removes what was made of it. False if nothing was begun.
    pub fn drop_packed(directory: &Path) -> bool {
        remove_linked(&directory.join(PACKED))
    }

    /// From now on the packed file at `path`, which is whole and synced, waits in place of the other one, which stays until
    /// [`HandedOver::drop_plain`].
    ///
    /// # Errors
    /// `Write`: all is as it was.
    pub fn exchange_for_packed(directory: &Path, path: &Path) -> Result<()> {
        let (image, plain) = (directory.join(Self::IMAGE), directory.join(Self::PLAIN));
        let keep = || {
            symlink(std::fs::read_link(&image)?, &plain)?;
            std::fs::rename(directory.join(PACKED), &image)
        };
        keep().map_err(|error| {
            let _ = std::fs::remove_file(&plain);
            Error::write(path, &error)
        })
    }

    /// True if a packed file waits in place of another one, which is there yet.
    fn is_packed(directory: &Path) -> bool {
        let leads_to = |name: &str| std::fs::read_link(directory.join(name)).ok();
        leads_to(Self::PLAIN).zip(leads_to(Self::IMAGE)).is_some_and(|(plain, image)| plain != image)
    }

    /// Removes the other file, if a packed one waits in its place.
    pub fn drop_plain(directory: &Path) {
        let plain = directory.join(Self::PLAIN);
        let Some(found) = std::fs::metadata(&plain).ok().filter(|_| Self::is_packed(directory)) else { return };
        if remove_linked(&plain) {
            let tier = tier_of_spool(directory.parent().unwrap_or(directory));
            drop(Room::taken(&tier, tier.counts(&found, Purpose::Values)));
        }
    }
}

/// Removes a link and the file to which it leads. False if that stays.
fn remove_linked(link: &Path) -> bool {
    let removed = std::fs::read_link(link).and_then(std::fs::remove_file);
    let is_gone = removed.is_ok() || removed.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    is_gone && std::fs::remove_file(link).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn whoever_is_killed_while_links_are_exchanged_leaves_one_file_or_both() {
        let top = std::env::temp_dir().join(format!("knarr-whole-{}", std::process::id()));
        let (directory, image) = (top.join("0-5"), top.join("0-5.image"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(&image, b"plain").unwrap();
        symlink(&image, directory.join(HandedOver::IMAGE)).unwrap();
        assert_eq!(HandedOver::directory_of_whole(&image), Some(directory.clone()));
        let begun = HandedOver::begin_packed(&directory).unwrap();
        fs::write(&begun, b"pack").unwrap();
        assert_eq!(HandedOver::directory_of_whole(&begun), Some(directory.clone()));
        // Both links lead to the plain file yet: it is the only one that is whole for certain.
        symlink(&image, directory.join(HandedOver::PLAIN)).unwrap();
        assert!(!HandedOver::is_packed(&directory));
        HandedOver::drop_plain(&directory);
        assert_eq!(fs::read(HandedOver::whole_path(&directory).unwrap()).unwrap(), b"plain");
        // Once more, to the end.
        let begun = HandedOver::begin_packed(&directory).unwrap();
        assert!(!begun.exists() && directory.join(HandedOver::PLAIN).symlink_metadata().is_err());
        fs::write(&begun, b"pack").unwrap();
        HandedOver::exchange_for_packed(&directory, &begun).unwrap();
        assert!(HandedOver::is_packed(&directory) && image.exists());
        assert_eq!(fs::read(HandedOver::whole_path(&directory).unwrap()).unwrap(), b"pack");
        HandedOver::drop_plain(&directory);
        assert!(!image.exists() && !HandedOver::is_packed(&directory) && begun.exists());
        HandedOver::drop_plain(&directory);
        assert!(begun.exists() && HandedOver::begin_packed(&directory).is_none() && begun.exists());
        HandedOver::discard(&directory);
        assert_eq!(fs::read_dir(&top).unwrap().count(), 0);
        fs::remove_dir_all(top).unwrap();
    }
}
