//! Values that lie on other nodes: questions and answers, and how values cross the network.

pub(crate) mod answering;
pub(crate) mod asking;
pub(crate) mod bounds;
pub(crate) mod far;
pub(crate) mod pace;
pub(crate) mod packed;
pub(crate) mod serving;
pub(crate) mod within;
