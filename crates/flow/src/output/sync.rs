//! Makes directories durable.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::io::Errno;

use knarr_array::error::{Error, ErrorKind, Result};

/// Makes the name durable that an output has got in `directory`. Some file systems cannot do that, and some directories
/// may be written but not opened: there it is left to the system.
///
/// # Errors
/// `Write`: the output is whole and has its name.
pub(super) fn sync_name(directory: &Path, output: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    match synced {
        Err(error) if !cannot(&error) && error.kind() != io::ErrorKind::PermissionDenied => {
            let what = "it is complete and in its place, but that may be lost if the machine stops";
            Err(Error::new(ErrorKind::Write, format!("{what}: its directory could not be synced: {error}"))
                .hint("look after the disk, then repeat this or run 'sync'")
                .at(output.display().to_string()))
        }
        _ => Ok(()),
    }
}

/// Makes everything in a directory of very many files durable. `directory` was opened before anything was written there:
/// syncfs(2) tells those of a failed write that had a descriptor then.
///
/// # Errors
/// Those of writing, which may have been long ago, and in another directory of the file system.
pub(super) fn sync_many(directory: &File, path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if syncfs_tells(directory) {
        match rustix::fs::syncfs(directory).map_err(io::Error::from) {
            Err(error) if cannot(&error) => {}
            done => return done,
        }
    }
    sync_tree(path)
}

/// Makes new files below a directory durable. `directory` was opened before anything was written there.
///
/// # Errors
/// As for [`sync_many`].
pub(super) fn sync_files<'a>(directory: &File, files: impl ExactSizeIterator<Item = &'a File>) -> io::Result<()> {
    /// Fewer files are faster one by one.
    #[cfg(target_os = "linux")]
    const FEW: usize = 4;
    #[cfg(target_os = "linux")]
    if files.len() > FEW && syncfs_tells(directory) {
        match rustix::fs::syncfs(directory).map_err(io::Error::from) {
            Err(error) if cannot(&error) => {}
            done => return done,
        }
    }
    for file in files {
        file.sync_all()?;
    }
    Ok(())
}

/// Before Linux 5.8 syncfs(2) does not tell of failed writes, and an overlay does not know those of the file systems below.
#[cfg(target_os = "linux")]
fn syncfs_tells(directory: &File) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    let system = rustix::system::uname();
    let is_overlay = || rustix::fs::fstatfs(directory).is_ok_and(|found| u64::try_from(found.f_type) == Ok(OVERLAY));
    version(&system.release().to_string_lossy()) >= Some((5, 8)) && !is_overlay()
}

/// Version of a kernel: `4.18.0-553.el8.x86_64`.
#[cfg(target_os = "linux")]
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Makes everything in a directory durable, file by file.
///
/// # Errors
/// Those of writing.
pub(super) fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    match File::open(path)?.sync_all() {
        Err(error) if cannot(&error) => Ok(()),
        done => done,
    }
}

/// True if a file system does not have what was asked for: nothing has failed.
fn cannot(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| lacks(Errno::from_raw_os_error(code)))
}

/// As [`cannot`], of a call.
pub(super) fn lacks(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_tell_are_known_by_their_version() {
        for (release, known) in [
            ("4.18.0-553.el8_10.x86_64", Some((4, 18))),
            ("5.8.0", Some((5, 8))),
            ("6.1-rc3+", Some((6, 1))),
            ("10.0.1", Some((10, 0))),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(version(release), known, "{release}");
        }
        assert!(version("4.18.0") < Some((5, 8)) && version("5.10.0") >= Some((5, 8)) && None < Some((5, 8)));
    }
}
