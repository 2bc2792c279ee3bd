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
//! and ends), [`arriving`] (files of other components), [`write`] and [`read`], [`order`] (which of writes that overlap counts), [`through`] (how far each rank is with collective ones), [`transfer`], [`selection`], [`shape`] (which elements, in which order), [`convert`] (their types),
//! [`members`] (which of their bytes), [`memory`] (where they lie), [`mpi`], [`opening`] (netCDF-C), and [`together`] (files that HDF5 writes or reads itself).

mod arriving;
mod begin_end;
mod convert;
mod file;
mod header;
pub(crate) mod hooks;
mod members;
mod memory;
mod mpi;
pub(crate) mod opening;
mod order;
mod read;
mod selection;
mod shape;
mod through;
mod together;
mod transfer;
mod write;

pub(crate) use arriving::opened;
pub(crate) use begin_end::{await_named, create, ended, exiting, reopened};
pub(crate) use file::any;
pub(crate) use hooks::{creation, refuses_chunks, wrote};
pub(crate) use together::{Closing, Meeting, Opens, Together, meet};
