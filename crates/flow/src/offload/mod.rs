//! Chunks that are encoded before their file is made, or on the nodes that have their values.
//!
//! Reading order: [`ahead`], [`remote_encoder`], [`reserved`] (offsets in outputs at which others write).

pub mod ahead;
pub mod remote_encoder;
pub mod reserved;
