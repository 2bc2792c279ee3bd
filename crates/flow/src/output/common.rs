//! Whether nodes may write one file together.

use std::fs::File;
use std::path::Path;

use rustix::fs::fstatfs;

/// File systems on which each node sees at once what others have written, and on which writes to bytes that adjoin do not
/// harm each other: those of one machine, on which nodes that reach a file are one, and parallel ones. NFS and SMB are none of
/// them: a client writes back whole pages, with what it knew of the bytes of others. Nor is BeeGFS, whose caches do not know of each
/// other. Numbers: statfs(2) and the headers of Lustre (`LL_SUPER_MAGIC`), GPFS and OrangeFS (`PVFS2_SUPER_MAGIC`).
const COMMON: [u32; 10] = [
    0x0102_1994, // tmpfs
    0xEF53,      // ext2 to ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0x2FC1_2FC1, // ZFS
    0x794C_7630, // overlayfs
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
    0x00C3_6400, // Ceph
    0x2003_0528, // OrangeFS
];

/// True if several nodes may write this file at the same time, each its own bytes.
pub fn is_common(file: &File) -> bool {
    let kind = fstatfs(file).ok().and_then(|found| u32::try_from(found.f_type).ok());
    kind.is_some_and(|kind| COMMON.contains(&kind))
}

/// The same for files beside `target`, which need not be there.
pub fn is_common_beside(target: &Path) -> bool {
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).is_ok_and(|directory| is_common(&directory))
}
