//! What tests of every crate need: data of every type and shape, and the conformance suite of [`Comm`](crate::comm::Comm).

pub mod comm_suite;
pub mod data;
