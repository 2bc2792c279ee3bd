//! How a file is encoded that waits in a tier, and where it waits: what is scarce has a price, and the cheapest way is taken.
//!
//! A fast encoding fills the tiers and the link to the last one; a strong encoding takes processors that a program may need.
//! Which of them costs a program time depends on what is still to come. [`outlook`] says what that is, [`prices`] what a byte
//! of room, a byte on the link and a second of a processor cost then, [`level`] which level is the cheapest, and
//! [`forecast`] what a level will do with the next file, learned from those before it. Pure: times and sizes are arguments.

pub mod forecast;
pub mod level;
pub mod objective;
pub mod outlook;
pub mod prices;

#[cfg(test)]
mod tests;
