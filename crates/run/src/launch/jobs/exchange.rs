//! Another file takes the place of one that programs may open at any moment, in one step: as [`pack`](super::pack) says.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_flow::output::take_access;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::launch::jobs::replacement::Replacement;
use knarr_capture::processes::{Identity, writer};

/// How long to wait for programs that are opening files.
const GATE_SHUTS_WITHIN: Duration = Duration::from_secs(5);

/// The gate, shut. Jobs wait for each other apart from it: how many there are says nothing of programs.
pub(in crate::launch) struct Shut {
    _gate: File,
    _turn: MutexGuard<'static, ()>,
}

/// Shuts the gate until the result is dropped; `None` if programs hold it open for long.
pub(in crate::launch) fn shut(gate: &Path) -> Result<Option<Shut>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let gate = File::open(gate).map_err(|error| Error::read(gate, &error))?;
    let begin = Instant::now();
    while gate.try_lock().is_err() {
        if begin.elapsed() > GATE_SHUTS_WITHIN {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(Some(Shut { _gate: gate, _turn: turn }))
}

/// What came of an exchange.
pub(in crate::launch) enum Exchanged {
    /// The new file has the name.
    Yes,
    /// The original was written meanwhile, and has its name.
    Changed,
    /// The program has removed it.
    Removed,
    /// What the program wrote has another name, which the error tells.
    Displaced(Error),
}

/// Exchanges the names of a file, as it was before, and of a new one. To be called behind the [gate](shut).
///
/// # Errors
/// `Write`.
pub(in crate::launch) fn exchange(
    (original, before): (&File, &Metadata),
    new: &mut Replacement,
    path: &Path,
) -> Result<Exchanged> {
    if !is_unchanged(original, before) {
        return Ok(Exchanged::Changed);
    }
    let write_error = |error: rustix::io::Errno| Error::write(path, &error.into());
    match renameat_with(CWD, new.path(), CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {
            let here = std::fs::symlink_metadata(new.path()).map(|found| Identity::of(&found));
            if here.is_ok_and(|here| here == Identity::of(before)) && is_unchanged(original, before) {
                // The original loses its last name when `new` is dropped.
            } else {
                return Ok(match new.give_back(path) {
                    Ok(()) => Exchanged::Changed,
                    Err(error) => Exchanged::Displaced(error),
                });
            }
        }
        Err(rustix::io::Errno::NOENT) => return Ok(Exchanged::Removed),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            rustix::fs::rename(new.path(), path).map_err(write_error)?;
        }
        Err(error) => return Err(write_error(error)),
    }
    for directory in [path.parent(), new.path().parent()].into_iter().flatten() {
        // Some file systems cannot sync directories; the exchange itself has succeeded.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    Ok(Exchanged::Yes)
}

/// True if the file is as long and as old as it was, with the same owner, permissions and number of names, and nobody
/// has it open for writing.
pub(in crate::launch) fn is_unchanged(file: &File, before: &Metadata) -> bool {
    let look = |found: &Metadata| {
        let time = (found.mtime(), found.mtime_nsec());
        (found.len(), time, found.nlink(), found.mode(), found.uid(), found.gid())
    };
    file.metadata().is_ok_and(|now| look(&now) == look(before)) && writer(Identity::of(before)).is_none()
}

/// Permissions, owner, times and extended attributes of the original, as far as this user may set them.
pub(in crate::launch) fn copy_properties(original: &File, before: &Metadata, packed: &Path) -> std::io::Result<()> {
    let target = File::options().write(true).open(packed)?;
    take_access(&target, before)?;
    copy_attributes(original, &target);
    target.set_times(std::fs::FileTimes::new().set_accessed(before.accessed()?).set_modified(before.modified()?))
}

/// Extended attributes of the original, as far as this user may set them.
pub(in crate::launch) fn copy_attributes(original: &File, target: &File) {
    let mut names = vec![0u8; 1 << 16];
    let Ok(len) = rustix::fs::flistxattr(original, &mut names) else { return };
    let mut value = vec![0u8; 1 << 16];
    for name in names.get(..len).unwrap_or_default().split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        // Attributes of the system (labels, capabilities) are not ours to set.
        if let Ok(len) = rustix::fs::fgetxattr(original, name, &mut value) {
            let set = value.get(..len).unwrap_or_default();
            let _ = rustix::fs::fsetxattr(target, name, set, rustix::fs::XattrFlags::empty());
        }
    }
}
