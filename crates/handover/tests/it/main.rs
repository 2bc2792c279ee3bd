//! Tests of this crate from outside, one program: values that are handed over, here and on other nodes.

mod account;
mod ahead;
mod elsewhere;
mod far;
mod handover;
mod within;
