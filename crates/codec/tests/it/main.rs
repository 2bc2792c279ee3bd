//! Tests of this crate from outside, one program: codecs, golden files, and the grid.

mod codecs;
mod golden;
mod grid;
