//! Chains: ordered lists of codecs, written `lorenzo | shuffle | zstd:3`.
//!
//! A [`ChainSpec`] is data: parsed, compared, printed, stored in plans. A [`Chain`] is prepared from it
//! for chunks of one type and shape, and shared by worker threads.

mod prepared;
mod spec;

pub use prepared::{Chain, Scratch};
pub use spec::{ChainSpec, StepSpec};
