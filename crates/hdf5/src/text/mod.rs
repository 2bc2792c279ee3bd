//! What is in files, in words.
//!
//! Reading order: `element` (a stored element), `words` (data types), `filters`, `explain` (errors of the library).

pub(crate) mod element;
pub(crate) mod explain;
pub(crate) mod filters;
pub(crate) mod words;
