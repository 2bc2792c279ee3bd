//! The processes that a command runs on: one, or the ranks that mpirun started.

use knarr_array::comm::{self, Comm, ROOT, Solo};
use knarr_array::error::Result;
use knarr_flow::engine::{Engine, Progress, Silent};
use knarr_mpi::Launch;

use crate::arguments::resources::Resources;
use crate::printing::progress::Bar;

/// Does `work` on all processes and returns the exit code, which is not 0 on any if it failed on one. An error that all
/// have is said once.
pub(super) fn on_all(work: impl FnOnce(&dyn Comm) -> Result<u8>) -> Result<u8> {
    let Some(launch) = Launch::of_environment() else { return work(&Solo) };
    let mpi = match launch.join() {
        Ok(mpi) => mpi,
        // Without MPI nobody knows what the others say. Those of one node see the same files.
        Err(error) if launch.local_rank > 0 => return Ok(error.kind().exit_code()),
        Err(error) => return Err(error),
    };
    // What went wrong is said before MPI ends: mpirun kills the others when the first one has failed.
    work(&mpi).or_else(|error| {
        Ok(if mpi.rank() == ROOT || mpi.is_broken() { crate::report_error(&error) } else { error.kind().exit_code() })
    })
}

/// The engine of one of several processes: those of a node share its processors, unless the user says how many each has.
///
/// # Errors
/// As for [`comm::gather`].
pub(super) fn sharing(comm: &dyn Comm, engine: Engine, resources: &Resources) -> Result<Engine> {
    let here = comm::nodes(comm)?.into_iter().filter(|&node| node == comm.node()).count();
    Ok(match resources.asked().says_jobs() {
        true => engine,
        false => Engine { jobs: (engine.jobs / here.max(1)).max(1), ..engine },
    })
}

/// Shows the progress of rank 0, which has about as much to do as the others.
pub(super) fn progress(comm: &dyn Comm, name: String) -> Box<dyn Progress> {
    if comm.rank() == ROOT { Box::new(Bar::new(name)) } else { Box::new(Silent) }
}
