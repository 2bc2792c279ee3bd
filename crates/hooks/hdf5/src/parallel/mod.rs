//! Files whose values are handed over: those that a program writes with parallel HDF5, and all that HDF5 writes or reads
//! between components.
//!
//! netCDF-C's parallel netCDF-4 files come the same way. If a rule wants such a file compressed, each rank gets a *header*:
//! a file of its own in the spool, written by its own HDF5 without MPI. Calls that change groups, datasets or attributes are
//! collective and the same on all ranks, so the headers are alike. Values never get there: what `H5Dwrite` is given is copied
//! into the spool, in the type of the dataset, and `H5Dread` reads it from there. When all ranks have closed the file, the
//! header of the first rank and the values of all of them make the compressed file.
//!
//! A file that is transferred between components is the same with serial HDF5, as that of one rank. In the component that
//! reads, HDF5 opens the first rank's header.
//!
//! Reading order: [`hooks`] (what the program calls), [`file`] (one captured file), [`header`], [`begin_end`] (how it begins
//! and ends), [`open_session`] (files of other components), [`write`] and [`read`], [`transfer`], [`values`] (what a call moves), [`mpi`],
//! [`opening`] (netCDF-C), [`together`] (files that HDF5 writes or reads itself), and [`hand_back`] (files that HDF5 gets back).

mod begin_end;
mod file;
pub(crate) mod hand_back;
mod header;
pub(crate) mod hooks;
mod mpi;
mod open_session;
pub(crate) mod opening;
mod read;
mod together;
mod transfer;
mod values;
mod write;

pub(crate) use begin_end::{create, ended, exiting, reopened};
pub(crate) use file::any;
pub(crate) use open_session::opened;

pub(crate) use hand_back::named::used;
pub(crate) use hand_back::raw_chunk::RawChunk;
pub(crate) use hand_back::{hand_back_if_nobody_delivers, handed_back};
pub(crate) use hooks::{creation, wrote};
pub(crate) use together::{Closing, Meeting, Opens, Together, meet};
