//! Before and around the program: what must be in order, and how it is started and ended.

pub(in crate::launch) mod components;
pub(in crate::launch) mod joined;
pub(in crate::launch) mod learned;
pub(in crate::launch) mod listening;
pub(in crate::launch) mod options;
pub(in crate::launch) mod prepare;
pub(in crate::launch) mod program;
pub(in crate::launch) mod ranks;
pub(in crate::launch) mod restart;
pub(in crate::launch) mod rules;
pub(in crate::launch) mod supervise;
pub(in crate::launch) mod tiers;
