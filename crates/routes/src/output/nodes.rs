//! On which nodes the ranks are: who is beside the one that makes the file.

use std::path::{Path, PathBuf};

use knarr_array::comm::{self, Comm, ROOT, all_gather};
use knarr_array::error::{Error, Result};

/// The other ranks, as one of them sees them.
pub(super) struct Nodes {
    /// The rank that makes the file is on this node.
    pub(super) is_near: bool,
    /// Ranks on this node.
    pub(super) ranks_here: usize,
}

impl Nodes {
    /// Checks that all ranks begin the same file. Collective.
    ///
    /// # Errors
    /// On all ranks: `Usage` if they do not; those of the [`Comm`].
    pub(super) fn exchange(comm: &dyn Comm, path: &Path) -> Result<Self> {
        let all = all_gather(comm, &comm::written(&(path, comm.node()))?)?;
        let all = all.iter().map(|bytes| comm::read(bytes)).collect::<Result<Vec<(PathBuf, usize)>>>()?;
        if let Some((rank, (other, _))) = all.iter().enumerate().find(|(_, (other, _))| other.as_path() != path) {
            return Err(Error::usage(format!("rank {rank} creates '{}'", other.display()))
                .hint("create the same file on all ranks")
                .at(path.display().to_string()));
        }
        let ranks_here = all.iter().filter(|(_, node)| *node == comm.node()).count();
        let is_near = all.get(ROOT).is_some_and(|(_, node)| *node == comm.node());
        Ok(Self { is_near, ranks_here })
    }
}
