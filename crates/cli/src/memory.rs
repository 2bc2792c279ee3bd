//! How the system's allocator treats freed memory.

/// Buffers of frames come and go in every thread. The allocator would give each back to the kernel, which clears it again
/// page by page for the next: a tenth of the time of small checkpoints. It keeps some instead; limits like `--max-mem`
/// count what is in use.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn keep_freed() {
    const MIB: i32 = 1 << 20;
    for (parameter, bytes) in
        [(libc::M_MMAP_THRESHOLD, 32 * MIB), (libc::M_TRIM_THRESHOLD, 128 * MIB), (libc::M_TOP_PAD, 16 * MIB)]
    {
        // SAFETY: takes two numbers, and no other thread runs yet. Where it fails all stays as it was.
        unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// Other allocators keep what they please.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_freed() {}
