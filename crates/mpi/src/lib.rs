//! Ranks of MPI as a [`Comm`](knarr_array::comm::Comm).
//!
//! MPIs differ in their ABI, and most who use Knarr have none. So no MPI is linked: `c/knarr_mpi.c` is compiled with the
//! site's `mpicc` to an *adapter*, a shared object that [`Launch::join`] loads in processes that mpirun started.
//! `c/knarr_comm.h` is all that both sides know. Where a program that uses MPI itself is captured, [`Adapter`] is loaded in its
//! processes, for the communicators and datatypes that it hands to its libraries.

mod adapter;
mod agreement;
mod launch;
mod table;

pub use adapter::{Adapter, Datatype, NoKind};
pub use agreement::all_can;
pub use launch::{Launch, NAMED_BY};
pub use table::Mpi;
