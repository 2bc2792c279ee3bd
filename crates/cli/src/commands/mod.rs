//! The commands, one file or folder each; `repack_tasks` and `tasks` are what `knarr worker` does for them.

pub(crate) mod advise;
pub(crate) mod chains;
pub(crate) mod checkpoint;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod hash;
pub(crate) mod hdf5_filter;
pub(crate) mod inspect;
pub(crate) mod profile;
pub(crate) mod repack;
pub(crate) mod repack_tasks;
pub(crate) mod run;
pub(crate) mod tasks;
pub(crate) mod tiers;
pub(crate) mod train;
pub(crate) mod verify;
