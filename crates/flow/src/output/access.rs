//! Who may read and write a file.

use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt, fchown};

/// Gives `file` permissions, owner and group of another one. Who may not give files away keeps the new owner; the group
/// may still be right.
///
/// # Errors
/// Where permissions cannot be set.
pub fn take_access(file: &File, from: &Metadata) -> std::io::Result<()> {
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (from.uid(), from.gid()) {
        let _ = fchown(file, None, Some(from.gid()));
        let _ = fchown(file, Some(from.uid()), None);
    }
    file.set_permissions(from.permissions())
}
