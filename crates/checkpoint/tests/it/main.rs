//! Sets of checkpoints: what goes in comes out, whatever the scheme, and damage is noticed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests report by panicking")]

mod common;
mod damage;
mod filtered;
mod golden;
mod levels;
mod library;
mod memory;
mod parity;
mod restarting;
mod round_trip;
mod shared;
mod together;
