//! What all captured files of a program share, whichever library writes or reads them: PnetCDF, HDF5 and netCDF-4.
//!
//! A file that a rule wants compressed or transferred is *captured*: its values are copied into the spool, by each rank for itself,
//! and the program's own library keeps the header. The hooks of each library turn its calls into puts and gets; here is how a
//! file begins and ends among its ranks, and how it comes from another component.
//!
//! Reading order: [`wanted`] (which files), [`ranks`] and [`parts`] (who shares a file, on which nodes), [`file`] (one captured
//! file, from its begin to its end), [`pending`] (names of files that are not there yet), [`sessions`] (files that are transferred),
//! [`transcoded`] (files shown in another form), [`whole`] (files that the program writes in a tier), [`sibling_files`] and [`by_name`] (files that one
//! process writes), [`asking`] and [`waiting`] (for the launcher), [`guard()`] (what keeps Knarr apart from the program).

mod asking;
pub mod by_name;
mod file;
mod guard;
mod parts;
mod pending;
mod ranks;
pub mod sessions;
pub mod sibling_files;
mod transcoded;
mod waiting;
mod wanted;
pub mod whole;

pub use asking::hand_back;
pub use file::begin::{Begins, Unplaced, forget, writers};
pub use file::end::{Closed, set_aside};
pub use file::files::{Files, Shared, lock};
pub use file::{CapturedFile, Values};
pub use guard::guard;
pub use parts::Headers;
pub use pending::{await_delivery, await_everywhere, await_named, await_place, note, notify, save};
pub use ranks::Ranks;
pub use transcoded::{TranscodedFile, transcode};
pub use wanted::{Wanted, matched, wanted, wanted_to};
