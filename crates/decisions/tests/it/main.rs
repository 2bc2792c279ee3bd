//! Decisions, driven through orders of events as they happen on real nodes, and through those that should never happen.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "test code")]

mod node;
mod schedule;
mod stage;
