//! Chunks that are encoded where their values lie, or before the file is closed.

pub(crate) mod ahead;
pub(crate) mod ahead_chunks;
pub(crate) mod chunk_question;
pub(crate) mod elsewhere;
pub(crate) mod encoding;
pub(crate) mod kept;
pub(crate) mod places;
