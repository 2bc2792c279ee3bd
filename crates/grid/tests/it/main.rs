//! Tests of this crate from outside, with the codecs that it leaves blocks to.

mod streams;
