//! Tests of this crate from outside, one program: codecs and golden files.

mod codecs;
mod golden;
