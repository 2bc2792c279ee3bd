//! Tests of this crate from outside, one program: streams over UCX.

mod streams;
