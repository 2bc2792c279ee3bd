//! The part of Knarr that knows no file format, no MPI and no foreign library.
//!
//! Reading order: [`error`], [`array`], [`codec`], [`chain`], [`quality`],
//! [`goal`], [`features`], [`profile`], [`predictor`], [`choose`], [`plan`], [`frame`].
#![forbid(unsafe_code)]

pub mod array;
pub mod bands;
pub mod cache;
pub mod calibrate;
pub mod capture;
pub mod chain;
pub mod checkpoint;
pub mod choose;
pub mod client_data;
pub mod codec;
pub mod comm;
pub mod config;
pub mod content;
mod conventions;
pub mod coordinates;
pub mod energy;
pub mod engine;
pub mod error;
pub mod features;
pub mod filter;
pub mod frame;
pub mod generate;
pub mod goal;
pub mod guard;
pub mod libver;
mod memory;
pub mod model;
pub mod online;
pub mod output;
pub mod pack;
pub mod pipeline;
pub mod plan;
pub mod predictor;
pub mod profile;
pub mod provenance;
pub mod quality;
pub mod quantization;
pub mod region;
pub mod settings;
pub mod store;
pub mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;

pub use error::{Error, ErrorKind, Result};
