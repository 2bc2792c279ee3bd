//! What runs learn of files that wait in tiers lies beside the profile of the machine, if the user has one: `NAME.learned.json` beside
//! `NAME.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_decisions::learned::Learned;
use knarr_flow::output::AtomicFile;
use std::io::Write as _;

/// The file beside a profile.
pub(in crate::launch) fn beside(profile: &Path) -> PathBuf {
    profile.with_extension("learned.json")
}

/// What earlier runs have learned. One that is damaged says nothing: it is written anew.
pub(in crate::launch) fn read(profile: Option<&Path>) -> Learned {
    let read = |profile: &Path| serde_json::from_slice(&fs::read(beside(profile)).ok()?).ok();
    profile.and_then(read).unwrap_or_default()
}

/// Has later runs know what this one has learned, and what others have learned meanwhile of other families.
///
/// # Errors
/// `Write`. A directory in which this user may not write is none: a centre may have made the profile for all.
pub(in crate::launch) fn save(profile: &Path, learned: Learned) -> Result<()> {
    let path = beside(profile);
    let text = serde_json::to_vec(&learned.with_older(read(Some(profile))));
    let text = text.map_err(|error| Error::internal(error.to_string()))?;
    let file = match AtomicFile::create(&path, true) {
        Err(_) if may_not(profile) => return Ok(()),
        file => file?,
    };
    file.file().write_all(&text).map_err(|error| Error::write(&path, &error))?;
    file.publish().map(drop)
}

/// True if this user may not write beside the profile.
fn may_not(profile: &Path) -> bool {
    let parent = profile.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).map_err(std::io::Error::from);
    found.is_err_and(|error| matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
}
