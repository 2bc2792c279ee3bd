//! What readers are told of rounding.
//!
//! Reading order: [`quantization`] (records that readers know), [`provenance`] (what was asked, and what it did).

pub mod provenance;
pub mod quantization;
