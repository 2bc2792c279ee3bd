//! Inputs: what is known of one before its format is, and files of which only parts are on this machine.
//!
//! Reading order: [`raw_layout`] (files that do not say what they are), [`partial`] (files that lie elsewhere), [`format`](mod@format)
//! (what a format says of itself), [`header`] (files whose values lie elsewhere), [`described`] (inputs of which an output is made).
#![forbid(unsafe_code)]

pub mod described;
pub mod format;
pub mod header;
pub mod partial;
pub mod raw_layout;

pub use format::Inputs;
pub use header::ExternalValues;
pub use raw_layout::RawLayout;
