//! Conformance suites and data generators. Every implementation of a trait runs its suite.
#![expect(clippy::panic, clippy::expect_used, clippy::missing_panics_doc, reason = "suites report by panicking")]

pub mod codec_suite;
pub mod comm_suite;
pub mod data;
pub mod golden;
pub mod memory;
pub mod source_suite;
pub mod speed;
