//! What ranks have put, read back: which puts meet a region, and where their values are.

pub(crate) mod boxes;
pub(crate) mod copying;
pub(crate) mod gathered;
pub(crate) mod held;
pub(crate) mod moves;
pub(crate) mod pattern;
pub(crate) mod runs;
pub(crate) mod seen;
pub(crate) mod source;
pub(crate) mod variable_puts;
pub(crate) mod window;
