//! What tests of every crate need: data of every type and shape, and the conformance suite of [`Comm`](crate::comm::Comm).
//! The suite is there without the feature, too: a feature of the Python package alone would have all crates compiled twice.

pub mod comm_suite;
#[cfg(feature = "testing")]
pub mod data;
