//! What all captured files of a program share, whichever library writes or reads them: PnetCDF, HDF5 and netCDF-4.
//!
//! A file that a rule wants compressed or transferred is *captured*: its values are copied into the spool, by each rank for itself,
//! and the program's own library keeps the header. The hooks of each library turn its calls into puts and gets; here is how a
//! file begins and ends among its ranks, and how it comes from another component.
//!
//! Reading order: [`wanted`] (which files), [`ranks`] and [`parts`] (who shares a file, on which nodes), [`begin`], [`end`],
//! [`pending`] (names of files that are not there yet), [`parent`] (directories that are renamed meanwhile), [`sessions`] (files
//! that are transferred), [`presented`] (files shown in another form), [`asking`] and [`waiting`] (for the launcher).

mod asking;
mod begin;
mod end;
mod parent;
mod parts;
mod pending;
mod presented;
mod ranks;
pub mod sessions;
mod waiting;
mod wanted;

pub use asking::hand_back;
pub use begin::{Agreed, Unplaced, agree_on_place, begin, forget, make_directory, writers};
pub use end::{Closed, Ending, finish};
pub use parts::Headers;
pub use pending::{await_delivery, await_elsewhere, await_named, await_place, save, tell};
pub use presented::{Place, show};
pub use ranks::Ranks;
pub use wanted::{Wanted, matched, wanted, wanted_to};
