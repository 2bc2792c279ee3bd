//! What the system's allocator does with freed memory.

use std::hint::black_box;

/// The largest block that glibc takes as a hint, less what it adds to blocks.
const LARGEST_HINT: usize = (32 << 20) - (64 << 10);

/// Lets the allocator keep some freed memory. The buffers of chunks and frames come and go; it would give each back to the
/// kernel, which clears it again page by page for the next: up to a fifth of the time of encoding.
///
/// glibc adapts to programs: once a large block was freed, blocks up to its size are kept for the next (mallopt(3),
/// `M_MMAP_THRESHOLD`). So one is asked for and freed, untouched. A program that has set that parameter itself keeps its
/// setting, and other allocators do as they please.
pub(crate) fn keep_freed() {
    drop(black_box(Vec::<u8>::with_capacity(LARGEST_HINT)));
}
