//! Times of files as file systems tell them: seconds since 1970, and nanoseconds.

use std::time::{Duration, SystemTime};

/// Seconds, then nanoseconds of the next second.
pub(super) type FileTime = (i64, i64);

pub(super) fn file_time(time: SystemTime) -> FileTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

/// `None` if `to` is earlier than `from`.
pub(super) fn between(from: FileTime, to: FileTime) -> Option<Duration> {
    let nanoseconds = |(seconds, rest): FileTime| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    u64::try_from(nanoseconds(to) - nanoseconds(from)).ok().map(Duration::from_nanos)
}
