//! The flow of chunks from a source to a sink: read, chosen for, encoded, proven, written, in one order whatever the number
//! of threads. No file format, no MPI, no foreign library.
//!
//! Reading order: [`store`] (sources and sinks), `objects` (where bytes lie that consist of many objects), [`strided`] (regions
//! of files without chunks), `threads` (the engine, and work in order), [`settings`], `offload` (chunks that others encode),
//! [`pipeline`], [`bands`] with [`cache`], [`output`]; beside it [`online`] (chunk by chunk, inside of a program), [`pack`]
//! (arrays in memory), [`content`] (hashes and comparisons), [`calibrate`] and [`energy`] (measuring), `rounding` (what readers
//! are told of it), [`generate`] (made data).
#![forbid(unsafe_code)]

pub mod bands;
pub mod cache;
pub mod calibrate;
pub mod content;
pub mod energy;
pub mod generate;
mod objects;
mod offload;
pub mod online;
pub mod output;
pub mod pack;
pub mod pipeline;
mod rounding;
pub mod settings;
pub mod store;
pub mod strided;
mod threads;

pub use objects::{directory, mutable_store, read_store, urls};
pub use offload::{ahead, remote_encoder, reserved};
pub use rounding::{provenance, quantization};
pub use threads::{engine, ordered, thread_limit};
