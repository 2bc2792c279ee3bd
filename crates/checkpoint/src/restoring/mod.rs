//! From a set to files and variables, and to the word that nothing is wrong with it.
//!
//! Reading order: `restore`, `extract` (single variables), `verify`.

pub mod extract;
pub mod restore;
pub mod verify;
