//! Components that transfer files to each other: who they are, what they offer, and what was read.

pub(in crate::launch) mod away;
pub(in crate::launch) mod image;
pub(in crate::launch) mod offering;
pub(in crate::launch) mod partners;
pub(in crate::launch) mod telling;
pub(in crate::launch) mod transfer;
