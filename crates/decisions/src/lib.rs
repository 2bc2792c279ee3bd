//! What a launcher decides, without input, output and clock: who asks says what there is and what time it is, and does what
//! comes of it. So tests can drive decisions through any order of events.
//!
//! Reading order: [`ledger`] (which files that the program writes are closed), [`queue`] (which job begins next), [`plan_cache`] (what a file has of earlier ones of its family), [`level`]
//! and [`planner`] (how well files are encoded that wait in tiers), [`learned`] (what the next run knows of that), [`stage`] (what becomes
//! of these files, and when).
#![forbid(unsafe_code)]

pub mod learned;
pub mod ledger;
pub mod level;
pub mod plan_cache;
pub mod planner;
pub mod queue;
pub mod stage;
