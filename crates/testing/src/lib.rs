//! What tests of every crate need: suites that every implementation of a trait passes, data of every type and shape, and
//! sources, sinks, stores and links in memory.
//!
//! It is a crate and not a feature of the crates it serves, so that what tests link is what is installed, compiled once.
//! Only `dev-dependencies` name it. Unit tests of `array`, `codec`, `flow` and `link` see their own crate twice, once as
//! this crate does: what they take from here may not be of a type of that crate.
#![forbid(unsafe_code)]
#![expect(clippy::panic, clippy::expect_used, clippy::missing_panics_doc, reason = "suites report by panicking")]

pub mod abandoned;
pub mod data;
mod faulty;
pub mod golden;
pub mod memory;
mod memory_link;
pub mod speed;
pub mod suites;

pub use faulty::{Faults, Faulty};
pub use memory_link::MemoryLink;
