//! What ranks have put, read back: which puts meet a region, and where their values are.

pub(crate) mod assembled_puts;
pub(crate) mod boxes;
pub(crate) mod copying;
pub(crate) mod moves;
pub(crate) mod pattern;
pub(crate) mod rank_values;
pub(crate) mod replay;
pub(crate) mod runs;
pub(crate) mod seen;
pub(crate) mod source;
pub(crate) mod variable_puts;
pub(crate) mod window;
