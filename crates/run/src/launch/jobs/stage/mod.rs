//! Files of route `stage` in fast tiers, where they wait to be moved to their places: made there, or written there by the program
//! itself.
//!
//! Reading order: [`room`] (room in tiers), [`seal`] (what the program has written there waits), [`packed`] (and is packed before), [`improve`] (what waits is encoded anew), [`drain`]
//! (it moves to its place), [`kept`] (a copy stays).

pub(in crate::launch) mod drain;
pub(in crate::launch) mod improve;
pub(in crate::launch) mod kept;
pub(in crate::launch) mod packed;
pub(in crate::launch) mod room;
pub(in crate::launch) mod seal;
