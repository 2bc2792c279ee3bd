//! What is done with files, most of it in processes of their own: packing, delivering, estimating, handing back.

pub(in crate::launch) mod ahead;
pub(in crate::launch) mod cost;
pub(in crate::launch) mod deliver;
pub(in crate::launch) mod estimate;
pub(in crate::launch) mod exchange;
pub(in crate::launch) mod hand_back;
pub(in crate::launch) mod kind;
pub(in crate::launch) mod outputs;
pub(in crate::launch) mod pack;
pub(in crate::launch) mod packed;
pub(in crate::launch) mod replacement;
pub(in crate::launch) mod stage;
pub(in crate::launch) mod tasks;
