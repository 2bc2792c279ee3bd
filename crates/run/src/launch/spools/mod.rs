//! Directories of a run: the spool, what it takes, what is moved to a disk, and what killed runs have left.

mod copies;
pub(in crate::launch) mod left_behind;
pub(in crate::launch) mod on_disk;
pub(in crate::launch) mod recover;
pub(in crate::launch) mod run_directory;
pub(in crate::launch) mod scratch;
pub(in crate::launch) mod spool;
pub(in crate::launch) mod spool_usage;
pub(in crate::launch) mod waiting;
