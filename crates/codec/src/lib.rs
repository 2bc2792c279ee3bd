//! Codecs, chains of codecs, and frames: what turns chunks into bytes and back.
//!
//! Reading order: [`codec`], [`chain`], [`frame`], [`client_data`].
#![forbid(unsafe_code)]

pub mod chain;
pub mod client_data;
pub mod codec;
pub mod frame;
