//! What has waited in a tier stays there as a copy when it is in its place.

use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use knarr_capture::{HandedOver, tier_of_spool};
use knarr_names::Identity;
use knarr_tier::Purpose;
use rustix::fs::{Stat, fstat};

/// What a copy has at the end of its name.
const SUFFIX: &str = "copy";
/// Systems note when a file was changed by a clock that moves in steps, none of which is longer.
const STEP: Duration = Duration::from_millis(11);

/// A copy of a file that is in its place.
pub(in crate::launch) struct KeptCopy {
    pub(in crate::launch) generation: u64,
    /// Where the file has its place.
    pub(in crate::launch) target: PathBuf,
    /// The [`Identity`] of the file there, as text.
    pub(in crate::launch) name: String,
    /// Number of the tier.
    pub(in crate::launch) tier: usize,
    pub(in crate::launch) path: PathBuf,
    /// Bytes that it takes there.
    pub(in crate::launch) bytes: u64,
}

/// Leads whoever reads the file with an [`Identity`] to the copy at a path.
type Lead = Box<dyn FnOnce(&str, &Path) -> io::Result<()> + Send>;

/// Keeps a file in its tier when it has moved.
pub(in crate::launch) struct Keeping {
    pub(in crate::launch) generation: u64,
    pub(in crate::launch) tier: usize,
    /// How readers hear of it.
    pub(in crate::launch) lead: Lead,
    /// How the launcher hears of it.
    pub(in crate::launch) tell: Box<dyn FnOnce(KeptCopy) + Send>,
}

impl Keeping {
    /// The file of a directory, which is about to be removed, is in its place, where it has this [`Identity`]. What fails costs the copy.
    pub(in crate::launch::jobs) fn keep(self, directory: &Path, target: &Path, name: String) {
        let Self { generation, tier, lead, tell } = self;
        let Some(image) = HandedOver::whole_path(directory) else { return };
        let path = image.with_extension(SUFFIX);
        let keep = || -> io::Result<u64> {
            // The directory goes with its own link to it. A kill leaves the one or the other.
            fs::hard_link(&image, &path)?;
            // Whoever asks for its access and times is told those of the file.
            let found = fs::metadata(target)?;
            let copy = File::open(&path)?;
            copy.set_permissions(Permissions::from_mode(found.mode() & 0o7777))?;
            copy.set_times(FileTimes::new().set_accessed(found.accessed()?).set_modified(found.modified()?))?;
            let takes = tier_of_spool(path.parent().unwrap_or(&path)).counts(&copy.metadata()?, Purpose::Values);
            lead(&name, &path).map(|()| takes)
        };
        match keep() {
            Ok(bytes) => {
                let target = target.to_owned();
                tell(KeptCopy { generation, target, name, tier, path, bytes });
            }
            Err(_) => drop(fs::remove_file(path)),
        }
    }
}

/// A file that is about to get its name, as the system knows it.
pub(super) struct Unnamed {
    file: File,
    found: Stat,
}

impl Unnamed {
    /// `None` if nothing is to be known of it.
    pub(super) fn of(file: &File) -> Option<Self> {
        let file = file.try_clone().ok()?;
        file.sync_all().ok()?;
        let changed = file.metadata().ok()?.modified().ok()?;
        // Whoever changes it when it has its name does so at another time by that clock, too.
        if let Ok(since) = SystemTime::now().duration_since(changed)
            && let Some(left) = STEP.checked_sub(since)
        {
            std::thread::sleep(left);
        }
        let found = fstat(&file).ok()?;
        Some(Self { file, found })
    }

    /// The [`Identity`] of the file, which has the name `target` now; `None` if somebody has changed it since.
    pub(super) fn named(self, target: &Path) -> Option<String> {
        let now = fstat(&self.file).ok()?;
        let same = |found: &Stat| (found.st_dev, found.st_ino, found.st_size, found.st_mtime, found.st_mtime_nsec);
        let is_there = rustix::fs::stat(target).is_ok_and(|found| same(&found) == same(&now));
        (is_there && same(&now) == same(&self.found)).then(|| Identity::of(&now))?.map(|identity| identity.name())
    }
}
