//! Conformance suites and data generators. Every implementation of a trait runs its suite.
#![expect(clippy::panic, clippy::expect_used, clippy::missing_panics_doc, reason = "suites report by panicking")]

pub mod memory;
pub mod read_store_suite;
pub mod sink_suite;
pub mod source_suite;
pub mod store_suite;
