//! The ranks that share a file, by way of the adapter for the MPI of the program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use knarr_array::comm::{Comm, Solo};
use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;
use knarr_handover::RankValues;
use knarr_mpi::{Adapter, Mpi, all_can};

use crate::parts::{MultiNodeFile, here};
use crate::pending::note;

/// The ranks of a file.
pub enum Ranks {
    /// Those of a communicator.
    Mpi {
        /// What they do together.
        mpi: Mpi,
        /// For the MPI of this process.
        adapter: &'static Adapter,
        /// Set when a file has begun whose ranks are on several nodes.
        multi_node: OnceLock<Box<MultiNodeFile>>,
    },
    /// One process, which needs no MPI.
    Alone(Solo),
}

// SAFETY: functions of parallel libraries may only be called by threads that may call MPI, one at a time for each file. A
// file is locked while one of its functions runs.
unsafe impl Send for Ranks {}

impl Ranks {
    /// The ranks of the communicator `comm`, an `MPI_Comm`. Collective.
    ///
    /// # Errors
    /// On all ranks, if one of them cannot take part; as for [`Adapter::load`] and [`Adapter::comm`].
    ///
    /// # Safety
    /// `comm` is a communicator of the MPI of this process.
    pub unsafe fn of(comm: usize, directory: &Path) -> Result<Self> {
        let adapter = adapter(directory);
        // SAFETY: the caller's promise.
        let all = unsafe { all_can(comm, adapter.is_ok()) };
        let adapter = adapter?;
        if all == Some(false) {
            return Err(Error::unsupported("a rank on another node has no adapter for its MPI"));
        }
        // SAFETY: the caller's promise.
        Ok(Self::Mpi { mpi: unsafe { adapter.comm(comm) }?, adapter, multi_node: OnceLock::new() })
    }

    fn multi_node(&self) -> Option<&MultiNodeFile> {
        match self {
            Self::Mpi { multi_node, .. } => multi_node.get().map(Box::as_ref),
            Self::Alone(_) => None,
        }
    }

    /// The file that they share is in several spools.
    pub fn set_multi_node(&self, multi_node: MultiNodeFile) {
        if let Self::Mpi { multi_node: place, .. } = self {
            let _ = place.set(Box::new(multi_node));
        }
    }

    /// True if the file that they share is in several spools.
    pub fn span_nodes(&self) -> bool {
        self.multi_node().is_some()
    }

    /// If the file is in several spools, a number for a write that is larger than all that its ranks got before.
    ///
    /// # Errors
    /// Those of the link to the node that makes the file; `Internal` if it is in one spool.
    pub fn next_number(&self) -> Result<u64> {
        self.multi_node().ok_or_else(|| Error::internal("no other node is to be asked"))?.next_number()
    }

    /// True on the lowest rank of each spool that has a part of the file, which speaks for the others.
    pub fn is_first(&self) -> bool {
        let rank = self.comm().rank();
        self.multi_node().map_or(rank == 0, |multi_node| multi_node.is_first(rank))
    }

    /// The header of the file that is handed over in `directory`.
    pub fn header(&self, directory: &Path) -> PathBuf {
        let shared = self.multi_node().and_then(MultiNodeFile::header);
        shared.map_or_else(|| directory.join(HandedOver::HEADER), Path::to_owned)
    }

    /// What is said of the file, with that part of it which is in this spool.
    pub fn note(&self, handed: HandedOver) -> HandedOver {
        match self.multi_node() {
            Some(multi_node) => multi_node.note(handed),
            None => handed,
        }
    }

    /// Where the values of each rank are that are handed over in `directory`.
    pub fn rank_values(&self, directory: &Path) -> Vec<RankValues> {
        let size = self.comm().size();
        match self.multi_node() {
            Some(multi_node) => multi_node.rank_values(size).collect(),
            None => (0..size).map(|rank| here(directory, rank)).collect(),
        }
    }

    /// What they do together.
    pub fn comm(&self) -> &dyn Comm {
        match self {
            Self::Mpi { mpi, .. } => mpi,
            Self::Alone(alone) => alone,
        }
    }

    /// True for one process without MPI.
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Alone(_))
    }

    /// What knows datatypes; `None` without MPI, where there are none.
    pub fn adapter(&self) -> Option<&'static Adapter> {
        match self {
            Self::Mpi { adapter, .. } => Some(adapter),
            Self::Alone(_) => None,
        }
    }

    /// The largest of the numbers that the ranks have. Collective.
    ///
    /// # Errors
    /// `Internal` for what MPI reports.
    pub fn largest(&self, number: u64) -> Result<u64> {
        match self {
            Self::Mpi { mpi, adapter, .. } => adapter.largest(mpi, number),
            Self::Alone(_) => Ok(number),
        }
    }

    /// Has `call` close files when the program begins to end MPI, while ranks still reach each other. If that cannot be, the
    /// launcher tells of it as of a file at `path`.
    pub fn at_end(&self, path: &Path, call: extern "C" fn()) {
        if let Some(Err(error)) = self.adapter().map(|adapter| adapter.at_end(call)) {
            note(path, format!("files that the program does not close are not made: {error}"));
        }
    }
}

/// The adapter for the MPI of this process, which stays loaded. One that cannot be loaded is tried again: files are opened
/// rarely.
fn adapter(directory: &Path) -> Result<&'static Adapter> {
    static LOADED: std::sync::OnceLock<Adapter> = std::sync::OnceLock::new();
    if let Some(adapter) = LOADED.get() {
        return Ok(adapter);
    }
    // SAFETY: a name that ends in a zero; nothing is read from where it leads.
    let is_openmpi = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"ompi_mpi_comm_world".as_ptr()).is_null() };
    let adapter = Adapter::load(&path(directory, if is_openmpi { "openmpi" } else { "mpich" }))?;
    Ok(LOADED.get_or_init(|| adapter))
}

/// Where installations have adapters: beside the library, or beside it in `lib/knarr`.
fn path(directory: &Path, mpi: &str) -> PathBuf {
    directory.join(format!("libknarr_mpi-{mpi}.so"))
}
