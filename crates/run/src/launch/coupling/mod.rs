//! Components that transfer files to each other: who they are, what they offer, and what was read.

pub(in crate::launch) mod partners;
pub(in crate::launch) mod remote_components;
pub(in crate::launch) mod session_mirror;
pub(in crate::launch) mod session_server;
pub(in crate::launch) mod status_report;
pub(in crate::launch) mod transfer;
