//! Files, and the objects in them.
//!
//! Reading order: `file`, `object`, `attribute`, `link`, `user_link`.

pub(in crate::sys) mod attribute;
pub(in crate::sys) mod file;
pub(in crate::sys) mod link;
pub(in crate::sys) mod object;
pub(in crate::sys) mod user_link;
