//! The conformance suite of codecs, their golden files, and how fast they are.
#![expect(clippy::panic, clippy::expect_used, clippy::missing_panics_doc, reason = "suites report by panicking")]

pub mod codec_suite;
pub mod golden;
pub mod speed;
