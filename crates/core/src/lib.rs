//! The part of Knarr that knows no file format, no MPI and no foreign library.
//!
//! Reading order: [`error`], [`array`], [`codec`], [`chain`], [`quality`],
//! [`goal`], [`features`], [`profile`], [`predictor`], [`choose`], [`plan`], [`frame`].
#![forbid(unsafe_code)]

pub mod bands;
pub mod cache;
pub mod calibrate;
pub mod content;
pub mod energy;
pub mod engine;
pub mod generate;
mod memory;
pub mod online;
pub mod output;
pub mod pack;
pub mod pipeline;
pub mod provenance;
pub mod quantization;
pub mod settings;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
