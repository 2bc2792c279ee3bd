//! Directories of a run: the spool, what it takes, what is moved to a disk, and what killed runs have left.

pub(in crate::launch) mod drain;
pub(in crate::launch) mod left_behind;
pub(in crate::launch) mod recover;
pub(in crate::launch) mod scratch;
pub(in crate::launch) mod spool;
pub(in crate::launch) mod stage;
pub(in crate::launch) mod taken;
