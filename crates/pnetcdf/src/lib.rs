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
//! HDF5 hands its files over in the same way: what is exported here is how a file begins and ends among its ranks, and how it
//! comes from another component.
//!
//! Reading order: [`calls`] (the exported names), [`access`] (which elements, and where they are in memory), [`values`] and
//! [`element`] (their types), [`wanted`] (which files), [`file`] (one captured file, with [`requests`]), [`begin_end`] (how it begins and ends),
//! [`apart`] (files whose ranks are on several nodes), [`offered`] (files that are transferred to other components),
//! [`incoming`] and [`arriving`] (files that come from one), [`as_file`] (and become files on the disk), [`beside`], [`opened`] and [`shown`] (other files that the
//! program opens), [`filetype`] (elements that a datatype leads to), [`files`], [`ranks`], [`variables`], [`waiting`] (for the launcher), [`asking`] (what it is asked for), [`real`] (the program's library), [`codes`].

mod access;
mod apart;
mod arriving;
mod as_file;
mod asking;
mod awaiting;
mod begin_end;
mod beside;
mod calls;
mod codes;
mod element;
mod file;
mod files;
mod filetype;
mod incoming;
mod offered;
mod opened;
mod parent;
mod ranks;
mod real;
mod requests;
mod shown;
mod values;
mod variables;
mod waiting;
mod wanted;

pub use apart::Headers;
pub use arriving::{Arrived, arrive, header_of};
pub use as_file::{Await, as_file, closed_in, leaves, removed, renamed_to};
pub use asking::hand_back;
pub use begin_end::{
    Agreed, Closed, Ending, Unplaced, agree_on_place, await_delivery, await_named, finish, forget, writers,
};
pub use incoming::{Begun, Incoming, Offered};
pub use offered::publish_closed;
pub use ranks::Ranks;
pub use shown::{Place, show};
pub use wanted::{Wanted, matched, wanted};
