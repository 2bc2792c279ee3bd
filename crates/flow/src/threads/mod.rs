//! Threads, and what they work with.
//!
//! Reading order: [`engine`] (codecs, profile, threads and memory), [`thread_limit`] (how many threads may work), `memory` (what the
//! allocator does), [`ordered`] (work in threads, handed on in order).

pub mod engine;
pub(crate) mod memory;
pub mod ordered;
pub mod thread_limit;
