//! Files that a program writes by calls of Knarr's own: it hands its values over from all its ranks, and one of them sends
//! them through `compress` meanwhile.
//!
//! Reading order: `definitions` (what the file is to hold), [`Options`], `delivery` (what becomes of the values),
//! [`Output`] (what a program calls).

mod definitions;
mod delivery;
mod nodes;
mod options;
mod session;

pub use definitions::Value;
pub use delivery::Written;
pub use options::Options;
pub use session::Output;
