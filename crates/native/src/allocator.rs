//! What the system's allocator does with freed memory, for a program whose memory is short.

/// Bytes of a block from which on it is given back to the kernel as soon as it is freed.
#[cfg(target_env = "gnu")]
const GIVEN_BACK: libc::c_int = 1 << 20;

/// Lets the allocator of this process give freed memory back, at some cost in time: what it keeps counts as memory of the
/// process, and can be as much again as what is in use. It is the process's setting, so a program may call it, a library
/// may not. Other allocators than glibc's do as they please.
pub fn give_back_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers; memory that is in use stays as it is.
    unsafe {
        // A value that was set keeps glibc from adapting it to the blocks that are freed (mallopt(3)).
        libc::mallopt(libc::M_MMAP_THRESHOLD, GIVEN_BACK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, GIVEN_BACK);
        // Each thread's own heap would keep holes that no other thread may use.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
