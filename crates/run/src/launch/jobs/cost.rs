//! What jobs take of what a run has.

use std::path::Path;

use knarr_capture::HandedOver;
use knarr_flow::thread_limit::ThreadLimit;

use knarr_decisions::queue::{Cost, Limits};
use knarr_worker::{Effort, Share};

/// Of a file of so many bytes, another thread can encode chunks.
const FOR_A_THREAD: u64 = 4 << 20;
/// Memory for each byte of a file: all of it may be one chunk.
const FOR_A_BYTE: u64 = 8;
/// What a process takes by itself.
const PROCESS: u64 = 24 << 20;
/// No job has less, unless there is no more.
const LEAST: u64 = 64 << 20;

/// For what takes no time of others.
pub(in crate::launch) const NOTHING: Cost = Cost { threads: 1, bytes: 0, link: false, is_least: false };

/// For what is moved from one tier to another: it waits for devices, and holds a few pieces of a file. It neither waits for the memory of
/// what is encoded, nor keeps that from beginning.
pub(in crate::launch) const MOVING: Cost = Cost { threads: 0, bytes: 0, link: false, is_least: false };

/// For a file of so many bytes.
pub(in crate::launch) fn of_bytes(bytes: u64) -> Cost {
    let threads = usize::try_from(bytes / FOR_A_THREAD).unwrap_or(usize::MAX).saturating_add(1);
    let bytes = bytes.saturating_mul(FOR_A_BYTE).saturating_add(PROCESS).max(LEAST);
    Cost { threads, bytes, link: false, is_least: false }
}

/// For what lies at a path: a file, or a directory of the spool. Of others nothing is known.
pub(in crate::launch) fn of_path(path: &Path) -> Cost {
    let handed = || HandedOver::left_in(path).ok().flatten().map(|handed| handed.bytes);
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
    of_bytes(file.or_else(handed).unwrap_or(u64::MAX))
}

/// What a job gets that may take so many bytes.
pub(in crate::launch) fn share(bytes: u64, limits: &Limits, jobs: usize, background: bool) -> Share {
    let may_grow = bytes < limits.most();
    // Where all have to share, processes count.
    let memory = if may_grow { bytes.saturating_sub(PROCESS).max(bytes / 4) } else { bytes };
    let allowed = ThreadLimit::default();
    // The supervisor says in a moment how many it may use.
    allowed.set(1);
    Share { effort: Effort { jobs, background, memory: Some(memory) }, allowed, may_grow }
}
