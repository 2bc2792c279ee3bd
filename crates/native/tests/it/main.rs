//! Tests of this crate from outside, one program: codecs in C, and their peers.

mod candidates;
mod common;
mod conformance;
mod deflate;
mod golden;
mod peers;
mod plugins;
