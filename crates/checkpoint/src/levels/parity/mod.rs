//! Reed-Solomon parity of what groups of nodes have.
//!
//! Reading order: `groups`, `stripes`, `group` (who keeps parity of what: without files), `coding` (Reed-Solomon), `file` (on disk),
//! `rebuild` (what is missing).

pub(super) mod coding;
pub(super) mod file;
pub(super) mod group;
pub(super) mod groups;
pub(super) mod rebuild;
mod stripes;
