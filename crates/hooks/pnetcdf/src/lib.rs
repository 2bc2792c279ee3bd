//! PnetCDF in programs that `knarr run` has started: values are handed over, and the program goes on.
//!
//! A program that writes a file with PnetCDF calls the functions here, under the same names, as part of
//! `libknarr_preload.so`. If a rule wants the file compressed, its header is written by the program's own library to a file in
//! the spool, so definitions, inquiries and codes are what they always are. Values are copied into the spool, by each rank
//! for itself. When all ranks have closed the file, the launcher makes a compressed file of it. A file that cannot be handed
//! over is left to the library, and the launcher is told why.
//!
//! All functions with MPI's types take them as numbers, so one library serves every MPI; `knarr-mpi`'s adapter does what
//! depends on the MPI.
//!
//! What files of HDF5 need, too, is `knarr-captured`: how a file begins and ends among its ranks, and how it comes from another
//! component.
//!
//! Reading order: [`calls`] (the exported names), [`values`] (which elements, where they are in memory, their types), [`file`] (one
//! captured file, with [`requests`]), [`begin_end`] and [`open_session`] (how it begins and ends), [`reopened`], [`opened`] and [`transcoded`]
//! (other files that the program opens), [`files`], [`variables`], [`real`] (the program's library), [`codes`].

mod begin_end;
mod calls;
mod codes;
mod file;
mod files;
mod open_session;
mod opened;
mod real;
mod reopened;
mod requests;
mod transcoded;
mod values;
mod variables;
