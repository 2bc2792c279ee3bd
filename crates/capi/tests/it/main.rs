//! Tests of this crate from outside, one program: the C interface, as programs call it.

mod common;
mod frames;
mod header;
mod quality;
