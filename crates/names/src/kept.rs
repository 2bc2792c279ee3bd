//! Copies of files that are in their places: what waited in a tier stays there as long as nobody needs the room, and whoever only
//! reads the file reads its copy.
//!
//! A file may be changed at any moment, by whomever. So a copy belongs to no name, but to what the system says of the file in its place
//! ([`Identity`]): a link with that name leads to the copy. Of a file that is another one now, or has changed, there is no such link.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, FileType, Stat, Timespec, Timestamps, UTIME_NOW, unlinkat, utimensat};

use crate::launcher::Keeper;
use crate::path::Path;
use crate::program::Names;

/// The directory beside the page with links to copies.
pub const KEPT: &str = "kept";

/// Numbers in the name of a link.
const NUMBERS: usize = 7;
/// Characters of each, with what stands before it.
const CHARACTERS: usize = 17;

/// What the system says of a file: it is another one, or has been changed, if it says anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity([u8; NUMBERS * CHARACTERS]);

impl Identity {
    /// That of a file; `None` of what is none.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types depend on the system")]
    pub fn of(found: &Stat) -> Option<Self> {
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return None;
        }
        let numbers: [u64; NUMBERS] = [
            found.st_dev as u64,
            found.st_ino as u64,
            found.st_size as u64,
            found.st_mtime as u64,
            found.st_mtime_nsec as u64,
            found.st_ctime as u64,
            found.st_ctime_nsec as u64,
        ];
        let mut text = [b'-'; NUMBERS * CHARACTERS];
        for (number, place) in numbers.iter().zip(text.chunks_exact_mut(CHARACTERS)) {
            for (at, digit) in place.iter_mut().skip(1).enumerate() {
                *digit = b"0123456789abcdef".get((number >> (60 - 4 * at) & 15) as usize).copied().unwrap_or(b'0');
            }
        }
        Some(Self(text))
    }

    /// The same as text, by which the launcher knows the copy.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Names {
    /// True if some file has a copy.
    #[inline]
    pub fn has_copies(&self) -> bool {
        self.page.head.kept.load(Ordering::Acquire) != 0
    }

    fn link_of(&self, identity: &Identity) -> Option<Path> {
        Path::of(&[self.spool()?, KEPT.as_bytes(), b"/", &identity.0])
    }

    /// The copy of a file.
    pub fn copy_of(&self, identity: &Identity) -> Option<Path> {
        Path::read_link(&self.link_of(identity)?)
    }

    /// Somebody reads the copy: others are given up first.
    pub fn reads_copy(&self, identity: &Identity) {
        self.page.head.copies_read.fetch_add(1, Ordering::Relaxed);
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        if let Some(link) = self.link_of(identity) {
            let _ = utimensat(CWD, link.as_c_str(), &now, AtFlags::SYMLINK_NOFOLLOW);
        }
    }

    /// Somebody may change the file: nobody is led to its copy any more. The launcher removes that.
    pub fn give_copy_up(&self, identity: &Identity) {
        if let Some(link) = self.link_of(identity) {
            let _ = unlinkat(CWD, link.as_c_str(), AtFlags::empty());
        }
    }
}

impl Keeper {
    fn link_to_copy(&self, name: &str) -> PathBuf {
        let page: &CStr = &self.path;
        std::path::Path::new(OsStr::from_bytes(page.to_bytes())).with_file_name(KEPT).join(name)
    }

    /// Whoever only reads the file with this [`Identity`] reads its copy at `path` from now on.
    ///
    /// # Errors
    /// Those of the file system: nobody is led there.
    pub fn keep(&self, name: &str, path: &std::path::Path) -> io::Result<()> {
        let link = self.link_to_copy(name);
        link.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        symlink(path, link)?;
        self.page.head.kept.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// When somebody has last read the copy of the file with this [`Identity`], or since when it is there; `None` if it was given up.
    pub fn copy_was_read(&self, name: &str) -> Option<SystemTime> {
        std::fs::symlink_metadata(self.link_to_copy(name)).ok()?.modified().ok()
    }

    /// Nobody is led any more to a copy that is kept.
    pub fn drop_copy(&self, name: &str) {
        let _ = std::fs::remove_file(self.link_to_copy(name));
        self.page.head.kept.fetch_sub(1, Ordering::AcqRel);
    }

    /// How often somebody has opened a copy to read.
    pub fn copies_read(&self) -> u64 {
        self.page.head.copies_read.load(Ordering::Relaxed)
    }
}
