//! A plan carried out.
//!
//! Reading order: `encode` (one chunk), `form` (how an output has it), `recipes` (encoders under way), `spare` (buffers), `encoding_nodes` (who encodes a chunk), `remote_writes`
//! (chunks that others write), `execute`, `ahead` (chunks before a file is made of them).

pub(in crate::pipeline) mod ahead;
pub(in crate::pipeline) mod encode;
pub(in crate::pipeline) mod encoding_nodes;
pub(in crate::pipeline) mod execute;
pub(in crate::pipeline) mod form;
pub(in crate::pipeline) mod recipes;
pub(in crate::pipeline) mod remote_writes;
pub(in crate::pipeline) mod spare;
