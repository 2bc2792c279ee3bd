//! `libknarr`: arrays in memory become frames and come back, for programs in C and Fortran.
//!
//! [`abi`], [`checkpoint_abi`] and [`output_abi`] have the functions of `knarr.h`, [`types`] its types, [`checkpoint`] and
//! [`output`] what is behind the latter two, and [`session`] what those have in common. [`memory`] turns pointers into slices,
//! [`hints`] the plain structure into wishes, [`text`] text into hints, [`context`] does the work, [`errors`] is the one guard.

pub mod abi;
mod checkpoint;
pub mod checkpoint_abi;
mod context;
mod errors;
mod hints;
mod memory;
#[cfg(feature = "files")]
mod output;
#[cfg(feature = "files")]
pub mod output_abi;
mod session;
mod text;
pub mod types;

pub use checkpoint::{KNARR_LATEST, knarr_checkpoint, knarr_comm, knarr_restart};
pub use context::knarr_context;
#[cfg(feature = "files")]
pub use output::{KNARR_UNLIMITED, knarr_output};
