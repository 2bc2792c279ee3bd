//! Times of files as file systems tell them: seconds since 1970, and nanoseconds.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Seconds, then nanoseconds of the next second.
pub(super) type FileTime = (i64, i64);

pub(super) fn file_time(time: SystemTime) -> FileTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()))
}

/// Now, by the clock that file systems of this machine date by. It ticks every few milliseconds: by a finer one a new file
/// may be older than now.
pub(super) fn now() -> FileTime {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    (time.tv_sec, time.tv_nsec)
}

/// `None` if `to` is earlier than `from`.
pub(super) fn between(from: FileTime, to: FileTime) -> Option<Duration> {
    let nanoseconds = |(seconds, rest): FileTime| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    u64::try_from(nanoseconds(to) - nanoseconds(from)).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_not_older_than_now() {
        let path = std::env::temp_dir().join(format!("knarr-times-{}", std::process::id()));
        for _ in 0..300 {
            let before = now();
            std::fs::write(&path, b"x").unwrap();
            let metadata = path.metadata().unwrap();
            std::fs::remove_file(&path).unwrap();
            assert!(file_time(metadata.modified().unwrap()) >= before);
            assert!(metadata.created().map_or(true, |created| file_time(created) >= before));
        }
    }
}
