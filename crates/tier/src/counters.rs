//! What is counted of a tier.

use std::sync::atomic::{AtomicU64, Ordering};

/// An amount of a tier: bytes, and files (inodes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes.
    pub bytes: u64,
    /// Files, links and directories.
    pub inodes: u64,
}

impl Space {
    /// More than any tier has.
    pub const UNLIMITED: Self = Self { bytes: u64::MAX, inodes: u64::MAX };

    /// So many bytes of files that are there.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, inodes: 0 }
    }

    /// One file more, which has no bytes.
    pub const fn file() -> Self {
        Self { bytes: 0, inodes: 1 }
    }
}

/// What is counted of a tier, in memory of one process or of all processes of a node.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) limit: AtomicU64,
    pub(crate) taken: AtomicU64,
    pub(crate) most_taken: AtomicU64,
    pub(crate) inode_limit: AtomicU64,
    pub(crate) inodes: AtomicU64,
    /// Bytes of long writes, and the nanoseconds that these took.
    pub(crate) written: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
    /// When the device that the tier stands for is free again: nanoseconds of the clock that all processes of a machine share.
    pub(crate) free_at: AtomicU64,
}

impl Counters {
    pub(crate) fn set_limit(&self, limit: Space) {
        self.limit.store(limit.bytes, Ordering::Relaxed);
        self.inode_limit.store(limit.inodes, Ordering::Relaxed);
    }
}
