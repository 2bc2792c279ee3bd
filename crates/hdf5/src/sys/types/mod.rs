//! Data types, and values of them in memory.
//!
//! Reading order: `datatype`, `memory`, `inside` (values without pointers and addresses).

pub(in crate::sys) mod datatype;
pub(in crate::sys) mod inside;
pub(in crate::sys) mod memory;
#[cfg(test)]
pub(in crate::sys) mod modern_references;
