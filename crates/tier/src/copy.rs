//! Moves files from tier to tier.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::tier::{Purpose, Tier};

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Copies the file `from` into a tier as `to`, and syncs it. If that fails nothing is at `to`.
///
/// # Errors
/// Those of the file system; `StorageFull` if the tier has no space for all of it.
pub fn copy_file(from: &Path, tier: &dyn Tier, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let length = source.metadata()?.len();
    let mut target = tier.create(to, Purpose::Values)?;
    let mut copy = || {
        if !target.reserve(length) {
            return Err(ErrorKind::StorageFull.into());
        }
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < length {
            let bytes = usize::try_from(length - at).map_or(PIECE, |left| left.min(PIECE));
            let piece = piece.get_mut(..bytes).ok_or(ErrorKind::Other)?;
            source.read_exact_at(piece, at)?;
            target.write_all_at(piece, at)?;
            at += bytes as u64;
        }
        target.set_len(length)?;
        target.sync()
    };
    copy().inspect_err(|_| drop(tier.free(to)))
}

/// Makes sure that the names in a directory are there after a crash, where the file system can and this user may.
///
/// # Errors
/// Those of the file system.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory).and_then(|opened| opened.sync_all()) {
        Err(error) if CANNOT_SYNC.contains(&error.kind()) => Ok(()),
        synced => synced,
    }
}

/// What file systems say that sync no directories, and of directories of others.
const CANNOT_SYNC: [ErrorKind; 3] = [ErrorKind::InvalidInput, ErrorKind::Unsupported, ErrorKind::PermissionDenied];
