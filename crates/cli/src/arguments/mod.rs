//! What was asked for.
//!
//! Reading order: `args` (the command line), `headings`, `bounds` and `resources` (options of several commands), `misread`
//! (mistakes in it), `inputs` (files and patterns), `request` (flags and `knarr.toml` become settings).

pub(crate) mod args;
pub(crate) mod bounds;
pub(crate) mod headings;
pub(crate) mod inputs;
pub(crate) mod misread;
pub(crate) mod request;
pub(crate) mod resources;
