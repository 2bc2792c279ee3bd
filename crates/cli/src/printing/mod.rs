//! What people see.
//!
//! Reading order: `terminal` (tables), `totals` (many files together), `progress`.

pub(crate) mod progress;
pub(crate) mod terminal;
pub(crate) mod totals;
