//! The flow of chunks from a source to a sink: read, chosen for, encoded, proven, written, in one order whatever the number
//! of threads. No file format, no MPI, no foreign library.
//!
//! Reading order: [`store`] (sources and sinks), [`read_store`], [`change_store`], [`directory`] and [`network`] (where bytes lie that consist of many objects), [`strided`] (regions of files without chunks), [`engine`], [`allowed`] (how many of its threads may work), [`settings`], [`ordered`] (work in threads), [`elsewhere`] (other places that encode), [`pipeline`], [`bands`], [`output`]; beside it
//! [`online`] (chunk by chunk, inside of a program), [`pack`] (arrays in memory), [`content`] (hashes and comparisons),
//! [`calibrate`] and [`energy`] (measuring), [`quantization`] and [`provenance`] (what readers are told of rounding),
//! [`generate`] (made data).
#![forbid(unsafe_code)]

pub mod ahead;
pub mod allotted;
pub mod allowed;
pub mod bands;
pub mod cache;
pub mod calibrate;
pub mod change_store;
pub mod content;
pub mod directory;
pub mod elsewhere;
pub mod energy;
pub mod engine;
pub mod generate;
mod memory;
pub mod network;
pub mod online;
pub mod ordered;
pub mod output;
pub mod pack;
pub mod pipeline;
pub mod provenance;
pub mod quantization;
pub mod read_store;
pub mod settings;
pub mod store;
pub mod strided;
