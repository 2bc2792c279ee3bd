//! What a rank puts: values in memory or on a disk, and the log of what they are.

pub(crate) mod adjoining;
pub(crate) mod log_file;
pub(crate) mod packed_parts;
pub(crate) mod put;
pub(crate) mod put_spool;
pub(crate) mod puts;
pub(crate) mod records;
pub(crate) mod spill;
