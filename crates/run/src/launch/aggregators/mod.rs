//! Launchers of one program: which of those of a node serves it, and how those of several nodes make files together.

pub(in crate::launch) mod encoders;
pub(in crate::launch) mod first;
pub(in crate::launch) mod flight;
pub(in crate::launch) mod nodes;
pub(in crate::launch) mod noting;
