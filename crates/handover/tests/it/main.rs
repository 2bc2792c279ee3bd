//! Tests of this crate from outside, one program: values that are handed over, here and on other nodes.

mod ahead;
mod handover;
mod remote_encoder;
mod remote_values;
mod transfer_bound;
