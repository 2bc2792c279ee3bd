//! `libknarr`: arrays in memory become frames and come back, for programs in C and Fortran.
//!
//! [`abi`] and [`checkpoint_abi`] have the functions of `knarr.h`, [`types`] its types, [`checkpoint`] what is behind the
//! latter. [`memory`] turns pointers into slices, [`hints`] the
//! plain structure into wishes, [`text`] text into hints, [`context`] does the work, [`errors`] is the one guard.

pub mod abi;
mod checkpoint;
pub mod checkpoint_abi;
mod context;
mod errors;
mod hints;
mod memory;
mod text;
pub mod types;

pub use checkpoint::{KNARR_LATEST, knarr_checkpoint, knarr_comm, knarr_restart};
pub use context::knarr_context;
