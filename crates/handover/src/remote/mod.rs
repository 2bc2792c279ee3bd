//! Values that lie on other nodes: questions and answers, and how values cross the network.

pub(crate) mod answering;
pub(crate) mod asking;
pub(crate) mod bounds;
pub(crate) mod packed;
pub(crate) mod remote_values;
pub(crate) mod serving;
pub(crate) mod transfer_bound;
pub(crate) mod wire_codec;
