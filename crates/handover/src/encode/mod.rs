//! Chunks that are encoded where their values lie, or before the file is closed.

pub(crate) mod ahead;
pub(crate) mod ahead_chunks;
pub(crate) mod chunk_question;
pub(crate) mod encoding;
pub(crate) mod node_list;
pub(crate) mod pending_chunks;
pub(crate) mod remote_encoder;
