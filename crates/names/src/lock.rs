//! The lock of those that make or open files which the program itself writes in tiers: see [`crate::written`].

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::path::Path;

/// Name of the file beside the page that is locked.
const LOCK: &[u8] = b"written";

/// What a process holds that makes or opens a written file, or the launcher that takes one for closed.
pub struct Lock(OwnedFd);

impl Lock {
    /// Of the spool whose path this is, with a slash behind it.
    pub(crate) fn of(spool: &[u8], how: FlockOperation) -> Result<Self, Errno> {
        let path = Path::of(&[spool, LOCK]).ok_or(Errno::NAMETOOLONG)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(CWD, path.as_c_str(), flags, Mode::RUSR | Mode::WUSR)?;
        loop {
            match flock(&file, how) {
                Err(Errno::INTR) => {}
                locked => return locked.map(|()| Self(file)),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that another thread has forked may have the file open, too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
