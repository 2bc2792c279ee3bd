//! Launchers of one program: which of those of a node serves it, and how those of several nodes make files together.

pub(in crate::launch) mod encoders;
pub(in crate::launch) mod gathering;
mod image_copy;
pub(in crate::launch) mod lossy_transfers;
pub(in crate::launch) mod node_leader;
pub(in crate::launch) mod nodes;
pub(in crate::launch) mod noting;
