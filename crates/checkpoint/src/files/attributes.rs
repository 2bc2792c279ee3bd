//! What a file was like.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// Permission bits that come back. Those that make a program run as somebody else do not.
pub(crate) const PERMISSIONS: u32 = 0o777;

/// What a file was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// When it was written last: seconds since 1970, and nanoseconds of the next second.
    pub modified: (i64, u32),
}

impl Attributes {
    /// Those of a file that was looked at.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        Self { mode: metadata.mode() & PERMISSIONS, modified: (metadata.mtime(), nanoseconds) }
    }

    /// When it was written last, if clocks can say so.
    pub(crate) fn modified(self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.modified;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = match seconds {
            0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
            _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
        };
        second?.checked_add(Duration::from_nanos(u64::from(nanoseconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_times_too() {
        let at = |seconds, nanoseconds| Attributes { mode: 0, modified: (seconds, nanoseconds) }.modified();
        assert_eq!(at(-1, 500_000_000), SystemTime::UNIX_EPOCH.checked_sub(Duration::from_millis(500)));
        assert_eq!(at(1, 0), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1)));
        assert!(at(i64::MIN, 0).is_none() || cfg!(target_os = "linux"));
    }
}
